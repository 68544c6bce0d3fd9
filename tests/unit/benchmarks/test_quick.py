"""The benchmarks of several processes run to their end; how fast is for `scripts/bench` to say."""

import pytest

from benchmarks.__main__ import measured
from benchmarks.report import table
from benchmarks.result import Result
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def compared(result: Result) -> list[tuple[str, str, str]]:
    return [
        (case.name, comparison.subject, comparison.baseline)
        for case in result.cases
        for comparison in case.comparisons
    ]


def test_durability_is_measured_on_many_sessions_and_on_one() -> None:
    result = measured("durability", quick=True)

    assert compared(result) == [
        ("256 sessions", "durable store", "store in memory"),
        ("1 session", "durable store", "store in memory"),
    ]
    many, one = result.cases
    assert [ratio.comparison.at_least for ratio in many.ratios()] == [0.85]
    (added,) = one.added()
    assert added.difference.at_most == 12
    assert [samples.name for samples in one.samples] == ["durable store", "store in memory", "fdatasync"]
    assert "fdatasync of" in table(result)


def test_postgresql_is_measured_alone_over_the_whole_path_and_with_two_processes(
    postgres: PostgresServer,
) -> None:
    assert postgres.running  # Where there is none, there is nothing to measure.
    result = measured("postgresql", quick=True)

    assert compared(result) == [
        ("store alone, 256 sessions", "grouped", "one insert for each"),
        ("store alone, 256 sessions", "grouped", "one commit per call"),
        ("paid calls, 256 sessions", "grouped", "one insert for each"),
        ("paid calls, 256 sessions", "grouped", "one commit per call"),
        ("paid calls, 256 sessions in all", "2 processes", "1 process"),
    ]
    assert [ratio.comparison.at_least for case in result.cases for ratio in case.ratios()] == [
        *(5, None, 1.3, None, None)
    ]
