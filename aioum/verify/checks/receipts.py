"""Receipts: the operator's signed word on single calls (PROTOCOL 3), against package and anchor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aioum.core.amounts import parse_amount
from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hextext import address_text, bytes32, to_hex
from aioum.core.payment import CallReceipt
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.verify.checks.transcript import Transcript
from aioum.verify.grounds import Grounds
from aioum.verify.report import Check, Finding, Findings, failed, not_applicable, passed
from aioum.verify.signed import count_of, members, signature_of, signer_finding

NAME = "receipts"


@dataclass(frozen=True, slots=True)
class Receipts:
    """The receipts that the terms' receipt signer did sign: charge by index, in base units."""

    charges: dict[int, int]


def check_receipts(
    package: EvidencePackage, transcript: Transcript, grounds: Grounds
) -> tuple[Check | None, Receipts]:
    """Judge every receipt; no row where the package carries none."""
    if package.receipts is None:
        return None, Receipts({})
    if grounds.terms is None or grounds.channel_id is None:
        return (
            not_applicable(
                NAME, "receipt-signer-unknown", "No proven terms say who signs receipts of this session."
            ),
            Receipts({}),
        )
    if not package.receipts:
        return not_applicable(NAME, "receipts-absent", "The list of receipts is empty."), Receipts({})
    judge = _Judge(package, transcript, grounds, grounds.channel_id, grounds.terms.receipt_signer)
    findings = Findings(
        replace(finding, index=position)
        for position, value in enumerate(package.receipts)
        for finding in judge.findings(position, value)
    )
    receipts = Receipts({index: receipt.charge for index, receipt in judge.signed.items()})
    details: dict[str, JsonValue] = {
        "receipts": len(package.receipts), "charged": str(sum(receipts.charges.values())),
    }  # fmt: skip
    if findings:
        return failed(NAME, findings, details=details), receipts
    signer = address_text(grounds.terms.receipt_signer)
    summary = f"{signer} signed {len(receipts.charges)} of {package.call_count} calls as they stand here"
    if judge.hidden:
        return passed(
            NAME,
            f"{summary}; {judge.hidden} receipts are of calls that are not disclosed.",
            "receipt-call-hidden",
            details=details,
        ), receipts
    return passed(NAME, f"{summary}, charging {details['charged']} in all.", details=details), receipts


class _Judge:
    """Judges receipts one after the other; remembers what was signed, to see what contradicts it."""

    def __init__(
        self,
        package: EvidencePackage,
        transcript: Transcript,
        grounds: Grounds,
        channel_id: ChannelId,
        signer: Address,
    ) -> None:
        self.signed: dict[int, CallReceipt] = {}
        self.hidden = 0
        self._package = package
        self._transcript = transcript
        self._grounds = grounds
        self._channel_id = channel_id
        self._signer = signer

    def findings(self, position: int, value: JsonValue) -> Iterator[Finding]:
        try:
            receipt, signature, names_leaf = self._read(value)
        except InvalidInput as error:
            yield Finding("receipt-malformed", f"Receipt {position}: {error}.")
            return
        if receipt is None:
            yield from self._without_call(value)
            return
        what = f"The receipt of call {receipt.index}"
        unsigned = signer_finding("receipt", receipt, self._grounds.domain, signature, self._signer, what)
        if unsigned is not None:
            yield unsigned
            return
        yield from self._contradictions(receipt, names_leaf)

    def _read(self, value: JsonValue) -> tuple[CallReceipt | None, bytes, bool]:
        """The receipt; None where neither it nor the package has its leaf."""
        receipt = members(value, "index", "charge", "signature")
        index = count_of(receipt, "index")
        charge = parse_amount(receipt["charge"])
        signature = signature_of(receipt)
        leaf = bytes32(receipt["leaf"]) if "leaf" in receipt else None
        own = self._transcript.leaves.get(index)
        if leaf is None and own is None:
            return None, signature, False
        read = CallReceipt(self._channel_id, index, leaf or Bytes32(own or b""), charge)
        read.words()
        return read, signature, leaf is not None

    def _without_call(self, value: JsonValue) -> Iterator[Finding]:
        index = value.get("index") if isinstance(value, dict) else None
        if self._package.disclosed and isinstance(index, int) and index < self._package.call_count:
            self.hidden += 1
            return
        yield Finding(
            "receipt-call-unknown", f"The package has no call {index}, so its receipt shows nothing."
        )

    def _contradictions(self, receipt: CallReceipt, names_leaf: bool) -> Iterator[Finding]:
        index = receipt.index
        earlier = self.signed.setdefault(index, receipt)
        if earlier != receipt:
            yield Finding(
                "receipt-contradiction",
                f"{address_text(self._signer)} signed two receipts of call {index} with different leaf or "
                "charge: proof of double signing.",
            )
        anchor = self._grounds.anchor
        own = self._transcript.leaves.get(index)
        if anchor is not None and index >= anchor[1]:
            yield Finding(
                "receipt-beyond-anchored",
                f"{address_text(self._signer)} signed call {index}, but anchored only {anchor[1]} calls: "
                "proof that the anchored history omits it.",
            )
        elif own is None and not self._package.disclosed:
            yield Finding(
                "receipt-call-unknown", f"A call {index} was signed that the package does not have."
            )
        elif names_leaf and own is not None and own != receipt.leaf:
            yield Finding("receipt-leaf-mismatch", self._other_leaf(receipt))

    def _other_leaf(self, receipt: CallReceipt) -> str:
        said = (
            f"{address_text(self._signer)} signed leaf {to_hex(receipt.leaf)} for call {receipt.index}, "
            "which is not the call of this package"
        )
        anchor = self._grounds.anchor
        if anchor is not None and anchor == (self._transcript.root, len(self._transcript.leaves)):
            return f"{said}, yet anchored this package's history: proof of double signing."
        return f"{said}: the operator recorded another call, or the package was altered."
