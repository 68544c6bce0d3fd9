"""The seats of a signed session and their heads: whose turn it is, and after what (PROTOCOL 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.errors import Refused
from aioum.core.submission.chain import Submission, genesis, paid_session_id
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import encode_base64
from aioum.core.submission.roster import Roster
from aioum.core.types import Bytes32, ChannelId


@dataclass(frozen=True, slots=True)
class SeatHead:
    """A seat, and the hash of everything it asked so far: its genesis at first."""

    seat: str
    head: Bytes32


@dataclass(frozen=True, slots=True)
class Seats:
    """One head per seat of the roster, in its order; none until the roster was shown."""

    heads: tuple[SeatHead, ...] = ()

    @classmethod
    def at_genesis(cls, channel_id: ChannelId, roster: Roster) -> Seats:
        """The seats of a session that nothing was asked in."""
        session_id = paid_session_id(channel_id)
        return cls(tuple(SeatHead(seat, genesis(session_id, seat, roster.hash)) for seat in roster.seats))

    def head(self, seat: str) -> Bytes32 | None:
        """The seat's head, or None for a seat that is not in the roster."""
        return next((item.head for item in self.heads if item.seat == seat), None)

    def after(self, submission: Submission) -> Seats:
        """The seats once `submission` was admitted."""
        moved = SeatHead(submission.seat, submission.head())
        return Seats(tuple(moved if item.seat == moved.seat else item for item in self.heads))

    def require_turn(self, envelope: Envelope, index: int) -> None:
        """Whether an envelope is its seat's next; its signature does not matter here.

        Args:
            envelope: of a new call.
            index: the session's next call index.

        Raises:
            Refused: `roster-required`, nobody has shown the roster yet; `seat-unknown`; `cursor-out-of-order`
                or `head-mismatch`, as `out_of_turn`.
        """
        if not self.heads:
            raise Refused(
                "the node does not have the session's roster yet",
                code="roster-required",
                hint="present it with the action open",
            )
        head = self.head(envelope.seat)
        if head is None:
            raise Refused(f"the roster has no seat {envelope.seat}", code="seat-unknown")
        if envelope.cursor != index:
            message = f"expected call index {index}, got {envelope.cursor}"
            raise self.out_of_turn(envelope, index, message, code="cursor-out-of-order")
        if envelope.prev_head != head:
            message = f"the envelope does not continue the head of seat {envelope.seat}"
            raise self.out_of_turn(envelope, index, message, code="head-mismatch")

    def out_of_turn(self, envelope: Envelope, index: int, message: str, *, code: str) -> Refused:
        """A refusal with what was expected: `expectedIndex`, and `expectedHead` (base64) of the seat."""
        details: dict[str, int | str] = {"expectedIndex": index}
        if (head := self.head(envelope.seat)) is not None:
            details["expectedHead"] = encode_base64(head)
        return Refused(message, code=code, details=details)


NO_SEATS: Final = Seats()


def require_kind(envelope: Envelope | None, *, signed: bool) -> None:
    """Hold a call's form against its session's.

    Raises:
        Refused: `signature-required`, an unsigned call of a signed session; `session-unsigned`, the reverse.
    """
    if signed and envelope is None:
        raise Refused(
            "the session was opened with a roster, so each of its calls is signed by a seat",
            code="signature-required",
        )
    if envelope is not None and not signed:
        raise Refused(
            "the session was opened without a roster, so its calls carry no submission",
            code="session-unsigned",
        )
