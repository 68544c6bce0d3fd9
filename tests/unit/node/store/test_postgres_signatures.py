"""Nodes that share a database and an external signer give the same bytes for the same receipt."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from aioum.core.errors import AioumError
from aioum.core.ledger import Limits
from aioum.core.types import Address, ChannelId
from aioum_node.keys.kept_signatures import KeptSignature
from aioum_node.store.postgres.signatures import PostgresSignatureBook
from aioum_node.store.postgres.store import PostgresStore
from tests.postgres import PostgresServer, schema_of

SIGNER = Address(b"\1" * 20)
CHANNEL = ChannelId(b"\2" * 32)
DIGEST = b"\3" * 32

Books = tuple[PostgresSignatureBook, PostgresSignatureBook]


def signed(byte: int, channel: ChannelId = CHANNEL, digest: bytes = DIGEST) -> KeptSignature:
    return KeptSignature(channel, digest, SIGNER, bytes([byte]) * 65)


@pytest.fixture
async def books(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Books]:
    schema = schema_of(tmp_path)
    store = PostgresStore(postgres.url, Limits(max_in_flight=1, max_unpaid_calls=1), schema=schema)
    await store.connect()
    made = PostgresSignatureBook(postgres.url, schema), PostgresSignatureBook(postgres.url, schema)
    yield made
    for book in made:
        await book.close()
    await store.close()


async def test_the_first_signature_counts_for_everybody(books: Books) -> None:
    one, other = books
    assert [await book.kept(DIGEST, SIGNER) for book in books] == [None, None]

    answers = await asyncio.gather(*(book.keep(signed(number)) for number in range(10) for book in books))

    assert len(set(answers)) == 1
    assert await other.kept(DIGEST, SIGNER) == answers[0]
    assert await one.kept(DIGEST, Address(b"\4" * 20)) is None


async def test_a_damaged_signature_is_replaced(books: Books) -> None:
    one, other = books
    await one.keep(signed(1))

    assert await other.keep(signed(2), replace=True) == bytes([2]) * 65
    assert await one.kept(DIGEST, SIGNER) == bytes([2]) * 65


async def test_a_removed_channel_leaves_nothing(books: Books) -> None:
    one, other = books
    await one.keep(signed(1))
    await one.keep(signed(2, ChannelId(b"\5" * 32), b"\6" * 32))

    one.forget(CHANNEL)
    await one.close()

    assert await other.kept(DIGEST, SIGNER) is None
    assert await other.kept(b"\6" * 32, SIGNER) == bytes([2]) * 65


async def test_without_the_table_nothing_is_given_away(
    books: Books, postgres: PostgresServer, tmp_path: Path
) -> None:
    one, _ = books
    await one.keep(signed(1))
    connection = await asyncpg.connect(postgres.url)
    await connection.execute(f"DROP TABLE {schema_of(tmp_path)}.signatures")
    await connection.close()

    for asked in (one.kept(DIGEST, SIGNER), one.keep(signed(1))):
        with pytest.raises(AioumError) as caught:
            await asked
        assert caught.value.code == "signature-book-failed"
