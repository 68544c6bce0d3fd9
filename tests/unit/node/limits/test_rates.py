"""Token buckets and shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.errors import Refused
from aioum_node.limits.rates import Rate, Shares, TokenBuckets


class Time:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def taken(buckets: TokenBuckets, key: str, times: int) -> int:
    """How many of `times` were given."""
    given_ = 0
    refused: list[tuple[str, bool]] = []
    for _ in range(times):
        try:
            buckets.take(key)
            given_ += 1
        except Refused as error:
            refused.append((error.code, error.details["retryAfterSeconds"] >= 1))
    assert set(refused) <= {("rate-limited", True)}
    return given_


def test_burst_is_given_at_once_and_then_the_lasting_rate() -> None:
    time = Time()
    buckets = TokenBuckets(Rate(2.0, 5), max_entries=100, monotonic=time)

    assert taken(buckets, "a", 20) == 5
    assert taken(buckets, "b", 20) == 5
    time.seconds += 1
    assert taken(buckets, "a", 20) == 2
    time.seconds += 1_000
    assert taken(buckets, "a", 20) == 5


def test_refusal_says_after_how_many_whole_seconds_there_is_a_token() -> None:
    time = Time()
    buckets = TokenBuckets(Rate(0.2, 1), max_entries=100, monotonic=time)
    buckets.take("a")

    with pytest.raises(Refused) as caught:
        buckets.take("a")
    time.seconds += caught.value.details["retryAfterSeconds"]

    assert caught.value.details == {"retryAfterSeconds": 5}
    buckets.take("a")


def test_refused_requests_do_not_put_the_next_token_off() -> None:
    time = Time()
    buckets = TokenBuckets(Rate(1.0, 1), max_entries=100, monotonic=time)
    buckets.take("a")
    taken(buckets, "a", 1_000)
    time.seconds += 1

    assert taken(buckets, "a", 1) == 1


def test_table_of_buckets_is_bounded_and_empties_after_a_crowd() -> None:
    time = Time()
    buckets = TokenBuckets(Rate(1.0, 10), max_entries=100, monotonic=time)

    for number in range(10_000):
        buckets.take(f"address-{number}")
    assert len(buckets) == 100
    time.seconds += 60
    for _ in range(100):
        buckets.take("a")
        time.seconds += 1
    assert len(buckets) == 1


@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(1, 5)), max_size=40),
    st.integers(1, 10),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_never_more_is_given_than_burst_and_rate_allow(
    steps: list[tuple[float, int]], burst: int, per_second: float
) -> None:
    time = Time()
    buckets = TokenBuckets(Rate(per_second, burst), max_entries=4, monotonic=time)
    begun, total = time.seconds, 0

    for pause, wanted in steps:
        time.seconds += pause
        total += taken(buckets, "a", wanted)

    assert total <= burst + (time.seconds - begun) * per_second + 1e-6


def test_share_is_what_a_key_holds_at_once_and_nothing_of_it_is_kept() -> None:
    shares = Shares(2)

    assert [shares.take("a"), shares.take("a"), shares.take("a"), shares.take("b")] == [
        True,
        True,
        False,
        True,
    ]
    shares.give_back("a")
    assert shares.take("a")
    for key in ("a", "a", "b"):
        shares.give_back(key)
    assert len(shares) == 0
