"""Statement: the operator's signed word on the first calls of the session and what they cost (PROTOCOL 3)."""

from __future__ import annotations

from collections.abc import Iterator

from aioum.core.amounts import parse_amount
from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hextext import address_text, bytes32, to_hex
from aioum.core.merkle import root_of
from aioum.core.payment import Statement
from aioum.core.transcript import EMPTY_ROOT, node_hash
from aioum.core.types import ChannelId
from aioum.verify.checks.receipts import Receipts
from aioum.verify.checks.transcript import Transcript
from aioum.verify.grounds import Grounds
from aioum.verify.report import Check, Finding, failed, not_applicable, passed
from aioum.verify.signed import count_of, members, signature_of, signer_finding

NAME = "statement"


def check_statement(
    package: EvidencePackage, transcript: Transcript, grounds: Grounds, receipts: Receipts
) -> Check | None:
    """Judge the statement against calls, receipts, anchor and settlement; no row where there is none."""
    if package.statement is None:
        return None
    if grounds.terms is None or grounds.channel_id is None:
        return not_applicable(
            NAME, "statement-signer-unknown", "No proven terms say who signs statements of this session."
        )
    try:
        statement, signature = _read(package.statement, grounds.channel_id)
    except InvalidInput as error:
        return failed(NAME, [Finding("statement-malformed", f"The statement: {error}.")])
    signer = grounds.terms.receipt_signer
    unsigned = signer_finding("statement", statement, grounds.domain, signature, signer, "The statement")
    if unsigned is not None:
        return failed(NAME, [unsigned])
    details: dict[str, JsonValue] = {
        "callCount": statement.call_count, "root": to_hex(statement.root), "spent": str(statement.spent),
    }  # fmt: skip
    prefix_root = _prefix_root(package, transcript, statement.call_count)
    findings = [
        *_against_anchor(statement, grounds),
        *_against_calls(package, statement, prefix_root),
        *_against_receipts(statement, receipts),
        *_against_settlement(statement, receipts, grounds),
    ]
    if findings:
        return failed(NAME, findings, details=details)
    summary = (
        f"{address_text(signer)} signed that the first {statement.call_count} calls have root "
        f"{to_hex(statement.root)} and cost {statement.spent}"
    )
    if prefix_root is None and not package.disclosed:
        return not_applicable(
            NAME, "root-incomputable", f"{summary}; those of this package lack texts.", details=details
        )
    if prefix_root is None:
        return passed(
            NAME,
            f"{summary}; the calls that would show it are not all disclosed.",
            "statement-prefix-hidden",
            details=details,
        )
    return passed(NAME, f"{summary}; the calls of this package have that root.", details=details)


def _read(value: JsonValue, channel_id: ChannelId) -> tuple[Statement, bytes]:
    stated = members(value, "callCount", "root", "spent", "signature")
    statement = Statement(
        channel_id, count_of(stated, "callCount"), bytes32(stated["root"]), parse_amount(stated["spent"])
    )
    statement.words()
    return statement, signature_of(stated)


def _prefix_root(package: EvidencePackage, transcript: Transcript, count: int) -> bytes | None:
    """The root of the first `count` calls, or None where the package does not show it."""
    if count == 0:
        return EMPTY_ROOT
    if package.disclosed:
        return package.results_root if count == package.call_count else None
    if count > len(package.calls) or any(index not in transcript.leaves for index in range(count)):
        return None
    return root_of([transcript.leaves[index] for index in range(count)], node_hash)


def _against_anchor(statement: Statement, grounds: Grounds) -> Iterator[Finding]:
    if grounds.anchor is None:
        return
    root, call_count = grounds.anchor
    if statement.call_count > call_count:
        yield Finding(
            "statement-beyond-anchored",
            f"The operator signed for {statement.call_count} calls but anchored only {call_count}: "
            "proof that the anchored history omits calls.",
        )
    if statement.call_count == call_count and statement.root != root:
        yield Finding(
            "statement-contradicts-anchor",
            f"The operator signed root {to_hex(statement.root)} over {call_count} calls and anchored "
            f"{to_hex(root)}: proof of double signing.",
        )


def _against_calls(
    package: EvidencePackage, statement: Statement, prefix_root: bytes | None
) -> Iterator[Finding]:
    if statement.call_count > package.call_count:
        yield Finding(
            "statement-count-mismatch",
            f"The operator signed for {statement.call_count} calls, the package has {package.call_count}.",
        )
    elif prefix_root is not None and prefix_root != statement.root:
        yield Finding(
            "statement-root-mismatch",
            f"The operator signed root {to_hex(statement.root)} over {statement.call_count} calls, those of "
            f"this package have {to_hex(prefix_root)}.",
        )


def _against_receipts(statement: Statement, receipts: Receipts) -> Iterator[Finding]:
    charges = [receipts.charges.get(index) for index in range(min(statement.call_count, _bound(receipts)))]
    known = [charge for charge in charges if charge is not None]
    if len(known) == statement.call_count and known and sum(known) != statement.spent:
        yield Finding(
            "statement-spent-mismatch",
            f"The operator signed {statement.spent} as spent, but its receipts of those calls add up to "
            f"{sum(known)}.",
        )


def _against_settlement(statement: Statement, receipts: Receipts, grounds: Grounds) -> Iterator[Finding]:
    session = grounds.session
    if session is None or not session.is_finalized or statement.call_count > session.call_count:
        return
    later = range(statement.call_count, session.call_count)
    if len(later) > _bound(receipts) or any(index not in receipts.charges for index in later):
        return
    signed = statement.spent + sum(receipts.charges[index] for index in later)
    if session.settled > signed:
        yield Finding(
            "settlement-above-signed",
            f"Settled were {session.settled}, the operator's signed word accounts for {signed}: "
            "proof of overcharging.",
        )


def _bound(receipts: Receipts) -> int:
    """No more indexes than this can all have receipts; a forged count must not make a long loop."""
    return len(receipts.charges) + 1
