"""Every durable step of a process, counted where it happens, so that none can be left out of a list.

A step is whatever outlives `kill -9`: a commit of SQLite, a row written outside a transaction, a flushed or
renamed file, a transaction handed to the chain. Each is two points to die at: just before it and just after.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Final, Literal

from aioum.chain.rpc import Rpc

_WRITE: Final = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|REPLACE)\b(?:\s+OR\s+\w+)?(?:\s+INTO|\s+FROM)?\s+(\w+)", re.I
)


class Countdown:
    """Ends the process at the given point.

    Args:
        point: which one, counted from 1 while lit.
        tell: told what the point is, before the end.
    """

    def __init__(self, point: int, tell: Callable[[str], Any]) -> None:
        self._left = point
        self._tell = tell
        self._lock = threading.Lock()
        self.lit = False

    def reach(self, point: str) -> None:
        """Count a point; the one that was asked for is the last."""
        with self._lock:
            if not self.lit:
                return
            self._left -= 1
            if self._left == 0:
                self._tell(point)
                os.kill(os.getpid(), signal.SIGKILL)


class _WatchedConnection(sqlite3.Connection):
    """Counts what becomes durable, and knows by the statements what it was."""

    countdown: Countdown
    _changes: list[str]

    def execute(self, sql: str, /, *arguments: Any) -> sqlite3.Cursor:
        if sql.startswith("BEGIN"):
            self._changes = []
        if sql == "COMMIT" and self._changes:
            return self._step(", ".join(dict.fromkeys(self._changes)), sql, *arguments)
        if (change := _change(sql)) is not None:
            if not self.in_transaction:
                return self._step(change, sql, *arguments)
            self._changes.append(change)
        return super().execute(sql, *arguments)

    def executemany(self, sql: str, /, *arguments: Any) -> sqlite3.Cursor:
        if (change := _change(sql)) is not None:
            self._changes.append(change)
        return super().executemany(sql, *arguments)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Literal[False]:
        if kind is None and self.in_transaction and self._changes:
            # What a `with` block ends with commits out of sight.
            self.execute("COMMIT")
        return super().__exit__(kind, error, trace)

    def _step(self, changes: str, sql: str, *arguments: Any) -> sqlite3.Cursor:
        self.countdown.reach(f"before commit of {changes}")
        done = super().execute(sql, *arguments)
        self.countdown.reach(f"after commit of {changes}")
        return done


def _change(sql: str) -> str | None:
    """What a statement writes, such as `insert calls`; None where it only reads."""
    found = _WRITE.match(sql)
    return None if found is None else f"{found[1].lower()} {found[2]}"


def watch(countdown: Countdown) -> None:
    """Count this process's durable steps from now on; what they do stays as it is."""
    connection = type("WatchedConnection", (_WatchedConnection,), {"countdown": countdown, "_changes": []})
    sqlite3.connect = functools.partial(sqlite3.connect, factory=connection)  # type: ignore[assignment]
    for name in ("fsync", "fdatasync", "replace", "rename"):
        setattr(os, name, _between(getattr(os, name), name, countdown))

    broadcast: Callable[..., Any] = Rpc.broadcast

    async def watched(*arguments: Any, **named: Any) -> Any:
        countdown.reach("before broadcast")
        sent = await broadcast(*arguments, **named)
        countdown.reach("after broadcast")
        return sent

    Rpc.broadcast = watched  # type: ignore[method-assign]


def _between(original: Callable[..., Any], name: str, countdown: Countdown) -> Callable[..., Any]:
    @functools.wraps(original)
    def between(*arguments: Any, **named: Any) -> Any:
        countdown.reach(f"before {name}")
        done = original(*arguments, **named)
        countdown.reach(f"after {name}")
        return done

    return between
