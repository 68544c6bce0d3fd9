"""Rosters: which seats may submit, with which keys. A roster's hash is in every seat's genesis."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.framing import decode_base64, encode_base64, text
from aioum.core.submission.keys import KEY_SIZE_BYTES
from aioum.core.types import Bytes32

ALGORITHM: Final = "Ed25519"
DIRECT_TIER: Final = 1
"""Signing tier of paid seats: every submission carries its own signature."""

_CODE: Final = "roster-invalid"


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """A seat.

    Attributes:
        id: the seat's name.
        public_key: 32 bytes, not yet accepted (`VerifyingKey`).
        tier: N, the most ticks that a submission may wait for a signature over its head; 1 to 2^53-1.
    """

    id: str
    public_key: bytes
    tier: int = DIRECT_TIER

    def to_json(self) -> dict[str, JsonValue]:
        """The four members that are hashed."""
        return {
            "id": self.id,
            "publicKey": encode_base64(self.public_key),
            "alg": ALGORITHM,
            "signingTier": {"N": self.tier},
        }

    @classmethod
    def from_json(cls, value: JsonValue) -> RosterEntry:
        """Read exactly the four members. Raises InvalidInput `roster-invalid`."""
        if not isinstance(value, dict) or value.keys() != {"id", "publicKey", "alg", "signingTier"}:
            raise InvalidInput("a roster entry has exactly id, publicKey, alg and signingTier", code=_CODE)
        tier = value["signingTier"]
        if not isinstance(tier, dict) or tier.keys() != {"N"}:
            raise InvalidInput("a signing tier has exactly the member N", code=_CODE)
        seat, size = value["id"], tier["N"]
        if not isinstance(seat, str) or value["alg"] != ALGORITHM:
            raise InvalidInput(f"a seat has a textual id and the algorithm {ALGORITHM}", code=_CODE)
        if type(size) is not int:
            raise InvalidInput("N must be a whole number", code=_CODE)
        return cls(seat, decode_base64(value["publicKey"], KEY_SIZE_BYTES, code=_CODE), size)


@dataclass(frozen=True)
class Roster:
    """Seats with distinct ids, at least one, in the order given; the order does not enter the hash.

    Raises:
        InvalidInput: `roster-invalid`.
    """

    entries: tuple[RosterEntry, ...]

    def __post_init__(self) -> None:
        """Check what every reader relies on."""
        if not self.entries:
            raise InvalidInput("a roster has at least one seat", code=_CODE)
        if len(self._by_seat) != len(self.entries):
            raise InvalidInput("a seat stands in the roster twice", code=_CODE)
        for entry in self.entries:
            try:
                text(entry.id, "a seat's id")
            except InvalidInput as error:
                raise InvalidInput(str(error), code=_CODE) from error
            if len(entry.public_key) != KEY_SIZE_BYTES or not 1 <= entry.tier <= MAX_SAFE_INTEGER:
                raise InvalidInput(
                    f"a seat has a key of {KEY_SIZE_BYTES} bytes and N from 1 to 2^53-1", code=_CODE
                )

    @classmethod
    def of(cls, *entries: RosterEntry) -> Roster:
        """A roster of these seats."""
        return cls(entries)

    @classmethod
    def from_json(cls, value: JsonValue, *, max_seats: int | None = None) -> Roster:
        """Read a list of entries.

        Raises:
            InvalidInput: `roster-invalid`, also above `max_seats`.
        """
        if not isinstance(value, list):
            raise InvalidInput("a roster is a list of seats", code=_CODE)
        if max_seats is not None and len(value) > max_seats:
            raise InvalidInput(f"a roster of {len(value)} seats, at most {max_seats} are taken", code=_CODE)
        return cls(tuple(RosterEntry.from_json(item) for item in value))

    def to_json(self) -> list[JsonValue]:
        """The entries, in order."""
        return [entry.to_json() for entry in self.entries]

    @cached_property
    def hash(self) -> Bytes32:
        """SHA-256 of the canonical JSON of the entries, sorted by id in code-point order."""
        ordered: list[JsonValue] = [self._by_seat[seat].to_json() for seat in sorted(self._by_seat)]
        return Bytes32(hashlib.sha256(canonical_json(ordered)).digest())

    @property
    def seats(self) -> tuple[str, ...]:
        """The ids, in order."""
        return tuple(entry.id for entry in self.entries)

    def entry(self, seat: str) -> RosterEntry | None:
        """The seat of that name, or None."""
        return self._by_seat.get(seat)

    @cached_property
    def _by_seat(self) -> dict[str, RosterEntry]:
        return {entry.id: entry for entry in self.entries}
