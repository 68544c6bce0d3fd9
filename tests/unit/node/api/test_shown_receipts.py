"""What a receipt that is shown with a call can bring about, and what it cannot."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.ledger import Phase
from aioum.core.payment import CallReceipt, Domain
from aioum.core.signing import LocalKey
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.core.wire import RECEIPT_HEADER, SignedReceipt
from tests.unit.node.api.shop import CHAIN_ID, CLIENT, DOMAIN, OPERATOR, STRANGER, Reply, Shop, running_shop
from tests.unit.node.api.wares import FUNCTIONS, PRICE

LEAF = Bytes32(b"\x55" * 32)
ELSEWHERE = Domain(CHAIN_ID, Address(b"\x77" * 20))


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with running_shop(tmp_path, FUNCTIONS) as running:
        yield running


def told(
    channel: ChannelId, index: int = 5, *, key: LocalKey = OPERATOR, domain: Domain = DOMAIN
) -> SignedReceipt:
    """A receipt of a call that the store does not have."""
    receipt = CallReceipt(channel, index, LEAF, PRICE)
    return SignedReceipt(receipt, key.sign_digest(receipt.digest(domain)))


async def pay(
    shop: Shop, channel: ChannelId, amount: int, shown: SignedReceipt, *, key: LocalKey = CLIENT
) -> Reply:
    headers = {
        "Authorization": shop.credential(channel, amount, key=key).header(),
        RECEIPT_HEADER: shown.header(),
    }
    return await shop.post("/tools/shout", canonical_bytes({"text": "hey"}), headers)


async def phase(shop: Shop, channel: ChannelId) -> Phase:
    stored = await shop.store.session(channel)
    assert stored is not None
    return stored.state.phase


@pytest.mark.parametrize("plain", [False, True], ids=["with terms", "plain channel"])
async def test_the_nodes_own_word_for_a_call_that_it_does_not_have_makes_the_session_suspect(
    shop: Shop, plain: bool
) -> None:
    facts: dict[str, Any] = {"terms": None} if plain else {}
    channel = await shop.open_session(**facts)

    refused = await pay(shop, channel, PRICE, told(channel))

    assert (refused.status, refused.code) == (409, "session-suspect")
    assert await phase(shop, channel) is Phase.SUSPECT


async def test_nobody_elses_word_makes_a_session_suspect(shop: Shop) -> None:
    channel, other = await shop.open_session(), await shop.open_session()
    words = [
        told(channel, key=CLIENT),
        told(channel, key=STRANGER),
        told(channel, domain=ELSEWHERE),
        told(other),
        SignedReceipt(told(channel).receipt, told(other).signature),
    ]
    for count, shown in enumerate(words, start=1):
        assert (await pay(shop, channel, count * PRICE, shown)).status == 200
    assert await phase(shop, channel) is Phase.OPEN
    assert await phase(shop, other) is Phase.OPEN
