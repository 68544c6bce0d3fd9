import json
from pathlib import Path
from time import perf_counter

import pytest

from benchmarks.measure import Alternative, Plan, in_batches, measure
from benchmarks.result import Case, Comparison, Count, Difference, Environment, Limit, Result, Samples

ENVIRONMENT = Environment(
    cpu="some processor", cpus=2, system="Linux x86_64", python="CPython 3.11.7", packages={}
)


def case(at_least: float | None = None, **seconds: tuple[float, ...]) -> Case:
    samples = tuple(Samples.of(name, values) for name, values in seconds.items())
    comparison = Comparison(subject="ours", baseline="theirs", at_least=at_least)
    return Case(name="some case", samples=samples, comparisons=(comparison,))


def result(*cases: Case) -> Result:
    return Result(
        formatVersion=1,
        benchmark="some-benchmark",
        operation="one thing",
        quick=False,
        environment=ENVIRONMENT,
        notes=("a condition",),
        cases=cases,
    )


def test_ratio_is_the_baselines_best_round_over_the_subjects() -> None:
    (ratio,) = case(ours=(1.0, 2.0, 4.0), theirs=(8.0, 6.0, 8.0)).ratios()
    assert ratio.best == 6.0


def test_median_mean_and_deviation_are_those_of_the_ratios_within_each_round() -> None:
    (ratio,) = case(ours=(1.0, 2.0, 4.0), theirs=(8.0, 6.0, 8.0)).ratios()
    assert ratio.median == 3.0
    assert ratio.mean == pytest.approx((8 + 3 + 2) / 3)
    assert ratio.deviation == pytest.approx(3.2145502536643185)


def test_figure_whose_rounds_disagree_is_unstable() -> None:
    (noisy,) = case(ours=(1.0, 1.0, 1.0), theirs=(8.0, 6.0, 10.0)).ratios()
    (calm,) = case(ours=(1.0, 1.0, 1.0), theirs=(8.0, 8.1, 7.9)).ratios()
    assert (noisy.unstable, calm.unstable) == (True, False)


def test_noise_that_hits_both_alternatives_of_a_round_leaves_the_figure_stable() -> None:
    (ratio,) = case(ours=(1.0, 3.0, 2.0), theirs=(8.0, 24.0, 16.0)).ratios()
    assert (ratio.deviation, ratio.unstable) == (0.0, False)


@pytest.mark.parametrize("at_least, missed", [(None, False), (8.0, False), (8.1, True)])
def test_ratio_below_what_is_needed_is_missed(at_least: float | None, missed: bool) -> None:
    (ratio,) = case(at_least, ours=(1.0, 1.0), theirs=(8.0, 8.0)).ratios()
    assert ratio.missed is missed


def difference(ours: tuple[float, ...], theirs: tuple[float, ...], unit: tuple[float, ...]) -> Case:
    return case(ours=ours, theirs=theirs, unit=unit).model_copy(
        update={"differences": (Difference(subject="ours", baseline="theirs", unit="unit", at_most=2),)}
    )


def test_a_difference_is_the_median_of_the_rounds_in_medians_of_its_unit() -> None:
    (added,) = difference((5.0, 7.0, 12.0), (4.0, 4.0, 4.0), (1.0, 1.5, 9.0)).added()
    assert (added.median, added.unit_seconds, added.units) == (3.0, 1.5, 2.0)
    assert added.mean == 4.0
    assert added.deviation == pytest.approx(13**0.5)
    assert (added.missed, added.unstable) == (False, True)


@pytest.mark.parametrize("noisy", [6.9, 100.0])
def test_one_noisy_round_of_the_baseline_hides_no_difference(noisy: float) -> None:
    measured = difference((7.0, 7.1, 7.0), (4.0, noisy, 4.0), (1.0, 1.0, 1.0))
    assert measured.added()[0].missed
    assert measured.missed


def test_a_difference_may_be_none_at_all() -> None:
    (added,) = difference((4.0, 3.0, 4.0), (4.5, 4.0, 4.5), (1.0, 1.0, 1.0)).added()
    assert (added.units, added.missed) == (-0.5, False)


@pytest.mark.parametrize(
    "at_least, theirs, loses", [(None, 0.9, True), (None, 1.1, False), (0.5, 0.9, False)]
)
def test_a_choice_loses_where_the_alternative_is_faster_and_nothing_else_was_promised(
    at_least: float | None, theirs: float, loses: bool
) -> None:
    (ratio,) = case(at_least, ours=(1.0, 1.0), theirs=(theirs, theirs)).ratios()
    assert ratio.loses is loses


@pytest.mark.parametrize(
    "at_least, at_most_seconds, at_most, missed",
    [(2.0, 1.0, 21, False), (2.1, 1.0, 21, True), (2.0, 0.9, 21, True), (2.0, 1.0, 20, True)],
)
def test_a_case_is_missed_by_a_ratio_a_time_or_a_count(
    at_least: float, at_most_seconds: float, at_most: int, missed: bool
) -> None:
    measured = case(at_least, ours=(1.0, 3.0), theirs=(2.0, 6.0)).model_copy(
        update={
            "limits": (Limit(subject="ours", at_most=at_most_seconds),),
            "counts": (Count(name="proof", value=21, unit="hashes", at_most=at_most),),
        }
    )
    assert measured.missed is missed


def test_a_time_whose_rounds_disagree_is_unstable() -> None:
    noisy, calm = Samples.of("ours", (1.0, 2.0, 1.0)), Samples.of("ours", (1.0, 1.1, 1.0))
    assert (noisy.unstable, calm.unstable) == (True, False)
    assert noisy.mean == pytest.approx(4 / 3)
    assert noisy.deviation == pytest.approx(0.57735, rel=1e-4)


@pytest.mark.parametrize("count, calls", [(1, 1), (100, 1), (250, 2), (1_000, 10)])
def test_batches_are_whole_calls_and_their_time_is_in_proportion(count: int, calls: int) -> None:
    inside: list[float] = []

    def work() -> None:
        start = perf_counter()
        sum(range(1_000))
        inside.append(perf_counter() - start)

    start = perf_counter()
    seconds = in_batches(work, 100)(count)
    whole = perf_counter() - start
    assert len(inside) == calls
    assert sum(inside) <= seconds * (calls * 100) / count <= whole


def test_samples_are_seconds_per_operation_and_the_first_round_does_not_count() -> None:
    elapsed = iter([60.0, 2.0, 4.0])
    (samples,) = measure([Alternative("ours", lambda count: next(elapsed), count=4)], Plan(2, 1.0))
    assert samples.seconds == (0.5, 1.0)


def test_every_round_runs_all_alternatives_in_an_order_that_rotates() -> None:
    order: list[str] = []

    def named(name: str) -> Alternative:
        def run(count: int) -> float:
            order.append(name)
            return 1.0

        return Alternative(name, run, count=1)

    measure([named("a"), named("b"), named("c")], Plan(2, 1.0))
    assert "".join(order) == "abc" + "bca" + "cab"


def test_number_of_operations_fills_the_time_of_a_round() -> None:
    counts: list[int] = []

    def run(count: int) -> float:
        counts.append(count)
        return count * 0.001

    (samples,) = measure([Alternative("ours", run)], Plan(2, 0.5))
    assert counts[-1] >= 500
    assert samples.seconds == (0.001, 0.001)


def test_raw_samples_come_back_from_their_file_as_they_were(tmp_path: Path) -> None:
    saved = result(case(8.0, ours=(0.00123456, 0.002), theirs=(0.01, 0.02)))
    saved.save(tmp_path)
    assert Result.load(tmp_path / "some-benchmark.json") == saved
    document = json.loads((tmp_path / "some-benchmark.json").read_text(encoding="utf-8"))
    assert document["cases"][0]["samples"][0] == {"name": "ours", "seconds": [0.001235, 0.002]}
