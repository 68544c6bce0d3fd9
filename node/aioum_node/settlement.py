"""Settling: sealed sessions are drained and put on the chain, in one transaction each, for what was spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from aioum.chain.calls import Settlement, settle_session
from aioum.chain.client import Chain
from aioum.chain.model import Mined
from aioum.chain.sender import Sender
from aioum.core import ledger
from aioum.core.errors import AioumError, OutcomeUnknown, Refused
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase
from aioum.core.types import Bytes32, ChannelId
from aioum_node import settlement_rules as rules
from aioum_node.fsck import require_sound
from aioum_node.recovery import interrupt_session
from aioum_node.settlement_rules import ChainView, SettlePolicy
from aioum_node.store.port import Store, StoredSession
from aioum_node.watch import finalizing_transaction

PURPOSE_PREFIX: Final = "settle:"
"""Begins the purpose of a settlement in the transaction journal; the channel id in hex follows."""

_FIRST_PAUSE_SECONDS: Final = 2
_LONGEST_PAUSE_SECONDS: Final = 600
_CONCURRENT_SETTLEMENTS: Final = 8
# Reasons to wait that only somebody else can change, and not soon.
_SLOW: Final = frozenset({"channel-not-on-chain", "nothing-earned", "outcome-unknown"})

_log = structlog.get_logger(__name__)


class SettleObserver(Protocol):
    """Told about settlements, for metrics."""

    def settled(self, captured: int, gas_used: int) -> None:
        """A settlement was mined: base units captured, gas used."""
        ...

    def settlement_failed(self, code: str) -> None:
        """An attempt failed, or a person must look; `code` says why. It may be tried again later."""
        ...


class _NoObserver:
    def settled(self, captured: int, gas_used: int) -> None:
        return

    def settlement_failed(self, code: str) -> None:
        return


@dataclass(slots=True)
class _Pause:
    """How often a session's turn came to nothing, and when (unix milliseconds) it has the next."""

    failures: int = 0
    until_ms: int = 0
    code: str | None = None


class SettleLoop:
    """Brings every session that is over to its end on the chain.

    Args:
        store: where sessions are sealed and finalized.
        chain: where they are looked up before anything is sent.
        sender: of the payee or the terms' operator; journals every transaction before it is sent.
        policy: when to settle.
        confirmations: blocks that make a finalization final.
        interval_seconds: pause between rounds; `close` and `wake` start one at once.
        now_ms: unix milliseconds.
        observer: told about outcomes.
    """

    def __init__(
        self,
        *,
        store: Store,
        chain: Chain,
        sender: Sender,
        policy: SettlePolicy,
        confirmations: int,
        interval_seconds: float,
        now_ms: Callable[[], int],
        observer: SettleObserver | None = None,
    ) -> None:
        self._store = store
        self._chain = chain
        self._sender = sender
        self._policy = policy
        self._confirmations = confirmations
        self._interval_seconds = interval_seconds
        self._now_ms = now_ms
        self._observer = observer or _NoObserver()
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._slots = asyncio.Semaphore(_CONCURRENT_SETTLEMENTS)
        self._busy: set[ChannelId] = set()
        self._pauses: dict[ChannelId, _Pause] = {}
        self._mined: dict[ChannelId, Mined] = {}
        self._grace_period_seconds: int | None = None
        self._reconciling = False
        self._reconciled = False
        self._round_code: str | None = None

    async def run(self) -> None:
        """Settle until canceled. Reconciles the journal before anything else is sent."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                await self._round(group)
                try:
                    async with asyncio.timeout(self._interval_seconds):
                        await self._wake.wait()
                except TimeoutError:
                    continue

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
        self._pauses.pop(channel_id, None)
        self._wake.set()
        self._announce()

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
            if not self._reconciled:
                # Durable from a former process: signed transactions without an outcome. Nothing new is sent
                # before each of them was looked up.
                await self._reconcile()
            idle_since_ms = self._now_ms() - self._policy.idle_seconds * 1_000
            due = await self._store.sessions((Phase.OPEN, Phase.SEALED), idle_since_ms=idle_since_ms)
        except AioumError as error:
            self._round_failed(error)
            return
        self._round_code = None
        for stored in due:
            channel_id = stored.facts.channel_id
            pause = self._pauses.get(channel_id)
            if channel_id in self._busy or not self._is_ours(stored):
                continue
            if pause is None or pause.until_ms <= self._now_ms():
                self._busy.add(channel_id)
                group.create_task(self._turn(channel_id, group))

    async def _turn(self, channel_id: ChannelId, group: asyncio.TaskGroup) -> None:
        try:
            async with self._slots:
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
                case rules.Finalize(alert):
                    await self._finalize(stored, view, alert)
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
        return ChainView(head, newest, final, self._grace_period_seconds)

    async def _settle(
        self,
        stored: StoredSession,
        settlement: ledger.Settlement,
        view: ChainView,
        group: asyncio.TaskGroup,
    ) -> bool:
        channel_id = stored.facts.channel_id
        mined = self._mined.get(channel_id)
        if mined is not None and view.head.number < mined.block_number:
            self._waits(channel_id, "endpoint-behind")
            return False
        purpose = PURPOSE_PREFIX + to_hex(channel_id)
        if any(transaction.purpose == purpose for transaction in await self._sender.unresolved()):
            # An earlier attempt may still happen. It is looked up, not repeated.
            self._waits(channel_id, "outcome-unknown")
            self._reconcile_beside(group)
            return False
        await require_sound(self._store, stored)
        call = settle_session(self._chain.payment_manager, chain_settlement(settlement))
        # Durable here: the sealed, drained session, so a crash comes back to the very same settlement.
        mined = await self._sender.send(call, purpose)
        # A crash here: the chain is final and the journal knows; the next process finalizes the row.
        self._remember(mined)
        self._observer.settled(settlement.capture, mined.gas_used)
        _log.info(
            "session-settled",
            channel=to_hex(channel_id),
            captured=settlement.capture,
            calls=settlement.call_count,
            root=to_hex(settlement.root),
            transaction=to_hex(mined.transaction_hash),
            gas_used=mined.gas_used,
        )
        return True

    async def _finalize(self, stored: StoredSession, view: ChainView, alert: str | None) -> None:
        channel_id = stored.facts.channel_id
        if alert is not None:
            _log.error(alert, channel=to_hex(channel_id), spent=stored.state.spent)
            self._observer.settlement_failed(alert)
        mined = self._mined.get(channel_id)
        transaction_hash = None if mined is None else mined.transaction_hash
        if transaction_hash is None and view.final is not None:
            transaction_hash = await finalizing_transaction(self._chain, view.final, view.head)
        await self._store.update(
            channel_id, ledger.finalize, self._now_ms(), transaction_hash=transaction_hash
        )
        self._forget(channel_id)

    def _forget(self, channel_id: ChannelId) -> None:
        self._mined.pop(channel_id, None)
        self._pauses.pop(channel_id, None)

    # --- the journal ---

    def _reconcile_beside(self, group: asyncio.TaskGroup) -> None:
        if not self._reconciling:
            self._reconciling = True
            group.create_task(self._reconcile_quietly())

    async def _reconcile_quietly(self) -> None:
        try:
            await self._reconcile()
        except AioumError as error:
            self._round_failed(error)
        finally:
            self._reconciling = False

    async def _reconcile(self) -> None:
        for mined in await self._sender.reconcile():
            self._remember(mined)
        self._reconciled = True

    def _remember(self, mined: Mined) -> None:
        # One that was sent again after another had settled emits nothing: it is not what ended the session.
        for event in mined.events:
            if event.name == "Finalized" and event.channel_id is not None:
                self._mined[event.channel_id] = mined

    # --- pauses ---

    def _waits(self, channel_id: ChannelId, reason: str) -> None:
        pause = self._pauses.get(channel_id)
        if pause is None or pause.code != reason:
            _log.info("settlement-waits", channel=to_hex(channel_id), reason=reason)
            pause = self._pauses[channel_id] = _Pause(code=reason)
        if reason in _SLOW:
            self._lengthen(pause)

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
        pause = self._pauses.setdefault(channel_id, _Pause())
        pause.code = error.code
        self._lengthen(pause)

    def _round_failed(self, error: AioumError) -> None:
        if error.code != self._round_code:
            _log.error("settling-failed", code=error.code, error=str(error), hint=error.hint)
            self._observer.settlement_failed(error.code)
        self._round_code = error.code

    def _lengthen(self, pause: _Pause) -> None:
        seconds = min(_FIRST_PAUSE_SECONDS << min(pause.failures, 16), _LONGEST_PAUSE_SECONDS)
        pause.failures += 1
        pause.until_ms = self._now_ms() + seconds * 1_000

    def _announce(self) -> None:
        progress = self._progress
        self._progress = asyncio.Event()
        progress.set()

    def _is_ours(self, stored: StoredSession) -> bool:
        facts = stored.facts
        return (facts.chain_id, facts.payment_manager) == (self._chain.chain_id, self._chain.payment_manager)


def _sealing(reason: str) -> Callable[[ledger.SessionState], ledger.SessionState]:
    return lambda state: ledger.seal(state, reason)


def chain_settlement(settlement: ledger.Settlement) -> Settlement:
    """The ledger's settlement as the contract takes it."""
    return Settlement(
        channel_id=settlement.channel_id,
        voucher_amount=settlement.voucher_amount,
        capture=settlement.capture,
        call_count=settlement.call_count,
        root=settlement.root,
        signature=settlement.signature,
    )
