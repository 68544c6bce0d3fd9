"""Whether recorded actions are what a game's pure mappings give for the signed commands (SUBMISSIONS 2.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aioum.core.submission.canonical import canonical_json
from aioum.replay.facts import Lane, Semantics, place
from aioum.replay.game import Game, SubmissionContext, TimeoutContext
from aioum.replay.model import (
    CAUSE_TIMEOUT,
    Action,
    Artifact,
    CommitMismatch,
    Input,
    Integrity,
    Interaction,
    JsonObject,
    Record,
    Resolution,
    Timeout,
)
from aioum.replay.problems import Problem

OUT_OF_RESOURCES: Final = (MemoryError, RecursionError)
"""What a game's code raises without saying anything about the artifact."""


def check_semantics(artifact: Artifact, game: Game, *, ungrouped: bool) -> Semantics:
    """Map every signed command and every timeout, and compare.

    Args:
        artifact: an artifact whose form is right.
        game: its mappings; a missing one makes its lane `unavailable`.
        ungrouped: also look at artifacts of actions only, which the format's own tools leave out.
    """
    check = _Check(artifact, game)
    if artifact.is_grouped or ungrouped:
        for line in artifact.lines:
            check.take(line)
    for timeout, resolution in answered_timeouts(artifact):
        check.take_timeout(timeout, resolution)
    return check.result()


def answered_timeouts(artifact: Artifact) -> Iterator[tuple[Timeout, Resolution]]:
    """The timeout records that a step by timeout follows, before any other of their level, with that step."""
    waiting: Timeout | None = None
    for line in artifact.lines:
        match line:
            case Timeout():
                waiting = line
            case Resolution():
                same_level = waiting is not None and waiting.level_index == line.level_index
                if waiting is not None and same_level and line.cause == CAUSE_TIMEOUT:
                    yield waiting, line
                waiting = None
            case CommitMismatch():
                waiting = None
            case _:
                pass


class _Check:
    def __init__(self, artifact: Artifact, game: Game) -> None:
        self._header = artifact.header
        self._game = game
        self._problems: list[Problem] = []
        self._submissions = Lane.NOT_APPLICABLE
        self._timeouts = Lane.NOT_APPLICABLE

    def take(self, line: Record) -> None:
        match line:
            case Resolution():
                for index, each in enumerate(line.inputs):
                    self._take_input(each, line.tick, place(line, index))
            case Action():
                self._take_input(line.input, line.tick or 0, place(line))
            case CommitMismatch():
                self._take_mismatch(line)
            case Interaction():
                # Running the artifact again checks what it does; here it only has to be possible.
                possible = self._game.interact is not None
                self._submissions = _worse(self._submissions, Lane.VERIFIED if possible else Lane.UNAVAILABLE)
            case _:
                pass

    def take_timeout(self, timeout: Timeout, resolution: Resolution) -> None:
        mapping, system = self._game.timeout_to_action, resolution.system_input
        if mapping is None or system is None:
            self._timeouts = _worse(self._timeouts, Lane.UNAVAILABLE)
            return
        level = self._header.levels[timeout.level_index]
        context = TimeoutContext(
            self._header.session_id,
            self._header.game,
            level.id,
            level.version,
            level.level,
            level.seed,
            timeout.participant_id,
            timeout.window_ref,
        )
        where = place(timeout)
        try:
            same = canonical_json(mapping(context, timeout.json)) == canonical_json(system.action())
        except OUT_OF_RESOURCES:
            raise
        except Exception as error:
            self._timeouts = self._failed("mapping-failed", _told(error), where)
        else:
            if same:
                self._timeouts = _worse(self._timeouts, Lane.VERIFIED)
            else:
                message = "the timeout maps to another action than the system took"
                self._timeouts = self._failed("timeout-maps-differently", message, where)

    def result(self) -> Semantics:
        return Semantics(self._submissions, self._timeouts, tuple(self._problems))

    def _take_input(self, given: Input, tick: int, where: str) -> None:
        if given.seat is None or given.integrity is None:
            return
        mapped = self._mapped(given.integrity, given.seat, tick, where)
        if mapped is None:
            return
        if mapped.get("seat") is None:
            mapped = {**mapped, "seat": given.seat}
        message = "the command maps to another action than the recorded one"
        self._compare(mapped, given.action(), "command-maps-differently", message, where)

    def _take_mismatch(self, line: CommitMismatch) -> None:
        if line.integrity is None or line.attempted_reveal is None:
            return
        where = place(line)
        mapped = self._mapped(line.integrity, line.participant_id, line.tick, where)
        if mapped is None:
            return
        attempted = line.json["attemptedReveal"]
        recorded = {
            "commitmentId": line.commitment_id,
            "salt": attempted["salt"],
            "payload": attempted["payload"],
        }
        message = "the command maps to another reveal than the recorded one"
        self._compare(mapped.get("reveal"), recorded, "reveal-maps-differently", message, where)

    def _mapped(self, integrity: Integrity, seat: str, tick: int, where: str) -> JsonObject | None:
        mapping = self._game.command_to_action
        if mapping is None:
            self._submissions = _worse(self._submissions, Lane.UNAVAILABLE)
            return None
        context = SubmissionContext(
            self._header.session_id, tick, integrity.cursor, seat, integrity.submission_id
        )
        try:
            mapped: Any = mapping(integrity.command_value, context)
        except OUT_OF_RESOURCES:
            raise
        except Exception as error:
            self._submissions = self._failed("mapping-failed", _told(error), where)
            return None
        if not isinstance(mapped, dict):
            message = f"the mapping gave {type(mapped).__name__}, expected an action"
            self._submissions = self._failed("mapping-failed", message, where)
            return None
        return mapped

    def _compare(self, mapped: Any, recorded: JsonObject, code: str, message: str, where: str) -> None:
        try:
            same = canonical_json(mapped) == canonical_json(recorded)
        except OUT_OF_RESOURCES:
            raise
        except Exception as error:
            self._submissions = self._failed("mapping-failed", _told(error), where)
            return
        if same:
            self._submissions = _worse(self._submissions, Lane.VERIFIED)
        else:
            self._submissions = self._failed(code, message, where)

    def _failed(self, code: str, message: str, where: str) -> Lane:
        self._problems.append(Problem(code, message, where))
        return Lane.FAILED


_ORDER: Final = (Lane.NOT_APPLICABLE, Lane.VERIFIED, Lane.UNAVAILABLE, Lane.FAILED)


def _worse(one: Lane, other: Lane) -> Lane:
    return max(one, other, key=_ORDER.index)


def _told(error: Exception) -> str:
    return f"the mapping failed: {type(error).__name__}: {error}"
