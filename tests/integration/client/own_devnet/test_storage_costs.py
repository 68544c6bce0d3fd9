"""What docs/gas.md says that transactions write into our contracts is what they write on a chain."""

import hashlib
import re
from dataclasses import replace
from fnmatch import filter as matching
from fnmatch import fnmatch
from pathlib import Path

import pytest

from aioum.chain import anchors, calls, dispute_calls
from aioum.chain.calls import ContractCall
from aioum.client import Marketplace, PaidSession
from aioum.client.gasless import authorize_top_up
from aioum.client.publication import DataUriPublisher
from aioum.core.errors import Divergence
from aioum.core.hextext import from_hex
from aioum.core.merkle import inclusion_proof
from aioum.core.signing import LocalKey
from aioum.core.transcript import entry_leaf, node_hash
from aioum.core.types import Bytes32
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.own_devnet.disputed_shop import RULING_SECONDS, WINDOW_SECONDS, Shop
from tests.integration.client.own_devnet.storage_trace import Storage, Writes, word
from tests.integration.conftest import FundedAccount

PAGE = Path(__file__).resolve().parents[4] / "docs" / "gas.md"
ROOT = Bytes32(b"\x77" * 32)
DAY = 86_400
# Only where a push fails, and the devnet's token refuses nobody.
UNSEEN = {"claimCredit"}


def documented() -> dict[tuple[str, str, int], Writes]:
    """The tables of the page: contract, variable, slot from where that begins."""
    rows, contract = {}, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("### `"):
            contract = line.split("`")[1]
        if row := re.match(r"\| `(\w+)`(?: \+(\d+))? \|([^|]*)\|([^|]*)\|([^|]*)\|", line):
            name, offset, _, new, rewritten = row.groups()
            rows[contract, name, int(offset or 0)] = Writes(
                *({function for function in re.findall(r"`(\w+\*?)`", cell)} for cell in (new, rewritten))
            )
    return rows


class Trader:
    """Makes every kind of transaction, and takes down what each wrote."""

    def __init__(
        self, shop: Shop, devnet: RunningDevnet, payer: FundedAccount, operator: FundedAccount
    ) -> None:
        deployment, chain = devnet.deployment, shop.chain
        assert deployment.rating_registry is not None
        assert deployment.log_anchor is not None
        self.shop, self.chain, self.devnet, self.payer, self.operator = shop, chain, devnet, payer, operator
        self.disputes, self.log_anchor = shop.decisions.address, deployment.log_anchor
        self.storage = Storage(
            chain,
            {
                chain.payment_manager: "PaymentManager",
                self.disputes: "DisputeManager",
                chain.service_registry: "ServiceRegistry",
                deployment.rating_registry: "RatingRegistry",
                self.log_anchor: "LogAnchor",
            },
        )
        self.storage.keys |= {word(devnet.token), word(operator.key.address), word(shop.operator.service_id)}

    async def send(self, account: FundedAccount, call: ContractCall) -> None:
        mined = await account.sender.send(call, call.label)
        await self.storage.note(call.label, mined.transaction_hash)

    async def open(self, market: Marketplace, count: int, function: str = "openSession") -> PaidSession:
        session = await market.open(self.shop.operator.url, deposit=1_000)
        on_chain = await self.chain.session(session.channel_id)
        opening = await self.chain.find_opening(session.channel_id)
        assert on_chain is not None
        assert opening is not None
        self.storage.keys |= {bytes(session.channel_id), word(on_chain.session_id)}
        await self.storage.note(function, opening.transaction_hash)
        for number in range(count):
            await session.call("echo", text=str(number))
        return session

    async def settled(self, session: PaidSession) -> None:
        transaction = self.shop.operator.settled[session.channel_id]
        await self.storage.note("settleSession", from_hex(transaction, 32))

    async def registrations(self) -> None:
        registry, terms = self.chain.service_registry, self.shop.operator.terms()
        named = replace(terms, arbitrator=self.payer.key.address, ruling_period_seconds=DAY)
        mined = await self.operator.sender.send(calls.register(registry, named, "x"), "register")
        service_id, first = mined.events[0].args["serviceId"], mined.events[0].args["termsHash"]
        self.storage.keys |= {bytes(first), word(service_id)}
        await self.storage.note("register", mined.transaction_hash)
        changed = replace(named, payee=self.payer.key.address)
        mined = await self.operator.sender.send(calls.update(registry, service_id, changed, "x"), "update")
        self.storage.keys.add(bytes(mined.events[0].args["termsHash"]))
        await self.storage.note("update", mined.transaction_hash)
        await self.send(self.operator, calls.retire(registry, service_id))

    async def anchors(self) -> None:
        self.storage.keys.add(bytes(anchors.origin_hash("log.example")))
        first, second = (Bytes32(hashlib.sha256(entry).digest()) for entry in (b"\0a", b"\0b"))
        both = Bytes32(hashlib.sha256(b"\1" + first + second).digest())
        await self.send(self.operator, anchors.anchor(self.log_anchor, "log.example", 1, first, ()))
        await self.send(self.operator, anchors.anchor(self.log_anchor, "log.example", 2, both, (second,)))

    async def plain_channel(self) -> None:
        call = calls.open_plain(
            self.chain.payment_manager,
            payee=self.operator.key.address,
            token=self.devnet.token,
            deposit=10,
            salt=ROOT,
            authorized_signer=self.operator.key.address,
        )
        mined = await self.payer.sender.send(call, call.label)
        event = mined.events[0]
        assert event.channel_id is not None
        self.storage.keys |= {bytes(event.channel_id), word(event.args["sessionId"])}
        await self.storage.note("open", mined.transaction_hash)

    async def steps_of_the_payee(self, market: Marketplace) -> None:
        manager, session = self.chain.payment_manager, await self.open(market, 1)
        channel_id, states = session.channel_id, self.shop.operator.states
        first = states[channel_id]
        await session.call("echo", text="more")
        second = states[channel_id]
        await self.send(self.operator, calls.commit_results(manager, channel_id, ROOT, 2))
        await self.send(
            self.operator, calls.settle(manager, channel_id, first.accepted, first.accepted_signature)
        )
        await self.send(
            self.operator, calls.close(manager, channel_id, second.accepted, second.accepted_signature)
        )

    async def exit(self, market: Marketplace) -> None:
        manager, session = self.chain.payment_manager, await self.open(market, 1)
        await self.send(self.payer, calls.top_up(manager, session.channel_id, 5))
        await self.send(self.payer, calls.request_close(manager, session.channel_id))
        await self.send(self.payer, calls.top_up(manager, session.channel_id, 5))
        relayed = await authorize_top_up(
            self.chain, self.payer.key, session.channel_id, self.devnet.token, 5, ROOT
        )
        await self.send(self.operator, relayed.call)
        await self.send(self.payer, calls.request_close(manager, session.channel_id))
        await self.devnet.increase_time(await self.chain.grace_period_seconds())
        await self.send(self.payer, calls.withdraw(manager, session.channel_id))

    async def dispute(self, market: Marketplace, arbitrator: Marketplace) -> None:
        session = await self.open(market, 1)
        await session.close()
        await self.settled(session)
        await self.storage.note("rate", (await session.rate(50)).transaction_hash)
        raised = (await session.dispute("quality", "", DataUriPublisher())).raised
        await self.storage.note("raiseDispute", raised.transaction_hash)
        await self.send(
            self.operator, dispute_calls.respond(self.disputes, session.channel_id, "data:,", ROOT)
        )
        held = await arbitrator.held_money()
        ruled = await held.make(await held.rule(session.channel_id, 10))
        await self.storage.note("rule", ruled.transaction_hash)

    async def lapse(self, market: Marketplace) -> None:
        session = await self.open(market, 1)
        await session.close()
        await session.dispute("quality", "", DataUriPublisher())
        await self.challenge_receipt(session)
        await self.devnet.increase_time(RULING_SECONDS)
        await self.send(self.operator, dispute_calls.lapse(self.disputes, session.channel_id))
        await self.devnet.increase_time(WINDOW_SECONDS)
        await self.send(self.operator, calls.release(self.chain.payment_manager, session.channel_id))

    async def challenge_receipt(self, session: PaidSession) -> None:
        challenged = await session.challenge(await session.recourse.word(call_index=0))
        await self.storage.note("challengeReceipt", challenged.mined.transaction_hash)
        leaves = [Bytes32(entry_leaf(entry)) for entry in session.calls]
        proof = inclusion_proof(leaves, 0, node_hash)
        await self.send(
            self.operator,
            dispute_calls.answer_receipt(self.disputes, session.channel_id, 0, leaves[0], proof),
        )

    async def challenges(self, market: Marketplace) -> None:
        session = await self.open(market, 2)
        assert await session.statement() is not None
        await session.call("echo", text="more")
        await session.close()
        await self.challenge_receipt(session)
        word_of_two = await session.recourse.word(call_count=2)
        challenged = await session.challenge(word_of_two)
        await self.storage.note("challengeStatement", challenged.mined.transaction_hash)
        leaves = [Bytes32(entry_leaf(entry)) for entry in session.calls]
        root = Bytes32(node_hash(leaves[0], leaves[1]))
        await self.send(
            self.operator,
            dispute_calls.answer_statement(self.disputes, session.channel_id, 2, root, [leaves[2]]),
        )

    async def silence(self, market: Marketplace) -> None:
        session = await self.open(market, 2)
        self.shop.operator.lies.settle = lambda right: replace(right, root=ROOT, call_count=7)
        await self.shop.operator.settle(session.channel_id)
        with pytest.raises(Divergence):
            await session.verify()
        await session.challenge()
        await self.devnet.increase_time(DAY)
        claimed = await session.recourse.claim_unanswered()
        await self.storage.note("claimUnanswered", claimed.transaction_hash)

    async def lie(self, market: Marketplace) -> None:
        for disputed in (False, True):
            session = await self.open(market, 1)
            self.shop.operator.lies.settle = lambda right: replace(right, root=ROOT)
            with pytest.raises(Divergence):
                await session.close()
            if disputed:
                await session.dispute("quality", "", DataUriPublisher())
                await session.challenge(await session.recourse.word(call_index=0))
            proven = await session.prove_lies()
            await self.storage.note("proveStatementAgainstRoot", proven.mined.transaction_hash)


@pytest.mark.slow
async def test_every_slot_is_written_by_the_functions_that_the_page_names(
    marketplace: MakeMarketplace,
    shop: Shop,
    devnet: RunningDevnet,
    payer: FundedAccount,
    operator: FundedAccount,
    tmp_path: Path,
) -> None:
    trader = Trader(shop, devnet, payer, operator)
    await trader.registrations()
    async with (
        marketplace() as market,
        marketplace(key=shop.arbitrator.key, data_dir=tmp_path / "arbitrator") as arbitrator,
        marketplace(voucher_key=LocalKey(b"\x05" * 32), data_dir=tmp_path / "delegate") as delegating,
        marketplace(relayer=operator.sender, data_dir=tmp_path / "gasless") as gasless,
    ):
        # The very first writes into counters happen once in a contract's life.
        await trader.open(market, 0)
        trader.storage.written.clear()
        await trader.registrations()
        await trader.anchors()
        await trader.open(delegating, 0)
        await trader.open(gasless, 0, "openSessionWithAuthorization")
        await trader.plain_channel()
        await trader.steps_of_the_payee(market)
        await trader.exit(market)
        await trader.dispute(market, arbitrator)
        await trader.dispute(market, arbitrator)
        await trader.lapse(market)
        await trader.challenges(market)
        await trader.silence(market)
        await trader.lie(market)

    seen, said = trader.storage.writes(), documented()
    assert seen.keys() <= said.keys()
    for slot, patterns in said.items():
        found = seen.get(slot, Writes())
        for functions, said_of in ((found.new, patterns.new), (found.rewritten, patterns.rewritten)):
            unsaid = {name for name in functions if not any(fnmatch(name, each) for each in said_of)}
            unseen = {each for each in said_of - UNSEEN if not matching(functions, each)}
            assert (unsaid, unseen) == (set(), set()), slot
