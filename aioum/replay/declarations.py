"""What the first line of an artifact declares: game, seats, levels and how they ended (SUBMISSIONS 1.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aioum.core.submission.roster import Roster

JsonObject: TypeAlias = "dict[str, Any]"
"""A JSON object as parsed. Typed loosely, so that members the reader has checked need no second check."""

FORMAT: Final = "gaos.replay"
VERSIONS: Final = ("1.0", "1.1", "1.2", "1.3", "1.4")
WRITTEN_VERSION: Final = "1.3"


@dataclass(frozen=True, slots=True)
class Reference:
    """The name and version of a game or of its adapter."""

    id: str
    version: str


@dataclass(frozen=True, slots=True)
class LevelResult:
    """How a level is said to have ended.

    Attributes:
        status: `won`, `failed` or, from 1.3, `ended`.
        stars: any finite number; None where there are none, always with `ended`.
        actions_used: count of actions, from 0.
    """

    status: str
    stars: int | float | None
    actions_used: int
    json: JsonObject


@dataclass(frozen=True, slots=True)
class Level:
    """One level: its seed, its definition and its recorded result.

    Attributes:
        index: position in the header, from 0.
        id: unique in the artifact.
        version: text or number, or None where absent.
        seed: u32; checked against the derivation where the header declares one.
        level: the definition, opaque.
    """

    index: int
    id: str
    version: str | int | float | None
    seed: int
    level: Any
    result: LevelResult
    json: JsonObject


@dataclass(frozen=True, slots=True)
class Header:
    """The first line.

    Attributes:
        permutation: a bijection of 0 … n-1; wire action k is canonical action `permutation[k-1] + 1`.
        roster: the seats and keys, where 1.2 or later declares them together with the signature policy.
            None also for 1.1, whose `seatKeys` and `signaturePolicy` are opaque (see `json`).
        window_ticks: ticks after which an open window times out (`timeoutPolicy`), at least 1; None where 1.2
            or later declares no policy, and always before 1.2.
        visibility: `full`, `seat:<id>` or None where absent.
        extensions: opaque, empty where absent.
    """

    format_version: str
    session_id: str
    game: Reference
    adapter: Reference
    seed: int
    seed_policy: str
    permutation: tuple[int, ...]
    levels: tuple[Level, ...]
    total_stars: int | float
    total_actions_used: int
    roster: Roster | None
    window_ticks: int | None
    visibility: str | None
    extensions: JsonObject
    json: JsonObject

    @property
    def has_integrity(self) -> bool:
        """Whether signature fields have their checked meaning: version 1.2 or later."""
        return self.format_version >= "1.2"

    @property
    def is_seat_scoped(self) -> bool:
        """Whether the artifact shows what one seat saw, so that other seats' reveals may be left out."""
        return self.visibility is not None and self.visibility.startswith("seat:")
