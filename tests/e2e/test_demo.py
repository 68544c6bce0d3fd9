"""`scripts/demo`, run as a person runs it: to its end, and with Ctrl-C on the way."""

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from aioum.core.evidence_reading import parse_package
from aioum.core.hextext import channel_id, to_hex
from aioum.core.transcript import entry_from_json, transcript_root
from tests.many import some_of

_MARK = "AIOUM_TEST_RUN"
_END_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Demo:
    """A started demo. All that it starts inherits its mark."""

    process: subprocess.Popen[str]
    mark: str
    temporary: Path

    def processes(self) -> list[str]:
        """What still runs of it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                ended = folder.joinpath("stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
                if not ended and self.mark.encode() in folder.joinpath("environ").read_bytes():
                    found.append(folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                # It ended while we looked, or is somebody else's.
                continue
        return found

    def require_gone(self) -> None:
        """Nothing of it runs any more, and it left no temporary file."""
        deadline = time.monotonic() + _END_SECONDS
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
        assert list(self.temporary.iterdir()) == []


@contextmanager
def started(repository: Path, folder: Path, *arguments: str) -> Iterator[Demo]:
    """Start the demo in a process group of its own, as a terminal does."""
    mark = secrets.token_hex(16)
    temporary = folder / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [str(repository / "scripts" / "demo"), *arguments],
        # Not the checkout: a person may stand anywhere.
        cwd=folder,
        env={**os.environ, _MARK: mark, "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    demo = Demo(process, mark, temporary)
    try:
        yield demo
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.communicate()


def tree(repository: Path) -> str:
    """What differs from the last commit."""
    status = subprocess.run(
        ["git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=all"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    return status.stdout


@pytest.fixture(autouse=True)
def _needs(anvil: Path) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("processes are looked for in /proc")


@pytest.mark.slow
def test_demo_ends_with_agreeing_roots_and_keeps_what_it_made(repository: Path, tmp_path: Path) -> None:
    before = tree(repository)
    out = tmp_path / "out"
    with started(repository, tmp_path, "--json", "--out", str(out)) as demo:
        stdout, stderr = demo.process.communicate()
        assert demo.process.returncode == 0, stderr
        demo.require_gone()

    (line,) = stdout.splitlines()
    summary = json.loads(line)
    assert list(summary) == [
        "channelId", "sessionId", "calls", "clientRoot", "nodeRoot", "anchoredRoot", "deposit", "captured",
        "refunded", "checks", "seconds",
    ]  # fmt: skip
    assert summary["clientRoot"] == summary["nodeRoot"] == summary["anchoredRoot"]
    assert summary["calls"] >= 25
    assert int(summary["captured"]) + int(summary["refunded"]) == int(summary["deposit"])
    assert int(summary["captured"]) > 0
    applicable = {name for name, verdict in summary["checks"].items() if verdict == "pass"}
    assert {name for name, verdict in summary["checks"].items() if verdict == "na"} == {
        "attestations",
        "quality",
    }
    assert applicable | {"attestations", "quality"} == set(summary["checks"])
    assert {"session", "anchored-root", "vouchers", "re-execution", "receipts", "statement"} <= applicable

    package = parse_package((out / "evidence.json").read_bytes())
    assert package.channel_id == channel_id(summary["channelId"])
    ours = json.loads((out / "client-transcript.json").read_bytes())
    assert ours == json.loads((out / "node-transcript.json").read_bytes())
    entries = [entry_from_json(value, index) for index, value in enumerate(ours)]
    assert len(entries) == summary["calls"]
    assert to_hex(transcript_root(entries)) == summary["clientRoot"]
    assert any("https://aioum.org/problems/" in entry.response for entry in entries)
    assert (out / "node.log").stat().st_size > 0
    # What it shows on the way is for people: the roots of all three are among it.
    assert stderr.count(summary["clientRoot"]) >= 3
    assert tree(repository) == before


@pytest.mark.parametrize(
    "moment", some_of(["call  2", "operator: making keys", "client: opening a session"], 3)
)
def test_ctrl_c_leaves_no_process_and_no_file(repository: Path, tmp_path: Path, moment: str) -> None:
    with started(repository, tmp_path, "--json") as demo:
        assert demo.process.stderr is not None
        seen = []
        for line in demo.process.stderr:
            seen.append(line)
            if moment in line:
                break
        assert moment in "".join(seen)[-200:], "".join(seen)
        # A terminal tells the whole group.
        os.killpg(demo.process.pid, signal.SIGINT)
        stdout, stderr = demo.process.communicate()
        assert demo.process.returncode == 130, stderr
        assert stdout == ""
        assert "Traceback" not in stderr
        demo.require_gone()
