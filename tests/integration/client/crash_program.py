"""A client program that is killed at a chosen step; started by `test_crash_and_resume`, not collected.

It reads jobs as JSON lines and forks a child for each: importing takes longer than the work. A child buys
until its session has what the job wants, by turns as its client and as a sub-agent, one after the other or
together, and kills itself at the step with the job's number; started again with the same data directory it
goes on. Every step is noted before
and after it happens.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from aioum.chain.deployments import Deployment
from aioum.chain.rpc import Rpc
from aioum.client import CLIENT_SEAT, ClientSettings, Marketplace, PaidSession, SessionPhase
from aioum.client.http import HttpAnswer, HttpTransport
from aioum.client.journal import SqliteJournal
from aioum.client.records import CallRecord, SessionRecord
from aioum.client.seat_keys import SeatKeyFiles
from aioum.client.seats import SeatSigner
from aioum.core.evidence import package_bytes
from aioum.core.hextext import to_hex
from aioum.core.purse import Outstanding
from aioum.core.signing import LocalKey
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.keys import SubmissionKey
from aioum.core.types import ChannelId

SUB_AGENT = "researcher"
SETTINGS = ClientSettings(
    retry_wait_initial_seconds=0.01, retry_wait_max_seconds=0.05, poll_seconds=0.05, close_timeout_seconds=30
)


class Steps:
    """Counts the steps of this process and ends it, as a power cut does, at one of them."""

    def __init__(self, last: int | None) -> None:
        self.names: list[str] = []
        self._last = last

    def reach(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


class Journal(SqliteJournal):
    def __init__(self, path: Path, steps: Steps) -> None:
        super().__init__(path)
        self._steps = steps

    async def create(self, record: SessionRecord) -> SessionRecord:
        self._steps.reach("before create")
        created = await super().create(record)
        self._steps.reach("after create")
        return created

    async def save(self, record: SessionRecord, calls: Sequence[CallRecord] = ()) -> SessionRecord:
        self._steps.reach("before save")
        saved = await super().save(record, calls)
        self._steps.reach("after save")
        return saved


class Transport(HttpTransport):
    def __init__(self, steps: Steps) -> None:
        super().__init__(connect_timeout_seconds=5)
        self._steps = steps

    async def request(self, method: str, url: str, **options: Any) -> HttpAnswer:
        if method == "GET" or not (url.endswith("/close") or "Authorization" in options["headers"]):
            return await super().request(method, url, **options)
        self._steps.reach("before request")
        answer = await super().request(method, url, **options)
        self._steps.reach("after request")
        return answer


def count_broadcasts(steps: Steps) -> None:
    broadcast = Rpc.broadcast

    async def counted(self: Rpc, raw_transaction: bytes) -> None:
        steps.reach("before broadcast")
        await broadcast(self, raw_transaction)
        steps.reach("after broadcast")

    Rpc.broadcast = counted  # type: ignore[method-assign]


def count_key_steps(steps: Steps) -> None:
    keep, sign = SeatKeyFiles.keep, SeatSigner.sign

    async def kept(self: SeatKeyFiles, channel_id: ChannelId, keys: Mapping[str, SubmissionKey]) -> None:
        steps.reach("before keys")
        await keep(self, channel_id, keys)
        steps.reach("after keys")

    def signed(self: SeatSigner, seat: str, call: Outstanding) -> Envelope | None:
        steps.reach("before sign")
        envelope = sign(self, seat, call)
        steps.reach("after sign")
        return envelope

    SeatKeyFiles.keep = kept  # type: ignore[method-assign]
    SeatSigner.sign = signed  # type: ignore[method-assign]


async def call(session: PaidSession, number: int) -> None:
    seat = session.seat((CLIENT_SEAT, SUB_AGENT)[number % 2])
    await seat.call("echo", text=str(number))


async def buy(session: PaidSession, job: dict[str, Any]) -> None:
    if job["what"] == "exit":
        await session.exit()
        return
    if session.phase is SessionPhase.OPEN:
        await session.recover()
        missing = range(len(session.calls), job["calls"])
        if job["what"] == "together":
            await asyncio.gather(*(call(session, number) for number in missing))
        else:
            for number in missing:
                await call(session, number)
        if session.deposit < job["deposit"] + job["top_up"]:
            await session.top_up(job["top_up"])
        await session.statement()
    await session.close()


async def run(job: dict[str, Any], steps: Steps) -> dict[str, Any]:
    data_dir = Path(job["data_dir"])
    journal, transport = Journal(data_dir / "sessions.sqlite3", steps), Transport(steps)
    count_broadcasts(steps)
    count_key_steps(steps)
    market = Marketplace(
        key=LocalKey.from_hex(job["key"]),
        deployment=Deployment.load(Path(job["deployment"])),
        data_dir=data_dir,
        settings=SETTINGS,
        journal=journal,
        transport=transport,
    )
    try:
        async with market:
            known = await market.sessions()
            if known:
                session = await market.resume(known[0].channel_id)
            else:
                session = await market.open(job["service"], deposit=job["deposit"], seats=(SUB_AGENT,))
            await buy(session, job)
            return {
                "channel": to_hex(session.channel_id),
                "sessions": len(await market.sessions()),
                "responses": [entry.response for entry in session.calls],
                "root": to_hex(session.root),
                "heads": session.heads,
                "spent": session.spent,
                "deposit": session.deposit,
                "package": package_bytes(session.evidence_package("quality", "")).decode(),
                "steps": steps.names,
            }
    finally:
        await transport.aclose()
        await journal.aclose()


def child(job: dict[str, Any], out: int) -> None:
    result = asyncio.run(run(job, Steps(job["kill_at"])))
    with os.fdopen(out, "w") as file:
        file.write(json.dumps(result))


def main() -> None:
    # Answers alone go to standard output.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    for line in sys.stdin:
        job = json.loads(line)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            code = 1
            try:
                child(job, write)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(write)
        with os.fdopen(read) as file:
            result = file.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": killed, "result": json.loads(result) if result else None}), flush=True)


if __name__ == "__main__":
    main()
