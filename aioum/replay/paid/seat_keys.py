"""The keys of a roster while signatures are checked one by one."""

from __future__ import annotations

from aioum.core.errors import SignatureInvalid
from aioum.core.submission.keys import VerifyingKey
from aioum.core.submission.roster import Roster


class SeatKeys:
    """The keys of a roster, each accepted once, at its first use."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._keys: dict[str, VerifyingKey | SignatureInvalid] = {}

    def verify(self, seat: str, message: bytes, signature: bytes) -> None:
        """Check a signature of a seat.

        Raises:
            SignatureInvalid: `bad-signature`, `submission-key-invalid` or `unknown-seat`.
        """
        entry = self._roster.entry(seat)
        if entry is None:
            raise SignatureInvalid(f"the seat {seat!r:.80} is not in the roster", code="unknown-seat")
        if seat not in self._keys:
            try:
                self._keys[seat] = VerifyingKey(entry.public_key)
            except SignatureInvalid as error:
                self._keys[seat] = error
        key = self._keys[seat]
        if isinstance(key, SignatureInvalid):
            raise key
        key.verify(message, signature)
