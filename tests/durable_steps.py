"""Every durable step of a process, counted where it happens, so that none can be left out of a list.

A step is whatever outlives `kill -9`: a commit of SQLite or PostgreSQL, a row written outside a transaction,
a flushed or renamed file, a transaction handed to the chain. Each is two points to die at: just before it and
just after.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import asyncpg

from aioum.chain.rpc import Rpc

# Of what PRAGMA sets, these are kept in the file for those who read it later.
_WRITE: Final = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|REPLACE|COPY|CREATE|ALTER|DROP|PRAGMA(?=\s+(?:application_id|user_version)\s*=))\b"
    r"(?:\s+(?:OR\s+\w+|INTO|FROM|UNIQUE|TABLE|INDEX|VIEW|SCHEMA|IF|NOT|EXISTS)\b)*\s+(\w+)",
    re.I,
)


class Countdown:
    """Ends the process at the given point.

    Args:
        point: which one, counted from 1 while lit.
        tell: told what the point is, before the end.

    Attributes:
        reached: the points that were come to, in order.
    """

    def __init__(self, point: int, tell: Callable[[str], Any]) -> None:
        self._left = point
        self._tell = tell
        self._lock = threading.Lock()
        self.lit = False
        self.reached: list[str] = []

    def reach(self, point: str) -> None:
        """Count a point; the one that was asked for is the last."""
        with self._lock:
            if not self.lit:
                return
            self.reached.append(point)
            self._left -= 1
            if self._left == 0:
                self._tell(point)
                os.kill(os.getpid(), signal.SIGKILL)


class _Changes:
    """What a connection wrote since its last commit, known by the statements."""

    def __init__(self, countdown: Countdown) -> None:
        self._countdown = countdown
        self._changes: list[str] = []

    @contextmanager
    def running(self, sql: str, *, in_transaction: bool) -> Iterator[None]:
        """Around a statement: a step where it makes something durable."""
        if sql.startswith("BEGIN") or sql.rstrip(";") == "ROLLBACK":
            self._changes = []
        if (change := _change(sql)) is not None:
            self._changes.append(change)
        if not self._changes or (in_transaction and not sql.startswith("COMMIT")):
            yield
            return
        changes = ", ".join(dict.fromkeys(self._changes))
        self._changes = []
        self._countdown.reach(f"before commit of {changes}")
        yield
        self._countdown.reach(f"after commit of {changes}")


def _change(sql: str) -> str | None:
    """What a statement writes, such as `insert calls`; None where it only reads."""
    found = _WRITE.match(sql)
    return None if found is None else f"{found[1].lower()} {found[2]}"


class _WatchedSqlite(sqlite3.Connection):
    countdown: Countdown

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._changes = _Changes(self.countdown)

    def execute(self, sql: str, /, *arguments: Any) -> sqlite3.Cursor:
        with self._changes.running(sql, in_transaction=self.in_transaction):
            return super().execute(sql, *arguments)

    def executemany(self, sql: str, /, *arguments: Any) -> sqlite3.Cursor:
        with self._changes.running(sql, in_transaction=self.in_transaction):
            return super().executemany(sql, *arguments)

    def executescript(self, sql: str, /) -> sqlite3.Cursor:
        with self._changes.running(sql, in_transaction=False):
            return super().executescript(sql)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Literal[False]:
        if kind is None and self.in_transaction:
            # What a `with` block ends with commits out of sight.
            self.execute("COMMIT")
        return super().__exit__(kind, error, trace)


def _watched(name: str, statement: str = "{}") -> Any:
    """The method of that name, watched. Args: statement: what its first argument says in SQL."""

    async def watched(self: _WatchedPostgres, first: str, /, *arguments: Any, **named: Any) -> Any:
        with self.changes.running(statement.format(first), in_transaction=self.is_in_transaction()):
            return await getattr(super(_WatchedPostgres, self), name)(first, *arguments, **named)

    return watched


class _WatchedPostgres(asyncpg.Connection):
    countdown: Countdown

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.changes = _Changes(self.countdown)

    # A transaction's COMMIT is executed like any statement.
    execute = _watched("execute")
    executemany = _watched("executemany")
    fetch = _watched("fetch")
    fetchrow = _watched("fetchrow")
    fetchval = _watched("fetchval")
    copy_records_to_table = _watched("copy_records_to_table", "COPY {}")


def watch(countdown: Countdown) -> None:
    """Count this process's durable steps from now on; what they do stays as it is."""
    sqlite = type("WatchedSqlite", (_WatchedSqlite,), {"countdown": countdown})
    sqlite3.connect = functools.partial(sqlite3.connect, factory=sqlite)  # type: ignore[assignment]
    postgres = type("WatchedPostgres", (_WatchedPostgres,), {"countdown": countdown})
    asyncpg.create_pool = functools.partial(asyncpg.create_pool, connection_class=postgres)
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
