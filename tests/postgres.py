"""A PostgreSQL server of the tests' own: a fresh cluster in a temporary folder, behind a Unix socket.

Durability is left on, as in production: what a test kills the server at, it finds again.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg

_DEBIAN_FOLDERS = Path("/usr/lib/postgresql")
_ACCOUNT = "postgres"
_DATABASE = "postgres"
_CLEAR_UP = 'read line; "$0" stop -w -D "$1" -m immediate; rm -rf "$2"'


def server_programs() -> Path | None:
    """The folder of initdb and pg_ctl: the newest of Debian's packages, or that of the PATH."""
    found = sorted(
        (folder for folder in _DEBIAN_FOLDERS.glob("*/bin") if (folder / "initdb").is_file()),
        key=lambda folder: float(folder.parent.name),
    )
    if found:
        return found[-1]
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


class PostgresServer:
    """A cluster.

    Args:
        programs: see `server_programs`.
        folder: short, because a socket's path is; what it holds belongs to the server's account.

    Attributes:
        running: whether it was started last, rather than stopped.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self.running = False
        # The server refuses to run as root.
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:
            entry = pwd.getpwnam(_ACCOUNT)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            self._account = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": ()}

    @property
    def url(self) -> str:
        """Where clients find the server."""
        return self.url_of(_DATABASE)

    def url_of(self, database: str) -> str:
        """Where they find one of its databases."""
        return f"postgresql:///{database}?host={self._folder}&user={_ACCOUNT}"

    async def execute(self, *statements: str) -> None:
        """Run statements, each by itself."""
        connection = await asyncpg.connect(self.url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    def make(self) -> None:
        """Make the cluster."""
        self._run(
            "initdb", "--pgdata", self._data, "--username", _ACCOUNT, "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync",
        )  # fmt: skip

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = f"-k {self._folder} -c listen_addresses='' -c max_connections=200 -c shared_buffers=64MB"
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", self._folder / "log", "-o", options)
        self.running = True

    def stop(self, *, mode: str = "fast") -> None:
        """Stop it; mode `immediate` is a crash."""
        self._run("pg_ctl", "stop", "-w", "-D", self._data, "-m", mode)
        self.running = False

    @contextmanager
    def cleared_up_after(self) -> Iterator[None]:
        """Even where the tests are killed: who reads the end of a pipe stops the server then."""
        with subprocess.Popen(
            ["sh", "-c", _CLEAR_UP, str(self._programs / "pg_ctl"), str(self._data), str(self._folder)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._account,
        ):
            yield

    def dump(self, schema: str) -> str:
        """The schema with its rows, as SQL."""
        target = self._folder / "dump.sql"
        self._run("pg_dump", "--inserts", "--no-owner", "--schema", schema, "--file", target, self.url)
        return target.read_text(encoding="utf-8")

    def restore(self, schema: str, dump: str) -> None:
        """Put the schema back to what `dump` gave; nobody may be connected to it."""
        source = self._folder / "restored.sql"
        source.write_text(dump, encoding="utf-8")
        self._run(
            "psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--dbname", self.url,
            "--command", f"DROP SCHEMA {schema} CASCADE", "--file", source,
        )  # fmt: skip

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [str(self._programs / program), *map(str, arguments)],
            cwd=self._folder,
            # Not a pipe: the server inherits it, and the pipe would not end.
            stdin=subprocess.DEVNULL,
            stdout=(output := (self._folder / "output").open("a")),
            stderr=output,
            check=False,
            **self._account,
        )
        output.close()
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {(self._folder / 'output').read_text()}")


def schema_of(folder: Path) -> str:
    """A schema for each folder: stores of one folder share it."""
    return "test_" + hashlib.sha256(str(folder).encode()).hexdigest()[:16]


@contextmanager
def running_server(programs: Path, parent: Path | None = None) -> Iterator[PostgresServer]:
    """A server that is gone afterwards; `parent` is where its folder lies, else with temporary files."""
    folder = Path(tempfile.mkdtemp(prefix="aioum-pg-", dir=parent))
    try:
        server = PostgresServer(programs, folder)
        with server.cleared_up_after():
            server.make()
            server.start()
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
