"""What every adapter of the store port must do: its test class inherits this and says how to open a store."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from aioum.core.errors import AioumError, Refused
from aioum.core.ledger import (
    Admitted,
    Call,
    Limits,
    Phase,
    Repeat,
    SessionState,
    finalize,
    observe_chain,
    seal,
)
from aioum.core.merkle import Frontier, root_of
from aioum.core.transcript import frontier_root, leaf_hash
from aioum.core.transcript import node_hash as transcript_node
from aioum.core.types import Bytes32
from aioum_node.store.port import MAX_CALLS, Store
from tests.pens import Pen
from tests.unit.node.store.samples import (
    NOW_MS,
    PRICE,
    TERMS,
    answer,
    channel,
    facts,
    opened,
    request,
    signed_facts,
)

LIMITS = Limits(max_in_flight=4, max_unpaid_calls=3)


async def refused(step: Awaitable[Any]) -> str:
    with pytest.raises(Refused) as caught:
        await step
    return caught.value.code


async def admitted(store: Store, number: int, amount: int, **options: Any) -> Call:
    step = await store.admit(channel(number), request(amount, **options), NOW_MS)
    assert isinstance(step, Admitted)
    return step.call


class StoreConformance(ABC):
    """Stores of one folder hold the same data; `reopened` closes one and opens the next."""

    @abstractmethod
    def make(self, folder: Path) -> Store:
        """Open the store of this folder with LIMITS."""

    @pytest_asyncio.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = self.make(tmp_path)
        await store.open(facts(1), opened(1), NOW_MS)
        yield store
        await store.close()

    async def reopened(self, store: Store, folder: Path) -> Store:
        await store.close()
        return self.make(folder)

    # --- open ---

    async def test_an_opened_session_is_read_back_with_all_its_facts(self, store: Store) -> None:
        stored = await store.session(channel(1))
        assert stored is not None
        assert (stored.facts, stored.state) == (facts(1), opened(1))
        assert (stored.opened_at_ms, stored.active_at_ms, stored.finalized_at_ms) == (NOW_MS, NOW_MS, None)
        assert stored.transaction_hash is None

    async def test_facts_without_terms_and_everything_else_survive_a_restart(
        self, store: Store, tmp_path: Path
    ) -> None:
        await store.open(facts(2, terms=None), opened(2), NOW_MS + 1)
        store = await self.reopened(store, tmp_path)
        first, second = await store.session(channel(1)), await store.session(channel(2))
        await store.close()
        assert first is not None
        assert second is not None
        assert (first.facts, second.facts) == (facts(1), facts(2, terms=None))

    async def test_opening_a_known_channel_again_returns_the_stored_session(self, store: Store) -> None:
        await admitted(store, 1, PRICE)
        again = await store.open(facts(1), opened(1, deposit=5), NOW_MS + 9)
        assert (again.state.admitted, again.state.deposit) == (1, opened(1).deposit)
        assert again.opened_at_ms == NOW_MS

    async def test_an_unknown_channel_is_none(self, store: Store) -> None:
        assert await store.session(channel(99)) is None
        assert await store.calls(channel(99), 0, 10) == []

    async def test_a_label_that_two_sessions_bear_finds_both_and_mixes_nothing(self, store: Store) -> None:
        await admitted(store, 1, PRICE)
        await store.open(facts(2, session_id=1), opened(2), NOW_MS)
        assert [found.facts.channel_id for found in await store.find(1)] == [channel(1), channel(2)]
        assert await store.calls(channel(2), 0, 10) == []
        assert (await admitted(store, 2, PRICE)).index == 0
        assert await store.find(7) == []

    # --- admit ---

    async def test_an_admitted_call_is_durable_before_it_has_an_answer(
        self, store: Store, tmp_path: Path
    ) -> None:
        call = await admitted(store, 1, PRICE, text='{"a":1}')
        store = await self.reopened(store, tmp_path)
        stored = await store.session(channel(1))
        unrecorded = await store.unrecorded()
        await store.close()
        assert unrecorded == [(channel(1), call)]
        assert stored is not None
        assert (stored.state.accepted, stored.state.reserved, stored.state.in_flight) == (PRICE, PRICE, 1)
        assert stored.state.accepted_signature == request(PRICE).signature

    async def test_a_call_of_an_unknown_channel_is_refused(self, store: Store) -> None:
        assert await refused(store.admit(channel(99), request(PRICE), NOW_MS)) == "channel-not-found"

    async def test_the_ledgers_refusals_come_through_and_change_nothing(self, store: Store) -> None:
        before = await store.session(channel(1))
        assert await refused(store.admit(channel(1), request(PRICE - 1), NOW_MS)) == "payment-insufficient"
        too_much = request(opened(1).deposit + 1)
        assert await refused(store.admit(channel(1), too_much, NOW_MS)) == "amount-exceeds-deposit"
        assert await store.session(channel(1)) == before

    async def test_a_retry_of_the_call_in_flight_is_a_repeat_without_an_answer(self, store: Store) -> None:
        call = await admitted(store, 1, PRICE)
        assert await store.admit(channel(1), request(PRICE), NOW_MS) == Repeat(call)

    @pytest.mark.parametrize("which", [0, 1, 5, 11])
    async def test_a_retry_of_any_recorded_call_gets_its_stored_answer(
        self, store: Store, which: int
    ) -> None:
        for index in range(12):
            await admitted(store, 1, (index + 1) * PRICE, text=f"{index}")
            await store.record(channel(1), index, answer(f"r{index}"), NOW_MS)
        step = await store.admit(channel(1), request((which + 1) * PRICE, text=f"{which}"), NOW_MS)
        assert isinstance(step, Repeat)
        assert step.call.answer == answer(f"r{which}")
        assert (step.call.index, step.call.charge) == (which, PRICE)

    async def test_an_old_amount_with_another_request_is_a_conflict(self, store: Store) -> None:
        await admitted(store, 1, PRICE)
        await store.record(channel(1), 0, answer(), NOW_MS)
        conflict = store.admit(channel(1), request(PRICE, text="[]"), NOW_MS)
        assert await refused(conflict) == "request-conflict"

    async def test_an_old_amount_that_no_call_came_with_is_not_a_retry(self, store: Store) -> None:
        for index, amount in enumerate((PRICE, 5 * PRICE)):
            await admitted(store, 1, amount)
            await store.record(channel(1), index, answer(), NOW_MS)
        for amount in (1, PRICE + 1, 5 * PRICE - 1):
            step = store.admit(channel(1), request(amount), NOW_MS)
            assert await refused(step) == "amount-not-increasing"

    async def test_two_hundred_identical_requests_at_once_are_one_call(self, store: Store) -> None:
        steps = await asyncio.gather(*(store.admit(channel(1), request(PRICE), NOW_MS) for _ in range(200)))
        assert sum(isinstance(step, Admitted) for step in steps) == 1
        assert {step.call.index for step in steps} == {0}
        stored = await store.session(channel(1))
        assert stored is not None
        assert (stored.state.admitted, stored.state.reserved) == (1, PRICE)

    async def test_a_full_session_takes_no_further_call(self, store: Store) -> None:
        frontier = Frontier(MAX_CALLS, (b"\x01" * 32,))
        await store.open(facts(3), replace(opened(3), admitted=MAX_CALLS, frontier=frontier), NOW_MS)
        assert await refused(store.admit(channel(3), request(PRICE), NOW_MS)) == "too-many-calls"

    # --- record ---

    async def test_a_recorded_call_has_response_leaf_charge_and_root(
        self, store: Store, tmp_path: Path
    ) -> None:
        leaves = []
        for index in range(5):
            call = await admitted(store, 1, (index + 1) * PRICE, text=f"{index}")
            recorded = await store.record(channel(1), index, answer(f"r{index}"), NOW_MS + index)
            assert recorded.won
            leaves.append(leaf_hash(index, call.request, f"r{index}".encode(), b"echo"))
        store = await self.reopened(store, tmp_path)
        stored = await store.session(channel(1))
        calls = await store.calls(channel(1), 0, 100)
        await store.close()
        assert stored is not None
        assert [call.leaf for call in calls] == leaves
        assert [call.answer for call in calls] == [answer(f"r{index}") for index in range(5)]
        assert (stored.state.spent, stored.state.reserved, stored.state.drained) == (5 * PRICE, 0, True)
        assert frontier_root(stored.state.frontier) == root_of(leaves, transcript_node)
        assert stored.active_at_ms == NOW_MS + 4

    async def test_two_hundred_answers_to_one_call_at_once_leave_one(self, store: Store) -> None:
        await admitted(store, 1, PRICE)
        steps = await asyncio.gather(
            *(store.record(channel(1), 0, answer(f"r{number}"), NOW_MS) for number in range(200))
        )
        assert sum(step.won for step in steps) == 1
        assert len({step.call for step in steps}) == 1
        assert {step.call.answer for step in steps} == {(await store.calls(channel(1), 0, 1))[0].answer}
        stored = await store.session(channel(1))
        assert stored is not None
        assert (stored.state.spent, stored.state.frontier.size) == (PRICE, 1)

    async def test_an_answer_after_a_restart_is_recorded_once(self, store: Store, tmp_path: Path) -> None:
        await admitted(store, 1, PRICE)
        store = await self.reopened(store, tmp_path)
        won = await store.record(channel(1), 0, answer("late"), NOW_MS)
        lost = await store.record(channel(1), 0, answer("later"), NOW_MS)
        unrecorded = await store.unrecorded()
        await store.close()
        assert (won.won, lost.won, lost.call.answer, unrecorded) == (True, False, answer("late"), [])

    async def test_calls_recorded_out_of_order_join_the_root_in_order(
        self, store: Store, tmp_path: Path
    ) -> None:
        await store.open(signed_facts(2), opened(2, signed=True), NOW_MS)
        pen = Pen(channel(2))
        for cursor in range(4):
            await admitted(store, 2, 4 * PRICE, envelope=pen.sign(b"{}", cursor))
        await store.record(channel(2), 2, answer("r2"), NOW_MS)
        await store.record(channel(2), 3, answer("r3", failed=True), NOW_MS)
        store = await self.reopened(store, tmp_path)
        stored = await store.session(channel(2))
        assert stored is not None
        assert [(item.index, item.charge) for item in stored.state.ahead] == [(2, PRICE), (3, 0)]
        assert [call.index for _, call in await store.unrecorded()] == [0, 1]
        await store.record(channel(2), 0, answer("r0"), NOW_MS)
        last = await store.record(channel(2), 1, answer("r1"), NOW_MS)
        calls = await store.calls(channel(2), 0, 10)
        await store.close()
        assert (last.state.frontier.size, last.state.ahead) == (4, ())
        leaves = [call.leaf for call in calls if call.leaf is not None]
        assert frontier_root(last.state.frontier) == root_of(leaves, transcript_node)

    async def test_failures_cost_nothing_and_too_many_seal_the_session(self, store: Store) -> None:
        for index in range(LIMITS.max_unpaid_calls):
            await admitted(store, 1, PRICE + index)
            recorded = await store.record(channel(1), index, answer("no", failed=True), NOW_MS)
            assert recorded.call.charge == 0
        assert await refused(store.admit(channel(1), request(99), NOW_MS)) == "session-sealed"
        stored = await store.session(channel(1))
        assert stored is not None
        assert (stored.state.seal_reason, stored.state.spent) == ("too-many-unpaid-calls", 0)

    async def test_an_answer_to_a_call_that_was_never_admitted_is_refused(self, store: Store) -> None:
        assert await refused(store.record(channel(1), 0, answer(), NOW_MS)) == "call-not-found"
        assert await refused(store.record(channel(1), -1, answer(), NOW_MS)) == "call-not-found"
        assert await refused(store.record(channel(9), 0, answer(), NOW_MS)) == "channel-not-found"

    async def test_amounts_up_to_the_protocols_limit_are_kept_exactly(
        self, store: Store, tmp_path: Path
    ) -> None:
        most = 2**128 - 1
        await store.open(facts(2), opened(2, deposit=most), NOW_MS)
        await admitted(store, 2, most, price=most)
        await store.record(channel(2), 0, answer(), NOW_MS)
        store = await self.reopened(store, tmp_path)
        stored = await store.session(channel(2))
        calls = await store.calls(channel(2), 0, 1)
        await store.close()
        assert stored is not None
        assert (stored.state.deposit, stored.state.spent, stored.state.accepted) == (most, most, most)
        assert (calls[0].price, calls[0].amount, calls[0].charge) == (most, most, most)

    # --- update ---

    async def test_an_update_is_durable_and_returns_the_session(self, store: Store, tmp_path: Path) -> None:
        watch = partial(observe_chain, deposit=77, close_pending=True)
        updated = await store.update(channel(1), watch, NOW_MS)
        store = await self.reopened(store, tmp_path)
        stored = await store.session(channel(1))
        await store.close()
        assert stored == updated
        assert (updated.state.deposit, updated.state.close_pending) == (77, True)

    async def test_a_seal_is_never_undone(self, store: Store) -> None:
        await store.update(channel(1), partial(seal, reason="first"), NOW_MS)
        again = await store.update(channel(1), partial(seal, reason="second"), NOW_MS)
        assert (again.state.phase, again.state.seal_reason) == (Phase.SEALED, "first")

    async def test_the_first_finalization_gives_time_and_transaction(self, store: Store) -> None:
        first, second = Bytes32(b"\x01" * 32), Bytes32(b"\x02" * 32)
        final = await store.update(channel(1), finalize, NOW_MS + 5)
        assert (final.finalized_at_ms, final.transaction_hash) == (NOW_MS + 5, None)
        final = await store.update(channel(1), finalize, NOW_MS + 6, transaction_hash=first)
        assert (final.finalized_at_ms, final.transaction_hash) == (NOW_MS + 5, first)
        final = await store.update(channel(1), finalize, NOW_MS + 7, transaction_hash=second)
        assert final.transaction_hash == first
        assert await store.session(channel(1)) == final
        assert await refused(store.admit(channel(1), request(PRICE), NOW_MS)) == "session-finalized"

    async def test_what_a_change_raises_reaches_the_caller_and_nothing_is_written(self, store: Store) -> None:
        def never(state: SessionState) -> SessionState:
            raise Refused("no", code="call-count-mismatch")

        before = await store.session(channel(1))
        assert await refused(store.update(channel(1), never, NOW_MS)) == "call-count-mismatch"
        assert await store.session(channel(1)) == before
        assert await refused(store.update(channel(9), never, NOW_MS)) == "channel-not-found"

    async def test_a_change_that_cannot_be_stored_fails_alone(self, store: Store) -> None:
        await store.open(facts(2), opened(2), NOW_MS)

        def impossible(state: SessionState) -> SessionState:
            return replace(state, deposit=2**200)

        steps = await asyncio.gather(
            store.admit(channel(2), request(PRICE), NOW_MS),
            store.update(channel(1), impossible, NOW_MS),
            store.update(channel(2), partial(seal, reason="test"), NOW_MS),
            return_exceptions=True,
        )
        assert isinstance(steps[1], AioumError)
        assert (steps[1].code, steps[1].details) == ("store-failed", {"outcome": "not-done"})
        assert isinstance(steps[0], Admitted)
        stored = await store.session(channel(2))
        assert stored is not None
        assert (stored.state.admitted, stored.state.phase) == (1, Phase.SEALED)
        untouched = await store.session(channel(1))
        assert untouched is not None
        assert untouched.state == opened(1)

    async def test_refused_steps_among_others_at_once_harm_none(self, store: Store) -> None:
        for number in range(2, 12):
            await store.open(facts(number), opened(number), NOW_MS)
        steps = await asyncio.gather(
            *(
                store.admit(channel(number), request(PRICE if number % 2 else 1), NOW_MS)
                for number in range(2, 12)
            ),
            return_exceptions=True,
        )
        for number, step in zip(range(2, 12), steps, strict=True):
            stored = await store.session(channel(number))
            assert stored is not None
            assert isinstance(step, Admitted) == bool(number % 2)
            assert stored.state.admitted == number % 2

    # --- reading ---

    async def test_calls_come_in_pages_with_the_unanswered_one(self, store: Store) -> None:
        for index in range(7):
            await admitted(store, 1, (index + 1) * PRICE, text=f"{index}")
            if index < 6:
                await store.record(channel(1), index, answer(), NOW_MS)
        pages = [await store.calls(channel(1), first, 3) for first in (0, 3, 6, 9)]
        assert [[call.index for call in page] for page in pages] == [[0, 1, 2], [3, 4, 5], [6], []]
        assert [call.recorded for call in pages[2]] == [False]
        assert await store.calls(channel(1), 0, 0) == []

    async def test_calls_of_neighboring_sessions_stay_apart_through_thousands(self, store: Store) -> None:
        numbers, count = range(1, 8), 350
        for number in numbers:
            await store.open(facts(number), opened(number), NOW_MS)
        for index in range(count):
            amount = (index + 1) * PRICE
            await asyncio.gather(*(admitted(store, n, amount, text=f"{n}") for n in numbers))
            await asyncio.gather(*(store.record(channel(n), index, answer(), NOW_MS) for n in numbers))
        for number in numbers:
            calls = await store.calls(channel(number), 0, 5_000)
            assert [call.index for call in calls] == list(range(count))
            assert {call.request for call in calls} == {f"{number}".encode()}
            retry = await store.admit(channel(number), request(3 * PRICE, text=f"{number}"), NOW_MS)
            assert (retry.call.index, retry.call.recorded) == (2, True)

    async def test_sessions_are_found_by_phase_oldest_first(self, store: Store) -> None:
        for number in (2, 3, 4):
            await store.open(facts(number), opened(number), NOW_MS + number)
        await store.update(channel(2), partial(seal, reason="test"), NOW_MS)
        await store.update(channel(4), finalize, NOW_MS + 50)

        async def numbers(*phases: Phase, **options: Any) -> list[int]:
            found = await store.sessions(phases, **options)
            return [stored.facts.session_id for stored in found]

        assert await numbers(Phase.OPEN) == [1, 3]
        assert await numbers(Phase.OPEN, Phase.SEALED) == [1, 2, 3]
        assert await numbers(Phase.OPEN, Phase.SEALED, limit=2) == [1, 2]
        assert await numbers(Phase.FINAL) == [4]
        assert await numbers() == []
        assert await numbers(Phase.FINAL, finalized_before_ms=NOW_MS + 51) == []
        await store.released(channel(4))
        assert await numbers(Phase.FINAL, finalized_before_ms=NOW_MS + 50) == []
        assert await numbers(Phase.FINAL, finalized_before_ms=NOW_MS + 51) == [4]

    async def test_idle_sessions_are_those_without_a_call_or_with_a_client_that_wants_out(
        self, store: Store
    ) -> None:
        for number in (2, 3):
            await store.open(facts(number), opened(number), NOW_MS + 100)
        leaving = partial(observe_chain, deposit=1, close_pending=True)
        await store.update(channel(3), leaving, NOW_MS + 100)
        await store.open(facts(4), opened(4), NOW_MS + 100)
        await store.update(channel(4), partial(seal, reason="test"), NOW_MS + 100)
        found = await store.sessions((Phase.OPEN, Phase.SEALED), idle_since_ms=NOW_MS + 50)
        assert [stored.facts.session_id for stored in found] == [1, 3, 4]

    async def test_cards_stay_and_positions_move(self, store: Store, tmp_path: Path) -> None:
        key = Bytes32(b"\x01" * 32)
        assert await store.card(key) is None
        assert await store.position("scan") is None
        await store.put_card(key, b'{"name":"a"}')
        await store.put_card(key, b'{"name":"b"}')
        await store.put_position("scan", 7, b"\x07" * 32)
        await store.put_position("scan", 9, b"\x09" * 32)
        store = await self.reopened(store, tmp_path)
        card, position = await store.card(key), await store.position("scan")
        await store.close()
        assert (card, position) == (b'{"name":"a"}', (9, b"\x09" * 32))

    # --- held money ---

    async def test_a_final_session_with_a_dispute_window_is_held_until_it_is_released(
        self, store: Store, tmp_path: Path
    ) -> None:
        no_window = replace(TERMS, dispute_window_seconds=0)
        for number, terms in ((2, TERMS), (3, no_window), (4, None)):
            await store.open(facts(number, terms=terms), opened(number), NOW_MS)
        assert await store.held() == []
        for number in (2, 3, 4, 1):
            await store.update(channel(number), finalize, NOW_MS)
        store = await self.reopened(store, tmp_path)
        held = await store.held()
        await store.released(channel(1))
        await store.released(channel(1))
        await store.released(channel(99))
        # What became final once does so no second time.
        await store.update(channel(1), finalize, NOW_MS + 1, transaction_hash=Bytes32(b"\x01" * 32))
        left = await store.held()
        await store.close()
        assert held == [channel(1), channel(2)]
        assert left == [channel(2)]

    async def test_a_session_of_which_money_is_held_is_not_removed(self, store: Store) -> None:
        await admitted(store, 1, PRICE)
        await store.record(channel(1), 0, answer(), NOW_MS)
        await store.update(channel(1), finalize, NOW_MS)
        assert await refused(store.delete(channel(1))) == "session-held"
        assert len(await store.calls(channel(1), 0, 10)) == 1
        await store.released(channel(1))
        await store.delete(channel(1))
        assert await store.session(channel(1)) is None
        assert await store.held() == []

    # --- delete ---

    async def test_only_a_final_session_is_removed_and_others_keep_their_calls(self, store: Store) -> None:
        await store.open(facts(2), opened(2), NOW_MS)
        for number in (1, 2):
            await admitted(store, number, PRICE)
            await store.record(channel(number), 0, answer(), NOW_MS)
        assert await refused(store.delete(channel(1))) == "session-not-final"
        await store.update(channel(1), finalize, NOW_MS)
        await store.released(channel(1))
        await store.delete(channel(1))
        assert await store.session(channel(1)) is None
        assert await store.calls(channel(1), 0, 10) == []
        assert await store.find(1) == []
        assert len(await store.calls(channel(2), 0, 10)) == 1
        await store.delete(channel(1))

    async def test_a_session_opened_after_a_removal_starts_empty(self, store: Store, tmp_path: Path) -> None:
        await admitted(store, 1, PRICE)
        await store.record(channel(1), 0, answer(), NOW_MS)
        await store.update(channel(1), finalize, NOW_MS)
        await store.released(channel(1))
        await store.delete(channel(1))
        store = await self.reopened(store, tmp_path)
        await store.open(facts(1), opened(1), NOW_MS)
        call = await admitted(store, 1, PRICE, text="again")
        calls = await store.calls(channel(1), 0, 10)
        await store.close()
        assert calls == [call]

    # --- closing ---

    async def test_steps_that_were_submitted_before_the_close_still_happen(
        self, store: Store, tmp_path: Path
    ) -> None:
        waiting = asyncio.gather(*(store.admit(channel(1), request(PRICE), NOW_MS) for _ in range(3)))
        await asyncio.sleep(0)
        store = await self.reopened(store, tmp_path)
        await waiting
        stored = await store.session(channel(1))
        await store.close()
        assert stored is not None
        assert stored.state.admitted == 1

    async def test_a_closed_store_refuses_everything(self, store: Store) -> None:
        await store.close()
        await store.close()
        with pytest.raises(AioumError) as write:
            await store.admit(channel(1), request(PRICE), NOW_MS)
        with pytest.raises(AioumError) as read:
            await store.sessions((Phase.OPEN,))
        assert (write.value.code, read.value.code) == ("store-closed", "store-closed")
