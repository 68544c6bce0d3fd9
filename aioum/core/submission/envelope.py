"""A signed call as it travels (`payload.aioum`, PROTOCOL 6) and as packages keep it (PROTOCOL 7).

The rest of what is signed both sides know: the session, and the canonical request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.submission.chain import Submission, paid_session_id
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.core.submission.keys import SIGNATURE_SIZE_BYTES, SubmissionKey
from aioum.core.types import Bytes32, ChannelId

_NAME: Final = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")
_CODE: Final = "submission-malformed"
_MEMBERS: Final = frozenset({"seat", "submissionId", "cursor", "clientTime", "prevHead", "sig"})


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signed call without its request. Attributes as in `Submission`; `signature` has 64 bytes."""

    seat: str
    submission_id: str
    cursor: int
    client_time: int
    prev_head: Bytes32
    signature: bytes

    @classmethod
    def sign(
        cls,
        key: SubmissionKey,
        channel_id: ChannelId,
        request: bytes,
        *,
        seat: str,
        submission_id: str,
        cursor: int,
        client_time: int,
        prev_head: Bytes32,
    ) -> Envelope:
        """Sign the call with that canonical request.

        Raises:
            InvalidInput: `seat-invalid`, `submission-id-invalid`, or as `Submission.preimage`.
        """
        unsigned = cls(
            check_seat(seat), check_submission_id(submission_id), cursor, client_time, prev_head, b""
        )
        signature = unsigned.submission(channel_id, request).sign(key)
        return cls(seat, submission_id, cursor, client_time, prev_head, signature)

    def submission(self, channel_id: ChannelId, request: bytes) -> Submission:
        """What is signed: the call with that canonical request at index `cursor`."""
        return Submission(
            session_id=paid_session_id(channel_id),
            seat=self.seat,
            submission_id=self.submission_id,
            cursor=self.cursor,
            tick=self.cursor,
            client_time=self.client_time,
            command=request,
            prev_head=self.prev_head,
        )

    def to_json(self) -> dict[str, JsonValue]:
        """The six members."""
        return {
            "seat": self.seat,
            "submissionId": self.submission_id,
            "cursor": self.cursor,
            "clientTime": self.client_time,
            "prevHead": encode_base64(self.prev_head),
            "sig": encode_base64(self.signature),
        }

    @classmethod
    def from_json(cls, value: JsonValue) -> Envelope:
        """Read exactly the six members. Raises InvalidInput `submission-malformed`."""
        if not isinstance(value, dict) or value.keys() != _MEMBERS:
            raise InvalidInput(f"a signed call has exactly {', '.join(sorted(_MEMBERS))}", code=_CODE)
        return cls(
            _name(value["seat"], "seat", _CODE),
            _name(value["submissionId"], "submissionId", _CODE),
            _integer(value["cursor"], "cursor"),
            _integer(value["clientTime"], "clientTime"),
            Bytes32(decode_base64(value["prevHead"], 32, code=_CODE)),
            decode_base64(value["sig"], SIGNATURE_SIZE_BYTES, code=_CODE),
        )


def check_seat(seat: str) -> str:
    """Return a live seat's name as given. Raises InvalidInput `seat-invalid`."""
    return _name(seat, "seat", "seat-invalid")


def check_submission_id(submission_id: str) -> str:
    """Return an idempotency key as given. Raises InvalidInput `submission-id-invalid`."""
    return _name(submission_id, "submissionId", "submission-id-invalid")


def _name(value: JsonValue, name: str, code: str) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise InvalidInput(f"{name} must be 1 to 128 of A-Z a-z 0-9 _ . : @ -, got {value!r:.100}", code=code)


def _integer(value: JsonValue, name: str) -> int:
    if type(value) is int and 0 <= value <= MAX_SAFE_INTEGER:
        return value
    raise InvalidInput(f"{name} must be a whole number from 0 to 2^53-1, got {value!r:.40}", code=_CODE)
