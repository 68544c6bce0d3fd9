"""A whole node on a real chain: openings, top-ups, closing, restarts, new cards."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.payment import compute_channel_id
from aioum.core.types import ZERO_ADDRESS, Address, Bytes32
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode
from tests.integration.conftest import FundAccount, FundedAccount, RegisteredService
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer, Opened


async def test_session_is_opened_used_closed_and_settled_for_what_was_spent(
    start_node: StartNode, buyer: Buyer, chain: Chain
) -> None:
    async with start_node() as node:
        session = await buyer.open(node, 5_000)
        first = await buyer.enter(node, session, PRICE)
        failed = await buyer.pay(node, session, 2 * PRICE, "fail")
        second = await buyer.pay(node, session, 2 * PRICE + 1)
        statement = (await buyer.read(node, session, "/statement")).json
        done = await buyer.close_until_settled(node, session, 3)

    assert [reply.status for reply in (first, failed, second, done)] == [200, 500, 200, 200]
    charges = [buyer.receipt(node, reply).receipt.charge for reply in (first, failed, second)]
    assert charges == [PRICE, 0, PRICE]
    assert done.json["statement"] == statement
    assert done.json["phase"] == "final"
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert anchored.is_finalized
    assert (anchored.settled, anchored.refunded) == (2 * PRICE, 5_000 - 2 * PRICE)
    assert ("0x" + anchored.root.hex(), anchored.call_count) == (statement["root"], 3)
    receipt = await chain.rpc.receipt(Bytes32(bytes.fromhex(done.json["transaction"][2:])))
    assert receipt is not None


async def test_opening_with_amount_zero_adopts_and_asks_for_payment(
    start_node: StartNode, buyer: Buyer
) -> None:
    async with start_node() as node:
        session = await buyer.open(node, 7_000)

        first, again = await buyer.enter(node, session), await buyer.enter(node, session)
        paid = await buyer.pay(node, session, PRICE)

    assert [(reply.status, reply.code) for reply in (first, again)] == [(402, "payment-required")] * 2
    assert first.json["deposit"] == "7000"
    assert paid.status == 200


async def test_parallel_openings_of_one_session_adopt_it_once(start_node: StartNode, buyer: Buyer) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.pay(node, session, PRICE)  # fetches the challenge

        replies = await asyncio.gather(*(buyer.enter(node, session, PRICE) for _ in range(10)))

    assert {reply.status for reply in replies} == {200}
    assert len({reply.headers["Aioum-Receipt"] for reply in replies}) == 1


async def test_transaction_that_is_not_on_the_chain_is_not_final(start_node: StartNode, buyer: Buyer) -> None:
    async with start_node(opening_wait_seconds=0) as node:
        unknown = Opened(await _unknown_channel(buyer, node), Bytes32(b"\x01" * 32), buyer.account.key)

        reply = await buyer.enter(node, unknown)

    assert (reply.status, reply.code) == (402, "opening-not-final")
    assert "Retry-After" in reply.headers
    assert "WWW-Authenticate" in reply.headers


async def _unknown_channel(buyer: Buyer, node: RunningNode) -> Any:
    return compute_channel_id(
        buyer.account.key.address,
        node.registration.terms.payee,
        node.registration.terms.token,
        Bytes32(b"\x05" * 32),
        ZERO_ADDRESS,
        buyer.chain.domain,
    )


async def test_node_waits_until_the_opening_is_deep_enough(
    start_node: StartNode, buyer: Buyer, devnet: RunningDevnet
) -> None:
    async with start_node(confirmations=3, opening_wait_seconds=0) as node:
        session = await buyer.open(node)
        early = await buyer.enter(node, session)
    async with start_node(confirmations=3) as node:
        session.challenge = None
        waiting = asyncio.create_task(buyer.enter(node, session, PRICE))
        await devnet.mine(3)

        assert early.code == "opening-not-final"
        assert (await waiting).status == 200


async def test_transaction_of_another_session_opens_nothing(start_node: StartNode, buyer: Buyer) -> None:
    async with start_node() as node:
        mine, other = await buyer.open(node), await buyer.open(node)

        reply = await buyer.pay(node, mine, 0, action="open", transaction=other.transaction)

    assert (reply.status, reply.code) == (402, "opening-mismatch")


async def test_session_of_another_service_is_refused(
    start_node: StartNode, buyer: Buyer, registered_service: RegisteredService
) -> None:
    service = registered_service.service
    async with start_node() as node:
        session = await buyer.open(node, service_id=service.service_id, terms_hash=service.terms_hash)

        reply = await buyer.enter(node, session)

    assert (reply.status, reply.code) == (403, "terms-not-ours")


async def test_terms_without_a_root_are_refused_unless_configured(
    start_node: StartNode, buyer: Buyer
) -> None:
    async with start_node(commit_required=False) as node:
        session = await buyer.open(node)
        refused = await buyer.enter(node, session)
    async with start_node(commit_required=False, accept_uncommitted_sessions=True) as node:
        session.challenge = None
        accepted = await buyer.enter(node, session, PRICE)

    assert (refused.status, refused.code) == (403, "commit-not-required")
    assert accepted.status == 200


async def test_small_deposit_is_refused_until_it_is_topped_up(
    start_node: StartNode, buyer: Buyer, chain: Chain
) -> None:
    async with start_node(min_deposit=5_000) as node:
        session = await buyer.open(node, 4_999)
        small = await buyer.enter(node, session)
        await buyer.account.sender.send(calls.top_up(chain.payment_manager, session.channel_id, 1), "top-up")

        enough = await buyer.enter(node, session, PRICE)

    assert (small.status, small.code, small.json["minDeposit"]) == (402, "deposit-too-small", "5000")
    assert enough.status == 200


async def test_session_that_its_client_is_leaving_is_not_adopted(
    start_node: StartNode, buyer: Buyer, chain: Chain
) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.account.sender.send(
            calls.request_close(chain.payment_manager, session.channel_id), "leave"
        )

        reply = await buyer.enter(node, session)

    assert (reply.status, reply.code) == (409, "session-close-pending")


async def test_session_that_is_over_is_not_adopted(
    start_node: StartNode, buyer: Buyer, chain: Chain, operator: FundedAccount
) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        await operator.sender.send(calls.close(chain.payment_manager, session.channel_id, 0), "close")

        reply = await buyer.enter(node, session)

    assert (reply.status, reply.code) == (410, "session-finalized")


async def test_plain_channel_is_refused_unless_configured(
    start_node: StartNode, buyer: Buyer, chain: Chain
) -> None:
    async def open_plain(node: RunningNode) -> Opened:
        terms = node.registration.terms
        salt = Bytes32(b"\x21" * 32)
        call = calls.open_plain(
            chain.payment_manager, payee=terms.payee, token=terms.token, deposit=9_000, salt=salt
        )
        mined = await buyer.account.sender.send(call, "open")
        payer = buyer.account.key.address
        channel = compute_channel_id(payer, terms.payee, terms.token, salt, ZERO_ADDRESS, chain.domain)
        return Opened(channel, mined.transaction_hash, buyer.account.key)

    async with start_node() as node:
        session = await open_plain(node)
        refused = await buyer.enter(node, session)
    async with start_node(accept_plain_channels=True) as node:
        session.challenge = None
        accepted = await buyer.enter(node, session, PRICE)
        done = await buyer.close_until_settled(node, session, 1)

    assert (refused.status, refused.code) == (403, "plain-channel-refused")
    assert (accepted.status, done.status) == (200, 200)
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert anchored.settled == PRICE


async def test_vouchers_of_a_contract_are_refused_unless_configured_and_then_settled(
    start_node: StartNode,
    buyer: Buyer,
    chain: Chain,
    deploy_wallet: Callable[[Address], Awaitable[Address]],
    fund_account: FundAccount,
) -> None:
    owner = await fund_account()
    wallet = await deploy_wallet(owner.key.address)
    async with start_node() as node:
        session = await buyer.open(node, authorized_signer=wallet, signer=owner.key)
        refused = await buyer.enter(node, session)
    async with start_node(accept_contract_signers=True) as node:
        session.challenge = None
        accepted = await buyer.enter(node, session, PRICE)
        session.signer = buyer.account.key
        stranger = await buyer.pay(node, session, 2 * PRICE)
        session.signer = owner.key
        done = await buyer.close_until_settled(node, session, 1)

    assert (refused.status, refused.code) == (403, "contract-signer-refused")
    assert accepted.status == 200
    assert (stranger.status, stranger.code) == (402, "signer-mismatch")
    assert done.status == 200
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert anchored.settled == PRICE


async def test_top_up_raises_what_vouchers_may_reach(
    start_node: StartNode, buyer: Buyer, chain: Chain
) -> None:
    async with start_node(watch_interval_seconds=3_600) as node:
        session = await buyer.open(node, PRICE)
        await buyer.enter(node, session, PRICE)
        too_high = await buyer.pay(node, session, 2 * PRICE)
        mined = await buyer.account.sender.send(
            calls.top_up(chain.payment_manager, session.channel_id, 5 * PRICE), "top-up"
        )

        answer = await buyer.pay(node, session, 0, action="topUp", transaction=mined.transaction_hash)
        again = await buyer.pay(node, session, 0, action="topUp", transaction=mined.transaction_hash)
        paid = await buyer.pay(node, session, 2 * PRICE)

    assert too_high.code == "amount-exceeds-deposit"
    assert (answer.status, answer.code, answer.json["deposit"]) == (402, "payment-required", str(6 * PRICE))
    assert again.json["deposit"] == str(6 * PRICE)
    assert paid.status == 200


async def test_top_up_that_is_not_deep_enough_does_not_count_yet(
    start_node: StartNode, buyer: Buyer, chain: Chain, devnet: RunningDevnet
) -> None:
    settings = {"public_url": "http://node.example", "watch_interval_seconds": 3_600}
    async with start_node(**settings):
        pass
    async with start_node(confirmations=50, opening_wait_seconds=0, register=False, **settings) as node:
        session = await buyer.open(node, PRICE)
        await devnet.mine(50)
        await buyer.enter(node, session)
        mined = await buyer.account.sender.send(
            calls.top_up(chain.payment_manager, session.channel_id, PRICE), "top-up"
        )

        early = await buyer.pay(node, session, 0, action="topUp", transaction=mined.transaction_hash)
        await devnet.mine(50)
        late = await buyer.pay(node, session, 0, action="topUp", transaction=mined.transaction_hash)

    assert (early.status, early.code) == (402, "top-up-not-final")
    assert late.json["deposit"] == str(2 * PRICE)
