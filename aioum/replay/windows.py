"""What a host could add, move or leave out between signed submissions (SUBMISSIONS 2.9, B to F).

A level is a row of windows; each step closes one. The paid profile asks that every input is a submission or
the system's answer to a recorded timeout, and that each stands at the position that its submitter signed.
"""

from __future__ import annotations

from aioum.replay.facts import place
from aioum.replay.model import (
    CAUSE_TIMEOUT,
    Action,
    Artifact,
    Checkpoint,
    CommitMismatch,
    Extension,
    Input,
    Integrity,
    Interaction,
    Interest,
    Record,
    Resolution,
    Timeout,
)
from aioum.replay.problems import Problem


def check_windows(artifact: Artifact) -> tuple[Problem, ...]:
    """Check every input, position and timeout of an artifact that declares a roster."""
    check = _Check(artifact.header.window_ticks)
    for line in artifact.lines:
        check.take(line)
    return tuple(check.problems)


class _Check:
    def __init__(self, window_ticks: int | None) -> None:
        self.problems: list[Problem] = []
        self._window_ticks = window_ticks
        self._level_index = 0
        self._window = 0
        self._before: Record | None = None

    def take(self, line: Record) -> None:
        if line.level_index != self._level_index:
            self._level_index = line.level_index
            self._window = 0
            self._before = None
        match line:
            case Resolution():
                self._take_resolution(line)
                self._window += 1
            case Action():
                where = place(line)
                self._require_tick(line.tick or 0, where)
                self._take_input(line.input, None, where)
                self._window += 1
            case Timeout():
                if line.window_ref != self._window:
                    message = f"windowRef {line.window_ref}, the open window is {self._window}"
                    self._problem("timeout-window-wrong", message, place(line))
            case Interest() | Interaction() | CommitMismatch():
                where = place(line)
                self._require_tick(line.tick, where)
                if line.integrity is not None:
                    self._require_cursor(line.integrity, where)
            case _:
                pass
        if not isinstance(line, Checkpoint | Extension):
            self._before = line

    def _take_resolution(self, line: Resolution) -> None:
        where = place(line)
        system = None
        if line.cause == CAUSE_TIMEOUT:
            system = line.system_input
            if not isinstance(self._before, Timeout):
                message = "a step by timeout without its timeout record just before"
                self._problem("timeout-record-missing", message, where)
        self._require_tick(line.tick, where)
        for index, each in enumerate(line.inputs):
            if self._take_input(each, system, place(line, index)):
                system = None

    def _take_input(self, given: Input, system: Input | None, where: str) -> bool:
        """Check an input; say whether it is the system's, of which there is one."""
        if given.seat is not None and given.integrity is not None:
            self._require_cursor(given.integrity, where)
            return False
        if system is not None and given.json == system.json:
            return True
        self._problem("input-uncovered", "no seat's submission stands behind the input", where)
        return False

    def _require_tick(self, tick: int, where: str) -> None:
        if tick == self._window:
            return
        if self._window_ticks is not None and tick > self._window + self._window_ticks:
            message = (
                f"window {self._window} stayed open until tick {tick}, it times out after "
                f"{self._window_ticks} ticks"
            )
            self._problem("timeout-missing", message, where)
        else:
            self._problem("tick-not-position", f"tick {tick} in window {self._window}", where)

    def _require_cursor(self, integrity: Integrity, where: str) -> None:
        if integrity.cursor != self._window:
            message = f"cursor {integrity.cursor} in window {self._window}"
            self._problem("cursor-not-position", message, where)

    def _problem(self, code: str, message: str, where: str) -> None:
        self.problems.append(Problem(code, message, where))
