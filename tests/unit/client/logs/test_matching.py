"""Sessions and entries are matched side by side, so few of either wait, however long chain and log are."""

from collections.abc import AsyncIterator, Iterable

from aioum.client.logs import matching
from aioum.client.logs.matching import Matching
from aioum.core.merkle import Frontier
from aioum.log.audit import Counts, Coverage, FinalSession
from aioum.log.tree import leaf_hash, node_hash
from tests.unit.log.samples import ORIGIN, session

CHAIN = (session(0).chain_id, session(0).payment_manager)
MANY = 2_000


class Watched(Coverage):
    """Remembers how many of both waited at most."""

    waited = 0

    def note(self) -> None:
        self.waited = max(self.waited, len(self.missing) + len(self.strangers))


def begun(numbers: Iterable[int]) -> tuple[Matching, Watched]:
    coverage = Watched()

    async def sessions() -> AsyncIterator[FinalSession]:
        for number in numbers:
            yield FinalSession(session(number), number, 3_600)
            coverage.note()

    return Matching(coverage, sessions(), CHAIN), coverage


async def logged(coverage: Watched, numbers: Iterable[int]) -> AsyncIterator[tuple[bytes, Frontier]]:
    frontier = Frontier()
    for number in numbers:
        data = session(number).to_bytes()
        frontier = frontier.append(leaf_hash(data), node_hash)
        yield data, frontier
        coverage.note()


async def test_a_log_in_about_the_chains_order_leaves_few_waiting() -> None:
    reading, coverage = begun(range(MANY))
    shuffled = [start + place for start in range(0, MANY, 16) for place in reversed(range(16))]
    frontier = await reading.take_entries(ORIGIN, logged(coverage, shuffled))
    await reading.take_sessions()
    assert frontier is not None
    assert (frontier.size, coverage.counts) == (MANY, Counts(matched=MANY))
    assert coverage.waited <= 2 * 16


async def test_two_logs_of_one_operator_leave_no_more_waiting_than_the_other_log_has() -> None:
    reading, coverage = begun(range(MANY))
    for part in (0, 1):
        await reading.take_entries(ORIGIN if part else "other/log", logged(coverage, range(part, MANY, 2)))
    await reading.take_sessions()
    assert (coverage.counts.matched, coverage.missing, coverage.strangers) == (MANY, {}, {})
    assert coverage.waited <= MANY // 2 + 1


async def test_what_has_no_counterpart_is_left_over() -> None:
    reading, coverage = begun([1, 2, 3, 5])
    assert await reading.take_entries(ORIGIN, logged(coverage, [1, 3, 4])) is not None
    await reading.take_sessions()
    assert list(coverage.missing) == [session(2).channel_id, session(5).channel_id]
    assert list(coverage.strangers) == [(ORIGIN, 2)]
    assert await reading.take_entries(ORIGIN, logged(coverage, [])) is None


async def test_of_very_many_wrong_entries_the_rest_is_counted() -> None:
    count = matching.MAX_WRONG + 5
    reading, _ = begun([])

    async def junk() -> AsyncIterator[tuple[bytes, Frontier]]:
        for number in range(count):
            yield b"junk", Frontier(1 << number % 60, (bytes(32),))

    await reading.take_entries(ORIGIN, junk())
    assert (len(reading.wrong), reading.left_out) == (matching.MAX_WRONG, 5)
