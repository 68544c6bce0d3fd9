"""Pauses and deadlines of settling: plain arithmetic over an injected clock."""

import math
from dataclasses import replace

import pytest

from aioum.core.ledger import SessionState
from aioum.core.types import ChannelId
from aioum_node.settlement.deadlines import SHORTEST_GRACE_SECONDS, Deadlines
from aioum_node.settlement.pauses import Pauses
from aioum_node.store.port import StoredSession
from tests.unit.node.settlement.test_rules import CHAIN_TIME, GRACE_SECONDS, on_chain, view
from tests.unit.node.store.samples import channel, facts, opened

ONE, TWO = channel(1), channel(2)


class Clock:
    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def advance(self, seconds: float) -> None:
        self.ms += int(seconds * 1_000)


def stored(state: SessionState) -> StoredSession:
    return StoredSession(facts(1), state, 0, 0)


def pause_after(pauses: Pauses, clock: Clock, channel_id: ChannelId) -> int:
    """Fails once more; how many whole seconds the pause then lasts."""
    pauses.failed(channel_id, "rpc-unreachable")
    before = clock.ms
    while not pauses.is_due(channel_id):
        clock.advance(1)
    return (clock.ms - before) // 1_000


def test_pauses_double_up_to_ten_minutes_where_nobody_leaves() -> None:
    clock = Clock()
    pauses = Pauses(clock.now_ms, lambda channel_id: None)
    assert [pause_after(pauses, clock, ONE) for _ in range(11)] == [
        *(2, 4, 8, 16, 32, 64, 128, 256, 512),
        *(600, 600),
    ]


def test_no_pause_takes_more_than_a_tenth_of_what_is_left_of_a_clients_grace() -> None:
    clock = Clock()
    end_ms = clock.ms + GRACE_SECONDS * 1_000
    left = lambda channel_id: (end_ms - clock.ms) / 1_000  # noqa: E731
    pauses = Pauses(clock.now_ms, left)
    turns = 0
    while left(ONE) > 0:
        allowed = max(left(ONE) / 10, 2)
        assert pause_after(pauses, clock, ONE) <= math.ceil(allowed)
        turns += 1
    assert turns > 30
    assert pause_after(pauses, clock, ONE) == 60


def test_a_chain_that_is_back_ends_the_pauses_of_those_that_waited_for_it_and_of_nobody_else() -> None:
    clock = Clock()
    pauses = Pauses(clock.now_ms, lambda channel_id: None)
    pauses.failed(ONE, "rpc-timeout")
    pauses.failed(TWO, "root-conflict")
    pauses.chain_is_back()
    assert (pauses.is_due(ONE), pauses.is_due(TWO)) == (True, False)


def test_a_reason_to_wait_is_new_once() -> None:
    pauses = Pauses(Clock().now_ms, lambda channel_id: None)
    assert [pauses.waits(ONE, "draining"), pauses.waits(ONE, "draining"), pauses.waits(ONE, "idle")] == [
        True,
        False,
        True,
    ]


def test_what_is_left_of_a_grace_is_counted_from_the_chains_clock_and_runs_on_in_silence() -> None:
    clock = Clock()
    deadlines = Deadlines(clock.now_ms)
    assert (deadlines.seconds_left(ONE), deadlines.nearest_seconds()) == (None, math.inf)
    deadlines.saw(ONE, view(on_chain(close_requested_at=CHAIN_TIME - 100)))
    assert deadlines.seconds_left(ONE) == GRACE_SECONDS - 100
    clock.advance(250)
    assert deadlines.nearest_seconds() == GRACE_SECONDS - 350
    # An endpoint whose head is old gives no time back.
    deadlines.saw(ONE, view(on_chain(close_requested_at=CHAIN_TIME - 100)))
    assert deadlines.seconds_left(ONE) == GRACE_SECONDS - 350
    deadlines.saw(ONE, view(on_chain()))
    assert deadlines.seconds_left(ONE) is None


def test_a_pending_close_of_the_store_alone_is_given_the_shortest_grace() -> None:
    clock = Clock()
    deadlines = Deadlines(clock.now_ms)
    leaving = stored(replace(opened(1), close_pending=True))
    deadlines.notice([])
    deadlines.notice([leaving])
    clock.advance(100)
    deadlines.notice([leaving])
    assert deadlines.seconds_left(ONE) == SHORTEST_GRACE_SECONDS - 100
    # What the chain says replaces the guess.
    deadlines.saw(ONE, view(on_chain(close_requested_at=CHAIN_TIME - 10)))
    assert deadlines.seconds_left(ONE) == GRACE_SECONDS - 10
    deadlines.notice([])
    assert deadlines.seconds_left(ONE) is None


def test_who_takes_over_a_pending_close_that_it_has_not_looked_at_is_told_at_once() -> None:
    clock = Clock()
    deadlines = Deadlines(clock.now_ms)
    leaving = [stored(replace(opened(1), close_pending=True))]
    for _ in range(2):
        deadlines.notice(leaving)
        assert deadlines.near(400) == [(ONE, None)]
        deadlines.notice(leaving)
        assert deadlines.near(400) == []
        # What the chain says is another deadline than the guess, and told on its own.
        deadlines.saw(ONE, view(on_chain(close_requested_at=CHAIN_TIME - GRACE_SECONDS + 450)))
        assert deadlines.near(400) == []
        clock.advance(50)
        assert deadlines.near(400) == [(ONE, 400.0)]
        deadlines.saw(ONE, None)
        assert deadlines.nearest_seconds() == math.inf
        deadlines.hand_over()


def test_who_looked_at_a_pending_close_before_it_took_over_knows_what_is_left() -> None:
    clock = Clock()
    deadlines = Deadlines(clock.now_ms)
    deadlines.saw(ONE, view(on_chain(close_requested_at=CHAIN_TIME - 100)))
    clock.advance(300)
    deadlines.notice([stored(replace(opened(1), close_pending=True))])
    deadlines.hand_over()
    deadlines.notice([stored(replace(opened(1), close_pending=True))])
    assert deadlines.seconds_left(ONE) == GRACE_SECONDS - 400


def test_a_close_that_was_requested_anew_has_a_deadline_of_its_own() -> None:
    deadlines = Deadlines(Clock().now_ms)
    deadlines.saw(ONE, view(on_chain(close_requested_at=CHAIN_TIME - GRACE_SECONDS + 300)))
    assert deadlines.near(400) == [(ONE, 300.0)]
    deadlines.saw(ONE, view(on_chain(close_requested_at=CHAIN_TIME)))
    assert (deadlines.seconds_left(ONE), deadlines.near(400)) == (GRACE_SECONDS, [])


@pytest.mark.parametrize("left_seconds, told", [(401, []), (400, [(ONE, 400.0)]), (-5, [(ONE, -5.0)])])
def test_a_near_deadline_is_told_once(left_seconds: int, told: list[tuple[ChannelId, float]]) -> None:
    clock = Clock()
    deadlines = Deadlines(clock.now_ms)
    deadlines.saw(ONE, view(on_chain(close_requested_at=CHAIN_TIME - GRACE_SECONDS + left_seconds)))
    assert deadlines.near(400) == told
    assert deadlines.near(400) == []
