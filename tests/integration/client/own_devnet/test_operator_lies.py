"""Operators that lie in words that they signed, and what becomes of it: L1 to L4 (PROTOCOL 4.3)."""

from dataclasses import replace

import pytest

from aioum.chain import dispute_calls
from aioum.chain.calls import Settlement
from aioum.chain.decisions import DisputeState
from aioum.client import Marketplace, PaidSession
from aioum.client.publication import DataUriPublisher
from aioum.client.recourse import Challenged
from aioum.core.errors import AioumError, ChainError, Divergence, InvalidInput, PolicyRefused
from aioum.core.lies import (
    ConflictingReceipts,
    ConflictingStatements,
    OmittedReceipt,
    Overcharge,
    StatementAgainstRoot,
)
from aioum.core.merkle import inclusion_proof
from aioum.core.payment import CallReceipt, Statement
from aioum.core.transcript import entry_leaf, node_hash, transcript_root
from aioum.core.types import Bytes32
from aioum.core.wire import SignedReceipt, SignedStatement
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.own_devnet.disputed_shop import BOND, Shop
from tests.integration.conftest import FundedAccount

ANOTHER = Bytes32(b"\x77" * 32)
DAY = 86_400


async def opened(market: Marketplace, shop: Shop, calls: int) -> PaidSession:
    """An open session of calls at 100 each."""
    session = await market.open(shop.operator.url, deposit=1_000)
    for number in range(calls):
        await session.call("echo", text=str(number))
    return session


async def settled_behind_its_back(session: PaidSession, shop: Shop) -> None:
    """The operator settles without being asked, so the client gets no last statement."""
    await shop.operator.settle(session.channel_id)
    with pytest.raises(Divergence):
        await session.verify()


async def everything_came_back(session: PaidSession, shop: Shop, start: object, lie: type) -> None:
    proven = await session.prove_lies()
    assert isinstance(proven.lie, lie)
    assert await shop.balances() - start == (0, 0, 0, 0)  # type: ignore[operator]
    standing = await session.recourse.standing()
    assert (standing.session.held, standing.session.awarded) == (0, proven.awarded)
    with pytest.raises(ChainError) as caught:
        await session.prove_lies()
    assert caught.value.code == "nothing-held"


async def test_l1_an_operator_that_signs_two_receipts_of_one_call_loses_what_is_held(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await opened(market, shop, 1)
        first = []

        def equivocate(receipt: CallReceipt) -> CallReceipt:
            first.append(receipt)
            return replace(receipt, leaf=ANOTHER) if len(first) == 1 else receipt

        shop.operator.lies.receipt = equivocate
        with pytest.raises(Divergence) as caught:
            await session.call("echo", text="x")
        assert caught.value.code == "operator-double-signed"
        await settled_behind_its_back(session, shop)
        await everything_came_back(session, shop, start, ConflictingReceipts)


async def test_l1_a_receipt_that_was_no_answer_still_counts_after_a_restart(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    start = await shop.balances()
    async with marketplace(settings={"retry_attempts": 1}) as market:
        session = await opened(market, shop, 1)
        shop.operator.lies.receipt = lambda receipt: replace(receipt, leaf=ANOTHER)
        with pytest.raises(AioumError) as caught:
            await session.call("echo", text="x")
        assert caught.value.code == "receipt-leaf-mismatch"
        assert session.evidence == ()
    shop.operator.lies.receipt = lambda receipt: receipt
    async with marketplace() as market:
        # A program that was restarted has forgotten what it saw, and its record has not.
        resumed = await market.resume(session.channel_id)
        await resumed.close()
        await everything_came_back(resumed, shop, start, ConflictingReceipts)


async def test_l1_an_operator_that_anchors_another_root_than_it_stated_loses_what_is_held(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    start = await shop.balances()
    shop.operator.lies.settle = lambda right: replace(right, root=ANOTHER)
    async with marketplace() as market:
        session = await opened(market, shop, 2)
        with pytest.raises(Divergence) as caught:
            await session.close()
        assert caught.value.code == "anchored-root-mismatch"
        await everything_came_back(session, shop, start, StatementAgainstRoot)


async def test_l1_statements_that_say_two_things_about_the_same_calls_are_kept_and_proven(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await opened(market, shop, 2)
        assert await session.statement() is not None
        shop.operator.lies.statement = lambda right: replace(right, spent=right.spent + 1)
        with pytest.raises(Divergence) as caught:
            await session.statement()
        assert caught.value.code == "statement-spent-mismatch"
        shop.operator.lies.statement = lambda right: right
        await session.close()
        await everything_came_back(session, shop, start, ConflictingStatements)


async def test_l2_an_operator_that_drops_the_last_call_loses_what_is_held(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await opened(market, shop, 3)
        shorter = Bytes32(transcript_root(session.calls[:2]))
        shop.operator.lies.settle = lambda right: replace(right, root=shorter, call_count=2)
        await settled_behind_its_back(session, shop)
        await everything_came_back(session, shop, start, OmittedReceipt)


async def test_l3_an_operator_that_captures_what_failed_calls_would_have_cost_loses_what_is_held(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await opened(market, shop, 1)
        failed = await session.call("fail", text="x")
        assert failed.charge == 0

        def greedy(right: Settlement) -> Settlement:
            assert (right.capture, right.voucher_amount) == (100, 150)
            return replace(right, capture=150)

        shop.operator.lies.settle = greedy
        await settled_behind_its_back(session, shop)
        await everything_came_back(session, shop, start, Overcharge)


async def test_an_honest_operator_has_nothing_to_fear(marketplace: MakeMarketplace, shop: Shop) -> None:
    async with marketplace() as market:
        async with market.open(shop.operator.url, deposit=9_000) as session:
            for number in range(20):
                await session.call("echo", text=str(number))
        words = await session.recourse.words()
        assert len(words.receipts) == 20
        # Those over 16 calls and over all of them.
        assert {word.statement.call_count for word in words.statements} == {16, 20}
        with pytest.raises(PolicyRefused) as caught:
            await session.prove_lies()
        assert caught.value.code == "nothing-provable"
        with pytest.raises(PolicyRefused) as caught:
            await session.challenge()
        assert caught.value.code == "challenge-pointless"


async def test_l4_an_operator_that_altered_a_leaf_cannot_answer_and_everything_comes_back(
    marketplace: MakeMarketplace, shop: Shop, devnet: RunningDevnet
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await opened(market, shop, 2)
        assert await session.statement() is not None
        await session.call("echo", text="3")
        altered = [replace(session.calls[0], response="altered"), *session.calls[1:]]
        shop.operator.lies.settle = lambda right: replace(right, root=Bytes32(transcript_root(altered)))
        await settled_behind_its_back(session, shop)
        with pytest.raises(PolicyRefused) as nothing:
            await session.prove_lies()
        assert nothing.value.code == "nothing-provable"

        challenged = await session.challenge()
        # One statement answers for both calls before it.
        assert isinstance(challenged.word, SignedStatement)
        assert challenged.word.statement.call_count == 2
        assert await shop.balances() - start == (-300 - BOND, 0, 300, BOND)
        with pytest.raises(ChainError) as pending:
            await session.challenge()
        assert pending.value.code == "challenge-pending"
        with pytest.raises(ChainError) as early:
            await session.recourse.claim_unanswered()
        assert early.value.details["error"] == "AnswerStillDue"
        await devnet.increase_time(DAY)
        await session.recourse.claim_unanswered()
        assert await shop.balances() - start == (0, 0, 0, 0)


async def test_l4_a_random_root_under_an_inflated_count_is_challenged_in_one_call(
    marketplace: MakeMarketplace, shop: Shop, devnet: RunningDevnet
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await opened(market, shop, 1)
        shop.operator.lies.settle = lambda right: replace(right, root=ANOTHER, call_count=7)
        await settled_behind_its_back(session, shop)
        challenged = await session.recourse.hold_to_account()
        assert isinstance(challenged, Challenged)
        assert isinstance(challenged.word, SignedReceipt)
        await devnet.increase_time(DAY)
        await session.recourse.claim_unanswered()
        assert await shop.balances() - start == (0, 0, 0, 0)


async def test_l4_an_honest_operator_answers_and_earns_the_bond(
    marketplace: MakeMarketplace, shop: Shop, operator: FundedAccount
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        async with market.open(shop.operator.url, deposit=1_000) as session:
            for number in range(3):
                await session.call("echo", text=str(number))
        word = await session.recourse.word(call_index=1)
        await session.challenge(word)
        leaves = [Bytes32(entry_leaf(entry)) for entry in session.calls]
        answer = dispute_calls.answer_receipt(
            shop.decisions.address, session.channel_id, 1, leaves[1], inclusion_proof(leaves, 1, node_hash)
        )
        await operator.sender.send(answer, "answer")
        assert await shop.balances() - start == (-300 - BOND, BOND, 300, 0)
        assert not (await session.recourse.standing()).case.is_pending
        with pytest.raises(InvalidInput) as caught:
            await session.recourse.word(call_count=2)
        assert caught.value.code == "word-unknown"


async def test_l4_a_word_that_was_answered_is_not_challenged_again(
    marketplace: MakeMarketplace, shop: Shop, devnet: RunningDevnet, operator: FundedAccount
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await opened(market, shop, 2)
        altered = [replace(session.calls[0], response="altered"), session.calls[1]]
        shop.operator.lies.settle = lambda right: replace(right, root=Bytes32(transcript_root(altered)))
        await settled_behind_its_back(session, shop)
        assert isinstance(first := (await session.challenge()).word, SignedReceipt)
        leaves = [Bytes32(entry_leaf(entry)) for entry in altered]
        answer = dispute_calls.answer_receipt(
            shop.decisions.address, session.channel_id, 1, leaves[1], inclusion_proof(leaves, 1, node_hash)
        )
        await operator.sender.send(answer, "answer")
        assert isinstance(second := (await session.challenge()).word, SignedReceipt)
        assert (first.receipt.index, second.receipt.index) == (1, 0)
        await devnet.increase_time(DAY)
        await session.recourse.claim_unanswered()
        assert await shop.balances() - start == (-BOND, BOND, 0, 0)


async def test_a_proven_lie_overtakes_a_dispute_and_its_bond_comes_back(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    start = await shop.balances()
    shop.operator.lies.settle = lambda right: replace(right, root=ANOTHER)
    async with marketplace() as market:
        session = await opened(market, shop, 1)
        with pytest.raises(Divergence):
            await session.close()
        dispute = await session.dispute("wrong-result", "", DataUriPublisher())
        await session.prove_lies()
        decision = await dispute.decided(timeout_seconds=30)
        assert (decision.state, decision.awarded, decision.bond_returned) == (
            DisputeState.OVERTAKEN, 100, True,
        )  # fmt: skip
        assert await shop.balances() - start == (0, 0, 0, 0)


async def test_words_that_the_receipt_signer_did_not_sign_are_refused_by_the_contract_with_a_hint(
    marketplace: MakeMarketplace, shop: Shop, payer: FundedAccount
) -> None:
    async with marketplace() as market:
        session = await opened(market, shop, 2)
        await session.close()
        forged = Statement(session.channel_id, 1, ANOTHER, 100)
        word = SignedStatement(forged, payer.key.sign_digest(forged.digest(shop.chain.domain)))
        with pytest.raises(ChainError) as caught:
            await session.challenge(word)
        assert caught.value.details["error"] == "NotOperatorsWord"
        assert caught.value.hint is not None
