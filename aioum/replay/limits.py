"""How large an artifact may be. Depth, identifiers and commands have the fixed limits of the scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Most of what a reader accepts.

    Attributes:
        artifact_bytes: the whole file. Reading takes up to about ten times that in memory.
        line_characters: one line; the first holds every level's definition.
        lines: lines after the header.
        seats: of a roster; each key takes about a millisecond to accept.
        problems: problems reported for one artifact; the reader stops after that many.
    """

    artifact_bytes: int = 256 * MIB
    line_characters: int = 16 * MIB
    lines: int = 1_000_000
    seats: int = 4_096
    problems: int = 20


DEFAULT_LIMITS: Final = Limits()
