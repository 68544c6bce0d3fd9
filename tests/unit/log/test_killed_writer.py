"""A real process is killed at each step that matters; the next one finishes what it began."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aioum.log.files import published
from aioum.log.fsck import fsck
from aioum.log.publish import FileRegister, publish
from tests.unit.log.samples import KEY, entries, opened, reader, verified

POINTS = [
    # point, entries in the log, in the register, visible
    ("write", "nodes", 10, 10, 10),
    ("sync", "000", 10, 10, 10),
    ("synced", "nodes", 10, 10, 10),
    # Whole in the page cache, which outlives a process: a killed writer loses less than a machine does.
    ("sync", "heads", 20, 10, 10),
    ("rename", "register", 20, 10, 10),
    ("renamed", "register", 20, 20, 10),
    ("rename", "20", 20, 20, 10),
    ("rename", "checkpoint", 20, 20, 10),
    ("renamed", "checkpoint", 20, 20, 20),
]


@pytest.mark.parametrize("operation, name, in_log, in_register, visible", POINTS)
async def test_a_killed_writer_is_followed_by_one_that_shows_the_same_history(
    tmp_path: Path, repository: Path, operation: str, name: str, in_log: int, in_register: int, visible: int
) -> None:
    register = FileRegister(tmp_path / "apart" / "register")
    with opened(tmp_path / "log") as log:
        log.append(entries(0, 10))
        await publish(log, register, KEY)

    killed = subprocess.run(
        [sys.executable, "-m", "tests.unit.log.killed_writer", tmp_path, operation, name],
        cwd=repository,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    committed = await register.latest()
    assert committed is not None
    assert verified(committed).size == in_register
    shown = published(tmp_path / "log")
    assert shown is not None
    assert shown.size == visible
    assert await reader(tmp_path / "log").root(visible) == shown.root

    with opened(tmp_path / "log") as log:
        assert log.size == in_log
        note = await publish(log, register, KEY)
        assert verified(note).size == in_log
        if in_register == in_log:
            assert note == committed
        log.append(entries(in_log, 30))
        await publish(log, register, KEY)
        assert list(log.entries()) == entries(0, 30)
    assert fsck(tmp_path / "log", KEY.public_key).findings == []
