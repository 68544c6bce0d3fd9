"""Another process of a benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import IO, cast


class Child:
    """A process that answers a line with a line."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._questions = cast("IO[str]", self._process.stdin)
        self._answers = cast("IO[str]", self._process.stdout)

    def read(self) -> str:
        """The next line. Raises RuntimeError where the process ended."""
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"a process of the benchmark ended early: {self._process.args!r}")
        return line.strip()

    def ask(self, line: str) -> str:
        """Send a line and read the answer."""
        self._questions.write(line + "\n")
        self._questions.flush()
        return self.read()

    def close(self) -> None:
        """Let it end and wait for it."""
        self._questions.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._answers.close()
