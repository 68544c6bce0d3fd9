"""The main job of a client against an operator that keeps the protocol."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aioum.chain import calls as contract_calls
from aioum.chain.client import Chain
from aioum.client import Policy, SessionPhase
from aioum.client.journal import JOURNAL_FILE, SqliteJournal
from aioum.client.opening import require_as_intended
from aioum.core.errors import AioumError, ChainError, Divergence, InvalidInput, PolicyRefused
from aioum.core.evidence import package_bytes
from aioum.core.evidence_reading import parse_package
from aioum.core.transcript import entry_to_json, transcript_root
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.conftest import FundedAccount
from tests.unit.client.records import make_record


async def test_calls_are_recorded_anchored_and_settled_for_exactly_what_they_cost(
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    chain: Chain,
    payer: FundedAccount,
    devnet: RunningDevnet,
) -> None:
    before = await chain.token_balance(devnet.token, payer.key.address)
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        result = await session.call("echo", text="hello")
        assert (result.text, result.ok, result.status, result.charge, result.index) == (
            "hello", True, 200, 100, 0,
        )  # fmt: skip
        failed = await session.call("fail", {"text": "x"})
        assert (failed.ok, failed.failure, failed.status, failed.charge) == (False, "tool-failed", 500, 0)
        assert json.loads(failed.text)["status"] == 500
        await session.call("echo", text="again")
        assert session.spent == 200
        assert session.root == transcript_root(session.calls)
    assert session.phase is SessionPhase.CLOSED
    on_chain = await chain.session(session.channel_id)
    assert on_chain is not None
    assert (on_chain.root, on_chain.call_count) == (session.root, 3)
    assert (on_chain.settled, on_chain.refunded) == (200, 9_800)
    assert before - await chain.token_balance(devnet.token, payer.key.address) == 200


async def test_a_statement_is_asked_for_every_sixteen_calls(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        for number in range(16):
            await session.call("cheap", text=str(number))
        scripted.lies.withhold_statements = True
        with pytest.raises(AioumError) as caught:
            await session.call("cheap", text="17")
        assert caught.value.code == "statement-unavailable"
        assert len(scripted.runs) == 16
        scripted.lies.withhold_statements = False
        await session.call("cheap", text="17")
        package: Any = session.evidence_package("quality", "")
        assert package["statement"]["callCount"] == 16


async def test_calls_of_several_tasks_queue_up_and_none_is_lost(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        results = await asyncio.gather(*(session.call("cheap", text=str(n)) for n in range(20)))
        assert sorted(result.index for result in results) == list(range(20))
        assert all(session.calls[result.index].response == result.text for result in results)


async def test_a_session_without_calls_is_refunded_in_full(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=500)
        closed = await session.close()
        assert (closed.settled, closed.refunded, closed.call_count) == (0, 500, 0)
        again = await session.close()
        assert again == closed


async def test_a_service_is_found_by_its_id_and_listed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        assert scripted.service_id in [service.service_id for service in await market.services()]
        offer = await market.service(scripted.service_id)
        assert offer.node_url == scripted.url
        assert await market.service(str(scripted.service_id)) == offer
        session = await market.open(offer, deposit=100)
        assert [info.channel_id for info in await market.sessions()] == [session.channel_id]


async def test_top_up_makes_a_session_go_on(marketplace: MakeMarketplace, scripted: ScriptedOperator) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=150) as session:
        await session.call("echo", text="1")
        with pytest.raises(PolicyRefused) as caught:
            await session.call("echo", text="2")
        assert caught.value.code == "deposit-exhausted"
        assert await session.top_up(50) == 200
        await session.call("echo", text="2")
        assert session.spent == 200


async def test_spend_limits_hold_and_nothing_is_signed_beyond_them(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        async with market.open(scripted.url, deposit=10_000, spend_limit=150, call_limit=100) as session:
            await session.call("echo", text="1")
            with pytest.raises(PolicyRefused) as caught:
                await session.call("echo", text="2")
            assert caught.value.code == "spend-limit-exceeded"
            assert session.authorized == 100
        async with market.open(scripted.url, deposit=10_000, call_limit=99) as session:
            with pytest.raises(PolicyRefused) as caught:
                await session.call("echo", text="1")
            assert caught.value.code == "call-too-expensive"
            assert session.authorized == 0


async def test_unknown_tools_and_bad_arguments_are_refused_before_anything_is_signed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        with pytest.raises(InvalidInput) as caught:
            await session.call("nothing", text="x")
        assert caught.value.code == "tool-unknown"
        refused: list[dict[str, Any]] = [{}, {"text": 1}, {"text": "x", "more": 1}]
        for arguments in refused:
            with pytest.raises(InvalidInput) as caught:
                await session.call("echo", arguments)
            assert caught.value.code == "arguments-invalid"
        assert session.authorized == 0


async def test_a_package_holds_everything_a_stranger_needs(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        async with market.open(scripted.url, deposit=10_000) as session:
            for number in range(3):
                await session.call("echo", text=str(number))
        package = parse_package(package_bytes(session.evidence_package("wrong-result", "1 is not one")))
        assert package.calls == tuple(entry_to_json(entry) for entry in session.calls)
        assert len(package.vouchers) == 3
        assert package.channel_id == session.channel_id
        assert package.receipts is not None
        assert len(package.receipts) == 3
        assert package.statement is not None
        part = parse_package(package_bytes(session.evidence_package("quality", "", disclose=[1])))
        assert part.disclosed
        shown: Any = part.calls
        assert [call["index"] for call in shown] == [1]


async def test_after_an_error_in_the_block_the_session_can_be_resumed_and_closed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        with pytest.raises(RuntimeError, match="program"):
            async with market.open(scripted.url, deposit=1_000) as session:
                await session.call("echo", text="1")
                raise RuntimeError("the program")
        assert session.phase is SessionPhase.OPEN
    async with marketplace() as market:
        (info,) = await market.sessions()
        assert (info.calls, info.spent, info.phase) == (1, 100, SessionPhase.OPEN)
        async with market.resume(info.channel_id) as resumed:
            assert resumed.calls == session.calls
            await resumed.call("echo", text="2")
    assert [text for _, text in scripted.runs] == ["1", "2"]


async def test_two_programs_with_one_session_never_pay_twice_for_one_position(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as first, marketplace() as second:
        one = await first.open(scripted.url, deposit=1_000)
        other = await second.resume(one.channel_id)
        await one.call("echo", text="1")
        with pytest.raises(AioumError) as caught:
            await other.call("echo", text="2")
        assert caught.value.code == "session-in-use"
        await other.call("echo", text="2")
        assert other.spent == 200
        assert other.calls[0] == one.calls[0]


async def test_a_session_of_another_key_or_unknown_one_is_not_resumed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, operator: FundedAccount
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=1_000)
        with pytest.raises(AioumError) as caught:
            await market.resume("0x" + "00" * 32)
        assert caught.value.code == "session-unknown"
    async with marketplace(key=operator.key) as market:
        with pytest.raises(InvalidInput) as refused:
            await market.resume(session.channel_id)
        assert refused.value.code == "session-of-another-key"


async def test_a_deposit_that_the_policy_the_node_or_the_purse_cannot_bear_is_refused(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace(policy=Policy(max_deposit=1_000)) as market:
        for deposit, code in ((1_001, "deposit-too-high"), (9, "deposit-too-low")):
            with pytest.raises(PolicyRefused) as caught:
                await market.open(scripted.url, deposit=deposit)
            assert caught.value.code == code
        assert await market.sessions() == []
    async with marketplace() as market:
        with pytest.raises(PolicyRefused) as caught:
            await market.open(scripted.url, deposit=10**12)
        assert caught.value.code == "balance-too-low"


async def test_an_opening_that_the_contract_refuses_leaves_a_void_session_and_no_deposit(
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    payer: FundedAccount,
    chain: Chain,
    devnet: RunningDevnet,
) -> None:
    before = await chain.token_balance(devnet.token, payer.key.address)
    async with marketplace() as market:
        offer = await market.service(scripted.url)
        changed = scripted.terms(dispute_bond=1)
        await scripted.sender.send(
            contract_calls.update(chain.service_registry, scripted.service_id, changed, ""), "update"
        )
        with pytest.raises(ChainError) as caught:
            await market.open(offer, deposit=1_000)
        assert caught.value.code == "terms-not-current"
        (info,) = await market.sessions()
        assert info.phase is SessionPhase.VOID
        async with market.resume(info.channel_id) as session:
            with pytest.raises(PolicyRefused) as refused:
                await session.call("echo", text="1")
            assert refused.value.code == "session-not-open"
    assert await chain.token_balance(devnet.token, payer.key.address) == before


async def test_a_session_of_another_chain_is_not_resumed(
    marketplace: MakeMarketplace, tmp_path: Path
) -> None:
    journal = SqliteJournal(tmp_path / "elsewhere" / JOURNAL_FILE)
    record = await journal.create(make_record())
    async with marketplace(journal=journal) as market:
        with pytest.raises(InvalidInput) as caught:
            await market.resume(record.channel_id)
        assert caught.value.code == "session-elsewhere"
    await journal.aclose()


async def test_another_session_under_our_channel_id_is_a_divergence(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, chain: Chain
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=1_000)
    on_chain = await chain.session(session.channel_id)
    assert on_chain is not None
    with pytest.raises(Divergence) as caught:
        require_as_intended(make_record().facts, on_chain)
    assert caught.value.code == "opening-mismatch"


async def test_sessions_that_open_side_by_side_do_not_use_up_each_others_allowance(
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    payer: FundedAccount,
    chain: Chain,
    devnet: RunningDevnet,
) -> None:
    # As an account that never approved anything.
    await payer.sender.send(contract_calls.approve(devnet.token, chain.payment_manager, 0), "none")
    async with marketplace() as market:
        sessions = await asyncio.gather(*(market.open(scripted.url, deposit=100 + n) for n in range(8)))
        await asyncio.gather(*(session.top_up(50) for session in sessions))
        assert [session.deposit for session in sessions] == [150 + n for n in range(8)]
        await asyncio.gather(*(session.close() for session in sessions))
