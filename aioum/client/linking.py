"""Paid calls link themselves into the run that is being recorded where they are made (PROTOCOL 8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aioum.client.records import CallRecord
from aioum.core.types import ChannelId
from aioum.run.current import current_run
from aioum.run.event import Kind, PaidCall
from aioum.run.line_file import RunJournalError


async def linked(
    channel_id: ChannelId, tool_id: str, request: bytes, buy: Callable[[], Awaitable[CallRecord]]
) -> CallRecord:
    """Buy a call. Where a run is current, it becomes an event that names session, index and leaf of the call.

    Args:
        channel_id: of the session.
        tool_id: name of the event.
        request: its input: the call's canonical bytes.
        buy: makes the call; the response is the event's output.

    Raises:
        RunJournalError, SealRefused: as `Run.record`; then nothing was bought.
        AioumError: as `buy`; then the event has no link, and the error's code as its output.
    """
    run = current_run()
    if run is None:
        return await buy()
    record: CallRecord | None = None
    try:
        async with run.span(Kind.TOOL_CALL, tool_id, input=request) as span:
            record = await buy()
            span.output(record.response)
            if record.receipt is not None:
                receipt = record.receipt.receipt
                span.link(PaidCall(channel_id, receipt.index, receipt.leaf))
    except RunJournalError:
        if record is None:
            raise
        # What was paid for is not withheld. The event stays open, so that the run cannot be sealed as if
        # nothing were missing.
    return record
