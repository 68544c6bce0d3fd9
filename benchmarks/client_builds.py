"""The client's exchangeable parts in both builds; around them everything is the same."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from eth_account import Account

from aioum.client.sqlite_writer import SqliteWriter
from aioum.core.canonical import JsonValue
from aioum.core.errors import SignatureInvalid
from aioum.core.payment import Domain, SignedMessage
from aioum.core.purse import Outstanding, PurseState
from aioum.core.signing import require_signer
from aioum.core.transcript import canonical_request
from aioum.core.types import Address, ChannelId
from benchmarks.naive.edge import canonical_request_with_rfc8785
from benchmarks.naive.signatures import recover_with_eth_account, sign_with_eth_account
from benchmarks.naive.store import connect
from benchmarks.service import CLIENT

_SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS sessions (
        channel_id BLOB PRIMARY KEY, highest TEXT, spent TEXT, frontier BLOB
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS calls (
        channel_id BLOB, number INTEGER, tool_id TEXT, request BLOB, amount TEXT, signature BLOB,
        response BLOB, receipt TEXT, PRIMARY KEY (channel_id, number)
    )
    """,
)
_PUT_SESSION: Final = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)"
_PUT_CALL: Final = "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_ANSWER: Final = "UPDATE calls SET response = ?, receipt = ? WHERE channel_id = ? AND number = ?"

Work = Callable[[sqlite3.Connection], None]


class Writing(Protocol):
    """Runs work in a transaction and returns after it is durable."""

    async def run(self, work: Work) -> None:
        """Run it."""
        ...

    async def aclose(self) -> None:
        """Close."""
        ...


class CommitPerCall:
    """Plain sqlite3, off the event loop: one durable transaction for every piece of work."""

    def __init__(self, path: Path, prepare: Work, *, wal: bool) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._connection = connect(path, wal=wal)
        prepare(self._connection)

    async def run(self, work: Work) -> None:
        """Run it."""

        def step() -> None:
            with self._connection:
                work(self._connection)

        await asyncio.get_running_loop().run_in_executor(self._thread, step)

    async def aclose(self) -> None:
        """Close."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown()


class Journal:
    """The client's record of its calls: what SDK journals keep, in two tables."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    async def begin(
        self, channel_id: ChannelId, purse: PurseState, call: Outstanding, signature: bytes
    ) -> None:
        """Keep a signed call before it leaves."""
        session = _session_row(channel_id, purse)
        row = (*_call_columns(channel_id, call, signature), None, None)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_PUT_SESSION, session)
            connection.execute(_PUT_CALL, row)

        await self._writing.run(work)

    async def answer(
        self,
        channel_id: ChannelId,
        purse: PurseState,
        call: Outstanding,
        signature: bytes,
        response: bytes,
        receipt: str,
    ) -> None:
        """Keep an accepted answer. The signature is kept already."""
        session = _session_row(channel_id, purse)
        row = (response, receipt, channel_id, call.index)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_PUT_SESSION, session)
            connection.execute(_PUT_ANSWER, row)

        await self._writing.run(work)

    async def close(self) -> None:
        """Close it."""
        await self._writing.aclose()


class NoJournal(Journal):
    """Keeps nothing: a load generator for the node alone."""

    def __init__(self) -> None:
        """Nothing to write to."""

    async def begin(
        self, channel_id: ChannelId, purse: PurseState, call: Outstanding, signature: bytes
    ) -> None:
        """Keep nothing."""

    async def answer(
        self,
        channel_id: ChannelId,
        purse: PurseState,
        call: Outstanding,
        signature: bytes,
        response: bytes,
        receipt: str,
    ) -> None:
        """Keep nothing."""

    async def close(self) -> None:
        """Nothing to close."""


class NaiveJournal(Journal):
    """One commit per call: what was signed is kept when the answer is there, and not before."""

    async def begin(
        self, channel_id: ChannelId, purse: PurseState, call: Outstanding, signature: bytes
    ) -> None:
        """Keep nothing: a crash before the answer forgets the voucher."""

    async def answer(
        self,
        channel_id: ChannelId,
        purse: PurseState,
        call: Outstanding,
        signature: bytes,
        response: bytes,
        receipt: str,
    ) -> None:
        """Keep call and answer."""
        session = _session_row(channel_id, purse)
        row = (*_call_columns(channel_id, call, signature), response, receipt)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_PUT_SESSION, session)
            connection.execute(_PUT_CALL, row)

        await self._writing.run(work)


def _call_columns(channel_id: ChannelId, call: Outstanding, signature: bytes) -> tuple[object, ...]:
    return (channel_id, call.index, call.tool_id, call.request, str(call.amount), signature)


def _session_row(channel_id: ChannelId, purse: PurseState) -> tuple[bytes, str, str, bytes]:
    return (channel_id, str(purse.highest), str(purse.spent), purse.frontier.to_bytes())


def _prepare(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)


@dataclass(frozen=True, slots=True)
class ClientBuild:
    """What is exchanged. `require_signer` raises SignatureInvalid."""

    sign: Callable[[SignedMessage, Domain], bytes]
    require_signer: Callable[[SignedMessage, Domain, bytes, Address], None]
    canonicalize: Callable[[str, JsonValue], str]
    journal: Journal


def _sign(message: SignedMessage, domain: Domain) -> bytes:
    return CLIENT.sign_digest(message.digest(domain))


def _require_signer(message: SignedMessage, domain: Domain, signature: bytes, expected: Address) -> None:
    require_signer(message.digest(domain), signature, expected)


_ACCOUNT: Final = Account.from_key(CLIENT.secret_bytes())


def _sign_naively(message: SignedMessage, domain: Domain) -> bytes:
    return sign_with_eth_account(message, domain, _ACCOUNT)


def _require_signer_naively(
    message: SignedMessage, domain: Domain, signature: bytes, expected: Address
) -> None:
    if recover_with_eth_account(message, domain, signature) != expected:
        raise SignatureInvalid("signed by somebody else", code="signer-mismatch")


def _aioum(folder: Path) -> ClientBuild:
    journal = Journal(SqliteWriter(folder / "client.sqlite3", _prepare))
    return ClientBuild(_sign, _require_signer, canonical_request, journal)


def _unkept(folder: Path) -> ClientBuild:
    return ClientBuild(_sign, _require_signer, canonical_request, NoJournal())


def _naive(folder: Path, *, wal: bool = False) -> ClientBuild:
    journal = NaiveJournal(CommitPerCall(folder / "client.sqlite3", _prepare, wal=wal))
    return ClientBuild(_sign_naively, _require_signer_naively, canonical_request_with_rfc8785, journal)


BUILDS: Final[dict[str, Callable[[Path], ClientBuild]]] = {
    "aioum": _aioum,
    "unkept": _unkept,
    "naive": _naive,
    "naive-wal": partial(_naive, wal=True),
}
