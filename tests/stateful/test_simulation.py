"""Random honest sessions never contradict themselves (PROTOCOL 3.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stateful.simulation import simulate


@pytest.mark.slow
@pytest.mark.timeout(480)
@pytest.mark.parametrize("sessions", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
async def test_random_honest_sessions_never_contradict_themselves(tmp_path: Path, sessions: int) -> None:
    world = await simulate(tmp_path / "node.sqlite3", sessions=sessions, at_once=400, seed=20_000)
    words = world.words.values()
    assert len(words) == sessions
    # The run met what it is about: without these the assertions inside would hold for an empty world too.
    assert world.crashes >= sessions // 400
    assert world.interrupted >= sessions // 200
    assert world.losses >= sessions // 20
    assert sum(len(word.receipts) for word in words) >= 2 * sessions
    assert sum(len(word.statements) for word in words) >= sessions // 10
