"""Evidence packages from a session's own record; neither chain nor node nor key is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aioum.client.book import Book
from aioum.core.canonical import JsonValue
from aioum.core.evidence import Claim, build_package, disclose
from aioum.core.evidence_submissions import SubmissionEntry, Submissions


def package_of(
    book: Book,
    claim: Claim | str,
    narrative: str,
    *,
    disclose_only: Iterable[int] | None = None,
    attestations: Sequence[dict[str, JsonValue]] = (),
) -> dict[str, JsonValue]:
    """Assemble an evidence package (PROTOCOL 7); write it with `package_bytes`.

    Args:
        book: the session.
        claim: `non-delivery`, `wrong-result` or `quality`.
        narrative: free text.
        disclose_only: indexes of the calls to show (formatVersion 2); None: all (formatVersion 1).
        attestations: as in PROTOCOL 7.

    Raises:
        InvalidInput: as `build_package` and `disclose`.
    """
    statement = book.record.statement
    receipts = [call.receipt for call in book.answered if call.receipt is not None]
    # Contradicting receipts go in as well: they are what proves the case.
    receipts += [
        receipt for item in book.record.evidence for receipt in item.receipts if receipt not in receipts
    ]
    package = build_package(
        session_id=book.record.session_id,
        domain=book.facts.domain,
        claim=claim,
        narrative=narrative,
        entries=book.entries,
        vouchers=[(call.call.amount, call.signature) for call in book.made],
        channel=book.facts.channel,
        terms=book.facts.service,
        card=book.facts.card_value,
        receipts=[(signed.receipt, signed.signature) for signed in receipts],
        statement=None if statement is None else (statement.statement, statement.signature),
        attestations=attestations,
        submissions=_submissions(book),
        log=None if book.record.logged is None else book.record.logged.to_json(),
    )
    return package if disclose_only is None else disclose(package, disclose_only)


def _submissions(book: Book) -> Submissions | None:
    """Roster and envelopes of a signed session, also of the call that has no answer yet."""
    if book.facts.roster is None:
        return None
    entries = [SubmissionEntry(call.call.index, call.envelope) for call in book.answered if call.envelope]
    unanswered = book.outstanding
    if unanswered is not None and unanswered.envelope is not None:
        # Its request stands nowhere else in the package.
        call, envelope = unanswered.call, unanswered.envelope
        entries.append(SubmissionEntry(call.index, envelope, call.request))
    return Submissions(book.facts.roster, tuple(entries))
