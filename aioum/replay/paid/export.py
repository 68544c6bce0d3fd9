"""A paid session as a `gaos.replay` artifact, from its evidence package: so either side can write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aioum.core.amounts import parse_amount
from aioum.core.canonical import JsonValue, parse_json
from aioum.core.card import parse_card
from aioum.core.errors import InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.evidence_submissions import Submissions
from aioum.core.hextext import from_hex, to_hex
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import SCHEME, encode_base64
from aioum.core.transcript import Entry, entry_from_json
from aioum.replay.model import (
    CAUSE_COMPLETE,
    EXTENSION,
    FORMAT,
    RESOLUTION,
    WRITTEN_VERSION,
    Artifact,
    JsonObject,
)
from aioum.replay.paid.calls import CallResult, ToolActions
from aioum.replay.paid.session import (
    ADAPTER_ID,
    ADAPTER_VERSION,
    LEVEL_ID,
    RESULT_LANE,
    SESSION_EXTENSION,
    SUBMISSION_LANE,
    PaidSession,
    read_count,
    read_statement,
    read_voucher,
)
from aioum.replay.writing import build_artifact, write_artifact

VERIFIER_EXTENSION: Final = "gaos.verifier"


def export_replay(
    package: EvidencePackage, *, deposit: int | None = None, verifier: JsonObject | None = None
) -> bytes:
    """The canonical bytes of the artifact; arguments and errors as in `paid_artifact`."""
    return write_artifact(paid_artifact(package, deposit=deposit, verifier=verifier))


def paid_artifact(
    package: EvidencePackage, *, deposit: int | None = None, verifier: JsonObject | None = None
) -> Artifact:
    """Lay a session out as an artifact (SUBMISSIONS 5). Nothing is verified here; responses stay out.

    Args:
        package: whole, with channel, terms and card; receipts, statement, vouchers and submissions go in
            where it has them.
        deposit: base units in escrow, where the exporter knows.
        verifier: reference to a verifier kit.

    Raises:
        InvalidInput: `package-not-whole`; `session-facts-missing`; `command-malformed`; a code of
            `entry_from_json`; `receipt-malformed` or another member that is malformed.
        CanonicalError: a request has no canonical form in the format (such as one nested over 60 deep).
        ArtifactInvalid: the session has no form in the format.
    """
    if package.disclosed:
        raise InvalidInput("an artifact needs every call of the session", code="package-not-whole")
    session = _session(package, deposit)
    entries = [entry_from_json(call, position) for position, call in enumerate(package.calls)]
    submissions = None if package.submissions is None else Submissions.from_json(package.submissions)
    results = _results(package, entries)
    header = _header(session, submissions, package, results, verifier)
    return build_artifact(header, _lines(session, entries, results, submissions))


def _session(package: EvidencePackage, deposit: int | None) -> PaidSession:
    channel, service, card = package.channel, package.terms, package.card
    if channel is None or service is None or card is None:
        raise InvalidInput(
            "an artifact needs the session's channel, terms and card, and the package lacks some",
            code="session-facts-missing",
        )
    channel_id = channel.channel_id(package.domain)
    vouchers = [read_voucher(value, channel_id) for value in package.vouchers]
    statement = None if package.statement is None else read_statement(package.statement, channel_id)
    return PaidSession(
        label=package.session_id,
        domain=package.domain,
        channel=channel,
        service=service,
        card_value=card,
        card=parse_card(card),
        deposit=deposit,
        voucher=max(vouchers, key=lambda each: each[0].cumulative_amount, default=None),
        statement=statement,
    )


def _results(package: EvidencePackage, entries: list[Entry]) -> list[CallResult]:
    receipts: dict[int, tuple[int, bytes]] = {}
    for value in package.receipts or ():
        index, charge, signature = _receipt(value)
        receipts.setdefault(index, (charge, signature))
    return [CallResult.of(entry, receipts.get(entry.index)) for entry in entries]


def _receipt(value: JsonValue) -> tuple[int, int, bytes]:
    try:
        if isinstance(value, dict):
            signature = from_hex(value.get("signature"))
            return read_count(value.get("index")), parse_amount(value.get("charge")), signature
    except InvalidInput as error:
        raise InvalidInput(f"a receipt: {error}", code="receipt-malformed") from error
    raise InvalidInput("a receipt is no object", code="receipt-malformed")


def _header(
    session: PaidSession,
    submissions: Submissions | None,
    package: EvidencePackage,
    results: list[CallResult],
    verifier: JsonObject | None,
) -> JsonObject:
    terms_hash, descriptor_hash = session.channel.terms_hash, session.service.terms.descriptor_hash
    outcome: JsonObject = {"root": to_hex(package.results_root)}
    charges = [result.charge for result in results if result.charge is not None]
    if len(charges) == len(results):
        outcome["spent"] = str(sum(charges))
    header: JsonObject = {
        "kind": "header",
        "format": FORMAT,
        "formatVersion": WRITTEN_VERSION,
        "sessionId": session.session_id,
        "game": {
            "id": str(session.service.service_id),
            "version": to_hex(descriptor_hash),
            "adapter": {"id": ADAPTER_ID, "version": ADAPTER_VERSION},
        },
        "seed": 0,
        "seedPolicy": "explicit",
        "perm": list(range(ToolActions(session.tools).count)),
        "levels": [
            {
                "index": 0,
                "id": LEVEL_ID,
                "seed": 0,
                "level": {"termsHash": to_hex(terms_hash)},
                "result": {
                    "status": "ended",
                    "stars": None,
                    "actionsUsed": len(results),
                    "extensions": outcome,
                },
            }
        ],
        "totals": {"totalStars": 0, "totalActionsUsed": len(results)},
        "extensions": {SESSION_EXTENSION: session.to_json()},
    }
    if submissions is not None:
        header["seatKeys"] = submissions.roster.to_json()
        header["signaturePolicy"] = {"scheme": SCHEME}
    if verifier is not None:
        header["extensions"][VERIFIER_EXTENSION] = verifier
    return header


def _lines(
    session: PaidSession, entries: list[Entry], results: list[CallResult], submissions: Submissions | None
) -> Iterator[JsonObject]:
    signed = () if submissions is None else submissions.entries
    envelopes = {entry.index: entry.envelope for entry in signed if entry.request is None}
    actions = ToolActions(session.tools)
    n = 0
    for entry, result in zip(entries, results, strict=True):
        yield {
            "kind": RESOLUTION,
            "n": n,
            "levelIndex": 0,
            "tick": entry.index,
            "cause": CAUSE_COMPLETE,
            "inputs": [_input(entry, envelopes.get(entry.index), actions)],
        }
        yield _extension(n + 1, RESULT_LANE, result.to_json())
        n += 2
    others = [entry for entry in signed if entry.request is not None]
    for position, other in enumerate(others, n):
        yield _extension(position, SUBMISSION_LANE, other.to_json())


def _input(entry: Entry, envelope: Envelope | None, actions: ToolActions) -> JsonObject:
    command = parse_json(entry.request, max_bytes=len(entry.request.encode()))
    action = actions.command_to_action(command)
    given: JsonObject = {"wireId": action["id"], "canonicalId": action["id"], "payload": command}
    if envelope is not None:
        given.update(
            seat=envelope.seat,
            submissionId=envelope.submission_id,
            canonicalCommand=entry.request,
            cursor=envelope.cursor,
            clientTime=envelope.client_time,
            prevChainHash=encode_base64(envelope.prev_head),
            sig=encode_base64(envelope.signature),
        )
    return given


def _extension(n: int, lane: str, record: JsonObject) -> JsonObject:
    return {"kind": EXTENSION, "n": n, "levelIndex": 0, "lane": lane, "record": record}
