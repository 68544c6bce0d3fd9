from hypothesis import given
from hypothesis import strategies as st

from aioum.replay.coverage import SeatCoverage

Event = tuple[bool, int, int]
"""Whether it is a signature, level, tick."""

EVENTS = st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 8)), max_size=30).map(
    lambda events: sorted(events, key=lambda event: event[1])
)


def by_definition(events: list[Event], tier: int) -> str | None:
    """SUBMISSIONS 2.2 as it stands there: for each submission the first signature at or after it."""
    for position, (is_signature, level, tick) in enumerate(events):
        if is_signature:
            continue
        covering = next((event for event in events[position:] if event[0]), None)
        if covering is None:
            return "uncovered-submission"
        if covering[1] != level:
            return "level-boundary-unsigned"
        if covering[2] - tick > tier:
            return "tier-exceeded"
    return None


@given(EVENTS, st.integers(1, 5))
def test_one_pass_finds_what_the_definition_finds(events: list[Event], tier: int) -> None:
    coverage = SeatCoverage("alpha", tier)
    for is_signature, level, tick in events:
        if is_signature:
            coverage.signed(level, tick)
        else:
            coverage.submitted(level, tick)
    failure = coverage.failure()
    assert (None if failure is None else failure.code) == by_definition(events, tier)


def test_only_the_first_failure_of_a_seat_is_told() -> None:
    coverage = SeatCoverage("alpha", 1)
    coverage.submitted(0, 0)
    coverage.signed(0, 5)
    coverage.submitted(0, 6)
    failure = coverage.failure()
    assert failure is not None
    assert (failure.code, failure.where) == ("tier-exceeded", "seat alpha")
