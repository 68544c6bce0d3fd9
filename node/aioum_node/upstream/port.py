"""The port every kind of tool implements."""

from __future__ import annotations

from typing import Protocol

from aioum.core.ledger import Answer
from aioum.core.wire import JsonObject


class Upstream(Protocol):
    """One tool's implementation. Nothing it does is durable; the caller records the answer."""

    async def run(self, arguments: JsonObject, request: bytes, timeout_seconds: float) -> Answer:
        """Run once. Every failure is an answer of `aioum_node.failures`; only cancellation raises.

        Args:
            arguments: validated against the card's schema.
            request: the canonical request, the very bytes of the transcript.
            timeout_seconds: how long the whole run may take.
        """
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...
