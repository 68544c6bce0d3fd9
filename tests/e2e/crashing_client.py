"""A client that buys until its session has all calls, then closes; started by the tests of this folder.

The job is one JSON object on standard input. It goes on with the session of its data directory, where there
is one. At its step SIGKILL ends it. What it has at the end is one JSON object on standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from aioum.chain.deployments import Deployment
from aioum.client import ClientSettings, Marketplace
from aioum.client.http import HttpTransport
from aioum.core.hextext import to_hex
from aioum.core.signing import LocalKey

BEFORE_SEND = "before-send"
AFTER_ANSWER = "after-answer"

PATIENT = ClientSettings(
    retry_attempts=1_000,
    retry_timeout_seconds=60,
    retry_wait_initial_seconds=0.02,
    retry_wait_max_seconds=0.1,
    poll_seconds=0.05,
    close_timeout_seconds=60,
)
"""A client that repeats a request until its node is back."""


class DyingTransport(HttpTransport):
    """The real transport; its process dies around the paid request with a certain text."""

    def __init__(self, step: str | None, text: str) -> None:
        super().__init__(connect_timeout_seconds=5)
        self._step = step
        self._text = json.dumps(text).encode()

    async def request(self, method: str, url: str, **options: Any) -> Any:
        mine = "Authorization" in options["headers"] and self._text in (options["body"] or b"")
        if mine and self._step == BEFORE_SEND:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await super().request(method, url, **options)
        if mine and self._step == AFTER_ANSWER:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


async def main() -> None:
    job = json.load(sys.stdin)
    transport = DyingTransport(job["crash_at"], job["crash_text"])
    market = Marketplace(
        key=LocalKey.from_hex(job["key"]),
        deployment=Deployment.load(Path(job["deployment"])),
        data_dir=job["data_dir"],
        settings=PATIENT,
        transport=transport,
    )
    try:
        async with market:
            known = await market.sessions()
            if known:
                session = await market.resume(known[0].channel_id)
            else:
                session = await market.open(job["service"], deposit=job["deposit"])
            await session.recover()
            for tool, text in job["calls"][len(session.calls) :]:
                await session.call(tool, text=text)
            closed = await session.close()
    finally:
        await transport.aclose()
    done = {
        "sessions": len(known) or 1,
        "channel": to_hex(session.channel_id),
        "root": to_hex(session.root),
        "calls": [result.text for result in session.results],
        "spent": session.spent,
        "settled": closed.settled,
    }
    print(json.dumps(done))


if __name__ == "__main__":
    asyncio.run(main())
