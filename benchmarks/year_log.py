"""A year's log: built, served as static files by a plain web server, and proven from by a client offline."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from aioum.core.submission.keys import SubmissionKey
from aioum.log.files import LogFolder
from aioum.log.fsck import fsck
from aioum.log.publish import FileRegister, publish
from benchmarks.environment import environment
from benchmarks.folder import durable_folder
from benchmarks.result import Environment
from benchmarks.year_log_entries import session

YEAR: Final = 1_000_000
BATCH: Final = 10_000
PROOFS: Final = 1_000
ORIGIN: Final = "log.example/year"
PAGE_FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "bench" / "year-log"
RAW: Final = "year-log.json"
PAGE: Final = "README.md"

_KEY: Final = SubmissionKey(bytes(range(32)))
_SINGLE_APPENDS: Final = 100

_PAGE: Final = """\
# A year's log

`scripts/year_log` builds a log of a million sessions, lets Python's own static web server serve its
public folder, and proves entries from it in a process of its own. Each step runs once, so the times say how
large a thing is, no more. The server is stopped before the client proves; what it proves with are the files
that it took home. `--write` keeps the figures in the JSON file beside this page, and writes the page from
them.

{entries} entries; {conditions}.

| | |
|---|--:|
{table}
"""

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class Build(_Model):
    """Seconds of each step on the operator's side.

    Attributes:
        append_seconds: of all batches, durable, without making the entries.
        single_append_seconds: of one append of one entry behind them, durable; mean of a hundred.
        publish_seconds: writing all tiles and the checkpoint.
        fsck_seconds: hashing everything again.
    """

    append_seconds: Seconds = Field(alias="appendSeconds")
    single_append_seconds: Seconds = Field(alias="singleAppendSeconds")
    publish_seconds: Seconds = Field(alias="publishSeconds")
    fsck_seconds: Seconds = Field(alias="fsckSeconds")


class Size(_Model):
    """Bytes of the folder; a full bundle of entries is one file under two names and counted once."""

    entries: Count
    nodes: Count
    heads: Count
    tiles: Count
    files: Count


class OneProof(_Model):
    """A client that has nothing but the checkpoint proves one entry."""

    requests: Count
    received_bytes: Count = Field(alias="receivedBytes")
    seconds: Seconds


class Offline(_Model):
    """A client that has taken the tiles home proves entries at random places, and each month's state.

    Attributes:
        memory_before_bytes: of the process before it asked for the first tile.
        memory_peak_bytes: the most that it ever had.
    """

    inclusion_proofs: Count = Field(alias="inclusionProofs")
    inclusion_seconds: Seconds = Field(alias="inclusionSeconds")
    most_inclusion_hashes: Count = Field(alias="mostInclusionHashes")
    most_consistency_hashes: Count = Field(alias="mostConsistencyHashes")
    memory_before_bytes: Count = Field(alias="memoryBeforeBytes")
    memory_peak_bytes: Count = Field(alias="memoryPeakBytes")


class Client(_Model):
    """The figures of a client."""

    one_proof: OneProof = Field(alias="oneProof")
    copy_home: OneProof = Field(alias="copy")
    offline: Offline


class YearLog(Client):
    """The figures of one run."""

    format_version: Literal[1] = Field(1, alias="formatVersion")
    environment: Environment
    entries: Count
    batch: Count
    build: Build
    size: Size


def measured(folder: Path, *, entries: int, batch: int, proofs: int) -> YearLog:
    """Build, serve and prove.

    Args:
        folder: an empty one.
        entries: of the log, at least 12.
        batch: entries of one append.
        proofs: of inclusion.
    """
    build = asyncio.run(_build(folder, entries, batch))
    with _served(folder / "log" / "public") as (address, server):
        client = _client(address, server, folder / "home", proofs)
    return YearLog(
        formatVersion=1,
        environment=environment(()),
        entries=entries + _SINGLE_APPENDS,
        batch=batch,
        build=build,
        size=_size(folder / "log"),
        oneProof=client.one_proof,
        copy=client.copy_home,
        offline=client.offline,
    )


async def _build(folder: Path, entries: int, batch: int) -> Build:
    appended = 0.0
    with LogFolder.open(folder / "log", ORIGIN) as log:
        for first in range(0, entries, batch):
            sessions = [session(number).to_bytes() for number in range(first, min(entries, first + batch))]
            start = perf_counter()
            log.append(sessions)
            appended += perf_counter() - start
        sessions = [session(entries + number).to_bytes() for number in range(_SINGLE_APPENDS)]
        start = perf_counter()
        for entry in sessions:
            log.append([entry])
        single = (perf_counter() - start) / _SINGLE_APPENDS
        start = perf_counter()
        await publish(log, FileRegister(folder / "register" / "checkpoint"), _KEY)
        published = perf_counter() - start
    start = perf_counter()
    report = fsck(folder / "log", _KEY.public_key)
    report.require_sound()
    if report.checkpoint is None or report.checkpoint.root != report.root:
        raise RuntimeError("the checkpoint is not that of the entries")
    return Build(
        appendSeconds=appended,
        singleAppendSeconds=single,
        publishSeconds=published,
        fsckSeconds=perf_counter() - start,
    )


def _size(log: Path) -> Size:
    def below(folder: Path) -> int:
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

    public = log / "public"
    return Size(
        entries=below(log / "entries"),
        nodes=(log / "nodes").stat().st_size,
        heads=(log / "heads").stat().st_size,
        tiles=below(public / "tile") - below(public / "tile" / "entries"),
        files=sum(file.is_file() for file in public.rglob("*")),
    )


@contextmanager
def _served(public: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
        "--directory",
        str(public),
        "0",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if server.stdout is None:
            raise RuntimeError("the web server has no output")
        # Serving HTTP on 127.0.0.1 port 34567 (http://127.0.0.1:34567/) ...
        port = server.stdout.readline().split(" port ")[1].split()[0]
        yield f"127.0.0.1:{port}", server
    finally:
        server.kill()
        server.communicate()


def _client(address: str, server: subprocess.Popen[str], home: Path, proofs: int) -> Client:
    command = [sys.executable, "-m", "benchmarks.year_log_client"]
    with subprocess.Popen(
        [*command, address, ORIGIN, _KEY.public_key.hex(), str(home), str(proofs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PAGE_FOLDER.parent.parent.parent,
    ) as client:
        if client.stdin is None or client.stdout is None or client.stdout.readline() != "offline\n":
            client.kill()
            raise RuntimeError("the client could not copy the log")
        # From here on there is nobody to ask.
        server.kill()
        server.wait()
        figures, _ = client.communicate("\n")
        if client.returncode:
            raise RuntimeError(f"the client failed with exit code {client.returncode}")
    return Client.model_validate_json(figures)


def page(figures: YearLog) -> str:
    """The page of the figures."""
    about, build, size, one, home, offline = (
        figures.environment,
        figures.build,
        figures.size,
        figures.one_proof,
        figures.copy_home,
        figures.offline,
    )
    rows = [
        ("appending, durable", f"{build.append_seconds:.1f} s, {figures.batch:,} entries at a time"),
        ("appending one entry, durable", f"{build.single_append_seconds * 1e3:.2f} ms"),
        ("writing all tiles and the checkpoint", f"{build.publish_seconds:.1f} s"),
        ("hashing everything again (`aioum log fsck`)", f"{build.fsck_seconds:.1f} s"),
        ("entries", _megabytes(size.entries)),
        ("tree nodes", _megabytes(size.nodes)),
        ("tiles of hashes", _megabytes(size.tiles)),
        ("public files", f"{size.files:,}"),
        (
            "one proof over HTTP, with the entry, from the checkpoint alone",
            f"{one.requests} requests, {one.received_bytes / 1e3:.0f} kB, {one.seconds * 1e3:.0f} ms",
        ),
        (
            "taking all hashes home, and the bundles of the entries to prove",
            f"{home.requests:,} requests, {_megabytes(home.received_bytes)}, {home.seconds:.1f} s",
        ),
        (
            "proving an entry offline",
            f"{offline.inclusion_seconds / offline.inclusion_proofs * 1e3:.2f} ms, "
            f"{offline.most_inclusion_hashes} hashes",
        ),
        ("proving a month's state offline", f"at most {offline.most_consistency_hashes} hashes"),
        (
            "memory of the client, at its start and at most",
            f"{_megabytes(offline.memory_before_bytes)}, {_megabytes(offline.memory_peak_bytes)}",
        ),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    conditions = f"{about.cpu}, {about.cpus} CPUs, {about.system}; {about.python}"
    return _PAGE.format(entries=f"{figures.entries:,}", conditions=conditions, table=table)


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/year_log", description="Build a year's log, serve it as static files, prove from it."
    )
    parser.add_argument("--entries", type=int, default=YEAR, help=f"entries of the log; default {YEAR}")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"entries of one append; default {BATCH}")
    parser.add_argument("--proofs", type=int, default=PROOFS, help=f"entries to prove; default {PROOFS}")
    parser.add_argument("--write", action="store_true", help="keep figures and page in docs/bench/year-log")
    chosen = parser.parse_args(arguments)
    with durable_folder() as folder:
        figures = measured(folder, entries=chosen.entries, batch=chosen.batch, proofs=chosen.proofs)
    sys.stdout.write(page(figures))
    if chosen.write:
        PAGE_FOLDER.mkdir(parents=True, exist_ok=True)
        raw = figures.model_dump_json(indent=1, by_alias=True) + "\n"
        (PAGE_FOLDER / RAW).write_text(raw, encoding="utf-8")
        (PAGE_FOLDER / PAGE).write_text(page(figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
