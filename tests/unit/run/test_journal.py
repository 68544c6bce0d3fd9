"""What is left of a run when its recorder crashes, its disk fails, or somebody meddles with its files."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import ConfigError
from aioum.run.capsule import Capsule
from aioum.run.content import INTERRUPTED
from aioum.run.event import Kind
from aioum.run.journal import read_journal
from aioum.run.line_file import LineFile, RunJournalError, read_lines
from aioum.run.opening import openings
from aioum.run.recorder import Run
from aioum.run.salts import RunSecrets, Side
from aioum.run.verification import verify_read_capsule
from tests.unit.run import crash_program
from tests.unit.run.samples import OWNER, trusting


def recorded(folder: Path, count: int = 3, **options: Any) -> Path:
    with Run.start(folder, agent="a", **options) as run:
        for number in range(count):
            run.record(Kind.TOOL_CALL, f"step {number}", input=f"in {number}", output=f"out {number}")
    return folder


def resealed(folder: Path, **options: Any) -> Capsule:
    with Run.resume(folder, **options) as run:
        capsule = run.seal(OWNER)
    assert verify_read_capsule(capsule, trusting(OWNER)).reason is None
    return capsule


def names(capsule: Capsule) -> list[str]:
    return [item.event.name for item in capsule.events]


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def damage(folder: Path, change: Callable[[list[bytes]], None]) -> None:
    journal = folder / "journal"
    kept = lines(journal)
    change(kept)
    journal.write_bytes(b"".join(kept))


@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_a_killed_recorder_loses_nothing_that_it_had_promised(tmp_path: Path, durability: str) -> None:
    folder, steps = tmp_path / "run", 20
    with subprocess.Popen(
        [sys.executable, "-m", crash_program.__name__, str(folder), durability, str(steps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        begun = int(process.stdout.readline())
        with pytest.raises(RunJournalError) as error:
            Run.resume(folder)
        assert error.value.code == "run-journal-in-use"
        assert len(read_journal(folder).events) == steps + 2, "a run can be looked at while it is recorded"
        process.send_signal(signal.SIGKILL)
    assert begun == steps + (3 if durability == "buffered" else 2)
    with Run.resume(folder) as run:
        run.record(Kind.TOOL_CALL, "after the crash")
        capsule = run.seal(OWNER)
    assert verify_read_capsule(capsule, trusting(OWNER)).reason is None
    assert names(capsule) == [
        "before the span", "never ends", *(f"step {number}" for number in range(steps)), "after the crash"
    ]  # fmt: skip
    assert {item.event.parent for item in capsule.events[2:-1]} == {1}
    opened = openings(folder, capsule, {(1, Side.OUTPUT): None, (2, Side.INPUT): None})
    assert opened[1, Side.OUTPUT].content == INTERRUPTED
    assert opened[2, Side.INPUT].content == b"in 0"


def test_a_line_torn_at_any_byte_is_cut_and_everything_before_it_is_there(tmp_path: Path) -> None:
    whole = (recorded(tmp_path / "whole") / "journal").read_bytes()
    last = len(lines(tmp_path / "whole" / "journal")[-1])
    for missing in range(1, last + 1):
        folder = tmp_path / f"torn {missing}"
        folder.mkdir()
        (folder / "secrets.json").write_bytes((tmp_path / "whole" / "secrets.json").read_bytes())
        (folder / "secrets.json").chmod(0o600)
        (folder / "journal").write_bytes(whole[:-missing])
        with Run.resume(folder) as run:
            assert run.event_count == 2
            run.record(Kind.TOOL_CALL, "instead")
            assert names(run.seal(OWNER)) == ["step 0", "step 1", "instead"]


def test_zeros_behind_the_last_line_are_cut(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run")
    damage(folder, lambda kept: kept.append(bytes(5_000)))
    assert names(resealed(folder)) == ["step 0", "step 1", "step 2"]


def test_damage_in_the_middle_is_no_torn_line_and_is_cut_only_when_that_is_accepted(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run")
    damage(folder, lambda kept: kept.__setitem__(2, kept[2].replace(b"step 1", b"step 9")))
    for look in (Run.resume, read_journal):
        with pytest.raises(RunJournalError) as error:
            look(folder)
        assert error.value.code == "run-journal-damaged"
    assert names(resealed(folder, accept_loss=True)) == ["step 0"]


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept.pop(1),
        lambda kept: kept.pop(0),
        lambda kept: kept.insert(1, kept[1]),
        lambda kept: kept.insert(1, kept[0]),
        lambda kept: kept.clear(),
    ],
    ids=["line gone", "header gone", "line twice", "header twice", "empty"],
)
def test_whole_lines_that_do_not_fit_together_are_refused(
    tmp_path: Path, change: Callable[[list[bytes]], None]
) -> None:
    folder = recorded(tmp_path / "run")
    damage(folder, change)
    with pytest.raises(RunJournalError) as error:
        Run.resume(folder)
    assert error.value.code == "run-journal-damaged"
    # Nothing stays locked.
    with pytest.raises(RunJournalError) as error:
        Run.resume(folder)
    assert error.value.code == "run-journal-damaged"


def test_files_of_a_run_are_their_owners_alone(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", keep_contents=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"run": 0o700, "journal": 0o600, "secrets.json": 0o600, "contents": 0o600}


def test_nothing_secret_is_in_journal_or_capsule(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Run.start(folder, agent="a", random_bytes=lambda size: b"\xa5" * size, keep_contents=True) as run:
        run.record(Kind.LLM_CALL, "ask", input="my-secret-question", output="my-secret-answer")
        with run.span(Kind.TOOL_CALL, "tool", input="my-secret-request") as span:
            span.output("my-secret-response")
        capsule = run.seal(OWNER, file=folder / "capsule.json")
    secrets = RunSecrets.read(folder / "secrets.json")
    hidden = [b"my-secret", (b"\xa5" * 32).hex().encode(), b"\xa5" * 16]
    hidden += [
        form
        for number in range(2)
        for side in Side
        for salt in [secrets.salt(number, side)]
        for form in (salt, salt.hex().encode())
    ]
    for public in (capsule.to_bytes(), (folder / "journal").read_bytes(), repr(secrets).encode()):
        # The run's id is random too, and public.
        data = public.replace(run.header.run_id.encode(), b"")
        assert [form for form in hidden if form in data] == []
    assert openings(folder, capsule, {(0, Side.INPUT): None})[0, Side.INPUT].content == b"my-secret-question"


def test_contents_are_kept_only_when_asked_for(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run")
    assert sorted(path.name for path in folder.iterdir()) == ["journal", "secrets.json"]


@pytest.mark.parametrize(
    ("meddle", "expected"),
    [
        (lambda path: path.chmod(0o644), "run-secrets-exposed"),
        (lambda path: path.unlink(), "run-secrets-missing"),
        (lambda path: path.write_text('{"type":"aioum.run-secrets.v1"}'), "run-secrets-damaged"),
        (lambda path: path.write_text("0x" + "a5" * 32), "run-secrets-damaged"),
        (lambda path: (path.unlink(), path.mkdir()), "run-secrets-damaged"),
    ],
)
def test_secrets_that_cannot_be_used_are_refused_without_being_shown(
    tmp_path: Path, meddle: Callable[[Path], object], expected: str
) -> None:
    folder = recorded(tmp_path / "run")
    meddle(folder / "secrets.json")
    for _ in range(2):
        with pytest.raises(ConfigError) as error:
            Run.resume(folder)
        assert error.value.code == expected
        assert "a5a5" not in str(error.value)


def test_a_folder_that_holds_no_run_is_said_to(tmp_path: Path) -> None:
    for look in (Run.resume, read_journal):
        with pytest.raises(RunJournalError) as error:
            look(tmp_path)
        assert error.value.code == "run-journal-missing"


def test_resumed_runs_never_use_a_salt_again(tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run")
    with Run.resume(folder) as run:
        run.record(Kind.TOOL_CALL, "step 3", input="in 0")
        run.seal(OWNER)
    found = read_journal(folder)
    assert found.salts == [0, 1, 2, 3]
    assert found.sealed is not None


def test_a_full_disk_refuses_the_event_and_the_run_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with Run.start(folder, agent="a") as run:
        run.record(Kind.TOOL_CALL, "before")
        write = os.write

        def half_then_full(descriptor: int, data: bytes) -> int:
            if len(data) < 50:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(descriptor, data[: len(data) - 40])

        with monkeypatch.context() as full:
            full.setattr(os, "write", half_then_full)
            with pytest.raises(RunJournalError) as error:
                run.record(Kind.TOOL_CALL, "does not fit")
            assert error.value.code == "run-journal-failed"
        assert run.record(Kind.TOOL_CALL, "after") == 1
    assert names(resealed(folder)) == ["before", "after"]


def test_a_disk_that_does_not_sync_is_not_believed_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    run = Run.start(folder, agent="a", durability="synced")
    run.record(Kind.TOOL_CALL, "before")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", fail)
        with pytest.raises(RunJournalError):
            run.record(Kind.TOOL_CALL, "in doubt")
    for refused in (lambda: run.record(Kind.TOOL_CALL, "later"), lambda: run.seal(OWNER), run.close):
        with pytest.raises(RunJournalError) as error:
            refused()
        assert error.value.code == "run-journal-failed"
    assert names(resealed(folder))[0] == "before"


def test_lines_of_a_buffered_run_reach_the_file_when_the_buffer_is_full(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Run.start(folder, agent="a", durability="buffered") as run:
        for number in range(1_000):
            run.record(Kind.TOOL_CALL, f"step {number}")
        assert 0 < len(read_journal(folder).events) < 1_000
        run.sync()
        assert len(read_journal(folder).events) == 1_000


def test_waiting_threads_share_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LineFile.create(tmp_path / "lines")
    first = file.append(b"one", buffered=False)
    second = file.append(b"two", buffered=False)
    synced: list[int] = []
    fsync = os.fsync

    def count(descriptor: int) -> None:
        synced.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", count)
    file.sync(second)
    file.sync(first)
    file.sync(second)
    assert len(synced) == 1
    file.close()
    found: list[bytes] = []
    assert read_lines(tmp_path / "lines", found.append) == second
    assert found == [b"one", b"two"]
