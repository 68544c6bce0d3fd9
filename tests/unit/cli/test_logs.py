"""Standard output belongs to the answer."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
from aioum.cli.logs import logs_to_stderr
import structlog
logs_to_stderr()
structlog.get_logger("aioum.chain.sender").warning("transaction-superseded")
structlog.get_logger("aioum.chain.sender").info("of no interest")
"""


def test_warnings_of_the_libraries_go_to_standard_error() -> None:
    run = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert run.stdout == ""
    assert "transaction-superseded" in run.stderr
    assert "of no interest" not in run.stderr
