from pathlib import Path

from aioum.log.entry import read_entry
from benchmarks.log import built, rehashed, rehashed_each
from benchmarks.year_log import PAGE, PAGE_FOLDER, RAW, YEAR, YearLog, measured, page
from benchmarks.year_log_entries import session


def test_a_small_log_is_served_and_proven_offline_like_a_years(tmp_path: Path) -> None:
    figures = measured(tmp_path, entries=2_900, batch=1_000, proofs=40)
    assert figures.entries == 3_000
    assert figures.offline.inclusion_proofs == 40
    # Leaves in twelve bundles: the way up is twelve hashes at most.
    assert figures.offline.most_inclusion_hashes == 12
    # The bundle, three tiles of two levels.
    assert figures.one_proof.requests <= 5
    assert figures.size.entries > 3_000 * 300
    assert figures.size.nodes == 32 * (6_000 - (3_000).bit_count())
    assert YearLog.model_validate_json(figures.model_dump_json(by_alias=True)) == figures
    assert "| public files | " in page(figures)


def test_the_page_is_made_of_the_raw_figures_beside_it_which_are_of_a_whole_year() -> None:
    raw = (PAGE_FOLDER / RAW).read_text(encoding="utf-8")
    figures = YearLog.model_validate_json(raw)
    assert (PAGE_FOLDER / PAGE).read_text(encoding="utf-8") == page(figures)
    assert figures.entries >= YEAR
    # Less than a half of the hashes that it proves with.
    assert figures.offline.memory_peak_bytes - figures.offline.memory_before_bytes < figures.size.tiles / 2
    assert figures.offline.most_consistency_hashes <= 21
    assert "/work" not in raw


def test_the_entries_of_the_benchmark_are_sessions_and_its_alternatives_agree() -> None:
    entries = [session(number).to_bytes() for number in range(20)]
    assert [read_entry(entry) for entry in entries] == [session(number) for number in range(20)]
    assert built(entries).root() == rehashed(entries) == rehashed_each(entries)
