"""What an operator signed is kept once, and for ever."""

from pathlib import Path

from aioum.client.words import OperatorWords, SqliteWords
from aioum.core.payment import CallReceipt, Statement
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement

CHANNEL, OTHER = ChannelId(b"\x01" * 32), ChannelId(b"\x02" * 32)
LEAF = Bytes32(b"\x03" * 32)


def receipt(charge: int, channel: ChannelId = CHANNEL, signature: bytes = b"\x04" * 65) -> SignedReceipt:
    return SignedReceipt(CallReceipt(channel, 7, LEAF, charge), signature)


def statement(spent: int) -> SignedStatement:
    return SignedStatement(Statement(CHANNEL, 8, LEAF, spent), b"\x05" * 65)


async def test_words_survive_the_program_in_their_order_and_by_session(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite3"
    words = SqliteWords(path)
    for word in (receipt(2), statement(2**128 - 1), receipt(1), receipt(1, OTHER), statement(0)):
        await words.keep(word)
    await words.aclose()
    again = SqliteWords(path)
    assert await again.kept(CHANNEL) == OperatorWords(
        (receipt(2), receipt(1)), (statement(2**128 - 1), statement(0))
    )
    assert await again.kept(OTHER) == OperatorWords((receipt(1, OTHER),))
    assert await again.kept(ChannelId(bytes(32))) == OperatorWords()
    await again.aclose()


async def test_a_word_that_says_the_same_is_kept_once_however_it_is_signed(tmp_path: Path) -> None:
    words = SqliteWords(tmp_path / "words.sqlite3")
    await words.keep(receipt(1))
    await words.keep(receipt(1, signature=b"\x06" * 65))
    assert await words.kept(CHANNEL) == OperatorWords((receipt(1),))
    await words.aclose()
