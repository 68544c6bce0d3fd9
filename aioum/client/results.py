"""What a call gives back."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.client.records import CallRecord
from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import OutcomeUnknown
from aioum.core.problem import problem_code
from aioum.core.wire import SignedReceipt


@dataclass(frozen=True, slots=True)
class CallResult:
    """The answer of one paid call, recorded by both sides.

    Attributes:
        index: position in the session.
        text: what the tool returned, or the problem document of a failed call.
        status: HTTP status that belongs to it.
        charge: what it cost, base units; 0 where the tool failed.
        receipt: the operator's signed word on it.
        seat: who asked, in a signed session; else None.
    """

    index: int
    text: str
    status: int
    charge: int
    receipt: SignedReceipt
    seat: str | None = None

    @classmethod
    def of(cls, record: CallRecord) -> CallResult:
        """The result of an answered call. Raises OutcomeUnknown `receipt-missing`."""
        entry, signed, envelope = record.entry(), record.receipt, record.envelope
        if signed is None:
            raise OutcomeUnknown(f"call {entry.index} has no receipt", code="receipt-missing")
        seat = None if envelope is None else envelope.seat
        return cls(entry.index, entry.response, record.status, signed.receipt.charge, signed, seat)

    @property
    def ok(self) -> bool:
        """Whether the tool answered. A failed call is recorded like any other and costs nothing."""
        return self.failure is None

    @property
    def failure(self) -> str | None:
        """The reason code of a failed call, or None."""
        return problem_code(self.text.encode())

    def json(self) -> JsonValue:
        """The text as JSON. Raises CanonicalError where it is none, or not strict."""
        return parse_json(self.text, max_bytes=max(1, len(self.text.encode())))
