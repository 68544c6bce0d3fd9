"""The command `aioum verify-run`: the verdict on a recorded session."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.failures import INTERRUPTED, WRONG_USAGE, Invocation, report
from aioum.cli.settings import examples, json_option, verbose_option

if TYPE_CHECKING:
    from aioum.replay.facts import Judgement

MIB = 1024 * 1024


@click.command(
    epilog=examples(
        "aioum verify-run session.gaos-replay.jsonl",
        "aioum verify-run run.gaos-replay.jsonl --adapter game.py --json",
        "aioum verify-run session.gaos-replay.jsonl --heads heads.json",
    )
)
@click.argument("artifact", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--adapter",
    "adapter_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Python file with recheck_replay(artifact); paid sessions have their own.",
)
@click.option(
    "--profile",
    type=click.Choice(["paid", "gaos"]),
    help="Rules to judge by; without it, paid for paid sessions and gaos for all others.",
)
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="SEAT=BASE64",
    help="A head that a seat kept; a chain that lacks it was cut off. Can be given several times.",
)
@click.option(
    "--heads",
    "heads_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The same from a JSON file: an object of seats and heads.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    default=256 * MIB,
    show_default=True,
    metavar="BYTES",
    help="Largest artifact to read.",
)
@json_option
@verbose_option
@click.pass_obj
def verify_run(invocation: Invocation | None, /, artifact: Path, as_json: bool, **options: Any) -> int:
    """Judge a recorded session: the verdict and its facts.

    ARTIFACT is a gaos.replay file, '-' for standard input. The verdict is trusted, unverifiable (evidence is
    missing) or rejected (evidence of a fault), with every fact behind it.

    Exit codes: 0 trusted or unverifiable, 1 rejected, 2 wrong usage, or an artifact or adapter that cannot be
    used.
    """
    try:
        from aioum.replay.reading import collector_paused

        with collector_paused():
            judgement = _judge(artifact, **options)
        _print(judgement, as_json=as_json)
    except BaseException as error:
        # 1 is a verdict; whatever keeps the artifact from being judged is 2.
        verbose = invocation is not None and invocation.verbose
        return INTERRUPTED if report(error, verbose=verbose) == INTERRUPTED else WRONG_USAGE
    return judgement.exit_code


def _judge(
    artifact_file: Path,
    *,
    adapter_file: Path | None,
    profile: str | None,
    heads: tuple[str, ...],
    heads_file: Path | None,
    max_bytes: int,
) -> Judgement:
    from aioum.cli.verify_run_inputs import load_adapter, read_bytes, retained_heads
    from aioum.replay.facts import Profile
    from aioum.replay.limits import Limits
    from aioum.replay.profiles import is_paid_session_id
    from aioum.replay.reading import read_artifact
    from aioum.replay.verdict import judge

    kept = retained_heads(heads, heads_file)
    artifact = read_artifact(
        read_bytes(artifact_file, max_bytes),
        limits=Limits(artifact_bytes=max_bytes),
        refuse_duplicate_keys=None if profile is None else profile == Profile.PAID,
    )
    # Adapters may print; standard output is the report's.
    with contextlib.redirect_stdout(sys.stderr):
        recheck_replay = None
        if adapter_file is not None:
            recheck_replay = load_adapter(adapter_file)
        elif is_paid_session_id(artifact.header.session_id):
            from aioum.replay.paid import recheck_replay as paid_adapter

            recheck_replay = paid_adapter
        return judge(
            artifact,
            profile=None if profile is None else Profile(profile),
            recheck_replay=recheck_replay,
            retained_heads=kept,
        )


def _print(judgement: Judgement, *, as_json: bool) -> None:
    if as_json:
        from aioum.cli.output import print_json

        print_json(judgement.to_json())
    else:
        from aioum.cli.verify_run_output import print_judgement

        print_judgement(judgement)
