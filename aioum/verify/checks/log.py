"""Log: the session is in the transparency log that its operator promised on the card (PROTOCOL 9)."""

from __future__ import annotations

from aioum.core.canonical import JsonValue
from aioum.core.card import parse_card
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hextext import to_hex
from aioum.core.submission.framing import encode_base64
from aioum.log.entry import Entry
from aioum.log.membership import read_membership
from aioum.log.monitor import LogIdentity
from aioum.verify.grounds import Grounds
from aioum.verify.logged import another_root, another_session, contradictions, of_channel
from aioum.verify.report import Check, Finding, failed, not_applicable, passed

NAME = "log"


def check_log(package: EvidencePackage, grounds: Grounds, known: LogIdentity | None) -> Check | None:
    """Judge the log proof; no row where the package carries none.

    Whose log it has to be says the card that the session's terms name, unless the verifier knows better.

    Args:
        package: with the proof.
        grounds: what is fixed about the session.
        known: the log that the verifier names, or None.
    """
    if package.log is None:
        return None
    if grounds.channel_id is None:
        return not_applicable(
            NAME, "log-session-unknown", "Nothing says which channel the entry has to be of."
        )
    log = known or _promised(grounds)
    if isinstance(log, Check):
        return log
    try:
        membership = read_membership(package.log)
        checkpoint, entry = membership.verify(log.origin, log.public_key)
    except AioumError as error:
        return failed(NAME, [Finding(error.code, f"The log proof does not hold: {error}.")])
    details: dict[str, JsonValue] = {
        "origin": log.origin,
        "publicKey": encode_base64(log.public_key),
        "namedBy": "card" if known is None else "verifier",
        "size": checkpoint.size,
        "root": to_hex(checkpoint.root),
        "index": membership.index,
    }
    findings = _contradictions(package, grounds, entry)
    if findings:
        return failed(NAME, findings, details=details)
    place = f"The session is entry {membership.index} of {checkpoint.size} in the log {log.origin}"
    if grounds.session is None:
        code, reason = grounds.missing_session
        return not_applicable(
            NAME, code, f"{place}; what the entry says was not compared: {reason}.", details=details
        )
    return passed(NAME, f"{place}, as the chain has it.", details=details)


def _promised(grounds: Grounds) -> LogIdentity | Check:
    """The log that the session's card names, or the row where none is proven to be named."""
    if grounds.card is not None:
        try:
            log = parse_card(grounds.card).log
        except InvalidInput as error:
            return not_applicable(NAME, "card-invalid", f"The session's card cannot be read: {error}.")
        if log is not None:
            return LogIdentity(log.origin, log.public_key)
        return not_applicable(NAME, "log-not-promised", "The session's card names no transparency log.")
    return not_applicable(NAME, "log-key-unknown", "No proven card says which key signs the log.")


def _contradictions(package: EvidencePackage, grounds: Grounds, entry: Entry) -> list[Finding]:
    if grounds.session is not None:
        return contradictions(entry, grounds.domain, grounds.session)
    assert grounds.channel_id is not None  # noqa: S101 - without it nothing is compared
    said = of_channel(entry, grounds.domain, grounds.channel_id)
    if said is None:
        return [another_session(entry)]
    # What is anchored is not known here; the package's own calls are.
    claimed = package.results_root, package.call_count
    if any(said.results_root) and (said.results_root, said.call_count) != claimed:
        return [another_root(said, *claimed, "the package")]
    return []
