"""Operators that sign something else than what they answered: the client stops paying and keeps the proof."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioum.chain import calls as contract_calls
from aioum.chain.client import Chain
from aioum.client import SessionPhase
from aioum.core.errors import AioumError, ChainError, Divergence, OutcomeUnknown, PolicyRefused
from aioum.core.evidence import package_bytes
from aioum.core.evidence_reading import parse_package
from aioum.core.hextext import to_hex
from aioum.core.payment import CallReceipt, Statement
from aioum.core.signing import LocalKey
from aioum.core.transcript import append_leaf
from aioum.core.types import Bytes32
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator, recorded_as

OTHER = Bytes32(b"\x07" * 32)


def another_leaf(receipt: CallReceipt) -> CallReceipt:
    return replace(receipt, leaf=OTHER)


def another_index(receipt: CallReceipt) -> CallReceipt:
    return replace(receipt, index=receipt.index + 1)


def dearer(receipt: CallReceipt) -> CallReceipt:
    return replace(receipt, charge=receipt.charge + 1)


@pytest.mark.parametrize(
    ("lie", "code", "requests"),
    [
        (another_leaf, "receipt-leaf-mismatch", 3),
        (another_index, "receipt-index-mismatch", 3),
        (dearer, "receipt-charge-mismatch", 1),
    ],
)
async def test_a_signed_receipt_that_stays_wrong_stops_paying_and_is_kept(
    lie: Callable[[CallReceipt], CallReceipt],
    code: str,
    requests: int,
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
) -> None:
    signed: list[CallReceipt] = []

    def lying(receipt: CallReceipt) -> CallReceipt:
        signed.append(lie(receipt))
        return signed[-1]

    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="good")
        scripted.lies.receipt = lying
        with pytest.raises(Divergence) as caught:
            await session.call("echo", text="bad")
        assert caught.value.code == code
        assert len(signed) == requests
        assert session.stopped == code
        (evidence,) = session.evidence
        assert [item.receipt for item in evidence.receipts] == [signed[0]]
        with pytest.raises(PolicyRefused) as refused:
            await session.call("echo", text="more")
        assert refused.value.code == "paying-stopped"
        with pytest.raises(PolicyRefused) as refused:
            await session.recover()
        assert refused.value.code == "paying-stopped"
    async with marketplace() as market:
        resumed = await market.resume(session.channel_id)
        assert (resumed.stopped, resumed.evidence) == (code, (evidence,))
        package = parse_package(package_bytes(resumed.evidence_package("wrong-result", "it lies")))
        receipts: Any = package.receipts
        assert [receipt["index"] for receipt in receipts] == [0, signed[0].index]


async def test_two_different_receipts_of_one_call_prove_double_signing(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    lies: list[Callable[[CallReceipt], CallReceipt]] = [another_leaf, replace]

    def first_lying(receipt: CallReceipt) -> CallReceipt:
        return lies.pop(0)(receipt)

    scripted.lies.receipt = first_lying
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        with pytest.raises(Divergence) as caught:
            await session.call("echo", text="1")
        assert caught.value.code == "operator-double-signed"
        (evidence,) = session.evidence
        first, second = (item.receipt for item in evidence.receipts)
        assert (first.index, second.index) == (0, 0)
        assert first.leaf != second.leaf
        assert len(caught.value.details["receipts"]) == 2
        package: Any = session.evidence_package("wrong-result", "double signed")
        assert len(package["receipts"]) == 2


async def test_a_later_receipt_for_an_answered_call_that_differs_proves_double_signing(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        scripted.lies.receipt = lambda receipt: replace(receipt, index=0)
        with pytest.raises(Divergence) as caught:
            await session.call("echo", text="2")
        assert caught.value.code == "operator-double-signed"


async def test_receipts_by_another_key_are_no_answer(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        scripted.lies.signature_by = LocalKey(b"\x05" * 32)
        with pytest.raises(OutcomeUnknown) as caught:
            await session.call("echo", text="1")
        assert caught.value.code == "receipt-invalid"
        assert session.outstanding
        assert session.stopped is None
        with pytest.raises(OutcomeUnknown) as caught:
            await session.statement()
        assert caught.value.code == "receipt-invalid"


def code_of_cause(error: BaseException) -> str:
    assert isinstance(error.__cause__, AioumError)
    return error.__cause__.code


def another_root(statement: Statement) -> Statement:
    return replace(statement, root=OTHER)


def more_spent(statement: Statement) -> Statement:
    return replace(statement, spent=statement.spent + 1)


def more_calls(statement: Statement) -> Statement:
    return replace(statement, call_count=statement.call_count + 1)


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (another_root, "statement-root-mismatch"),
        (more_spent, "statement-spent-mismatch"),
        (more_calls, "statement-count-mismatch"),
    ],
)
async def test_a_statement_that_contradicts_our_record_stops_paying(
    lie: Callable[[Statement], Statement], code: str, marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        scripted.lies.statement = lie
        with pytest.raises(Divergence) as caught:
            await session.statement()
        assert caught.value.code == code
        assert session.stopped == code
        assert session.evidence[0].detail["statement"] == caught.value.details["statement"]


async def test_an_older_statement_that_agrees_is_no_divergence_but_not_enough(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        old = await session.statement()
        assert old is not None
        await session.call("echo", text="2")
        scripted.lies.statement = lambda statement: old.statement
        with pytest.raises(OutcomeUnknown) as caught:
            await session.statement()
        assert caught.value.code == "statement-unavailable"
        assert code_of_cause(caught.value) == "statement-stale"
        assert session.stopped is None


async def test_a_statement_by_another_key_is_none(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        scripted.lies.signature_by = LocalKey(b"\x05" * 32)
        with pytest.raises(OutcomeUnknown) as caught:
            await session.statement()
        assert caught.value.code == "statement-unavailable"
        assert code_of_cause(caught.value) == "statement-invalid"


def with_another_root(settlement: contract_calls.Settlement) -> contract_calls.Settlement:
    return replace(settlement, root=OTHER)


async def test_an_anchored_root_of_another_history_is_reported_with_what_the_chain_says(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    scripted.lies.settle = with_another_root
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        with pytest.raises(Divergence) as caught:
            await session.close()
        assert caught.value.code == "anchored-root-mismatch"
        assert session.phase is SessionPhase.CLOSED
        assert session.evidence[0].detail["anchoredRoot"] == to_hex(OTHER)


async def test_capturing_more_than_the_calls_cost_is_noticed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("fail", text="1")
        # A failed call's amount stays signed, so the contract lets the operator take it.
        scripted.lies.settle = lambda right: replace(
            right,
            voucher_amount=session.authorized,
            capture=session.authorized,
            signature=scripted.calls[session.channel_id][0].signature,
        )
        with pytest.raises(Divergence) as caught:
            await session.close()
        assert caught.value.code == "captured-above-spent"


async def test_a_root_anchored_behind_our_back_stops_paying(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, chain: Chain
) -> None:
    async with marketplace(settings={"chain_check_seconds": 0}) as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        commit = contract_calls.commit_results(chain.payment_manager, session.channel_id, session.root, 1)
        await scripted.sender.send(commit, "commit")
        with pytest.raises(PolicyRefused) as caught:
            await session.call("echo", text="2")
        assert caught.value.code == "paying-stopped"
        assert session.stopped == "root-anchored"
        assert (await session.close()).settled == 100


@pytest.mark.parametrize("scripted", [{}, {"submissions": None}], indirect=True, ids=["signed", "unsigned"])
async def test_a_sealed_session_stops_paying(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        for number in range(8):
            await session.call("fail", text=str(number))
        with pytest.raises(AioumError) as caught:
            await session.call("echo", text="9")
        assert caught.value.code == "session-sealed"
        assert session.stopped == "session-sealed"
        # Unsigned, it was given up; signed, it stays, and closes nothing in.
        assert session.outstanding == (session.roster is not None)
        assert (await session.close()).settled == 0


async def test_a_call_in_the_operators_record_that_we_never_signed_stops_paying(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        state, known = scripted.states[session.channel_id], scripted.calls[session.channel_id]
        with pytest.raises(AioumError) as caught:
            scripted.lies.refuse = [(404, "tool-unknown")]
            await session.call("echo", text="2")
        assert caught.value.code == "tool-unknown"
        # Its record now shows another call than the one it was asked for.
        known[1] = recorded_as(known[1], request=known[0].request)
        assert state is not None
        with pytest.raises(Divergence) as diverged:
            await session.statement()
        assert diverged.value.code == "unknown-call-recorded"


async def test_a_session_settled_behind_our_back_stops_paying_and_is_held_against_our_record(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace(settings={"chain_check_seconds": 0}) as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        with pytest.raises(ChainError) as early:
            await session.verify()
        assert early.value.code == "session-not-final"
        await scripted.settle(session.channel_id)
        with pytest.raises(PolicyRefused) as caught:
            await session.call("echo", text="2")
        assert (caught.value.code, session.stopped) == ("paying-stopped", "session-finalized")
        closed = await session.verify()
        assert (closed.settled, closed.root, session.phase) == (100, session.root, SessionPhase.CLOSED)


async def test_a_call_that_was_invented_and_anchored_ends_the_session_with_all_that_proves_it(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        state, known = scripted.states[session.channel_id], scripted.calls[session.channel_id]
        invented = recorded_as(known[0], index=1, envelope=None)
        assert invented.leaf is not None
        known.append(invented)
        frontier = append_leaf(state.frontier, invented.leaf)
        scripted.states[session.channel_id] = replace(state, admitted=2, frontier=frontier)
        await scripted.settle(session.channel_id)
        for _ in range(2):
            with pytest.raises(Divergence) as caught:
                await session.close()
            assert caught.value.code == "anchored-root-mismatch"
            assert session.phase is SessionPhase.CLOSED
        assert [item.code for item in session.evidence] == ["unknown-call-recorded", "anchored-root-mismatch"]
        assert session.stopped == "unknown-call-recorded"
