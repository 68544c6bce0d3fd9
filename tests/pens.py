"""A client's seats as tests use them: each signs with a key of its own, one call on the other."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from Crypto.Signature import eddsa

from aioum.core.submission.chain import genesis, paid_session_id
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.keys import SubmissionKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.types import Bytes32, ChannelId

SEATS = ("client", "researcher")
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of Ed25519's prime-order group."""

_BASE = bytes.fromhex("58" + "66" * 31)

_numbers = itertools.count()


@cache
def key_of(seat: str) -> SubmissionKey:
    """The key that a seat has in every test."""
    return SubmissionKey(hashlib.sha256(b"seat of a test: " + seat.encode()).digest())


def roster_of(seats: Sequence[str] = SEATS) -> Roster:
    """A roster of these seats with their keys."""
    return Roster.of(*(RosterEntry(seat, key_of(seat).public_key) for seat in seats))


ROSTER = roster_of()


class Pen:
    """One seat of one session; `head` is where its next envelope continues."""

    def __init__(
        self,
        channel_id: ChannelId,
        seat: str = "client",
        *,
        roster: Roster = ROSTER,
        key: SubmissionKey | None = None,
    ) -> None:
        self.channel_id = channel_id
        self.seat = seat
        self.key = key or key_of(seat)
        self.head = genesis(paid_session_id(channel_id), seat, roster.hash)

    def draft(self, request: bytes, cursor: int, **changes: Any) -> Envelope:
        """A validly signed envelope on the head, or with other members; the head stays where it is."""
        members = {
            "seat": self.seat,
            "submission_id": f"s-{next(_numbers)}",
            "client_time": 1_800_000_000_000,
            "prev_head": self.head,
            **changes,
        }
        return Envelope.sign(self.key, self.channel_id, request, cursor=cursor, **members)

    def sign(self, request: bytes, cursor: int, **changes: Any) -> Envelope:
        """`draft`, and the head goes on."""
        envelope = self.draft(request, cursor, **changes)
        self.head = self.after(envelope, request)
        return envelope

    def after(self, envelope: Envelope, request: bytes) -> Bytes32:
        """The head after an envelope of this session."""
        return envelope.submission(self.channel_id, request).head()


def forged(envelope: Envelope) -> Envelope:
    """The same envelope with a signature that is none."""
    return replace(envelope, signature=bytes(64))


def signed_again(pen: Pen, envelope: Envelope, request: bytes) -> bytes:
    """Another valid signature of the same bytes: signers may choose another nonce than RFC 8032 does."""
    message = envelope.submission(pen.channel_id, request).preimage()
    secret = bytearray(hashlib.sha512(pen.key.seed()).digest()[:32])
    secret[0] &= 248
    secret[31] = secret[31] & 127 | 64
    nonce = 7
    point = eddsa.import_public_key(_BASE).pointQ * nonce
    encoded = (int(point.y) | (int(point.x) & 1) << 255).to_bytes(32, "little")
    challenge = int.from_bytes(hashlib.sha512(encoded + pen.key.public_key + message).digest(), "little")
    scalar = (nonce + challenge * int.from_bytes(secret, "little")) % ORDER
    return encoded + scalar.to_bytes(32, "little")
