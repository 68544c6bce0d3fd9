"""One thread that owns a SQLite connection and commits what waits together in one durable transaction.

A commit with `synchronous=FULL` costs a flush of the disk; sessions that write at the same moment share it.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from aioum.chain.sqlite_journal import BUSY_TIMEOUT_SECONDS, make_ready
from aioum.core.errors import AioumError

Result = TypeVar("Result")

_MAX_GROUP: Final = 256


class JournalError(AioumError):
    """The client's own record could not be read or written; nothing was sent after that."""

    default_code = "journal-failed"


@dataclass(slots=True)
class _Job:
    work: Callable[[sqlite3.Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = field(default=None)

    def resolve(self) -> None:
        # A canceled caller no longer listens; its write happened all the same.
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        job.resolve()


class SqliteWriter:
    """Runs functions on a connection, in order, each all or nothing; returns after the commit is durable."""

    def __init__(self, path: Path, prepare: Callable[[sqlite3.Connection], None]) -> None:
        """Args: path: the database file. prepare: brings the schema up to date."""
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._connection = self._connect(prepare)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="aioum-client-journal", daemon=True)
        self._thread.start()

    def _connect(self, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Vouchers and answers are nobody else's business; SQLite gives its other files the same mode.
            self._path.touch(mode=0o600)
            connection = sqlite3.connect(
                self._path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise JournalError(
                f"cannot open {self._path}: {error}", hint="check the data directory"
            ) from error
        try:
            connection.execute("PRAGMA foreign_keys=ON")
            make_ready(connection, prepare)
        except sqlite3.Error as error:
            connection.close()
            raise JournalError(f"cannot prepare {self._path}: {error}") from error
        return connection

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `work` in a transaction.

        Raises:
            JournalError: `journal-failed`, or `journal-closed`. What `work` itself raises comes through.
        """
        if self._closed:
            raise JournalError("the journal is closed", code="journal-closed")
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        self._jobs.put(job)
        result: Result = await job.future
        return result

    async def aclose(self) -> None:
        """Commit what waits, then close."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
            self._connection.close()

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            group: list[_Job] = []
            while job is not None:
                group.append(job)
                if len(group) == _MAX_GROUP:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            self._commit(group)
            # One wake-up for all jobs of a loop: each costs a write to its pipe.
            for loop in {done.loop for done in group}:
                try:
                    loop.call_soon_threadsafe(_resolve, [done for done in group if done.loop is loop])
                except RuntimeError:
                    # The loop is closed: nobody waits any more.
                    continue
            if job is None:
                return

    def _commit(self, group: list[_Job]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for job in group:
                self._work(job)
            # Durable from here on: a caller learns of its write only after this.
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            for job in group:
                job.error = JournalError(f"cannot write {self._path}: {error}", hint="check the disk")

    def _work(self, job: _Job) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError):
                # The file itself fails: nothing of the group can be relied on.
                raise
            broken = isinstance(error, sqlite3.IntegrityError)
            job.error = JournalError(f"{self._path} refuses a step: {error}") if broken else error
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")
