"""Following the chain: what happened to our channels, and whether it is still so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from aioum.chain.client import Chain
from aioum.chain.model import BlockRef, ChainEvent, ChainSession
from aioum.chain.scan import MAX_RANGE_BLOCKS
from aioum.core.errors import AioumError
from aioum.core.hextext import address_text, to_hex
from aioum.core.ledger import Phase, SessionState
from aioum.core.types import Bytes32, ChannelId
from aioum_node.loops import LoopObserver, Unobserved
from aioum_node.settlement.finishing import Finisher
from aioum_node.settlement.rules import ChainView, observed
from aioum_node.store.port import Store, StoredSession

_LIVING: Final = (Phase.OPEN, Phase.SEALED, Phase.SUSPECT)
# Read again with every look, so that an ordinary reorganization shows as events that come and go.
_WINDOW_BLOCKS: Final = 32
# A position that is a little old costs the next process a little longer scan, and this one no write a block.
_BLOCKS_PER_POSITION: Final = 16
_CONCURRENT_READS: Final = 8
_CHANNELS_TOLD: Final = 16

_log = structlog.get_logger(__name__)

_EventKey = tuple[Bytes32, Bytes32, int]


class WatchObserver(LoopObserver, Protocol):
    """Told about the watcher's looks."""

    def reorganized(self) -> None:
        """What an earlier look had found is not on the chain any more."""
        ...


class Unwatched(Unobserved):
    """Tells nobody."""

    def reorganized(self) -> None:
        """See `WatchObserver`."""


class ChainWatcher:
    """Keeps deposits, pending closes and finalizations of known channels in step with the chain.

    Events only say which channels to look at; what is stored is always the channel's state as read. So a look
    can be repeated, and one that was missed costs nothing but time.

    Args:
        store: deposits count there from finality depth on, pending closes from the newest block on.
        chain: where to look.
        finisher: makes sessions final.
        confirmations: blocks that make something final, its own included.
        interval_seconds: pause between looks.
        now_ms: unix milliseconds.
        on_change: told the channel of every session that was changed here.
        on_read: told how each channel that was read looks now; None is of one that is final.
        on_look: told after every look of `run` that came to its end.
        on_return: told after the first such look behind one that failed.
        observer: told how the looks of `run` fare, and of reorganizations.
    """

    def __init__(
        self,
        *,
        store: Store,
        chain: Chain,
        finisher: Finisher,
        confirmations: int,
        interval_seconds: float,
        now_ms: Callable[[], int],
        on_change: Callable[[ChannelId], None] = lambda channel_id: None,
        on_read: Callable[[ChannelId, ChainView | None], None] = lambda channel_id, view: None,
        on_look: Callable[[], None] = lambda: None,
        on_return: Callable[[], None] = lambda: None,
        observer: WatchObserver | None = None,
    ) -> None:
        self._store = store
        self._chain = chain
        self._finisher = finisher
        self._confirmations = confirmations
        self._interval_seconds = interval_seconds
        self._now_ms = now_ms
        self._on_change = on_change
        self._on_read = on_read
        self._on_look = on_look
        self._on_return = on_return
        self._observer = observer or Unwatched()
        # Another PaymentManager has another history, and a position of its own.
        self._name = f"payment-manager:{chain.chain_id}:{address_text(chain.payment_manager)}"
        self._seen: dict[_EventKey, ChainEvent] = {}
        self._not_final: dict[ChannelId, int] = {}
        self._has_looked = False
        self._grace_period_seconds: int | None = None
        self._position: tuple[int, bytes] | None = None
        self._stored_number: int | None = None

    async def run(self) -> None:
        """Look again and again, until canceled. A chain or store that fails is asked again after a pause."""
        failing: str | None = None
        while True:
            try:
                await self.look()
                self._on_look()
                self._observer.round_done()
                if failing is not None:
                    _log.info("watching-again", after=failing)
                    self._on_return()
                failing = None
            except AioumError as error:
                self._observer.round_failed(error.code)
                if error.code != failing:
                    _log.warning("watching-failed", code=error.code, error=str(error))
                failing = error.code
            await asyncio.sleep(self._interval_seconds)

    async def look(self) -> None:
        """Take over what happened since the last look. One that fails has kept what it went through, as far
        as that is final: the next one goes on there.

        Raises:
            ChainError: as `Chain`.
            AioumError: `store-failed`.
        """
        head = await self._chain.head()
        # What lies behind it is read again with every look.
        last_kept = max(self._chain.first_block, head.number - _WINDOW_BLOCKS - self._confirmations)
        first = await self._first_block(head)
        transactions: dict[ChannelId, Bytes32] = {}
        for start in range(first, head.number + 1, MAX_RANGE_BLOCKS):
            end = min(start + MAX_RANGE_BLOCKS - 1, head.number)
            events = await self._chain.events(start, end)
            await self._take_over(events, start, end, head, transactions)
            if end < last_kept:
                await self._remember(end)
        final = [
            channel_id for channel_id, number in self._not_final.items() if self._depth(number, head) <= 0
        ]
        await self._refresh_all(final, head, transactions)
        for channel_id in final:
            del self._not_final[channel_id]
        await self._remember(last_kept)

    async def refresh(
        self, channel_id: ChannelId, head: BlockRef, transaction_hash: Bytes32 | None = None
    ) -> None:
        """Read one channel and store what changed.

        Args:
            channel_id: unknown and final ones are left alone.
            head: the newest block.
            transaction_hash: of the channel's finalization, where it is known.
        """
        if self._grace_period_seconds is None:
            self._grace_period_seconds = await self._chain.grace_period_seconds()
        is_first = True
        while True:
            stored = await self._store.session(channel_id)
            if stored is None or not self._is_ours(stored):
                return
            if stored.state.phase is Phase.FINAL:
                self._on_read(channel_id, None)
                return
            if not is_first:
                # Seen after what the store holds: another process may have looked later than at `head`.
                head = await self._chain.head()
            newest = await self._chain.session(channel_id, head.number)
            final = newest
            if self._confirmations > 1:
                final = await self._chain.session(channel_id, max(0, head.number - self._confirmations + 1))
            self._on_read(channel_id, ChainView(head, newest, final, self._grace_period_seconds))
            if final is not None and final.is_finalized:
                await self._finisher.finish(channel_id, final, head, transaction_hash=transaction_hash)
                self._on_change(channel_id)
                return
            if newest is None:
                _log.warning("channel-not-on-chain", channel=to_hex(channel_id), block=head.number)
            wanted = observed(stored.state, newest=newest, final=final)
            if wanted == stored.state:
                return
            if not is_first and await self._write(stored.state, newest, final):
                return
            is_first = False

    async def _write(
        self, before: SessionState, newest: ChainSession | None, final: ChainSession | None
    ) -> bool:
        """Store what was seen; False where another process stored what it saw meanwhile."""
        became_suspect = False

        def observe(state: SessionState) -> SessionState:
            nonlocal became_suspect
            if _chain_side(state) != _chain_side(before):
                return state
            after = observed(state, newest=newest, final=final)
            became_suspect = (state.phase, after.phase) == (Phase.OPEN, Phase.SUSPECT)
            return after

        after = (await self._store.update(before.channel_id, observe, self._now_ms())).state
        if became_suspect and newest is not None:
            _log.error(
                "chain-beyond-store",
                channel=to_hex(before.channel_id),
                anchored_calls=newest.call_count,
                stored_calls=after.admitted,
                captured=newest.settled,
                spent=after.spent,
                hint="aioum-node recover --from PACKAGE, or --abandon",
            )
        self._on_change(before.channel_id)
        return _chain_side(after) == _chain_side(observed(before, newest=newest, final=final))

    async def _first_block(self, head: BlockRef) -> int:
        """The first block to scan; where the position is lost, every known channel is read again instead."""
        first = await self._next_block()
        if first is not None and self._has_looked:
            return first
        # No event tells a new process what was reorganized away since the last one: it has seen none. So it
        # reads every known channel, too.
        self._seen.clear()
        self._not_final.clear()
        living = await self._store.sessions(_LIVING)
        ours = [stored.facts.channel_id for stored in living if self._is_ours(stored)]
        await self._refresh_all(ours, head, {})
        # What these reads saw at the newest block may not be final yet.
        self._not_final.update(dict.fromkeys(ours, head.number))
        self._has_looked = True
        return max(self._chain.first_block, head.number - _WINDOW_BLOCKS) if first is None else first

    async def _next_block(self) -> int | None:
        """The block after the remembered position, or None where there is none in this history.

        Other processes came further, maybe: what they saw this one has to see as well, because what it stores
        follows from what it sees.
        """
        position = self._position or await self._store.position(self._name)
        if position is None:
            return None
        number, block_hash = position
        block = await self._chain.block(number)
        if block is not None and block.hash == block_hash:
            return number + 1
        _log.warning(
            "chain-replaced",
            block=number,
            expected=to_hex(block_hash),
            found=None if block is None else to_hex(block.hash),
            effect="every open session is read again",
        )
        self._observer.reorganized()
        self._stored_number = None
        return None

    async def _take_over(
        self,
        events: list[ChainEvent],
        start: int,
        end: int,
        head: BlockRef,
        transactions: dict[ChannelId, Bytes32],
    ) -> None:
        found = {(event.block_hash, event.transaction_hash, event.log_index): event for event in events}
        changed: dict[ChannelId, int] = {}
        for key, event in found.items():
            if event.channel_id is not None:
                if event.name == "Finalized":
                    transactions[event.channel_id] = event.transaction_hash
                if key not in self._seen:
                    changed[event.channel_id] = event.block_number
        vanished = [
            key
            for key, event in self._seen.items()
            # The last range stands for what a longer chain of before had beyond the head, too.
            if key not in found
            and start <= event.block_number
            and (event.block_number <= end or end == head.number)
        ]
        for key in vanished:
            channel_id = self._seen[key].channel_id
            if channel_id is not None:
                # Reorganized away: what it did is undone, or done elsewhere.
                changed.setdefault(channel_id, head.number)
        await self._refresh_all(list(changed), head, transactions)
        # Only now: had a read failed, the next look must find the same events new, and the same ones gone.
        if vanished:
            self._tell_reorganized([self._seen.pop(key) for key in vanished], head)
        self._seen.update(found)
        self._not_final.update(changed)

    def _tell_reorganized(self, gone: list[ChainEvent], head: BlockRef) -> None:
        channels = sorted({to_hex(event.channel_id) for event in gone if event.channel_id is not None})
        _log.warning(
            "chain-reorganized",
            block=min(event.block_number for event in gone),
            head=head.number,
            events=len(gone),
            channels=channels[:_CHANNELS_TOLD],
        )
        self._observer.reorganized()

    async def _refresh_all(
        self, channel_ids: list[ChannelId], head: BlockRef, transactions: dict[ChannelId, Bytes32]
    ) -> None:
        for start in range(0, len(channel_ids), _CONCURRENT_READS):
            outcomes = await asyncio.gather(
                *(
                    self.refresh(channel_id, head, transactions.get(channel_id))
                    for channel_id in channel_ids[start : start + _CONCURRENT_READS]
                ),
                return_exceptions=True,
            )
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _remember(self, number: int) -> None:
        block = await self._chain.block(number)
        if block is None:
            return
        self._seen = {key: event for key, event in self._seen.items() if event.block_number > number}
        self._position = (block.number, block.hash)
        stored = self._stored_number
        if stored is None or not stored <= number < stored + _BLOCKS_PER_POSITION:
            await self._store.put_position(self._name, *self._position)
            self._stored_number = number

    def _depth(self, block_number: int, head: BlockRef) -> int:
        """Blocks that are missing until `block_number` is final."""
        return self._confirmations - (head.number - block_number + 1)

    def _is_ours(self, stored: StoredSession) -> bool:
        facts = stored.facts
        return (facts.chain_id, facts.payment_manager) == (self._chain.chain_id, self._chain.payment_manager)


def _chain_side(state: SessionState) -> tuple[int, bool]:
    """What a session holds of the chain's."""
    return state.deposit, state.close_pending
