"""The command `verify-evidence`: check a package without trusting either side of the session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum import __version__
from aioum.cli.evidence_sources import fetch_options, read_evidence
from aioum.cli.failures import INTERRUPTED, WRONG_USAGE, Invocation, report
from aioum.cli.log_named import named_log_options
from aioum.cli.settings import json_option, verbose_option
from aioum.options.common import http_url

if TYPE_CHECKING:
    from aioum.core.evidence_reading import EvidencePackage
    from aioum.log.monitor import LogIdentity
    from aioum.verify.ports import ReExecutor
    from aioum.verify.report import Report

CLAIMS = ("non-delivery", "wrong-result", "quality")


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("source", required=False, metavar="[FILE|URI]")
@click.option(
    "--exec",
    "exec_command",
    metavar="COMMAND",
    help="Run deterministic calls again: request on standard input, exact response on standard output.",
)
@click.option(
    "--reexec",
    is_flag=True,
    help="Run deterministic calls again from the WebAssembly module that the service's card pins.",
)
@click.option(
    "--module",
    "module_files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --reexec: a module at hand, taken where it has the pinned digest; can be given several times.",
)
@click.option(
    "--exec-timeout",
    "exec_timeout_seconds",
    type=click.FloatRange(0.1, 3_600),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest run of one call.",
)
@json_option
@click.option("--rpc", "rpc_url", metavar="URL", callback=http_url, help="Chain endpoint to ask.")
@click.option(
    "--deployment",
    "deployment_file",
    type=click.Path(path_type=Path),
    envvar="AIOUM_DEPLOYMENT",
    show_envvar=True,
    metavar="FILE",
    help="Deployments file: its PaymentManager is known. By default the local devnet's.",
)
@click.option(
    "--payment-manager",
    "payment_managers",
    multiple=True,
    metavar="ADDRESS",
    help="A PaymentManager that you know; can be given several times.",
)
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="SEAT=BASE64",
    help="A head of signed calls that the client kept; it shows a tail that was cut off. As in verify-run.",
)
@click.option(
    "--heads",
    "heads_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The same from a JSON file: an object of seats and heads.",
)
@named_log_options
@click.option("--offline", is_flag=True, help="Ask no chain: checks that need one become ○.")
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    default=64 * 1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="Largest package to read.",
)
@fetch_options
@click.option("--export", is_flag=True, help="Write a node's own record of a session as a package.")
@click.option("--session", metavar="ID", help="With --export: session id or channel id.")
@click.option(
    "--store", default="node", show_default=True, metavar="NAME", help="With --export: kind of node store."
)
@click.option(
    "--node-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="AIOUM_NODE_DIR",
    show_envvar=True,
    metavar="DIR",
    help="With --export: the node's folder.",
)
@click.option(
    "--claim",
    type=click.Choice(CLAIMS),
    default="wrong-result",
    show_default=True,
    help="With --export: what the package claims.",
)
@click.option("--narrative", default="", metavar="TEXT", help="With --export: free text.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["evidence", "gaos-replay"]),
    default="evidence",
    show_default=True,
    help="With --export: an evidence package, or an artifact for `aioum verify-run`.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --export: where to write; standard output without it.",
)
@verbose_option
@click.version_option(__version__, prog_name="verify-evidence")
def verify_evidence(
    source: str | None,
    export: bool,
    session: str | None,
    store: str,
    node_dir: Path | None,
    claim: str,
    narrative: str,
    form: str,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Check the evidence package FILE ('-' reads standard input), or the one at URI.

    A URI is https:, ipfs:, file: or data:, as a dispute names it; give --evidence-hash with it, so that it is
    the package of the dispute that is judged.

    Each check ends as ✓ proven, ✗ failed, or ○ not applicable or unverifiable, with one sentence on what
    that proves.

    \b
    Examples:
      verify-evidence evidence.json
      verify-evidence evidence.json --exec "python tool.py" --json
      verify-evidence evidence.json --reexec --module tool.wasm
      verify-evidence evidence.json --rpc https://rpc.example --payment-manager 0x5FbD…0aa3
      verify-evidence evidence.json --offline
      verify-evidence ipfs://bafkrei… --evidence-hash 0x51c5…e1b2
      verify-evidence --export --session 42 --node-dir ./node -o evidence.json

    Exit codes: 0 nothing failed, 1 at least one ✗, 2 wrong usage, or a file or chain that cannot be read.
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    if export:
        if source is not None:
            raise click.UsageError("--export reads a node's store, not FILE")
        if options["evidence_hash_hex"] is not None:
            raise click.UsageError("--evidence-hash belongs to FILE or a URI, not to --export")
        if session is None:
            raise click.UsageError("--export needs --session")
        if node_dir is None:
            raise click.UsageError("--export needs --node-dir, or AIOUM_NODE_DIR")
        from aioum.cli.export_package import export_to

        export_to(
            output,
            store=store,
            session=session,
            node_dir=node_dir,
            claim=claim,
            narrative=narrative,
            as_replay=form == "gaos-replay",
        )
        return 0
    if source is None:
        raise click.UsageError("name a package FILE or its URI, or use --export")
    if session is not None or output is not None:
        raise click.UsageError("--session and --output belong to --export")
    if options["reexec"] and options["exec_command"] is not None:
        raise click.UsageError("--reexec and --exec are two ways of the same check: give one")
    if not options["reexec"] and options["module_files"]:
        raise click.UsageError("--module belongs to --reexec")
    package = read_evidence(source, options["max_bytes"], options)
    result = asyncio.run(_verify(package, options))
    if as_json:
        from aioum.cli.output import print_json

        print_json(result.to_json())
    else:
        from aioum.cli.verify_output import print_report

        print_report(result)
    return result.exit_code


async def _verify(package: EvidencePackage, options: dict[str, Any]) -> Report:
    from aioum.cli.verify_chain import open_view
    from aioum.cli.verify_run_inputs import retained_heads
    from aioum.core.hextext import address
    from aioum.verify.hooks import installed_hooks
    from aioum.verify.package import verify_package

    re_executor = _re_executor(options)
    kept = retained_heads(options["heads"], options["heads_file"])
    known_log: LogIdentity | None = options["known_log"]
    known = frozenset(address(text) for text in options["payment_managers"])
    hooks = installed_hooks()
    if options["offline"]:
        return await verify_package(
            package,
            chain=None,
            hooks=hooks,
            re_executor=re_executor,
            trusted_payment_managers=known,
            retained_heads=kept,
            known_log=known_log,
        )
    async with open_view(
        package.domain.payment_manager,
        known=known,
        rpc_url=options["rpc_url"],
        deployment_file=options["deployment_file"],
    ) as (view, trusted):
        result = await verify_package(
            package,
            chain=view,
            hooks=hooks,
            re_executor=re_executor,
            trusted_payment_managers=trusted,
            retained_heads=kept,
            known_log=known_log,
        )
        await view.require_unchanged()
    return result


def _re_executor(options: dict[str, Any]) -> ReExecutor | None:
    timeout_seconds: float = options["exec_timeout_seconds"]
    if options["reexec"]:
        from aioum.cli.pinned_modules import fetch_module, read_modules
        from aioum.verify.pinned import PinnedReExecutor

        return PinnedReExecutor(
            PinnedReExecutor.by_digest(*read_modules(options["module_files"])),
            partial(fetch_module, offline=options["offline"]),
            timeout_seconds,
        )
    command: str | None = options["exec_command"]
    if command is None:
        return None
    from aioum.verify.command import CommandReExecutor

    return CommandReExecutor.from_text(command, timeout_seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `verify-evidence` and return its exit code.

    Args:
        arguments: the arguments after the program's name; None takes the process's own.
    """
    invocation = Invocation()
    try:
        result = verify_evidence.main(
            args=arguments, prog_name="verify-evidence", standalone_mode=False, obj=invocation
        )
    except BaseException as error:
        # 1 is a verdict on the package; whatever kept it from being judged is 2.
        return INTERRUPTED if report(error, verbose=invocation.verbose) == INTERRUPTED else WRONG_USAGE
    return result if isinstance(result, int) else 0
