"""20,000 random honest sessions never contradict themselves (PROTOCOL 3.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stateful.simulation import simulate


@pytest.mark.slow
@pytest.mark.timeout(480)
async def test_twenty_thousand_random_honest_sessions_never_contradict_themselves(tmp_path: Path) -> None:
    world = await simulate(tmp_path / "node.sqlite3", sessions=20_000, at_once=400, seed=20_000)
    words = world.words.values()
    assert len(words) == 20_000
    # The run met what it is about: without these the assertions inside would hold for an empty world too.
    assert world.crashes >= 50
    assert world.interrupted >= 100
    assert world.losses >= 1_000
    assert sum(len(word.receipts) for word in words) >= 40_000
    assert sum(len(word.statements) for word in words) >= 2_000
