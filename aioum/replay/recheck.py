"""Running a recorded session again with a game's own rules (SUBMISSIONS 2.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aioum.replay.adapter import AdapterArtifact
from aioum.replay.facts import Profile, place
from aioum.replay.game import Game, Reducer, SubmissionContext, View
from aioum.replay.model import (
    Action,
    Artifact,
    Input,
    Interaction,
    JsonObject,
    Level,
    Record,
    Resolution,
)
from aioum.replay.problems import Problem
from aioum.replay.semantics import OUT_OF_RESOURCES, check_semantics

PLAYING: Final = "playing"


def recheck(artifact: AdapterArtifact, game: Game) -> JsonObject:
    """What `recheck_replay` returns for a game.

    Commitments need no game; the judge checks them itself.
    """
    parsed = artifact.parsed
    # Before the rules run, for they may change what they are handed.
    semantics = check_semantics(parsed, game, ungrouped=artifact.profile is Profile.PAID)
    run = _Run(parsed, game)
    for level, lines in _levels(parsed):
        run.level(level, lines)
    run.compare_totals()
    return {
        "ok": run.ok(),
        "problems": run.problems,
        "diagnostics": run.diagnostics,
        "semantics": {
            "submissions": semantics.submissions.value,
            "timeouts": semantics.timeouts.value,
            "problems": semantics.problems,
        },
        "replayed": run.replayed(),
    }


def _levels(artifact: Artifact) -> Iterator[tuple[Level, list[Record]]]:
    lines: list[list[Record]] = [[] for _ in artifact.header.levels]
    for line in artifact.lines:
        lines[line.level_index].append(line)
    return zip(artifact.header.levels, lines, strict=True)


class _Unknown(Exception):
    """The game lacks a function that the artifact needs; that says nothing about the artifact."""


class _Run:
    def __init__(self, artifact: Artifact, game: Game) -> None:
        self.problems: list[Problem] = []
        self.diagnostics: list[Problem] = []
        self._header = artifact.header
        self._game = game
        self._views: list[View] = []

    def ok(self) -> bool | None:
        if self.problems:
            return False
        return None if len(self._views) < len(self._header.levels) else True

    def level(self, level: Level, lines: list[Record]) -> None:
        where = f"level {level.index}"
        rules = self._game.rules_of(self._header, level)
        if rules is None:
            adapter = self._header.adapter
            message = f"no rules for {adapter.id} {adapter.version}"
            self.diagnostics.append(Problem("reducer-missing", message, where))
            return
        try:
            view = self._replay(rules, level, lines)
        except _Unknown as error:
            self.diagnostics.append(Problem("interaction-unsupported", str(error), where))
            return
        except OUT_OF_RESOURCES:
            raise
        except Exception as error:
            message = f"the rules failed: {type(error).__name__}: {error}"
            self._problem("reducer-rejected", message, where)
            return
        self._views.append(view)
        recorded = level.result
        self._compare("status-mismatch", "status", recorded.status, view.status, where)
        self._compare("stars-mismatch", "stars", recorded.stars, view.stars, where)
        self._compare("actions-used-mismatch", "actionsUsed", recorded.actions_used, view.actions_used, where)

    def compare_totals(self) -> None:
        if len(self._views) < len(self._header.levels):
            return
        totals = self.replayed()
        for name, recorded in (
            ("totalStars", self._header.total_stars),
            ("totalActionsUsed", self._header.total_actions_used),
        ):
            self._compare("totals-mismatch", name, recorded, totals[name], "header.totals")

    def replayed(self) -> JsonObject:
        return {
            "statuses": [view.status for view in self._views],
            "totalStars": sum(view.stars or 0 for view in self._views if view.status == "won"),
            "totalActionsUsed": sum(view.actions_used for view in self._views),
        }

    def _replay(self, rules: Reducer, level: Level, lines: list[Record]) -> View:
        state = rules.init(level.level, level.seed)
        steps = 0
        for line in lines:
            match line:
                case Resolution() | Action():
                    where = place(line)
                    if rules.view(state).status != PLAYING:
                        self._problem("after-terminal", "a step after the level was over", where)
                        break
                    inputs = line.inputs if isinstance(line, Resolution) else (line.input,)
                    try:
                        state = rules.advance(state, [_as_played(each) for each in inputs])
                    except OUT_OF_RESOURCES:
                        raise
                    except Exception as error:
                        message = f"the rules refuse the step: {type(error).__name__}: {error}"
                        self._problem("reducer-rejected", message, where)
                        break
                    steps += 1
                case Interaction():
                    state = self._interact(state, line, steps)
                case _:
                    pass
        return rules.view(state)

    def _interact(self, state: Any, line: Interaction, steps: int) -> Any:
        where = place(line)
        if line.integrity.cursor != steps:
            message = f"cursor {line.integrity.cursor} after {steps} steps"
            self._problem("interaction-cursor", message, where)
            return state
        if self._game.interact is None:
            raise _Unknown(f"{where} is an interaction, which the game has no function for")
        context = SubmissionContext(
            self._header.session_id,
            line.tick,
            line.integrity.cursor,
            line.participant_id,
            line.integrity.submission_id,
        )
        try:
            return self._game.interact(state, line.command, context)
        except OUT_OF_RESOURCES:
            raise
        except Exception as error:
            message = f"the game refuses the interaction: {type(error).__name__}: {error}"
            self._problem("interaction-rejected", message, where)
            return state

    def _compare(self, code: str, name: str, recorded: Any, replayed: Any, where: str) -> None:
        if recorded != replayed:
            self._problem(code, f"{name} is recorded as {recorded}, the run gave {replayed}", where)

    def _problem(self, code: str, message: str, where: str) -> None:
        self.problems.append(Problem(code, message, where))


def _as_played(given: Input) -> JsonObject:
    action = given.action()
    if given.reveal is not None:
        # What a reveal opens is what was hashed, never what the artifact says beside it.
        action["verifiedPayload"] = given.reveal.payload
    return action
