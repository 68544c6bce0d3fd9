"""`aioum-node`: make, publish and run a node."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from aioum import __version__
from aioum.core.errors import AioumError
from aioum.core.hextext import address_text, to_hex
from aioum_node.cli_disputes import disputes
from aioum_node.cli_options import loaded, print_json, settings_options
from aioum_node.hardening import keep_memory_private
from aioum_node.init import devnet_key, init_node, read_key
from aioum_node.settings import load_settings, settings_table


class _Commands(click.Group):
    """Turns our errors into `error:` and `hint:` lines; a traceback only with -v."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (AioumError, BaseExceptionGroup) as raised:
            error = _ours(raised)
            if error is None or ctx.params.get("verbose"):
                raise
        click.echo(f"error: {error} [{error.code}]", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        ctx.exit(1)


def _ours(raised: BaseException) -> AioumError | None:
    """Our error, also where it is alone in groups of a TaskGroup."""
    while isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) == 1:
        raised = raised.exceptions[0]
    return raised if isinstance(raised, AioumError) else None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="aioum-node")
@click.option("-v", "--verbose", is_flag=True, help="Show tracebacks.")
def main(verbose: bool) -> None:
    """Sell tool calls: meter, record, prove and settle them.

    \b
    A first service on a local chain:
      aioum devnet up
      aioum-node init --dir shop --devnet-account 1
      aioum-node run --dir shop --register
    """  # noqa: D301 - click wants this very character before a block that keeps its lines


@main.command()
@click.option("--import-key", "key_source", metavar="FILE", help="Operator's key, hex text; - reads stdin.")
@click.option(
    "--devnet-account", type=int, metavar="N", help="Use a devnet account: its key is public, its ether play."
)
@click.option(
    "--deployment", type=click.Path(path_type=Path, exists=True), help="Deployments file to write down."
)
@click.option(
    "--template",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Copy this folder with its node.toml instead of the usual beginning.",
)
@click.option("--name", default=None, help="The service's name.")
@click.option("--dir", "node_dir", default=None, help="The node's folder.", metavar="FOLDER")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def init(
    key_source: str | None,
    devnet_account: int | None,
    deployment: Path | None,
    template: Path | None,
    name: str | None,
    node_dir: str | None,
    as_json: bool,
) -> None:
    """Make a node's folder with keys, settings and two tools to begin with.

    \b
    Examples:
      aioum-node init --dir shop
      aioum-node init --dir shop --template examples/services/library --devnet-account 1
      pass show operator | aioum-node init --dir shop --import-key -
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    if key_source is not None and devnet_account is not None:
        raise click.UsageError("--import-key and --devnet-account exclude each other")
    settings = load_settings(flags={"node_dir": node_dir, "service_name": name})
    key = None
    if key_source is not None:
        key = read_key(key_source)
    elif devnet_account is not None:
        key = devnet_key(devnet_account)
    made = init_node(settings, key=key, deployment_file=deployment, template=template)
    operator = address_text(made.operator)
    if as_json:
        print_json({"nodeDir": str(made.node_dir), "config": str(made.config_file), "operator": operator})
        return
    click.echo(f"made {made.config_file}")
    click.echo(f"operator {operator}")
    if key is None:
        click.echo("fund the operator with ether for gas, then publish:")
    click.echo(f"next: aioum-node run --register --dir {made.node_dir}")


@main.command()
@click.option("--url", default=None, help="URL that clients reach the node at [public_url].", metavar="URL")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@settings_options
def register(url: str | None, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Publish the service, or its new card, in the registry; stop the node first.

    \b
    Example:
      aioum-node register --dir shop --url https://tools.example
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    settings = loaded(config_file, flags)

    async def work() -> None:
        from aioum_node.app import opened_offering, register_service
        from aioum_node.storage import opened_sending

        node_url = url or settings.public_url or f"http://{settings.listen_host}:{settings.listen_port}"
        async with (
            opened_sending(settings) as sending,
            opened_offering(settings, journal=sending.journal) as offering,
        ):
            done = await sending.once(lambda: register_service(settings, offering, node_url))
        facts = {
            "serviceId": str(done.service_id),
            "termsHash": to_hex(done.terms_hash),
            "descriptorHash": to_hex(done.terms.descriptor_hash),
            "changed": done.changed,
        }
        if as_json:
            print_json(facts)
        else:
            verb = "published" if done.changed else "already published"
            click.echo(f"{verb} service {done.service_id} with card {facts['descriptorHash']}")

    _run(work())


@main.command()
@click.option("--register", is_flag=True, help="Publish first what the registry does not have yet.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout once the node serves.")
@settings_options
def run(register: bool, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Serve until SIGINT or SIGTERM; running calls are finished first.

    \b
    Examples:
      aioum-node run --dir shop
      AIOUM_LISTEN_PORT=80 aioum-node run --dir shop --log-format json
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    settings = loaded(config_file, flags)
    keep_memory_private()

    async def work() -> None:
        from aioum_node.app import running_node
        from aioum_node.collector import relax_collector

        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        async with running_node(settings, register=register) as node:
            relax_collector()
            if as_json:
                print_json(
                    {
                        "url": node.url,
                        "adminUrl": node.admin_url,
                        "serviceId": str(node.registration.service_id),
                        "descriptorHash": to_hex(node.offering.offer.descriptor_hash),
                    }
                )
            stop = asyncio.create_task(stopped.wait())
            await asyncio.wait({stop, node.supervisor}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            # A part that failed raises when the node is left.

    _run(work())


@main.command()
@click.option("--hash", "only_hash", is_flag=True, help="Only the descriptor hash.")
@settings_options
def card(only_hash: bool, config_file: Path | None, **flags: Any) -> None:
    """Print the canonical card that the settings give.

    \b
    Example:
      aioum-node card --dir shop | python3 -m json.tool
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    settings = loaded(config_file, flags)

    async def work() -> None:
        from aioum_node.app import opened_offering

        async with opened_offering(settings) as offering:
            offer = offering.offer
        click.echo(to_hex(offer.descriptor_hash) if only_hash else offer.canonical.decode())

    _run(work())


@main.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@settings_options
def fsck(as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Compute every session again from what is stored, and name what differs; stop the node first.

    Nodes that share a PostgreSQL store may run meanwhile. Nothing is changed. Exit code 0 where all is
    sound, 1 with a list of what is not.

    \b
    Example:
      aioum-node fsck --dir shop
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    settings = loaded(config_file, flags)
    from aioum_node.fsck import fsck as check
    from aioum_node.storage import check_shared, is_shared

    report = check_shared(settings) if is_shared(settings) else check(settings.node_dir)
    if as_json:
        print_json(report.to_json())
    else:
        for finding in report.findings:
            click.echo(str(finding))
        count = len(report.findings)
        click.echo(f"checked {report.sessions} sessions with {report.calls} calls: {count or 'no'} findings")
    if report.findings:
        sys.exit(1)


@main.command()
@click.option(
    "--from", "package_file", type=click.Path(path_type=Path), help="The client's evidence package."
)
@click.option("--seal", is_flag=True, help="With --from: take no more calls in the session, only settle it.")
@click.option("--abandon", metavar="CHANNEL", default=None, help="Close this session and capture nothing.")
@click.option("--yes", is_flag=True, help="With --abandon: what was earned in it is given up, for good.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@settings_options
def recover(
    package_file: Path | None,
    seal: bool,
    abandon: str | None,
    yes: bool,
    as_json: bool,
    config_file: Path | None,
    **flags: Any,
) -> None:
    """List the sessions that a restored store made suspect, or bring one to its end; stop the node first.

    \b
    Examples:
      aioum-node recover --dir shop
      aioum-node recover --dir shop --from evidence.json
      aioum-node recover --dir shop --abandon 0x1f… --yes
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    if package_file is not None and abandon is not None:
        raise click.UsageError("--from and --abandon exclude each other")
    if seal and package_file is None:
        raise click.UsageError("--seal goes with --from")
    if abandon is not None and not yes:
        raise click.UsageError(
            "--abandon gives up what was earned in the session; say --yes if that is meant"
        )
    settings = loaded(config_file, flags)
    from aioum_node.restored.recovering import recovered

    lines, value = asyncio.run(recovered(settings, package_file, seal=seal, abandoned=abandon))
    if as_json:
        print_json(value)
    else:
        click.echo("\n".join(lines))


main.add_command(disputes)


@main.group()
def store() -> None:
    """Whole stores: move one to PostgreSQL."""


@store.command()
@click.option(
    "--to",
    "url_file",
    type=click.Path(path_type=Path),
    help="File with the PostgreSQL database's URL [database_url_file].",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@settings_options
def copy(url_file: Path | None, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Move the node's sessions from its SQLite file to a PostgreSQL database; stop the node first.

    Everything is read back and every root computed again before anything changes hands. The file stays, and
    is marked as moved. A copy that was interrupted goes on where it stopped.

    \b
    Example:
      aioum-node store copy --dir shop --to /run/secrets/database.url
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    settings = loaded(config_file, flags)
    from aioum_node.cli_store import copy_to_postgres

    copy_to_postgres(settings, url_file, as_json=as_json)


@main.command("settings")
@click.option(
    "--markdown", is_flag=True, help="Every setting with variable, default and meaning, as a table."
)
@settings_options
def show_settings(markdown: bool, config_file: Path | None, **flags: Any) -> None:
    """Print the settings in effect as JSON.

    \b
    Example:
      aioum-node settings --dir shop
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    if markdown:
        click.echo(settings_table(), nl=False)
        return
    print_json(loaded(config_file, flags).model_dump(mode="json"), indent=2)


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)
