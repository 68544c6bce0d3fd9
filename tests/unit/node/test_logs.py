"""What a node says on stderr, in the form that its settings name."""

import json
import subprocess
import sys

# Its own program, since logging belongs to a whole process.
PROGRAM = """
import asyncio, logging, sys, warnings
import structlog
from aioum_node.logs import configure_logs
from aioum_node.settings import Settings

configure_logs(Settings(log_format=sys.argv[1]))
structlog.contextvars.bind_contextvars(channel="0x01", call=3)
structlog.get_logger("node").info("musing", text="two\\nlines")
logging.getLogger("some.library").warning("the %s is\\nfull", "disk")
logging.getLogger("some.library").info("nobody hears this")
warnings.warn("soon gone", DeprecationWarning, stacklevel=1)

async def main():
    secret = "hunter2"
    asyncio.get_running_loop().call_soon(lambda: len(secret) / 0)
    await asyncio.sleep(0)

asyncio.run(main())
"""


def logged(log_format: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", PROGRAM, log_format],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stderr


def test_every_line_is_json_whoever_wrote_it_with_level_time_and_ids() -> None:
    entries = [json.loads(line) for line in logged("json").splitlines()]

    assert [entry["level"] for entry in entries] == ["info", "warning", "warning", "error"]
    assert entries[0]["event"] == "musing"
    assert (entries[1]["event"], entries[1]["logger"]) == ("the disk is\nfull", "some.library")
    assert entries[2]["logger"] == "py.warnings"
    assert entries[3]["logger"] == "asyncio"
    assert "ZeroDivisionError" in entries[3]["exception"]
    assert "hunter2" not in str(entries)
    for entry in entries:
        assert (entry["channel"], entry["call"]) == ("0x01", 3)
        assert entry["timestamp"].endswith("Z")


def test_on_a_console_libraries_speak_in_the_same_form() -> None:
    text = logged("console")

    assert "musing" in text
    assert "[warning" in text
    assert "some.library" in text
    assert "ZeroDivisionError" in text
    assert "hunter2" not in text
