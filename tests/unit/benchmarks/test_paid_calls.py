import sqlite3
from pathlib import Path

import pytest

from benchmarks.paid_calls import Market

CALLS = 20
"""Enough for a signed statement, which is due after 16."""


def recorded(folder: Path) -> list[tuple[bytes, str, bytes]]:
    """The client's own record of every session, which it held against receipts and statements."""
    with sqlite3.connect(folder / "client.sqlite3") as connection:
        rows = connection.execute(
            "SELECT channel_id, spent, frontier FROM sessions ORDER BY channel_id"
        ).fetchall()
    connection.close()
    return rows


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[bytes, str, bytes]]:
    return bought(tmp_path_factory.mktemp("ours") / "market", "aioum", "aioum")


def bought(folder: Path, node_build: str, client_build: str) -> list[tuple[bytes, str, bytes]]:
    market = Market(folder, node_build, client_build, sessions=1)
    try:
        assert market.seconds(1, CALLS) > 0
    finally:
        market.close()
    return recorded(folder)


@pytest.mark.long
@pytest.mark.parametrize("client_build", ["aioum", "naive"])
def test_naive_build_records_the_same_calls_charges_and_root(
    ours: list[tuple[bytes, str, bytes]], tmp_path: Path, client_build: str
) -> None:
    assert [int.from_bytes(frontier[:8], "big") for _, _, frontier in ours] == [CALLS]
    assert bought(tmp_path / "market", "naive", client_build) == ours
