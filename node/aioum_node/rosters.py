"""Rosters as a node takes them: whose hash the chain has, whose seats may sign, whose keys are sound."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from aioum.core.errors import InvalidInput, Refused
from aioum.core.hextext import to_hex
from aioum.core.submission.envelope import check_seat
from aioum.core.submission.keys import VerifyingKey
from aioum.core.submission.roster import Roster
from aioum.core.types import Bytes32

_KEPT_KEYS: Final = 16_384

SeatKeys = Mapping[str, VerifyingKey]
"""Accepted keys by seat."""


def require_roster(roster: Roster, roster_hash: Bytes32) -> None:
    """Hold a roster against what its session was opened with.

    Raises:
        Refused: `roster-unexpected`, the session is unsigned; `roster-mismatch`.
        InvalidInput: `roster-invalid`, a seat's name is none that a paid session takes.
    """
    if not any(roster_hash):
        raise Refused("the session was opened without a roster", code="roster-unexpected")
    if roster.hash != roster_hash:
        raise Refused(
            f"the roster hashes to {to_hex(roster.hash)}, the session was opened with {to_hex(roster_hash)}",
            code="roster-mismatch",
        )
    for seat in roster.seats:
        try:
            check_seat(seat)
        except InvalidInput as error:
            raise InvalidInput(str(error), code="roster-invalid") from error


def accepted_keys(roster: Roster) -> SeatKeys:
    """The keys of a roster's seats. Takes a millisecond for each that was not seen before.

    Raises:
        SignatureInvalid: `submission-key-invalid`, one of them is weak or no key.
    """
    return {entry.id: _accepted(entry.public_key) for entry in roster.entries}


# A key is accepted once, whatever sessions it signs in. One that is refused is not remembered.
_accepted = lru_cache(maxsize=_KEPT_KEYS)(VerifyingKey)
