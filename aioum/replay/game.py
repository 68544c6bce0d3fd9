"""For authors of adapters: hand in a game's own functions, get `recheck_replay` (docs/verify-run.md).

recheck_replay = Game(Counter(), command_to_action, timeout_to_action).recheck
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from aioum.replay.model import Header, JsonObject, Level, Reference


@dataclass(frozen=True, slots=True)
class View:
    """How a state looks from outside.

    Attributes:
        status: `playing` until the level is over, then `won`, `failed` or `ended`.
        stars: None where there are none.
    """

    status: str
    actions_used: int
    stars: int | float | None = None


class Reducer(Protocol):
    """A game's rules. States may be anything, and may be changed in place."""

    def init(self, level: Any, seed: int) -> Any:
        """The state in which a level starts; `level` is its definition, `seed` a u32."""
        ...

    def advance(self, state: Any, inputs: list[JsonObject]) -> Any:
        """The state after one step.

        Args:
            state: the one before.
            inputs: actions, each `{"id": "Action 1", …}` with those of `payload`, `x`, `y`, `index`,
                `boardId`, `zoneId`, `seat`, `targets`, `commit`, `reveal` and `verifiedPayload` that it has.

        Raises:
            Exception: the step is against the rules.
        """
        ...

    def view(self, state: Any) -> View:
        """How the state looks."""
        ...


@dataclass(frozen=True, slots=True)
class SubmissionContext:
    """Where a command was submitted."""

    session_id: str
    tick: int
    cursor: int
    participant_id: str
    submission_id: str


@dataclass(frozen=True, slots=True)
class TimeoutContext:
    """Which window timed out, and in which level.

    Attributes:
        level: the level's definition.
        seed: the level's seed, u32.
        participant_id: whose window it was, or None for everyone's.
        window_ref: the tick at which it was opened.
    """

    session_id: str
    game: Reference
    level_id: str
    level_version: str | int | float | None
    level: Any
    seed: int
    participant_id: str | None
    window_ref: int


CommandToAction: TypeAlias = Callable[[Any, SubmissionContext], JsonObject]
"""The action that a signed command stands for; the submitter's seat is filled in where it has none."""

TimeoutToAction: TypeAlias = Callable[[TimeoutContext, JsonObject], JsonObject]
"""The action of the system on a timeout; the second argument is the timeout record."""

Interact: TypeAlias = Callable[[Any, Any, SubmissionContext], Any]
"""The state after a command that takes no step (1.4), from the state before and the command."""

ReducerOfLevel: TypeAlias = Callable[[Header, Level], Reducer | None]
"""Picks the rules by game, version and level; None where the game does not know them."""


@dataclass(frozen=True, slots=True)
class Game:
    """A game's functions, of which all but the rules may be missing: what needs them is then unavailable.

    Attributes:
        reducer: the rules, the same for every level.
        reducer_of_level: picks the rules instead, where they differ by version or level.
    """

    reducer: Reducer | None = None
    command_to_action: CommandToAction | None = None
    timeout_to_action: TimeoutToAction | None = None
    interact: Interact | None = None
    reducer_of_level: ReducerOfLevel | None = None

    def rules_of(self, header: Header, level: Level) -> Reducer | None:
        """The rules of a level, or None."""
        if self.reducer_of_level is not None:
            return self.reducer_of_level(header, level)
        return self.reducer

    def recheck(self, artifact: Any) -> JsonObject:
        """What `recheck_replay(artifact)` has to return: run the artifact again and map its commands.

        Args:
            artifact: as `verify-run` hands it over (`AdapterArtifact`).
        """
        from aioum.replay.recheck import recheck

        return recheck(artifact, self)
