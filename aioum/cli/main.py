"""The command `aioum`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from aioum import __version__
from aioum.cli.failures import Invocation, report
from aioum.cli.lazy import LazyGroup
from aioum.cli.settings import examples, verbose_option


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "aioum devnet up",
        "aioum services list",
        'aioum call 1 wordcount --arg text="one two" --devnet-account 1',
    ),
    lazy={
        "devnet": ("aioum.cli.devnet:devnet", "Run a local chain with the contracts deployed."),
        "services": ("aioum.cli.services:services", "Find services and see what they offer."),
        "call": ("aioum.cli.call:call", "Pay for one tool call and print its response."),
        "session": ("aioum.cli.session:session", "List, inspect, fund, close and export sessions."),
        "dispute": ("aioum.cli.dispute:dispute", "Dispute what a session captured, or prove a lie."),
        "rate": ("aioum.cli.rate:rate", "Rate a session that is over, once."),
        "watch": (
            "aioum.cli.watch:watch",
            "Follow disputes, exits, settlements, ratings and anchors as they happen.",
        ),
        "key": ("aioum.cli.key:key", "Make key stores."),
        "evidence": ("aioum.cli.evidence:evidence", "Build evidence packages and read them."),
        "verify-run": (
            "aioum.cli.verify_run:verify_run",
            "Judge a recorded session: the verdict and its facts.",
        ),
        "run": ("aioum.cli.run:run", "Seal, verify and disclose recorded runs."),
        "log": ("aioum.cli.log:log", "Audit and monitor transparency logs."),
        "kit": ("aioum.cli.kit:kit", "Pack, inspect, fetch and run verifier kits."),
        "bundle": ("aioum.cli.bundle:bundle", "Make and judge submissions to published comparisons."),
        "doctor": ("aioum.cli.doctor:doctor", "Check chain, contracts, token, clock and data folder."),
    },
)
@click.version_option(__version__, prog_name="aioum")
@verbose_option
def cli() -> None:
    """Buy tool calls, and be able to prove what was asked, answered and paid.

    Answers go to standard output, everything else to standard error. Exit codes: 0 done, 1 refused or failed,
    2 wrong usage.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `aioum` and return its exit code.

    Args:
        arguments: the arguments after the program's name; None takes the process's own.
    """
    invocation = Invocation()
    try:
        result = cli.main(args=arguments, prog_name="aioum", standalone_mode=False, obj=invocation)
    except BaseException as error:
        return report(error, verbose=invocation.verbose)
    return result if isinstance(result, int) else 0
