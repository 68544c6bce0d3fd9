"""A signature that was given once is given again, whatever the signer would say the second time."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.external_signer import ExternalSigner, SignerEndpoint, opened_client
from aioum.core.errors import AioumError
from aioum.core.payment import CallReceipt, Domain, SignedMessage, Statement
from aioum.core.signing import LocalKey, require_signer
from aioum.core.types import Address, Bytes32, ChannelId
from aioum_node.keys.kept_signatures import KeepingSigner, SqliteSignatureBook
from tests.fake_signer import FakeSigner, Refusal, served_over_http

KEY = LocalKey(b"\5" * 32)
DOMAIN = Domain(31337, Address(b"\1" * 20))
CHANNEL = ChannelId(b"\2" * 32)
RECEIPT = CallReceipt(CHANNEL, 3, Bytes32(b"\3" * 32), 7)


@pytest.fixture
def fake() -> FakeSigner:
    return FakeSigner([KEY], entropy=True)


@pytest.fixture
async def signer(fake: FakeSigner) -> AsyncIterator[ExternalSigner]:
    async with served_over_http(fake) as url, opened_client(SignerEndpoint(url), fake.kind) as client:
        yield ExternalSigner(client, KEY.address)


class Kept:
    """A signer with its book in a file, opened anew each time."""

    def __init__(self, signer: ExternalSigner, path: Path) -> None:
        self._signer = signer
        self.path = path
        self.failures: list[str] = []

    async def sign(self, *messages: SignedMessage) -> list[bytes]:
        book = SqliteSignatureBook(self.path)
        try:
            keeping = KeepingSigner(self._signer, book, lambda error: self.failures.append(error.code))
            return await asyncio.gather(*(keeping.sign(message, DOMAIN) for message in messages))
        finally:
            await book.close()


@pytest.fixture
def kept(signer: ExternalSigner, tmp_path: Path) -> Kept:
    return Kept(signer, tmp_path / "node" / "signatures.sqlite3")


async def test_the_same_message_has_the_same_signature_after_a_restart(fake: FakeSigner, kept: Kept) -> None:
    (first,) = await kept.sign(RECEIPT)
    (again,) = await kept.sign(RECEIPT)

    assert again == first
    assert len(fake.asked) == 1
    require_signer(RECEIPT.digest(DOMAIN), first, KEY.address)
    assert kept.path.stat().st_mode & 0o777 == 0o600


async def test_two_that_ask_at_once_get_one_signature(fake: FakeSigner, kept: Kept) -> None:
    fake.silent = True
    signing = asyncio.create_task(kept.sign(*[RECEIPT] * 8))
    while len(fake.asked) < 8:
        await asyncio.sleep(0.01)
    fake.released.set()

    assert len(set(await signing)) == 1


async def test_every_message_has_a_signature_of_its_own(kept: Kept) -> None:
    messages = [CallReceipt(CHANNEL, index, RECEIPT.leaf, 7) for index in range(50)]
    statement = Statement(CHANNEL, 3, RECEIPT.leaf, 7)

    signatures = await kept.sign(*messages, statement)

    for message, signature in zip([*messages, statement], signatures, strict=True):
        require_signer(message.digest(DOMAIN), signature, KEY.address)
    assert len(set(signatures)) == len(messages) + 1


async def test_a_damaged_signature_is_made_again(fake: FakeSigner, kept: Kept) -> None:
    (first,) = await kept.sign(RECEIPT)
    with closing(sqlite3.connect(kept.path)) as connection, connection:
        connection.execute("UPDATE signatures SET signature = ?", (b"\1" + first[1:],))

    (second,) = await kept.sign(RECEIPT)

    require_signer(RECEIPT.digest(DOMAIN), second, KEY.address)
    assert await kept.sign(RECEIPT) == [second]


async def test_a_removed_channel_leaves_nothing(kept: Kept) -> None:
    other = CallReceipt(ChannelId(b"\7" * 32), 0, RECEIPT.leaf, 0)
    await kept.sign(RECEIPT, other)
    book = SqliteSignatureBook(kept.path)
    book.forget(CHANNEL)
    await book.close()

    with closing(sqlite3.connect(kept.path)) as connection:
        assert connection.execute("SELECT channel_id FROM signatures").fetchall() == [(other.channel_id,)]


async def test_a_refusal_is_reported_and_nothing_is_kept(fake: FakeSigner, kept: Kept) -> None:
    def refuse(method: str, result: Any) -> Any:
        raise Refusal

    fake.tamper = refuse
    with pytest.raises(AioumError) as caught:
        await kept.sign(RECEIPT)
    assert (caught.value.code, kept.failures) == ("signer-refused", ["signer-refused"])

    fake.tamper = lambda method, result: result
    (signature,) = await kept.sign(RECEIPT)
    require_signer(RECEIPT.digest(DOMAIN), signature, KEY.address)


async def test_without_its_book_nothing_leaves(signer: ExternalSigner, kept: Kept) -> None:
    await kept.sign()
    book = SqliteSignatureBook(kept.path)
    with closing(sqlite3.connect(kept.path)) as connection:
        connection.execute("DROP TABLE signatures")
    with pytest.raises(AioumError) as caught:
        await KeepingSigner(signer, book, lambda error: None).sign(RECEIPT, DOMAIN)
    await book.close()

    assert caught.value.code == "signature-book-failed"


def test_a_book_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    (tmp_path / "signatures.sqlite3").write_bytes(b"no database" * 100)
    for path in (tmp_path / "signatures.sqlite3", tmp_path):
        with pytest.raises(AioumError) as caught:
            SqliteSignatureBook(path)
        assert caught.value.code == "signature-book-failed"


async def test_transactions_pass_to_the_signer(signer: ExternalSigner, tmp_path: Path) -> None:
    fields: Mapping[str, Any] = {
        "type": 2, "chainId": 1, "nonce": 0, "to": b"\1" * 20, "data": b"", "value": 1,
        "gas": 21_000, "maxFeePerGas": 2, "maxPriorityFeePerGas": 1,
    }  # fmt: skip
    book = SqliteSignatureBook(tmp_path / "signatures.sqlite3")
    raw = await KeepingSigner(signer, book, lambda error: None).sign_transaction(fields)
    await book.close()

    assert raw[0] == 2
