import math
from dataclasses import replace

from aioum.chain.decisions import Case
from aioum.chain.model import BlockRef
from aioum.core.types import Bytes32, ChannelId
from aioum_node.disputes.book import NO_CASE, Book
from aioum_node.disputes.rules import HoldView
from tests.unit.node.disputes.test_rules import CHALLENGED, DISPUTED, NOW, SESSION, WORD

PERIOD = 86_400
OTHER_WORD = Bytes32(b"\x0b" * 32)


def channel(number: int) -> ChannelId:
    return ChannelId(number.to_bytes(32, "big"))


class Watch:
    """A book on a clock that a test moves, seconds."""

    def __init__(self, *held: int) -> None:
        self.seconds = 1_000
        self.book = Book(lambda: self.seconds * 1_000)
        self.book.notice([channel(number) for number in held])

    def saw(self, number: int, case: Case = NO_CASE, *, chain_time: int = NOW) -> Case:
        head = BlockRef(9, Bytes32(b"\x09" * 32), chain_time)
        return self.book.saw(channel(number), HoldView(head, SESSION, case, SESSION))

    def late(self) -> list[tuple[int, float]]:
        return [(int.from_bytes(late.channel_id, "big"), late.part_left) for late in self.book.late(PERIOD)]


def challenge(seconds: int, word: Bytes32 = WORD) -> Case:
    return replace(CHALLENGED, answer_by=NOW + seconds, challenged_word=word)


def test_deadline_is_the_chains_and_runs_on_by_this_machines_clock() -> None:
    watch = Watch(1)
    assert watch.book.seconds_left(channel(1)) is None
    assert watch.book.nearest_answer_seconds == math.inf
    watch.saw(1, challenge(PERIOD))
    watch.seconds += 100
    assert watch.book.seconds_left(channel(1)) == PERIOD - 100
    assert watch.book.nearest_answer_seconds == PERIOD - 100
    # An old head does not give time back; a newer one takes it.
    watch.saw(1, challenge(PERIOD))
    assert watch.book.seconds_left(channel(1)) == PERIOD - 100
    watch.saw(1, challenge(PERIOD), chain_time=NOW + 500)
    assert watch.book.seconds_left(channel(1)) == PERIOD - 500


def test_each_part_of_the_time_that_is_gone_is_told_once() -> None:
    watch = Watch(1)
    watch.saw(1, challenge(PERIOD))
    assert watch.late() == []
    watch.seconds += PERIOD // 2 - 1
    assert watch.late() == []
    watch.seconds += 1
    assert watch.late() == [(1, 0.5)]
    assert watch.late() == []
    watch.seconds += PERIOD // 4
    assert watch.late() == [(1, 0.25)]
    watch.seconds += PERIOD
    assert watch.late() == [(1, 0.1)]
    assert watch.late() == []


def test_challenge_that_is_seen_late_is_told_as_late_as_it_is() -> None:
    watch = Watch(1, 2)
    watch.saw(1, challenge(PERIOD // 20))
    watch.saw(2, challenge(PERIOD // 3))
    assert watch.late() == [(1, 0.1), (2, 0.5)]
    assert watch.book.nearest_answer_seconds == PERIOD // 20


def test_next_challenge_has_its_own_time() -> None:
    watch = Watch(1)
    watch.saw(1, challenge(PERIOD // 20))
    assert watch.late() == [(1, 0.1)]
    watch.saw(1, challenge(PERIOD, OTHER_WORD))
    assert watch.book.seconds_left(channel(1)) == PERIOD
    watch.seconds += PERIOD // 2
    assert watch.late() == [(1, 0.5)]


def test_answered_challenge_has_no_deadline_any_more() -> None:
    watch = Watch(1)
    watch.saw(1, challenge(PERIOD))
    assert (watch.book.challenges, watch.book.is_challenged(channel(1))) == (1, True)
    assert watch.saw(1) == challenge(PERIOD)
    watch.seconds += 10 * PERIOD
    assert (watch.book.challenges, watch.late()) == (0, [])
    assert watch.book.nearest_answer_seconds == math.inf


def test_word_that_cannot_be_proven_is_new_once_and_again_when_it_comes_back() -> None:
    watch = Watch(1)
    watch.saw(1, challenge(PERIOD))
    assert watch.book.cannot_answer(channel(1), WORD)
    assert not watch.book.cannot_answer(channel(1), WORD)
    assert watch.book.cannot_answer(channel(1), OTHER_WORD)
    watch.saw(1)
    assert watch.book.cannot_answer(channel(1), OTHER_WORD)


def test_sessions_with_a_challenge_come_first_then_those_to_which_something_happened() -> None:
    watch = Watch(1, 2, 3, 4)
    for number in (1, 2, 3, 4):
        watch.saw(number, challenge(PERIOD) if number == 3 else NO_CASE)
        watch.book.waits(channel(number), NOW + 1_000)
    watch.book.touch(channel(2))
    watch.book.touch(channel(99))
    assert watch.book.due(NOW, 0) == [channel(3), channel(2)]
    assert watch.book.due(NOW + 1_000, 0)[0] == channel(3)
    assert set(watch.book.due(NOW + 1_000, 0)) == {channel(number) for number in (1, 2, 3, 4)}


def test_sweep_takes_those_that_were_not_looked_at_for_longest() -> None:
    watch = Watch(1, 2, 3)
    for number in (2, 3, 1):
        watch.seconds += 1
        watch.saw(number)
        watch.book.waits(channel(number), NOW + 1_000)
    assert watch.book.due(NOW, 2) == [channel(2), channel(3)]


def test_new_sessions_are_due_and_those_that_are_held_no_more_are_forgotten() -> None:
    watch = Watch(1, 2)
    watch.saw(1, DISPUTED)
    watch.book.waits(channel(1), NOW + 20)
    assert (len(watch.book), watch.book.held, watch.book.disputes) == (2, SESSION.held, 1)
    assert watch.book.due(NOW, 0) == [channel(2)]
    watch.book.notice([channel(2), channel(3)])
    assert watch.book.due(NOW, 0) == [channel(2), channel(3)]
    assert (watch.book.held, watch.book.disputes) == (0, 0)
    watch.book.forget(channel(2))
    assert len(watch.book) == 1
