"""`scripts/deploy`: puts the contracts on a chain, with a person's consent to what it costs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from aioum.cli.failures import Invocation, report
from aioum.cli.keys import KeySource
from aioum.cli.output import fact, print_facts, print_json
from aioum.cli.settings import examples, json_option, verbose_option
from aioum.core.errors import AioumError, ConfigError
from aioum.options.common import http_url

if TYPE_CHECKING:
    from aioum.chain.deploy import Created
    from aioum.cli.deploying import DeployRequest, Finished, Offer
    from aioum.core.types import Address

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_GWEI_DECIMALS: Final = 9
_GWEI: Final = 10**_GWEI_DECIMALS


def _chain_id(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    from aioum.chain.deployments import chain_id_of

    try:
        return None if value is None else chain_id_of(value)
    except ConfigError as error:
        raise click.BadParameter(f"{error}; {error.hint}") from error


def _wei(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    from aioum.core.amounts import parse_token_amount

    try:
        wei = None if value is None else parse_token_amount(value, _GWEI_DECIMALS)
    except AioumError as error:
        raise click.BadParameter(str(error)) from error
    if wei == 0:
        raise click.BadParameter("nothing is mined for nothing")
    return wei


def _tokens(_ctx: click.Context, _parameter: click.Parameter, value: Sequence[str]) -> dict[str, Address]:
    from aioum.core.hextext import address

    tokens: dict[str, Address] = {}
    for pair in value:
        symbol, equals, text = pair.partition("=")
        if not symbol or not equals or symbol in tokens:
            raise click.BadParameter(f"expected SYMBOL=ADDRESS, each symbol once, got {pair!r:.80}")
        try:
            tokens[symbol] = address(text)
        except AioumError as error:
            raise click.BadParameter(str(error)) from error
    return tokens


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "scripts/deploy --rpc-url https://rpc.example --chain eip155:8453 --keystore key.json \\\n"
        "      --grace-seconds 86400 --dry-run",
        "scripts/deploy --rpc-url http://127.0.0.1:8545 --devnet-account 0 --grace-seconds 900 --yes",
    ),
)
@click.option(
    "--rpc-url", metavar="URL", required=True, callback=http_url, envvar="AIOUM_RPC_URL", show_envvar=True,
    help="Endpoint of the chain.",
)  # fmt: skip
@click.option(
    "--chain", "chain_id", metavar="NAME", callback=_chain_id,
    help="The chain that is meant, such as eip155:8453; an endpoint of another one is refused.",
)  # fmt: skip
@click.option(
    "--keystore",
    "key_store",
    type=_FILE,
    metavar="FILE",
    help="Encrypted key store of the account that pays.",
)
@click.option(
    "--password-file", type=_FILE, metavar="FILE",
    help="File with the key store's password; without it you are asked.",
)  # fmt: skip
@click.option(
    "--devnet-account", type=click.IntRange(0, 9), metavar="0…9",
    help="Use this well-known account of a local devnet instead of a key store.",
)  # fmt: skip
@click.option(
    "--grace-seconds", type=click.IntRange(900, 2_592_000), required=True,
    help="Time between a payer's request to leave and its withdrawal; it can never be changed.",
)  # fmt: skip
@click.option(
    "--token", "tokens", multiple=True, metavar="SYMBOL=ADDRESS", callback=_tokens,
    help="List this token in the deployments file, if that is its symbol; can be given several times.",
)  # fmt: skip
@click.option(
    "--out", type=_FILE, default=Path("deployments.json"), show_default=True, metavar="FILE",
    help="Deployments file to add the chain to.",
)  # fmt: skip
@click.option(
    "--state", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Folder that lets a run be taken up again; by default beside the deployments file.",
)  # fmt: skip
@click.option(
    "--record-rpc-url", metavar="URL", callback=http_url,
    help="Endpoint to name in the deployments file; by default --rpc-url without user, path and query.",
)  # fmt: skip
@click.option(
    "--confirmations", type=click.IntRange(1, 1_000), default=3, show_default=True,
    help="Blocks before a creation counts, its own included.",
)  # fmt: skip
@click.option(
    "--max-fee-gwei", "max_fee_per_gas_wei", metavar="GWEI", callback=_wei,
    help="Most to pay for a unit of gas; by default twice what a block costs when you confirm.",
)  # fmt: skip
@click.option(
    "--timeout", "timeout_seconds", type=click.FloatRange(1, 3_600), default=120.0, show_default=True,
    metavar="SECONDS", help="Longest wait for one creation to count.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what it would cost, and send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before money is spent.")
@json_option
@verbose_option
def deploy(
    rpc_url: str,
    chain_id: int | None,
    key_store: Path | None,
    password_file: Path | None,
    devnet_account: int | None,
    grace_seconds: int,
    tokens: dict[str, Address],
    out: Path,
    folder: Path | None,
    record_rpc_url: str | None,
    confirmations: int,
    max_fee_per_gas_wei: int | None,
    timeout_seconds: float,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Put the contracts on a chain, verify them, and write the deployments file.

    What it costs is shown first, and nothing is sent before you say yes. A run that ends on the way, by
    whatever, is taken up by the same command: what was created is found again and never created twice.
    """
    from aioum.chain.creations import DeploymentPlan
    from aioum.cli.deploying import DeployRequest, estimate, run
    from aioum.cli.logs import logs_to_stderr

    if (key_store is None) == (devnet_account is None):
        raise click.UsageError("name the account that pays with --keystore or --devnet-account")
    logs_to_stderr()
    request = DeployRequest(
        rpc_url=rpc_url,
        recorded_rpc_url=record_rpc_url,
        key_source=KeySource(key_store=key_store, password_file=password_file, devnet_account=devnet_account),
        plan=DeploymentPlan(grace_seconds),
        out=out,
        folder=folder,
        chain_id=chain_id,
        tokens=tokens,
        confirmations=confirmations,
        max_fee_per_gas_wei=max_fee_per_gas_wei,
        receipt_timeout_seconds=timeout_seconds,
    )
    if dry_run:
        offer = asyncio.run(estimate(request))
        _show_estimate(offer, as_json)
        offer.cost.require_funds(offer.account)
        return
    finished = asyncio.run(run(request, _agreement(yes), _tell))
    _show_result(request, finished, as_json)


def _agreement(yes: bool) -> Any:
    def agree(offer: Offer) -> None:
        for line in _estimate_lines(offer):
            fact(line)
        if yes:
            return
        try:
            agreed = click.confirm(f"Send {len(offer.cost.creations)} transactions?", err=True)
        except click.Abort:
            click.echo(err=True)
            agreed = False
        if not agreed:
            raise ConfigError(
                "nothing was sent: nobody agreed to the costs",
                code="deploy-not-confirmed",
                hint="answer y, or give --yes where nobody can answer",
            )

    return agree


def _tell(created: Created) -> None:
    from aioum.core.hextext import address_text

    fact(
        f"{created.contract} is at {address_text(created.address)}: block {created.block_number}, "
        f"{created.gas_used} gas, verified"
    )


def _show_estimate(offer: Offer, as_json: bool) -> None:
    from aioum.chain.deployments import caip2
    from aioum.core.hextext import address_text

    if not as_json:
        for line in _estimate_lines(offer):
            click.echo(line)
        return
    cost = offer.cost
    print_json(
        {
            "chain": caip2(offer.chain_id),
            "account": address_text(offer.account),
            "created": {created.contract: address_text(created.address) for created in offer.created},
            "creations": [
                {
                    "contract": creation.contract,
                    "gas": creation.gas,
                    "gasLimit": creation.gas_limit,
                    "isEstimated": creation.is_estimated,
                    "feeWei": str(creation.gas * cost.gas_price_wei),
                }
                for creation in cost.creations
            ],
            "gas": cost.gas,
            "gasPriceWei": str(cost.gas_price_wei),
            "feeWei": str(cost.fee_wei),
            "maxFeeWei": str(cost.max_fee_wei),
            "balanceWei": str(cost.balance_wei),
        }
    )


def _estimate_lines(offer: Offer) -> list[str]:
    from aioum.chain.deployments import caip2
    from aioum.core.hextext import address_text

    cost = offer.cost
    rows = [
        (creation.contract, creation.gas, creation.gas * cost.gas_price_wei, creation.is_estimated)
        for creation in cost.creations
    ]
    account = address_text(offer.account)
    return [
        f"chain {caip2(offer.chain_id)}, account {account}; fees are in the native currency",
        *(f"{created.contract:<16} is at {address_text(created.address)}" for created in offer.created),
        *(
            f"{contract:<16} {gas:>10} gas  {_native(fee_wei)}"
            + ("" if is_estimated else "  (an upper bound: the endpoint gives no estimate)")
            for contract, gas, fee_wei, is_estimated in rows
        ),
        f"{'total':<16} {cost.gas:>10} gas  {_native(cost.fee_wei)}, at most {_native(cost.max_fee_wei)}",
        f"{'price':<16} {_gwei(cost.gas_price_wei)} gwei, at most {_gwei(cost.max_gas_price_wei)} gwei",
        f"{'balance':<16} {_native(cost.balance_wei)}",
    ]


def _show_result(request: DeployRequest, finished: Finished, as_json: bool) -> None:
    from aioum.chain.deployment_check import contracts_of
    from aioum.chain.deployments import caip2
    from aioum.core.hextext import address_text

    deployment = finished.deployment
    contracts = {name: address_text(at) for name, at in contracts_of(deployment).items()}
    if as_json:
        print_json(
            {
                "chain": caip2(deployment.chain_id),
                "contracts": contracts,
                "tokens": {symbol: address_text(token) for symbol, token in deployment.tokens.items()},
                "blockNumber": deployment.block_number,
                "rpcUrl": deployment.rpc_url,
                "deploymentsFile": str(request.out),
                "state": str(finished.folder),
            }
        )
        return
    print_facts(
        [
            ("chain", caip2(deployment.chain_id)),
            *contracts.items(),
            *(("token", f"{symbol} {address_text(token)}") for symbol, token in deployment.tokens.items()),
            ("endpoint", deployment.rpc_url),
            ("deployments file", str(request.out)),
        ]
    )
    fact(f"keep {finished.folder} until you have a copy of the deployments file")


def _native(wei: int) -> str:
    """In whole units of the chain's currency, rounded up to nine places."""
    return _gwei(-(-wei // _GWEI))


def _gwei(wei: int) -> str:
    from aioum.core.amounts import format_token_amount

    return format_token_amount(wei, _GWEI_DECIMALS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `scripts/deploy` and return its exit code.

    Args:
        arguments: the arguments after the program's name; None takes the process's own.
    """
    invocation = Invocation()
    try:
        result = deploy.main(
            args=arguments, prog_name="scripts/deploy", standalone_mode=False, obj=invocation
        )
    except BaseException as error:
        return report(error, verbose=invocation.verbose)
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
