import json
import re
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, PARTS, main
from benchmarks.report import duration, load_results, rate, render_page, table, times
from benchmarks.result import Case, Count, Difference, Limit
from tests.unit.benchmarks.test_measure import case, result


@pytest.fixture(scope="module", params=["", *PARTS])
def folder(repository: Path, request: pytest.FixtureRequest) -> Path:
    page: str = request.param
    return repository / "docs" / "bench" / page


def test_row_shows_rates_ratio_and_what_is_needed() -> None:
    text = table(result(case(1000, ours=(0.0005, 0.0006), theirs=(0.25, 0.3))))
    row = text.splitlines()[2]
    assert row == "| some case | ours 2 k/s | theirs 4/s | 500× | 500× | 500× ± 0 | 1,000× | missed |"


def test_a_time_is_shown_with_what_it_may_be_at_most() -> None:
    measured = case(ours=(0.000_04, 0.000_05), theirs=(1.0, 1.0))
    limits = (Limit(subject="ours", at_most=0.000_04), Limit(subject="theirs", at_most=0.5))
    text = table(result(measured.model_copy(update={"limits": limits})))
    assert "| some case | ours | 40 µs | 45 µs ± 7.07 µs | 40 µs | unstable |" in text.splitlines()
    assert "| some case | theirs | 1 s | 1 s ± 0 ns | 500 ms | missed |" in text.splitlines()


def test_a_difference_is_shown_in_seconds_and_in_what_it_is_counted_in() -> None:
    measured = case(ours=(0.003, 0.004, 0.003), theirs=(0.001, 0.001, 0.001), sync=(0.0002, 0.0002, 0.0004))
    slower = Difference(subject="ours", baseline="theirs", unit="sync", at_most=12)
    faster = Difference(subject="theirs", baseline="ours", unit="sync", at_most=-11)
    text = table(result(measured.model_copy(update={"differences": (slower, faster)})))
    assert (
        "| some case | ours 3 ms | theirs 1 ms | 2 ms | 2.33 ms ± 577 µs | 10× sync of 200 µs | 12× "
        "| unstable |" in text.splitlines()
    )
    assert (
        "| some case | theirs 1 ms | ours 3 ms | -2 ms | -2.33 ms ± 577 µs | -10× sync of 200 µs | -11× "
        "| missed, unstable |" in text.splitlines()
    )


def test_counts_have_a_row_for_each_case_and_a_column_for_each_name() -> None:
    small = Case(name="small", counts=(Count(name="proof", value=3, unit="hashes"),))
    large = Case(
        name="large",
        counts=(
            Count(name="proof", value=5, unit="hashes", at_most=4),
            Count(name="proof", value=1_600, unit="bytes"),
        ),
    )
    lines = table(result(small, large)).splitlines()
    assert lines[:4] == [
        "| case | proof, hashes | proof, bytes | |",
        "|---|--:|--:|---|",
        "| small | 3 | | |",
        "| large | 5 | 1,600 | proof at most 4, proof missed |",
    ]
    # Nothing was timed, so there are no rounds to speak of.
    assert lines[5].startswith("Operation: one thing. some processor")


def test_conditions_follow_the_table() -> None:
    text = table(result(case(ours=(1.0, 1.0), theirs=(2.0, 2.0))))
    assert (
        "Operation: one thing. Best of 2 rounds; some processor, 2 CPUs, Linux x86_64; CPython 3.11.7."
        in text
    )
    assert "- a condition" in text


@pytest.mark.parametrize(
    "seconds, text", [(5e-7, "2 M/s"), (0.000123, "8.13 k/s"), (0.5, "2/s"), (4.0, "0.25/s")]
)
def test_rate_is_operations_per_second(seconds: float, text: str) -> None:
    assert rate(seconds) == text


@pytest.mark.parametrize(
    "seconds, text", [(2.0, "2 s"), (0.00385, "3.85 ms"), (4e-5, "40 µs"), (7.3e-7, "730 ns"), (0.0, "0 ns")]
)
def test_duration_has_a_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("ratio, text", [(0.25, "0.25×"), (7.777, "7.78×"), (10_914.4, "10,914×")])
def test_ratio_has_three_significant_digits_and_no_fraction_from_a_hundred_on(
    ratio: float, text: str
) -> None:
    assert times(ratio) == text


def test_page_keeps_its_prose_around_the_tables() -> None:
    measured = result(case(ours=(1.0, 1.0), theirs=(2.0, 2.0)))
    page = "before\n<!-- some-benchmark -->\nold\n<!-- /some-benchmark -->\nafter\n"
    rendered = render_page(page, [measured])
    assert rendered == f"before\n<!-- some-benchmark -->\n{table(measured)}<!-- /some-benchmark -->\nafter\n"
    assert render_page(rendered, [measured]) == rendered


def test_page_without_a_place_for_a_result_is_refused() -> None:
    with pytest.raises(ValueError, match="some-benchmark"):
        render_page("no place\n", [result(case(ours=(1.0, 1.0), theirs=(2.0, 2.0)))])


def test_tables_of_the_page_are_those_of_the_raw_samples_beside_it(folder: Path) -> None:
    page = (folder / "README.md").read_text(encoding="utf-8")
    results = load_results(folder)
    assert results
    assert render_page(page, results) == page


def test_what_is_kept_comes_from_a_whole_run_and_misses_nothing(folder: Path) -> None:
    results = load_results(folder)
    assert [measured.benchmark for measured in results if measured.quick] == []
    assert [(each.benchmark, case.name) for each in results for case in each.cases if case.missed] == []


def test_a_quick_run_is_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["--quick", "--write", "root"])
    assert refused.value.code == 2
    assert "a quick run is not kept" in capsys.readouterr().err


def test_every_table_of_the_page_has_its_raw_samples(folder: Path) -> None:
    page = (folder / "README.md").read_text(encoding="utf-8")
    places = re.findall(r"^<!-- ([\w-]+) -->$", page, re.MULTILINE)
    assert sorted(places) == [measured.benchmark for measured in load_results(folder)]
    assert sorted(places) == sorted(PARTS.get(folder.name, set(NAMES) - set(PARTS)))


def test_raw_samples_name_no_machine_and_no_path(folder: Path) -> None:
    for path in folder.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert set(document["environment"]) == {"cpu", "cpus", "system", "python", "packages"}
        assert "/work" not in path.read_text(encoding="utf-8")
        assert "/home" not in path.read_text(encoding="utf-8")
