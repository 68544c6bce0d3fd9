"""The end of a session: its row becomes final, and that is told once, whoever found it done on the chain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from aioum.chain.client import Chain
from aioum.chain.model import BlockRef, ChainSession, Mined
from aioum.chain.scan import first_block_since
from aioum.core import ledger
from aioum.core.errors import ChainError
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase, SessionState
from aioum.core.types import Bytes32, ChannelId
from aioum_node.settlement import rules
from aioum_node.settlement.observer import NoObserver, SettleObserver, tell_settled
from aioum_node.settlement.sending import gas_share
from aioum_node.store.port import Store

_log = structlog.get_logger(__name__)


class Finisher:
    """Makes sessions final that are so on the chain.

    The watcher and the settle loop both come across them, in each process of the operator. A settlement is
    told of by the one whose write made the row final; an alert before that, so that it is told at least once.

    Args:
        store: where rows become final.
        chain: where the transaction is looked up.
        now_ms: unix milliseconds.
        observer: told about settlements and alerts.
    """

    def __init__(
        self, store: Store, chain: Chain, now_ms: Callable[[], int], observer: SettleObserver | None = None
    ) -> None:
        self._store = store
        self._chain = chain
        self._now_ms = now_ms
        self._observer = observer or NoObserver()
        # Of two tasks of this process that found the same session done, the second finds its row final.
        self._lock = asyncio.Lock()

    async def finish(
        self,
        channel_id: ChannelId,
        final: ChainSession,
        head: BlockRef,
        *,
        mined: Mined | None = None,
        transaction_hash: Bytes32 | None = None,
    ) -> None:
        """Make a session final, unless it is.

        Args:
            channel_id: whose.
            final: the channel at finality depth; finalized.
            head: the newest block to look for its transaction at.
            mined: what finalized it, where this process sent or looked up that.
            transaction_hash: the same, where only an event was seen.

        Raises:
            Refused: `channel-not-found`.
            ChainError: as `Chain`; the row is not final then.
            AioumError: `store-failed`.
        """
        stored = await self._store.session(channel_id)
        if stored is not None and stored.state.phase is Phase.FINAL:
            return
        if mined is not None:
            transaction_hash = mined.transaction_hash
        elif transaction_hash is None:
            transaction_hash = await finalizing_transaction(self._chain, final, head)
        gas_used = None
        if final.settled > 0 or final.has_root:
            if mined is None:
                gas_used = await self._gas(transaction_hash)
            else:
                gas_used = gas_share(mined.gas_used, mined.events)
        async with self._lock:
            await self._end(channel_id, final, transaction_hash, gas_used)

    async def _end(
        self,
        channel_id: ChannelId,
        final: ChainSession,
        transaction_hash: Bytes32 | None,
        gas_used: int | None,
    ) -> None:
        stored = await self._store.session(channel_id)
        if stored is not None and stored.state.phase is Phase.FINAL:
            return
        alert = None if stored is None else rules.final_alert(stored.state, final)
        if stored is not None and alert is not None:
            _log.error(alert, channel=to_hex(channel_id), spent=stored.state.spent, captured=final.settled)
            self._observer.settlement_failed(alert)
        was_final = False

        def end(state: SessionState) -> SessionState:
            nonlocal was_final
            was_final = state.phase is Phase.FINAL
            return ledger.finalize(state)

        await self._store.update(channel_id, end, self._now_ms(), transaction_hash=transaction_hash)
        # Nothing is captured of what a client withdrew first; where something was earned, that is an alert.
        if not was_final and (final.settled > 0 or (final.has_root and alert is None)):
            tell_settled(self._observer, final, transaction_hash, gas_used)

    async def _gas(self, transaction_hash: Bytes32 | None) -> int | None:
        if transaction_hash is None:
            return None
        try:
            receipt = await self._chain.rpc.receipt(transaction_hash)
        except ChainError:
            # It is told without: what it cost is no reason to leave the row as it is.
            return None
        if receipt is None:
            return None
        return gas_share(int(receipt["gasUsed"]), self._chain.decode(receipt["logs"]))


async def finalizing_transaction(chain: Chain, session: ChainSession, head: BlockRef) -> Bytes32 | None:
    """The transaction that finalized a channel; None where the endpoint does not find its event.

    Args:
        chain: where to look.
        session: the finalized channel; its own time leads to the block.
        head: the newest block to look at.
    """
    first = await first_block_since(chain.rpc, session.finalized_at, chain.first_block, head.number)
    last = await first_block_since(chain.rpc, session.finalized_at + 1, first, head.number) - 1
    for event in reversed(await chain.events(first, last, session.channel_id)):
        if event.name == "Finalized":
            return event.transaction_hash
    return None
