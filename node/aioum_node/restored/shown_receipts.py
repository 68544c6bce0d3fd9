"""The receipts that clients show with their calls: a node that has lost what it signed learns it from them.

What a start cannot see is a store that was restored together with its watermark, or lost together with it
(PROTOCOL 3.2, restored stores).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from aioum.core import suspicion
from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.hextext import to_hex
from aioum.core.signing import require_signer
from aioum.core.types import ChannelId
from aioum.core.wire import SignedReceipt
from aioum_node.sessions import SessionContext
from aioum_node.store.port import Store, StoredSession

_MOST_REMEMBERED: Final = 10_000

_log = structlog.get_logger(__name__)


class ShownReceipts:
    """Holds them against the store.

    Args:
        store: where sessions lie.
        now_ms: unix milliseconds.
    """

    def __init__(self, store: Store, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        # By session the newest index that the store is known to hold: so a session in use costs no reads.
        self._held: dict[ChannelId, int] = {}

    async def require_held(self, context: SessionContext, header: str) -> None:
        """Whether the store has the call of a receipt. If this node signed it and it has not, or has another
        one there, the session is suspect from now on.

        Args:
            context: the session.
            header: the request's `Aioum-Receipt`.

        Raises:
            Refused: `session-suspect`.
            AioumError: `store-failed`.
        """
        try:
            shown = SignedReceipt.from_header(header)
        except InvalidInput:
            # The call stands without it; whoever shows nothing useful has shown nothing.
            return
        channel_id = context.facts.channel_id
        if shown.receipt.channel_id != channel_id:
            return
        if shown.receipt.index <= self._held.get(channel_id, -1):
            return
        stored = await self._store.session(channel_id)
        if stored is None:
            return
        stored.state.require_trusted()
        if await self._holds(stored, shown):
            self.held(channel_id, shown.receipt.index)
            return
        try:
            require_signer(shown.receipt.digest(context.domain), shown.signature, context.receipt_signer)
        except SignatureInvalid:
            # Not this node's word.
            return
        _log.error("receipt-beyond-store", channel=to_hex(channel_id), index=shown.receipt.index)
        after = await self._store.update(channel_id, suspicion.suspect, self._now_ms())
        after.state.require_trusted()

    def held(self, channel_id: ChannelId, index: int) -> None:
        """The store has this call: its receipt was just made."""
        known = self._held.pop(channel_id, -1)
        if len(self._held) >= _MOST_REMEMBERED:
            del self._held[next(iter(self._held))]
        self._held[channel_id] = max(known, index)

    async def _holds(self, stored: StoredSession, shown: SignedReceipt) -> bool:
        if shown.receipt.index >= stored.state.admitted:
            return False
        calls = await self._store.calls(stored.facts.channel_id, shown.receipt.index, 1)
        return any(
            (call.index, call.leaf, call.charge)
            == (shown.receipt.index, shown.receipt.leaf, shown.receipt.charge)
            for call in calls
        )
