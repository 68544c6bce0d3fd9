"""Mutants of a small contract, the report over them, and what a report must not leave unsaid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation import report as reports
from tests.mutation.mutants import Mutant, hash_of, mutants_of
from tests.mutation.results import Results
from tests.mutation.syntax import parse
from tests.mutation.trials import Verdict

CONTRACT = """// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

contract Box {
    error Full(uint256 size);
    event Put(uint256 amount);

    uint256 public size;
    address public owner = msg.sender;

    function put(uint256 amount) external {
        if (size + amount > 10) revert Full(size);
        size += amount;
        emit Put(amount);
    }

    function empty() external {
        require(msg.sender == owner && size != 0, "nothing of yours");
        size = 0;
    }
}
"""


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mutation") / "contracts"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "Box.sol").write_text(CONTRACT, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def mutants(contracts: Path) -> list[Mutant]:
    return mutants_of(parse(contracts))


def changes(mutants: list[Mutant], scope: str) -> dict[str, str]:
    return {mutant.identifier: mutant.change for mutant in mutants if mutant.identifier.startswith(scope)}


def test_a_check_is_deleted_moved_by_one_and_turned_round(mutants: list[Mutant]) -> None:
    line = "if (size + amount > 10) revert Full(size);"
    assert changes(mutants, "Box.put/") == {
        "Box.put/delete-revert/1": f"{line} => {{}}",
        "Box.put/compare/1": f"{line} => if (size + amount >= 10) revert Full(size);",
        "Box.put/compare/2": f"{line} => if (size + amount <= 10) revert Full(size);",
        "Box.put/swap-arithmetic/1": f"{line} => if (size - amount > 10) revert Full(size);",
        "Box.put/delete-assignment/1": "size += amount; => {}",
        "Box.put/swap-arithmetic/2": "size += amount; => size -= amount;",
        "Box.put/delete-emit/1": "emit Put(amount); => {}",
    }


def test_a_required_condition_loses_each_of_its_parts(mutants: list[Mutant]) -> None:
    found = changes(mutants, "Box.empty/")
    assert {identifier.split("/")[1] for identifier in found} == {
        "delete-revert",
        "swap-logic",
        "drop-operand",
        "compare",
        "delete-assignment",
    }
    assert sum("drop-operand" in identifier for identifier in found) == 2


def test_names_of_mutants_outlive_changes_in_other_functions(contracts: Path, tmp_path: Path) -> None:
    longer = CONTRACT.replace(
        "    function put", "    function less() external {\n        size -= 1;\n    }\n\n    function put"
    )
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "Box.sol").write_text(longer, encoding="utf-8")
    before, after = mutants_of(parse(contracts)), mutants_of(parse(tmp_path))
    assert changes(before, "Box.put/") == changes(after, "Box.put/")
    assert changes(after, "Box.less/")
    assert hash_of(contracts) != hash_of(tmp_path)


def test_a_mutant_changes_nothing_but_what_it_says(mutants: list[Mutant]) -> None:
    for mutant in mutants:
        mutated = mutant.apply(CONTRACT.encode()).decode()
        assert mutated != CONTRACT
        assert mutated.startswith(CONTRACT.encode()[: mutant.span.start].decode())
        assert mutated.endswith(CONTRACT.encode()[mutant.span.end :].decode())


@pytest.fixture
def report(contracts: Path, mutants: list[Mutant]) -> reports.Report:
    verdicts = [
        Verdict(mutant.identifier, "killed", "test/Box.t.sol:BoxTest.test", 1.0) for mutant in mutants
    ]
    verdicts[0] = replace(verdicts[0], status="survived", because="")
    entries = [reports.entry_of(mutant, verdict) for mutant, verdict in zip(mutants, verdicts, strict=True)]
    return reports.Report(hash_of(contracts), 1, "2026-01-01", tuple(entries))


def test_a_report_is_read_as_it_was_written(report: reports.Report) -> None:
    assert reports.from_json(reports.to_json(report)) == report


def test_a_survivor_must_be_explained_as_exactly_the_change_that_it_is(report: reports.Report) -> None:
    survivor = report.entries[0]
    assert "is not explained" in reports.problems_of(report, {})[0]
    explained = {survivor.identifier: reports.Explanation(survivor.change, "it is the same program")}
    assert reports.problems_of(report, explained) == []
    other = {survivor.identifier: reports.Explanation("size = 1; => ", "it is the same program")}
    assert "explained as another change" in reports.problems_of(report, other)[0]
    stale = explained | {"Box.put/compare/9": reports.Explanation("x => y", "gone")}
    assert "there is no such survivor" in reports.problems_of(report, stale)[0]


def test_a_report_of_other_sources_is_refused(
    contracts: Path, report: reports.Report, tmp_path: Path
) -> None:
    folder = tmp_path / "contracts"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "Box.sol").write_text(CONTRACT, encoding="utf-8")
    (folder / "mutation").mkdir()
    survivor = report.entries[0]
    (folder / "mutation" / "explained.toml").write_text(
        f"['{survivor.identifier}']\nchange = '{survivor.change}'\nwhy = 'it is the same program'\n",
        encoding="utf-8",
    )
    assert reports.write(folder / "mutation", report) == []
    assert reports.check(folder) == []
    (folder / "src" / "Box.sol").write_text(CONTRACT.replace("10", "11"), encoding="utf-8")
    assert reports.check(folder) == ["the sources changed since the report was made: run scripts/mutate"]


def test_verdicts_are_kept_for_one_state_of_sources_and_tests(contracts: Path, tmp_path: Path) -> None:
    verdict = Verdict("Box.put/compare/1", "killed", "test/Box.t.sol:BoxTest.test", 1.0)
    Results(tmp_path, contracts).add(verdict)
    assert Results(tmp_path, contracts).read() == {verdict.identifier: verdict}
    (contracts / "test" / "unit").mkdir(parents=True)
    (contracts / "test" / "unit" / "Box.t.sol").write_text("// another test", encoding="utf-8")
    assert Results(tmp_path, contracts).read() == {}
