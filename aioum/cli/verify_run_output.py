"""A verdict for a person: one line that says it, one line a fact, then what is wrong."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Final

import click

from aioum.cli.plain import one_line
from aioum.core.submission.framing import encode_base64
from aioum.replay.facts import (
    Completeness,
    Judgement,
    Lane,
    Profile,
    SignatureReport,
    SignatureState,
    Terms,
    Verdict,
)
from aioum.replay.model import FORMAT
from aioum.replay.verdict import NOT_COMPLETE

MAX_SHOWN: Final = 20
"""Most problems, most diagnostics and most seats that are printed."""

_YES, _NO, _OPEN = "✓", "✗", "○"
_COLORS: Final = {_YES: "green", _NO: "red", _OPEN: "yellow"}
_VERDICT_COLORS: Final = {
    Verdict.TRUSTED: "green",
    Verdict.UNVERIFIABLE: "yellow",
    Verdict.REJECTED: "red",
}
_WIDTH: Final = 14

_REPLAY: Final = {
    True: (_YES, "consistent", "the recorded steps reproduce the recorded results"),
    False: (_NO, "inconsistent", "the recorded steps do not reproduce what is recorded"),
    None: (_OPEN, "not checked", "the steps were not run again"),
}
_LANES: Final = {
    Lane.VERIFIED: (_YES, "every one maps to the action that was recorded"),
    Lane.UNAVAILABLE: (_OPEN, "not mapped to the actions that were recorded"),
    Lane.NOT_APPLICABLE: (_OPEN, "none that would have to be mapped"),
    Lane.FAILED: (_NO, "not all map to the action that was recorded"),
}
_TERMS: Final = {
    Terms.BOUND: (_YES, "the session id binds them, and they were held against it"),
    Terms.CLAIMED: (_OPEN, "the session id binds some; nothing held the artifact's against it"),
    Terms.UNBOUND: (_OPEN, "the session id binds none: game, level and results are outside every signature"),
}
_COMPLETENESS: Final = {
    Completeness.FAILED: (_NO, "a head that a seat kept is missing"),
    Completeness.ANCHORED: (_YES, "an anchor fixes where the session ends"),
    Completeness.RETAINED_HEADS: (_YES, "complete up to the retained heads"),
    Completeness.NOT_CHECKED: (
        _OPEN,
        "not checked: without a retained head or an anchor a cut-off tail would not show",
    ),
}


def print_judgement(judgement: Judgement) -> None:
    """Print the verdict and its facts on standard output."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show the marks gets question marks rather than a crash.
        with contextlib.suppress(io.UnsupportedOperation):
            sys.stdout.reconfigure(errors="replace")
    _, replay, _ = _REPLAY[judgement.replay_ok]
    click.echo(
        f"{_styled(judgement.verdict.value, _VERDICT_COLORS[judgement.verdict])} · "
        f"{FORMAT} {judgement.format_version} · replay {replay} · "
        f"signatures {judgement.signatures.state.value}"
    )
    for mark, name, told in _rows(judgement):
        click.echo(f"{_styled(mark, _COLORS.get(mark, 'white'))} {name.ljust(_WIDTH)}{one_line(told)}")
    _print_list("problem", [(each.code, str(each)) for each in judgement.all_problems()])
    # A row above says that completeness was not checked.
    others = [each for each in judgement.diagnostics if each.code != NOT_COMPLETE]
    _print_list("diagnostic", [(each.code, str(each)) for each in others])


def _rows(judgement: Judgement) -> Iterator[tuple[str, str, str]]:
    mark, _, told = _REPLAY[judgement.replay_ok]
    yield mark, "replay", told if judgement.adapter_ran else f"{told}: no adapter"
    yield _signature_row(judgement.signatures)
    for seat in judgement.signatures.seats[:MAX_SHOWN]:
        chain = "chain reproduced" if seat.chain_reproduced else "chain broken"
        policy = "covered in time" if seat.policy_satisfied else "not covered"
        yield (
            " ",
            "",
            f"seat {seat.seat}: {seat.submissions} submissions, {seat.valid_signatures} valid signatures, "
            f"{chain}, {policy}, head {encode_base64(seat.chain_head)}",
        )
    if len(judgement.signatures.seats) > MAX_SHOWN:
        yield " ", "", f"and {len(judgement.signatures.seats) - MAX_SHOWN} more seats; --json lists them"
    yield _row("submissions", _LANES[judgement.semantics.submissions])
    yield _row("timeouts", _LANES[judgement.semantics.timeouts])
    if judgement.profile is Profile.PAID:
        yield _row("terms", _TERMS[judgement.terms])
    yield _row("completeness", _COMPLETENESS[judgement.completeness])
    for name, value in judgement.facts.items():
        yield " ", name, str(value)
    by = "as asked for" if judgement.profile_by == "caller" else "by the session id"
    yield " ", "profile", f"{judgement.profile.value}, {by} {judgement.session_id}"
    if judgement.reasons:
        yield " ", "reasons", ", ".join(judgement.reasons)


def _row(name: str, told: tuple[str, str]) -> tuple[str, str, str]:
    return told[0], name, told[1]


def _signature_row(signatures: SignatureReport) -> tuple[str, str, str]:
    valid = sum(seat.valid_signatures for seat in signatures.seats)
    counts = f"{signatures.submissions} submissions, {valid} valid signatures"
    match signatures.state:
        case SignatureState.SIGNED:
            return _YES, "signatures", f"signed: {counts}"
        case SignatureState.PARTIAL:
            return _NO, "signatures", f"they do not cover the artifact: {counts}"
        case _:
            return _OPEN, "signatures", "none that a roster of the artifact would cover"


def _print_list(name: str, items: list[tuple[str, str]]) -> None:
    for code, text in items[:MAX_SHOWN]:
        click.echo(one_line(f"{name}: {text} [{code}]"))
    if len(items) > MAX_SHOWN:
        click.echo(f"and {len(items) - MAX_SHOWN} more; --json lists up to a hundred")


def _styled(text: str, color: str) -> str:
    return click.style(text, fg=color, bold=True) if sys.stdout.isatty() else text
