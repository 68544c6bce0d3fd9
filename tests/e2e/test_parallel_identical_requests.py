"""One signed request, sent 200 times at once: one execution, one charge, one leaf, one answer."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from aioum.chain.client import Chain
from aioum.core.canonical import canonical_bytes
from aioum.core.hextext import to_hex
from aioum.core.payment import Voucher
from aioum.core.signing import require_signer
from aioum.core.wire import RECEIPT_HEADER, Challenge, Credential, SignedReceipt
from tests.e2e.crashing_node import PRICE
from tests.e2e.shop import Node, Shop, until
from tests.integration.conftest import FundedAccount
from tests.integration.node.books import open_session

REQUESTS = 200
Answer = tuple[int, bytes, str]


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """As many connections as there are requests."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


class Buyer:
    """A session on the chain, and requests written by hand."""

    def __init__(self, http: aiohttp.ClientSession, chain: Chain, account: FundedAccount, node: Node) -> None:
        self.chain = chain
        self.node = node
        self._http = http
        self._account = account

    async def open(self) -> None:
        service = await self.chain.service(self.node.service)
        assert service is not None
        self.terms = service.terms
        self.opening = await open_session(self._account.sender, service)

    async def credential(self, tool: str, amount: int, action: str = "voucher") -> str:
        async with self._http.post(f"{self.node.url}/tools/{tool}") as unpaid:
            challenge = Challenge.from_header(unpaid.headers["WWW-Authenticate"])
        channel_id = self.opening.channel_id
        digest = Voucher(channel_id, amount).digest(self.chain.domain)
        transaction = self.opening.transaction_hash if action == "open" else None
        signature = self._account.key.sign_digest(digest)
        return Credential(challenge, action, channel_id, amount, signature, transaction=transaction).header()

    async def send(self, tool: str, text: str, credential: str) -> Answer:
        async with self._http.post(
            f"{self.node.url}/tools/{tool}",
            data=canonical_bytes({"text": text}),
            headers={"Authorization": credential},
        ) as response:
            return response.status, await response.read(), response.headers.get(RECEIPT_HEADER, "")

    def require_receipt(self, answer: Answer, index: int, charge: int) -> None:
        signed = SignedReceipt.from_header(answer[2])
        require_signer(signed.receipt.digest(self.chain.domain), signed.signature, self.terms.receipt_signer)
        assert (signed.receipt.index, signed.receipt.charge) == (index, charge)


@pytest.mark.parametrize("tool", ["note", "hold", "spoil"])
async def test_two_hundred_parallel_identical_requests_are_one_call(
    shop: Shop, http: aiohttp.ClientSession, chain: Chain, payer: FundedAccount, tool: str
) -> None:
    charge = 0 if tool == "spoil" else PRICE
    async with shop.running() as node:
        buyer = Buyer(http, chain, payer, node)
        await buyer.open()
        first = await buyer.send("note", "first", await buyer.credential("note", PRICE, "open"))
        shop.make_gate()
        credential = await buyer.credential(tool, 2 * PRICE)
        sending = [asyncio.create_task(buyer.send(tool, "same", credential)) for _ in range(REQUESTS)]

        async def runs() -> bool:
            return "same" in shop.runs()

        await until(runs)
        if tool == "hold":
            # Opened by a run that waits; a second run would wait for ever.
            await shop.open_gate()
        answers = await asyncio.gather(*sending)
        late = await buyer.send(tool, "same", credential)

    assert shop.runs() == ["first", "same"]
    assert len({*answers, late}) == 1
    assert late[0] == (500 if tool == "spoil" else 200)
    buyer.require_receipt(first, 0, PRICE)
    buyer.require_receipt(late, 1, charge)
    state = (await shop.stored(buyer.opening.channel_id)).state
    assert (state.admitted, state.spent, state.reserved) == (2, PRICE + charge, 0)
    package = await shop.export(to_hex(buyer.opening.channel_id))
    assert [entry["response"].encode() for entry in package["calls"]] == [first[1], late[1]]
    assert len(package["vouchers"]) == 2


async def test_of_parallel_requests_with_one_voucher_and_other_arguments_one_is_served(
    shop: Shop, http: aiohttp.ClientSession, chain: Chain, payer: FundedAccount
) -> None:
    async with shop.running() as node:
        buyer = Buyer(http, chain, payer, node)
        await buyer.open()
        await buyer.send("note", "first", await buyer.credential("note", PRICE, "open"))
        credential = await buyer.credential("note", 2 * PRICE)
        texts = [f"text {number % 4}" for number in range(REQUESTS)]
        answers = await asyncio.gather(*(buyer.send("note", text, credential) for text in texts))

    (served,) = shop.runs()[1:]
    assert {(status, text == served) for (status, _, _), text in zip(answers, texts, strict=True)} == {
        (200, True),
        (409, False),
    }
    assert len({answer for answer in answers if answer[0] == 200}) == 1
    assert (await shop.stored(buyer.opening.channel_id)).state.spent == 2 * PRICE
