"""How a paid call becomes an event, when the recorder or the call fails."""

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.client.linking import linked
from aioum.client.records import CallPhase, CallRecord
from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.core.payment import CallReceipt
from aioum.core.purse import Outstanding
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import SignedReceipt
from aioum.run.event import PaidCall
from aioum.run.keys import Ed25519Key
from aioum.run.recorder import Run

CHANNEL = ChannelId(b"\x11" * 32)
REQUEST = b'{"arguments":{},"tool":"echo"}'
RECEIPT = CallReceipt(CHANNEL, 3, Bytes32(b"\x22" * 32), 1)
ANSWERED = replace(
    CallRecord(Outstanding(3, "echo", REQUEST, 1, 1), b""),
    phase=CallPhase.ANSWERED,
    status=200,
    response=b"hello",
    receipt=SignedReceipt(RECEIPT, b""),
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.start(tmp_path / "run", agent="a") as run:
        yield run


async def answer() -> CallRecord:
    return ANSWERED


async def test_an_answered_call_names_session_index_and_leaf(run: Run) -> None:
    assert await linked(CHANNEL, "echo", REQUEST, answer) is ANSWERED
    (item,) = run.seal(Ed25519Key(bytes(32))).events
    assert item.event.call == PaidCall(CHANNEL, 3, RECEIPT.leaf)


async def test_without_a_run_a_call_is_only_made() -> None:
    assert await linked(CHANNEL, "echo", REQUEST, answer) is ANSWERED


async def test_a_call_after_the_seal_is_only_made(run: Run) -> None:
    run.record("llm-call", "plan")
    capsule = run.seal(Ed25519Key(bytes(32)))
    assert await linked(CHANNEL, "echo", REQUEST, answer) is ANSWERED
    assert run.seal(Ed25519Key(bytes(32))) == capsule


async def test_a_call_without_an_answer_is_an_event_without_a_link(run: Run) -> None:
    async def silence() -> CallRecord:
        raise OutcomeUnknown("no answer", code="receipt-missing")

    with pytest.raises(OutcomeUnknown):
        await linked(CHANNEL, "echo", REQUEST, silence)
    (item,) = run.seal(Ed25519Key(bytes(32))).events
    assert (item.event.name, item.event.call) == ("echo", None)


async def test_nothing_is_bought_that_could_not_be_recorded_and_nothing_bought_is_withheld(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    bought = []

    async def answer_with_a_full_disk() -> CallRecord:
        bought.append(1)
        monkeypatch.setattr(os, "write", full)
        return ANSWERED

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    # The event has begun: the answer is given, and the gap keeps the run from being sealed.
    assert await linked(CHANNEL, "echo", REQUEST, answer_with_a_full_disk) is ANSWERED
    with pytest.raises(AioumError) as error:
        await linked(CHANNEL, "echo", REQUEST, answer_with_a_full_disk)
    assert error.value.code == "run-journal-failed"
    assert bought == [1]
    monkeypatch.undo()
    with pytest.raises(AioumError) as error:
        run.seal(Ed25519Key(bytes(32)))
    assert error.value.code == "run-span-open"
