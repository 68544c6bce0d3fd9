"""`aioum devnet`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.failures import FAILED
from aioum.cli.output import fact, print_facts, print_json
from aioum.cli.settings import examples, json_option, verbose_option
from aioum.options.common import Command, with_options

if TYPE_CHECKING:
    from aioum.chain.deployments import Deployment
    from aioum.devnet.control import Devnet, DevnetStatus


@click.group()
def devnet() -> None:
    """Run a local chain with the contracts deployed.

    The chain is anvil, with accounts that hold play money and whose keys everybody knows. All other commands
    use its deployments file where none is named.
    """


def _folder_options(function: Command) -> Command:
    return with_options(
        function,
        verbose_option,
        json_option,
        click.option(
            "--dir",
            "directory",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            envvar="AIOUM_DEVNET_DIR",
            show_envvar=True,
            help="Folder of the devnet's state; by default ~/.aioum/devnet.",
        ),
    )


_port_option = click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="PORT", help="Port to listen on; 0 takes any free one."
)


@devnet.command(epilog=examples("aioum devnet up"))
@_port_option
@_folder_options
def up(directory: Path | None, port: int | None, as_json: bool) -> None:
    """Start the devnet, deploy the contracts and fund the accounts; does nothing where it runs."""
    chosen = _devnet(directory)
    _print_deployment(chosen, asyncio.run(chosen.up(port=port)), as_json)


@devnet.command(epilog=examples("aioum devnet down"))
@_folder_options
def down(directory: Path | None, as_json: bool) -> None:
    """End the devnet. Its chain is gone with it."""
    chosen = _devnet(directory)
    ran = asyncio.run(chosen.down())
    if as_json:
        print_json({"ran": ran})
    else:
        fact("the devnet has ended" if ran else "no devnet ran")


@devnet.command(epilog=examples("aioum devnet status --json"))
@_folder_options
@click.pass_context
def status(ctx: click.Context, directory: Path | None, as_json: bool) -> None:
    """Say whether the devnet runs, and whether its deployments file describes its chain.

    The exit code is 0 if it runs and is what the file says, else 1.
    """
    found = asyncio.run(_devnet(directory).status())
    if as_json:
        print_json(_status_json(found))
    else:
        print_facts(_status_facts(found))
    if found.state != "running":
        ctx.exit(FAILED)


@devnet.command(epilog=examples("aioum devnet reset"))
@_port_option
@_folder_options
def reset(directory: Path | None, port: int | None, as_json: bool) -> None:
    """End the devnet and start a new one with an empty chain.

    Sessions of the old chain stay in your record and are never taken for sessions of the new one.
    """
    chosen = _devnet(directory)
    _print_deployment(chosen, asyncio.run(chosen.reset(port=port)), as_json)


def _devnet(directory: Path | None) -> Devnet:
    from aioum.cli.logs import logs_to_stderr
    from aioum.devnet.control import Devnet

    logs_to_stderr()
    return Devnet(directory)


def _print_deployment(chosen: Devnet, deployment: Deployment, as_json: bool) -> None:
    if as_json:
        print_json({**_deployment_json(deployment), "deploymentFile": str(chosen.deployment_file)})
        return
    print_facts([*_deployment_facts(deployment), ("deployments file", str(chosen.deployment_file))])
    fact("accounts of the devnet are chosen with --devnet-account 0…9; the first one deployed")


def _deployment_json(deployment: Deployment) -> dict[str, Any]:
    from aioum.core.hextext import address_text

    return {
        "rpcUrl": deployment.rpc_url,
        "chainId": deployment.chain_id,
        "paymentManager": address_text(deployment.payment_manager),
        "serviceRegistry": address_text(deployment.service_registry),
        **{
            name: address_text(contract)
            for name, contract in (
                ("disputeManager", deployment.dispute_manager),
                ("ratingRegistry", deployment.rating_registry),
                ("logAnchor", deployment.log_anchor),
            )
            if contract is not None
        },
        "tokens": {symbol: address_text(token) for symbol, token in deployment.tokens.items()},
    }


def _deployment_facts(deployment: Deployment) -> list[tuple[str, str]]:
    shown = _deployment_json(deployment)
    return [
        ("endpoint", shown["rpcUrl"]),
        ("chain", str(shown["chainId"])),
        ("PaymentManager", shown["paymentManager"]),
        ("ServiceRegistry", shown["serviceRegistry"]),
        *(
            (f"{name[0].upper()}{name[1:]}", shown[name])
            for name in ("disputeManager", "ratingRegistry", "logAnchor")
            if name in shown
        ),
        *(("token", f"{symbol} {token}") for symbol, token in shown["tokens"].items()),
    ]


def _status_json(found: DevnetStatus) -> dict[str, Any]:
    return {
        "state": found.state.value,
        "directory": str(found.directory),
        "pid": found.pid,
        "rpcUrl": found.rpc_url,
        "reason": found.reason,
        "deployment": None if found.deployment is None else _deployment_json(found.deployment),
    }


def _status_facts(found: DevnetStatus) -> list[tuple[str, str]]:
    deployment = [] if found.deployment is None else _deployment_facts(found.deployment)
    return [
        ("state", found.state.value),
        ("why", found.reason or ""),
        ("folder", str(found.directory)),
        ("process", str(found.pid or "")),
        *deployment,
    ]
