"""Submissions and their chain: each signs what was asked and the head of everything its seat asked before."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from aioum.core.errors import InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.submission.framing import MAX_COMMAND_BYTES, PERIODIC, SCHEME, frame, text, u64
from aioum.core.submission.keys import SubmissionKey, VerifyingKey
from aioum.core.types import Bytes32, ChannelId

_SCHEME_FRAME: Final = frame(SCHEME.encode())
_PERIODIC_FRAME: Final = frame(PERIODIC.encode())


@dataclass(frozen=True, slots=True)
class Submission:
    """What a seat asks, and after what.

    Attributes:
        submission_id: the submitter's idempotency key.
        cursor: position; in a paid session the call's index.
        tick: time of the session; in a paid session the same.
        client_time: the submitter's clock, unix milliseconds; nothing relies on it.
        command: canonical bytes, at most 65,536; in a paid session the call's canonical request.
        prev_head: the seat's head before it, 32 bytes.
    """

    session_id: str
    seat: str
    submission_id: str
    cursor: int
    tick: int
    client_time: int
    command: bytes
    prev_head: Bytes32

    def preimage(self) -> bytes:
        """The bytes that are signed and hashed.

        Raises:
            InvalidInput: `submission-text-invalid`, `submission-integer-invalid`,
                `submission-command-too-large` or `submission-head-invalid`.
        """
        if len(self.command) > MAX_COMMAND_BYTES:
            raise InvalidInput(
                f"a command of {len(self.command)} bytes, at most {MAX_COMMAND_BYTES} are signed",
                code="submission-command-too-large",
            )
        return b"".join(
            (
                _SCHEME_FRAME,
                frame(text(self.session_id, "sessionId")),
                frame(text(self.seat, "seat")),
                frame(text(self.submission_id, "submissionId")),
                u64(self.cursor, "cursor"),
                u64(self.tick, "tick"),
                u64(self.client_time, "clientTime"),
                frame(self.command),
                frame(_head(self.prev_head)),
            )
        )

    def head(self) -> Bytes32:
        """The seat's head after it; signatures are not part of the chain. Raises as `preimage`."""
        return head_after(self.preimage())

    def sign(self, key: SubmissionKey) -> bytes:
        """The 64-byte signature. Raises as `preimage`."""
        return key.sign(self.preimage())

    def require_signed(self, signature: bytes, key: VerifyingKey) -> None:
        """Check the signature. Raises SignatureInvalid `bad-signature`, or as `preimage`."""
        key.verify(self.preimage(), signature)


@dataclass(frozen=True, slots=True)
class Periodic:
    """A seat's word on its current head. It is no submission and adds no link."""

    session_id: str
    seat: str
    tick: int
    client_time: int
    head: Bytes32

    def preimage(self) -> bytes:
        """The bytes that are signed. Raises InvalidInput as `Submission.preimage`."""
        return b"".join(
            (
                _PERIODIC_FRAME,
                frame(text(self.session_id, "sessionId")),
                frame(text(self.seat, "seat")),
                u64(self.tick, "tick"),
                u64(self.client_time, "clientTime"),
                frame(_head(self.head)),
            )
        )


def head_after(preimage: bytes) -> Bytes32:
    """The head after a submission, from its preimage."""
    return Bytes32(hashlib.sha256(preimage).digest())


def genesis(session_id: str, seat: str, roster_hash: Bytes32) -> Bytes32:
    """A seat's head before its first submission. Raises InvalidInput as `Submission.preimage`."""
    parts = (
        _SCHEME_FRAME,
        frame(text(session_id, "sessionId")),
        frame(text(seat, "seat")),
        frame(_head(roster_hash)),
    )
    return Bytes32(hashlib.sha256(b"".join(parts)).digest())


def paid_session_id(channel_id: ChannelId) -> str:
    """A paid session's id. The channel id binds terms and roster, so every signature covers them."""
    return f"aioum:{to_hex(channel_id)}"


def _head(value: bytes) -> bytes:
    if len(value) != 32:
        raise InvalidInput(f"a hash has 32 bytes, got {len(value)}", code="submission-head-invalid")
    return value
