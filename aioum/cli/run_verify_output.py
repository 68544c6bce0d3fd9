"""A verdict on a sealed run for a person: each guarantee on a line, and what broke."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from aioum.cli.plain import one_line
from aioum.run.disclosure_verification import DisclosureReason, DisclosureVerdict
from aioum.run.salts import Side
from aioum.run.stamping import seal_digest
from aioum.run.verification import CapsuleVerdict, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aioum.cli.run_verify import Judgement
    from aioum.run.disclosure import DisclosedEvent
    from aioum.run.links import Links
    from aioum.run.seal import Seal
    from aioum.run.verification import SignerFact

MAX_SHOWN_CHARACTERS: Final = 200
"""Most characters of a disclosed content that are printed; --json has all."""

MAX_SHOWN_EVENTS: Final = 16
"""Most events that a line names."""

_YES, _NO, _OPEN = "✓", "✗", "○"
_COLORS: Final = {_YES: "green", _NO: "red", _OPEN: "yellow"}
_WIDTH: Final = 12

_CAPSULE_GUARANTEES: Final = (
    (Reason.PAYLOAD_TYPE_UNEXPECTED, "type", "the seal says that it is one"),
    (Reason.SUITE_UNKNOWN, "suite", "hashed as the header says"),
    (Reason.LEAF_HASH_MISMATCH, "contents", "no event was changed"),
    (Reason.EVENT_COUNT_MISMATCH, "count", "none was added or left out"),
    (Reason.CHAIN_BREAK, "order", "each follows the one before it"),
    (Reason.CHAIN_HEAD_MISMATCH, "end", "the run ends where it was sealed"),
    (Reason.ROOT_MISMATCH, "root", "it is that of the events"),
)
_DISCLOSURE_GUARANTEES: Final = (
    (DisclosureReason.PAYLOAD_TYPE_UNEXPECTED, "type", "the seal says that it is one"),
    (DisclosureReason.SUITE_UNKNOWN, "suite", "hashed as the header says"),
    (DisclosureReason.INCLUSION_INVALID, "inclusion", "what is shown is part of the sealed run"),
    (DisclosureReason.COMMITMENT_MISMATCH, "contents", "what is shown is what was recorded"),
)
_SIGNATURES: Final = ("signature-missing", "signature-invalid")


def print_judgement(judgement: Judgement) -> None:
    """Print everything that was found on standard output."""
    verdict, links = judgement.verdict, judgement.links
    reason = judgement.reason
    said = _styled("verified", "green") if reason is None else _styled(f"refused: {reason}", "red")
    click.echo(f"{said} · {_title(verdict.seal)}")
    broken: dict[str, str] = {}
    for finding in verdict.findings:
        broken.setdefault(finding.reason.value, finding.message)
    for mark, name, told in (*_events(verdict, broken), *_keys(verdict, broken), _pin(judgement, broken)):
        _row(mark, name, told)
    for name, judged in (("log", judgement.logged), ("timestamp", judgement.stamped)):
        if judged is not None:
            told = judged.message if judged.reason is None else f"{judged.message} [{judged.reason}]"
            _row(_YES if judged.reason is None else _NO, name, told)
    if links is not None:
        _row(*_calls(links))
    envelope = (
        verdict.disclosure.envelope if isinstance(verdict, DisclosureVerdict) else verdict.capsule.envelope
    )
    _row(" ", "seal digest", f"sha256 {seal_digest(envelope).hex()}")
    if isinstance(verdict, DisclosureVerdict):
        for event in verdict.disclosure.events:
            _print_disclosed(event)


def _title(seal: Seal | None) -> str:
    if seal is None:
        return "not the seal of a run"
    return one_line(
        f"run {seal.header.run_id} of {seal.header.agent} · {seal.event_count} events · "
        f"root 0x{seal.root.hex()}"
    )


def _events(
    verdict: CapsuleVerdict | DisclosureVerdict, broken: dict[str, str]
) -> Iterable[tuple[str, str, str]]:
    guarantees = _DISCLOSURE_GUARANTEES if isinstance(verdict, DisclosureVerdict) else _CAPSULE_GUARANTEES
    for reason, name, holds in guarantees:
        if reason.value in broken:
            yield _NO, name, f"{broken[reason.value]} [{reason.value}]"
        elif reason.value == "payload-type-unexpected" or _checked(reason.value, verdict, broken):
            yield _YES, name, holds
        else:
            yield _OPEN, name, "could not be checked"


def _checked(reason: str, verdict: CapsuleVerdict | DisclosureVerdict, broken: dict[str, str]) -> bool:
    if verdict.seal is None:
        return False
    return "suite-unknown" not in broken or reason == "event-count-mismatch"


def _keys(
    verdict: CapsuleVerdict | DisclosureVerdict, broken: dict[str, str]
) -> Iterable[tuple[str, str, str]]:
    wrong = [f"{broken[reason]} [{reason}]" for reason in _SIGNATURES if reason in broken]
    signed = [fact for fact in verdict.signers if fact.signed]
    if wrong:
        yield _NO, "signatures", "; ".join(wrong)
    elif verdict.seal is None:
        yield _OPEN, "signatures", "could not be checked"
    else:
        yield _YES, "signatures", ", ".join(map(_signer, signed))
    trusted = [fact for fact in signed if fact.trusted]
    if "key-untrusted" in broken:
        yield _NO, "trust", f"{broken['key-untrusted']} [key-untrusted]"
    elif trusted:
        yield _YES, "trust", f"you trust {', '.join(map(_signer, trusted))}"
    elif any(fact.trusted for fact in verdict.signers):
        yield _OPEN, "trust", "no key that you trust has signed this"
    else:
        yield _OPEN, "trust", "nobody vouches for the keys; --trust says whose seals you believe"


def _pin(judgement: Judgement, broken: dict[str, str]) -> tuple[str, str, str]:
    if "pinned-root-mismatch" in broken:
        return _NO, "pin", f"{broken['pinned-root-mismatch']} [pinned-root-mismatch]"
    if judgement.verdict.pinned:
        return _YES, "pin", "the root is the one that you pinned"
    if judgement.logged is not None:
        return _OPEN, "pin", "no root was given"
    return _OPEN, "pin", "no root was given: a run that its owner rebuilt would verify as well"


def _calls(links: Links) -> tuple[str, str, str]:
    if links.different:
        shown = ", ".join(map(str, links.different[:MAX_SHOWN_EVENTS]))
        more = len(links.different) - MAX_SHOWN_EVENTS
        told = f"events {shown}{f' and {more} more' if more > 0 else ''} are other calls in their sessions"
        return _NO, "calls", f"{told} [call-link-mismatch]"
    told = f"{len(links.matched)} paid calls are in the packages, {len(links.unknown)} are in none of them"
    return (_OPEN if links.unknown else _YES), "calls", told


def _signer(fact: SignerFact) -> str:
    return f"{fact.signer.alg} {fact.signer.key_id}"


def _row(mark: str, name: str, told: str) -> None:
    click.echo(f"{_styled(mark, _COLORS.get(mark, 'white'))} {name.ljust(_WIDTH)}{one_line(told)}")


def _print_disclosed(shown: DisclosedEvent) -> None:
    event = shown.event
    click.echo(one_line(f"event {event.index} · {event.kind.value} · {event.name}"))
    for side in Side:
        if side in shown.openings:
            content = shown.openings[side].content
            text = content[: 4 * MAX_SHOWN_CHARACTERS].decode(errors="replace")[:MAX_SHOWN_CHARACTERS]
            click.echo(f"  {side.value}, {len(content)} bytes: {one_line(text)}")


def _styled(text: str, color: str) -> str:
    return click.style(text, fg=color, bold=True) if sys.stdout.isatty() else text
