"""Settling: sealed sessions are drained and put on the chain, in one transaction each, for what was spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from aioum.chain.client import Chain
from aioum.chain.sender import Sender
from aioum.core import ledger
from aioum.core.errors import AioumError, OutcomeUnknown, Refused
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase
from aioum.core.types import Bytes32, ChannelId
from aioum_node.fsck import require_sound
from aioum_node.interrupted_calls import interrupt_session
from aioum_node.loops import LoopObserver, Unobserved
from aioum_node.settlement import rules
from aioum_node.settlement.deadlines import Deadlines
from aioum_node.settlement.finishing import Finisher
from aioum_node.settlement.kept_vouchers import best_covered
from aioum_node.settlement.observer import NoObserver, SettleObserver
from aioum_node.settlement.pauses import Pauses
from aioum_node.settlement.rules import ChainView, SettlePolicy
from aioum_node.settlement.sending import PURPOSE_PREFIX, SentSettlements, chain_settlement
from aioum_node.store.port import Store, StoredSession

__all__ = ["DEADLINE_NEAR", "PURPOSE_PREFIX", "SettleLoop", "SettleObserver", "chain_settlement"]

DEADLINE_NEAR: Final = "settlement-deadline-near"
"""Alert: a client may withdraw soon, and its session is not settled."""

_CONCURRENT_SETTLEMENTS: Final = 24

_log = structlog.get_logger(__name__)


class SettleLoop:
    """Brings every session that is over to its end on the chain.

    Args:
        store: where sessions are sealed.
        chain: where they are looked up before anything is sent.
        sender: of the payee or the terms' operator; journals every transaction before it is sent.
        finisher: makes sessions final.
        policy: when to settle.
        confirmations: blocks that make a finalization final.
        interval_seconds: pause between rounds; `close` and `wake` start one at once.
        now_ms: unix milliseconds.
        observer: told about outcomes.
        rounds: told how the rounds fare.
        max_batch_items: settlements that may share a transaction.
    """

    def __init__(
        self,
        *,
        store: Store,
        chain: Chain,
        sender: Sender,
        finisher: Finisher,
        policy: SettlePolicy,
        confirmations: int,
        interval_seconds: float,
        now_ms: Callable[[], int],
        observer: SettleObserver | None = None,
        rounds: LoopObserver | None = None,
        max_batch_items: int = 1,
    ) -> None:
        self._store = store
        self._chain = chain
        self._sent = SentSettlements(chain, sender, max_batch_items)
        self._finisher = finisher
        self._policy = policy
        self._confirmations = confirmations
        self._interval_seconds = interval_seconds
        self._now_ms = now_ms
        self._observer = observer or NoObserver()
        self._rounds = rounds or Unobserved()
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._slots = asyncio.Semaphore(_CONCURRENT_SETTLEMENTS)
        # A client that leaves never waits behind sessions that have time.
        self._urgent_slots = asyncio.Semaphore(_CONCURRENT_SETTLEMENTS)
        self._busy: set[ChannelId] = set()
        self._deadlines = Deadlines(now_ms)
        self._pauses = Pauses(now_ms, self._deadlines.seconds_left)
        self._grace_period_seconds: int | None = None
        self._reconciling = False
        self._round_code: str | None = None
        self._waiting = 0

    async def run(self) -> None:
        """Settle until canceled. Reconciles the journal before anything else is sent.

        It may be run again later, in between another process sends for the account.
        """
        self._sent.is_reconciled = False
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._wake.clear()
                    await self._round(group)
                    try:
                        async with asyncio.timeout(self._interval_seconds):
                            await self._wake.wait()
                    except TimeoutError:
                        continue
        finally:
            self._deadlines.hand_over()
            self._waiting = 0

    async def run_once(self) -> None:
        """One round, to its end."""
        async with asyncio.TaskGroup() as group:
            await self._round(group)

    async def close(self, channel_id: ChannelId) -> None:
        """Seal a session, durably, and settle it soon. Sealing again changes nothing.

        Raises:
            Refused: `channel-not-found`.
        """
        await self._store.update(
            channel_id, lambda state: ledger.seal(state, "closed-by-client"), self._now_ms()
        )
        self.wake(channel_id)

    def wake(self, channel_id: ChannelId) -> None:
        """Something about this session changed: give it its turn now, whatever it waits for."""
        self._pauses.end(channel_id)
        self._wake.set()
        self._announce()

    def chain_is_back(self) -> None:
        """The chain answers again: sessions whose turn failed because it did not have another one now."""
        self._pauses.chain_is_back()
        self._wake.set()

    @property
    def waiting(self) -> int:
        """Sessions that are sealed and not final, as the last round of this process found."""
        return self._waiting

    def saw(self, channel_id: ChannelId, view: ChainView | None) -> None:
        """Take over how a channel looks to whoever watches the chain; None: its session is final."""
        self._deadlines.saw(channel_id, view)

    @property
    def nearest_exit_seconds(self) -> float:
        """Until the first leaving client may withdraw; infinite where nobody leaves."""
        return self._deadlines.nearest_seconds()

    async def settlement_transaction(self, channel_id: ChannelId) -> Bytes32 | None:
        """The mined transaction that finalized a session, or None while there is none."""
        stored = await self._store.session(channel_id)
        return None if stored is None else stored.transaction_hash

    async def outcome(self, channel_id: ChannelId, timeout_seconds: float) -> StoredSession:
        """Wait until a session is final, at most so long, and return it as it is then.

        Raises:
            Refused: `channel-not-found`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while True:
            progress = self._progress
            stored = await self._store.session(channel_id)
            if stored is None:
                raise Refused(f"no session {to_hex(channel_id)}", code="channel-not-found")
            if stored.state.phase is Phase.FINAL or loop.time() >= deadline:
                return stored
            try:
                async with asyncio.timeout_at(deadline):
                    await progress.wait()
            except TimeoutError:
                continue

    # --- rounds ---

    async def _round(self, group: asyncio.TaskGroup) -> None:
        try:
            idle_since_ms = self._now_ms() - self._policy.idle_seconds * 1_000
            due = await self._store.sessions((Phase.OPEN, Phase.SEALED), idle_since_ms=idle_since_ms)
        except AioumError as error:
            self._round_failed(error)
            return
        finally:
            # Told even where neither store nor chain answers: what is known of exits runs on.
            self._tell_deadlines()
        due = [stored for stored in due if self._is_ours(stored)]
        self._deadlines.notice(due)
        self._waiting = sum(stored.state.phase is Phase.SEALED for stored in due)
        try:
            if not self._sent.is_reconciled:
                # Durable from a former process: signed transactions without an outcome. Nothing new is sent
                # before each of them was looked up.
                await self._sent.reconcile()
        except AioumError as error:
            self._round_failed(error)
            return
        self._round_code = None
        self._rounds.round_done()
        if self._sent.is_doubtful:
            # Also one whose session is final by now: the journal is to know what became of it.
            self._reconcile_beside(group)
        for stored in due:
            channel_id = stored.facts.channel_id
            if channel_id not in self._busy and self._pauses.is_due(channel_id):
                self._busy.add(channel_id)
                slots = self._urgent_slots if stored.state.close_pending else self._slots
                group.create_task(self._turn(channel_id, slots, group))

    def _tell_deadlines(self) -> None:
        for channel_id, seconds in self._deadlines.near(self._policy.exit_alert_seconds):
            _log.error(
                DEADLINE_NEAR,
                channel=to_hex(channel_id),
                seconds_left=None if seconds is None else int(seconds),
                hint="the client may withdraw then: see why it is not settled, and that the chain answers",
            )
            self._observer.settlement_failed(DEADLINE_NEAR)

    async def _turn(self, channel_id: ChannelId, slots: asyncio.Semaphore, group: asyncio.TaskGroup) -> None:
        try:
            async with slots:
                await self._advance(channel_id, group)
        except OutcomeUnknown as error:
            # The journal knows the transaction, if there is one: its next turn looks before it sends.
            self._failed(channel_id, error)
            self._reconcile_beside(group)
        except AioumError as error:
            self._failed(channel_id, error)
        except Exception as error:
            # A bug in one session's turn must not end the settling of the others.
            _log.exception("settlement-broke", channel=to_hex(channel_id))
            self._failed(channel_id, AioumError(str(error)))
        finally:
            self._busy.discard(channel_id)
            self._announce()

    async def _advance(self, channel_id: ChannelId, group: asyncio.TaskGroup) -> None:
        while True:
            stored = await self._store.session(channel_id)
            if stored is None:
                return
            view = await self._look(channel_id)
            step = rules.next_step(stored, view, self._now_ms(), self._policy)
            if isinstance(step, rules.Cover):
                voucher = await best_covered(self._store, channel_id, step.deposit)
                step = rules.covered(step, voucher)
            match step:
                case rules.Wait(reason):
                    if stored.state.phase is Phase.FINAL:
                        self._forget(channel_id)
                    else:
                        self._waits(channel_id, reason)
                    return
                case rules.Stop(code):
                    raise AioumError(
                        f"session {to_hex(channel_id)} cannot be settled: {code}",
                        code=code,
                        hint="compare the node's record with the chain; this session needs a person",
                    )
                case rules.Seal(reason):
                    await self._store.update(channel_id, _sealing(reason), self._now_ms())
                    _log.info("session-sealed", channel=to_hex(channel_id), reason=reason)
                case rules.Interrupt():
                    # Whoever serves such a call loses the compare-and-set and answers with this failure.
                    await interrupt_session(self._store, stored, self._now_ms())
                case rules.Finalize(final):
                    mined = self._sent.mined(channel_id)
                    await self._finisher.finish(channel_id, final, view.head, mined=mined)
                    self._forget(channel_id)
                    return
                case rules.Settle(settlement):
                    if not await self._settle(stored, settlement, view, group):
                        return

    async def _look(self, channel_id: ChannelId) -> ChainView:
        if self._grace_period_seconds is None:
            self._grace_period_seconds = await self._chain.grace_period_seconds()
        head = await self._chain.head()
        newest = await self._chain.session(channel_id, head.number)
        final = newest
        if self._confirmations > 1:
            final = await self._chain.session(channel_id, max(0, head.number - self._confirmations + 1))
        view = ChainView(head, newest, final, self._grace_period_seconds)
        self._deadlines.saw(channel_id, view)
        return view

    async def _settle(
        self,
        stored: StoredSession,
        settlement: ledger.Settlement,
        view: ChainView,
        group: asyncio.TaskGroup,
    ) -> bool:
        channel_id = stored.facts.channel_id
        mined = self._sent.mined(channel_id)
        if mined is not None and view.head.number < mined.block_number:
            self._waits(channel_id, "endpoint-behind")
            return False
        if await self._sent.is_unresolved(channel_id):
            self._waits(channel_id, "outcome-unknown")
            self._reconcile_beside(group)
            return False
        if not stored.state.abandoned:
            await require_sound(self._store, stored, self._chain)
        # Durable here: the sealed, drained session, so a crash comes back to the very same settlement.
        await self._sent.send(settlement, alone=self._goes_alone(channel_id))
        # A crash here: the chain is final and the journal knows; the next process finalizes the row.
        return True

    def _goes_alone(self, channel_id: ChannelId) -> bool:
        """Whether there is no company to wait for, or no time."""
        return len(self._busy) == 1 or self._deadlines.seconds_left(channel_id) is not None

    def _forget(self, channel_id: ChannelId) -> None:
        self._sent.forget(channel_id)
        self._pauses.end(channel_id)
        self._deadlines.forget(channel_id)

    def _reconcile_beside(self, group: asyncio.TaskGroup) -> None:
        if not self._reconciling:
            self._reconciling = True
            group.create_task(self._reconcile_quietly())

    async def _reconcile_quietly(self) -> None:
        try:
            await self._sent.reconcile()
        except AioumError as error:
            self._round_failed(error)
        finally:
            self._reconciling = False

    # --- what is told ---

    def _waits(self, channel_id: ChannelId, reason: str) -> None:
        if self._pauses.waits(channel_id, reason):
            _log.info("settlement-waits", channel=to_hex(channel_id), reason=reason)

    def _failed(self, channel_id: ChannelId, error: AioumError) -> None:
        _log.error(
            "settlement-failed",
            channel=to_hex(channel_id),
            code=error.code,
            error=str(error),
            hint=error.hint,
            details=error.details,
        )
        self._observer.settlement_failed(error.code)
        self._pauses.failed(channel_id, error.code)

    def _round_failed(self, error: AioumError) -> None:
        self._rounds.round_failed(error.code)
        if error.code != self._round_code:
            _log.error("settling-failed", code=error.code, error=str(error), hint=error.hint)
            self._observer.settlement_failed(error.code)
        self._round_code = error.code

    def _announce(self) -> None:
        progress = self._progress
        self._progress = asyncio.Event()
        progress.set()

    def _is_ours(self, stored: StoredSession) -> bool:
        facts = stored.facts
        return (facts.chain_id, facts.payment_manager) == (self._chain.chain_id, self._chain.payment_manager)


def _sealing(reason: str) -> Callable[[ledger.SessionState], ledger.SessionState]:
    return lambda state: ledger.seal(state, reason)
