"""Signatures of signers that need not give the same one twice: kept before they leave, given again later.

A local key signs deterministically, so its signatures are derived again (ADR 3). An external signer may use
fresh randomness each time; a retry would then carry other bytes than the first answer (PROTOCOL 6).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from aioum.chain.signers import Signer
from aioum.chain.sqlite_journal import BUSY_TIMEOUT_SECONDS, make_ready
from aioum.core.errors import AioumError, SignatureInvalid
from aioum.core.payment import Domain, SignedMessage
from aioum.core.signing import require_signer
from aioum.core.types import Address, ChannelId

SIGNATURES_FILE: Final = "signatures.sqlite3"

_log = structlog.get_logger(__name__)


class SignatureBookError(AioumError):
    """The signatures could not be read or written; none was given away."""

    default_code = "signature-book-failed"


@dataclass(frozen=True, slots=True)
class KeptSignature:
    """One signature: of which channel's message, by its digest, by whom."""

    channel_id: ChannelId
    digest: bytes
    signer: Address
    signature: bytes


class SignatureBook(Protocol):
    """Keeps the first signature of each message and signer."""

    async def kept(self, digest: bytes, signer: Address) -> bytes | None:
        """The signature that was kept."""
        ...

    async def keep(self, signed: KeptSignature, *, replace: bool = False) -> bytes:
        """Keep a signature, durably, and return the one that counts: the first one, unless it is replaced."""
        ...

    def forget(self, channel_id: ChannelId) -> None:
        """Remove a channel's signatures soon; nothing depends on it."""
        ...

    async def close(self) -> None:
        """Finish what is queued, and release what is held."""
        ...


@dataclass(slots=True)
class _Step:
    work: Callable[[sqlite3.Connection], Any]
    done: asyncio.Future[Any]


class SqliteSignatureBook:
    """Signatures in a SQLite file of their own (mode 0600); what is kept at the same time shares a commit."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises SignatureBookError."""
        self._path = path
        self._waiting: list[_Step] = []
        self._writing: asyncio.Task[None] | None = None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._failed(error) from error
        try:
            make_ready(self._connection, _migrate)
            path.chmod(0o600)
        except (OSError, sqlite3.Error) as error:
            self._connection.close()
            raise self._failed(error) from error

    async def kept(self, digest: bytes, signer: Address) -> bytes | None:
        """See `SignatureBook.kept`."""
        sql = "SELECT signature FROM signatures WHERE digest = ? AND signer = ?"
        row = await self._run(lambda connection: connection.execute(sql, (digest, signer)).fetchone())
        return None if row is None else bytes(row[0])

    async def keep(self, signed: KeptSignature, *, replace: bool = False) -> bytes:
        """See `SignatureBook.keep`."""
        verb = "REPLACE" if replace else "IGNORE"
        # S608: one of two words of our own.
        insert = (
            f"INSERT OR {verb} INTO signatures "  # noqa: S608
            "(digest, signer, channel_id, signature) VALUES (?, ?, ?, ?)"
        )
        sql = "SELECT signature FROM signatures WHERE digest = ? AND signer = ?"

        def work(connection: sqlite3.Connection) -> Any:
            connection.execute(insert, (signed.digest, signed.signer, signed.channel_id, signed.signature))
            return connection.execute(sql, (signed.digest, signed.signer)).fetchone()

        return bytes((await self._run(work))[0])

    def forget(self, channel_id: ChannelId) -> None:
        """See `SignatureBook.forget`."""
        sql = "DELETE FROM signatures WHERE channel_id = ?"
        # Nobody waits for it: what is left behind after a crash is never asked for again.
        _ = self._queue(lambda connection: connection.execute(sql, (channel_id,)).rowcount)

    async def close(self) -> None:
        """Finish what is queued and close the file."""
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])
        self._connection.close()

    async def _run(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        return await asyncio.shield(self._queue(work))

    def _queue(self, work: Callable[[sqlite3.Connection], Any]) -> asyncio.Future[Any]:
        step = _Step(work, asyncio.get_running_loop().create_future())
        # Whoever waited may have gone; a failure that nobody takes is no bug.
        step.done.add_done_callback(lambda done: done.exception())
        self._waiting.append(step)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return step.done

    async def _write(self) -> None:
        while self._waiting:
            steps, self._waiting = self._waiting, []
            try:
                results = await asyncio.to_thread(self._commit, [step.work for step in steps])
            except sqlite3.Error as error:
                failure = self._failed(error)
                for step in steps:
                    step.done.set_exception(failure)
            else:
                # Durable: nobody has heard of these signatures before.
                for step, result in zip(steps, results, strict=True):
                    step.done.set_result(result)

    def _commit(self, works: list[Callable[[sqlite3.Connection], Any]]) -> list[Any]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            results = [work(self._connection) for work in works]
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return results

    def _failed(self, error: Exception) -> SignatureBookError:
        # What the library says may name a path: it is for the log, the error may reach a client.
        _log.error("signature-book-failed", file=str(self._path), error=str(error))
        return SignatureBookError(
            "kept signatures could not be read or written", hint="check the disk and the folder's permissions"
        )


class KeepingSigner:
    """A signer whose signatures are kept: the same message always gets the same bytes."""

    def __init__(self, inner: Signer, book: SignatureBook, on_failure: Callable[[AioumError], None]) -> None:
        """Args: on_failure: told when the signer gave nothing."""
        self._inner = inner
        self._book = book
        self._on_failure = on_failure
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Signatures that the signer was asked for and has not given."""
        return self._waiting

    @property
    def address(self) -> Address:
        """The account."""
        return self._inner.address

    async def sign(self, message: SignedMessage, domain: Domain) -> bytes:
        """See `Signer.sign`.

        Raises:
            SignatureBookError, and as the signer.
        """
        digest = message.digest(domain)
        kept = await self._book.kept(digest, self.address)
        if kept is not None and self._is_good(kept, digest):
            return kept
        self._waiting += 1
        try:
            signature = await self._inner.sign(message, domain)
        except AioumError as error:
            self._on_failure(error)
            raise
        finally:
            self._waiting -= 1
        signed = KeptSignature(message.channel_id, digest, self.address, signature)
        return await self._book.keep(signed, replace=kept is not None)

    async def sign_transaction(self, fields: Mapping[str, Any]) -> bytes:
        """See `Signer.sign_transaction`; transactions are kept by their journal."""
        return await self._inner.sign_transaction(fields)

    def _is_good(self, signature: bytes, digest: bytes) -> bool:
        try:
            require_signer(digest, signature, self.address)
        except SignatureInvalid:
            # A bit of the file flipped. A client would take the answer for none, and ask for ever.
            _log.error("kept-signature-damaged", digest=digest.hex())
            return False
        return True


def _migrate(connection: sqlite3.Connection) -> None:
    from sqlite_utils import Database, Migrations

    migrations = Migrations("aioum-signatures")

    @migrations(name="0001_signatures")
    def create(database: Database) -> None:
        database.execute(
            """
            CREATE TABLE signatures (
                digest BLOB NOT NULL CHECK (length(digest) = 32),
                signer BLOB NOT NULL CHECK (length(signer) = 20),
                channel_id BLOB NOT NULL CHECK (length(channel_id) = 32),
                signature BLOB NOT NULL CHECK (length(signature) = 65),
                PRIMARY KEY (digest, signer)
            ) STRICT, WITHOUT ROWID
            """
        )
        database.execute("CREATE INDEX signatures_channel ON signatures (channel_id)")

    migrations.apply(Database(connection))
