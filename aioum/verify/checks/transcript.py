"""Check 2, transcript and claimed-root: entries are well-formed; the package's root is that of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hextext import from_hex, to_hex
from aioum.core.merkle import root_of, verify_inclusion
from aioum.core.transcript import EMPTY_ROOT, Entry, entry_from_json, entry_leaf, node_hash
from aioum.verify.report import Check, Finding, Findings, failed, passed

TRANSCRIPT = "transcript"
CLAIMED_ROOT = "claimed-root"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What the package's calls are, whether or not they keep the rules.

    Attributes:
        entries: all calls, ascending; None where one of them breaks a rule.
        leaves: leaf by index, of every call with texts. A whole package's calls count by position, whatever
            index they state, so that the root speaks of content and order alone.
        root: over all calls of a whole package; None where a call has no leaf, or only some are disclosed.
    """

    entries: tuple[Entry, ...] | None
    leaves: dict[int, bytes]
    root: bytes | None


def check_transcript(package: EvidencePackage) -> tuple[Check, Transcript]:
    """Judge every entry by the rules of PROTOCOL 2."""
    entries: list[Entry] = []
    findings = Findings()
    previous = -1
    for position, call in enumerate(package.calls):
        try:
            if package.disclosed:
                entry = entry_from_json(_without_proof(call), None)
                if entry.index <= previous:
                    raise InvalidInput(
                        f"call {entry.index} is disclosed after call {previous}", code="entry-order-wrong"
                    )
                previous = entry.index
            else:
                entry = entry_from_json(call, position)
            entries.append(entry)
        except InvalidInput as error:
            findings.append(Finding(error.code, f"Entry {position}: {error}.", position))
    if package.disclosed and not package.calls:
        findings.append(Finding("disclosure-empty", "The package discloses no call."))
    transcript = _collect(package, None if findings else tuple(entries))
    if findings:
        return failed(TRANSCRIPT, findings), transcript
    if package.disclosed:
        summary = (
            f"{len(entries)} of {package.call_count} calls are disclosed, ascending, each in canonical form."
        )
    else:
        summary = f"{len(entries)} calls, gap-free from index 0, each in canonical form."
    return passed(TRANSCRIPT, summary, details={"calls": len(entries)}), transcript


def check_claimed_root(package: EvidencePackage, transcript: Transcript) -> Check:
    """Hold the package's `resultsRoot` against its own calls."""
    findings = root_findings(
        package,
        transcript,
        package.results_root,
        package.call_count,
        "claimed-root-mismatch",
        "its claimed root",
    )
    if findings:
        return failed(CLAIMED_ROOT, findings)
    if package.disclosed:
        return passed(
            CLAIMED_ROOT,
            f"Every disclosed call is proven to be in the claimed root {to_hex(package.results_root)}.",
        )
    return passed(CLAIMED_ROOT, f"The calls hash to the claimed root {to_hex(package.results_root)}.")


def root_findings(
    package: EvidencePackage, transcript: Transcript, root: bytes, size: int, code: str, what: str
) -> Findings:
    """Why the package's calls are not those under a root.

    Args:
        package: whole or disclosed.
        transcript: of that package.
        root: the root, 32 bytes.
        size: number of calls under it; a proof does not bind it.
        code: for a whole package with another root.
        what: how to call `root` in a sentence.

    Returns:
        Nothing where they are.
    """
    if package.disclosed:
        return _proof_findings(package.calls, transcript, root, size, what)
    if transcript.root is None:
        return Findings(
            [Finding("root-incomputable", "The calls have no root: one of them lacks its texts.")]
        )
    if transcript.root != root:
        return Findings(
            [Finding(code, f"The calls hash to root {to_hex(transcript.root)}, {what} is {to_hex(root)}.")]
        )
    return Findings()


def _proof_findings(
    calls: Sequence[JsonValue], transcript: Transcript, root: bytes, size: int, what: str
) -> Findings:
    if not calls:
        return Findings(
            [Finding("disclosure-empty", f"No call is disclosed, so none is proven to be in {what}.")]
        )
    findings = Findings()
    for position, call in enumerate(calls):
        index = _stated_index(call)
        leaf = None if index is None else transcript.leaves.get(index)
        if index is None or leaf is None:
            findings.append(
                Finding("root-incomputable", f"Disclosed call {position} lacks its index or texts.", position)
            )
            continue
        try:
            verify_inclusion(leaf, index, size, _siblings(call), root, node_hash)
        except AioumError as error:
            findings.append(
                Finding(error.code, f"Call {index} is not proven to be in {what}: {error}.", position)
            )
    return findings


def _siblings(call: JsonValue) -> list[bytes]:
    proof = call.get("proof") if isinstance(call, dict) else None
    if not isinstance(proof, list):
        raise InvalidInput("its proof is not an array", code="proof-malformed")
    try:
        return [from_hex(sibling) for sibling in proof]
    except InvalidInput as error:
        raise InvalidInput(str(error), code="proof-malformed") from error


def _without_proof(call: JsonValue) -> JsonValue:
    if not isinstance(call, dict) or "proof" not in call:
        raise InvalidInput("a disclosed entry has no proof", code="entry-members-wrong")
    return {name: value for name, value in call.items() if name != "proof"}


def _collect(package: EvidencePackage, entries: tuple[Entry, ...] | None) -> Transcript:
    leaves: dict[int, bytes] = {}
    for position, call in enumerate(package.calls):
        index = _stated_index(call) if package.disclosed else position
        leaf = None if index is None else _leaf(call, index)
        if index is not None and leaf is not None:
            leaves.setdefault(index, leaf)
    root = None
    if not package.disclosed and len(leaves) == len(package.calls):
        root = root_of([leaves[index] for index in range(len(leaves))], node_hash) or EMPTY_ROOT
    return Transcript(entries, leaves, root)


def _stated_index(call: JsonValue) -> int | None:
    index = call.get("index") if isinstance(call, dict) else None
    return index if type(index) is int and index >= 0 else None


def _leaf(call: JsonValue, index: int) -> bytes | None:
    if not isinstance(call, dict):
        return None
    tool_id, request, response = call.get("toolId"), call.get("request"), call.get("response")
    if not (isinstance(tool_id, str) and isinstance(request, str) and isinstance(response, str)):
        return None
    try:
        return entry_leaf(Entry(index, tool_id, request, response))
    except InvalidInput:
        return None
