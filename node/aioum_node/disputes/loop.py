"""Watching over held money: challenges are answered at once, disputes followed, what is due is released."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final

import structlog

from aioum.chain.client import Chain
from aioum.chain.decisions import Decisions
from aioum.chain.model import BlockRef, Mined
from aioum.chain.sender import Sender
from aioum.core.errors import AioumError, ContractReverted, OutcomeUnknown
from aioum.core.hextext import to_hex
from aioum.core.types import Bytes32, ChannelId
from aioum_node.disputes import rules
from aioum_node.disputes.answers import Anchor, Unanswerable, find_answer
from aioum_node.disputes.book import Book
from aioum_node.disputes.observer import DisputeObserver, NoObserver
from aioum_node.disputes.rules import HoldView
from aioum_node.disputes.sending import HeldMoneySender
from aioum_node.disputes.telling import LATE, tell_changes
from aioum_node.loops import LoopObserver, Unobserved
from aioum_node.settlement.pauses import Pauses
from aioum_node.store.port import Store, StoredSession

_CONCURRENT_TURNS: Final = 16
_MOST_TURNS: Final = 256
_CALLS_PER_READ: Final = 32
# Read again with every round, so that an ordinary reorganization shows as events that are new.
_WINDOW_BLOCKS: Final = 32
# Every session is looked at again within this time, or faster where there are few.
_SWEEP_SECONDS: Final = 3_600
_LEAST_SWEEP: Final = 4
_UNANSWERABLE: Final = "challenge-unanswerable"
_LOST: Final = "challenge-lost"

_log = structlog.get_logger(__name__)

_EventKey = tuple[Bytes32, Bytes32, int]


class DisputeLoop:
    """Follows every finalized session whose captured money is held, to its end.

    Args:
        store: where the calls lie that prove what was anchored.
        chain: where sessions and their cases are looked up before anything is sent.
        sender: of the operator; journals every transaction before it is sent.
        confirmations: blocks after which it is final that money left.
        interval_seconds: pause between rounds.
        now_ms: unix milliseconds.
        observer: told about outcomes.
        on_late: told after each round whether a challenge is unanswered for more than half of its time.
        rounds: told how the rounds fare.
    """

    def __init__(
        self,
        *,
        store: Store,
        chain: Chain,
        sender: Sender,
        confirmations: int,
        interval_seconds: float,
        now_ms: Callable[[], int],
        observer: DisputeObserver | None = None,
        on_late: Callable[[bool], None] = lambda is_late: None,
        rounds: LoopObserver | None = None,
    ) -> None:
        self._store = store
        self._chain = chain
        self._sender = sender
        self._confirmations = confirmations
        self._interval_seconds = interval_seconds
        self._now_ms = now_ms
        self._observer = observer or NoObserver()
        self._on_late = on_late
        self._rounds = rounds or Unobserved()
        self.book = Book(now_ms)
        self._pauses = Pauses(now_ms, self.book.seconds_left)
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(_CONCURRENT_TURNS)
        # What has a deadline never waits behind what only costs gas.
        self._urgent_slots = asyncio.Semaphore(_CONCURRENT_TURNS)
        self._busy: set[ChannelId] = set()
        self._elsewhere: set[ChannelId] = set()
        self._mined: dict[ChannelId, int] = {}
        self._seen: set[_EventKey] = set()
        self._scanned: int | None = None
        self._decisions: Decisions | None = None
        self._answer_period_seconds: int | None = None
        self._is_reconciled = False
        self._is_reconciling = False
        self._round_code: str | None = None

    async def run(self) -> None:
        """Watch until canceled. The journal is reconciled before anything is sent.

        It may be run again later, in between another process sends for the account.
        """
        self._is_reconciled = False
        self._scanned = None
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
            # Whoever watches next counts down what is left.
            self.book.notice(())
            self._on_late(False)

    async def run_once(self) -> None:
        """One round, to its end."""
        async with asyncio.TaskGroup() as group:
            await self._round(group)

    def chain_is_back(self) -> None:
        """The chain answers again: whoever failed because it did not has another turn now."""
        self._pauses.chain_is_back()
        self._wake.set()

    async def sending(self) -> HeldMoneySender:
        """What sends. Raises ChainError as `Decisions.of`."""
        return HeldMoneySender(self._chain, await self._known_decisions(), self._sender)

    # --- rounds ---

    async def _round(self, group: asyncio.TaskGroup) -> None:
        try:
            self.book.notice([held for held in await self._store.held() if held not in self._elsewhere])
            head = await self._chain.head()
            await self._known_decisions()
            if not self._is_reconciled:
                # Durable from a former process: signed transactions without an outcome.
                await self._sender.reconcile()
                self._is_reconciled = True
            await self._notice_events(head)
        except AioumError as error:
            self._round_failed(error)
            return
        finally:
            # Told even where neither store nor chain answers: what is known of deadlines runs on.
            self._tell_late()
        self._round_code = None
        self._rounds.round_done()
        for channel_id in self.book.due(head.timestamp, self._sweep):
            if len(self._busy) >= _MOST_TURNS:
                break
            if channel_id not in self._busy and self._pauses.is_due(channel_id):
                self._busy.add(channel_id)
                slots = self._urgent_slots if self.book.is_challenged(channel_id) else self._slots
                group.create_task(self._turn(channel_id, slots, group))

    @property
    def _sweep(self) -> int:
        return max(_LEAST_SWEEP, math.ceil(len(self.book) * self._interval_seconds / _SWEEP_SECONDS))

    async def _known_decisions(self) -> Decisions:
        if self._decisions is None:
            self._decisions = await Decisions.of(self._chain)
        if self._answer_period_seconds is None:
            self._answer_period_seconds = await self._decisions.answer_period_seconds()
        return self._decisions

    async def _notice_events(self, head: BlockRef) -> None:
        """Which sessions something happened to; where nothing is held, nothing can."""
        decisions = await self._known_decisions()
        scanned, self._scanned = self._scanned, head.number
        if scanned is None or not len(self.book):
            # Every session is new to the book, and looked at for that.
            return
        try:
            first = max(self._chain.first_block, min(scanned, head.number) - _WINDOW_BLOCKS)
            events = await decisions.events(first, head.number)
        except AioumError:
            self._scanned = scanned
            raise
        found = {(event.block_hash, event.transaction_hash, event.log_index): event for event in events}
        for key in found.keys() - self._seen:
            if (channel_id := found[key].channel_id) is not None:
                self.book.touch(channel_id)
                self._pauses.end(channel_id)
        self._seen = set(found)

    def _tell_late(self) -> None:
        period = self._answer_period_seconds
        if period is None:
            return
        for late in self.book.late(period):
            _log.error(
                LATE,
                channel=to_hex(late.channel_id),
                seconds_left=int(late.seconds_left),
                percent_left=int(100 * late.part_left),
                answer_by=late.answer_by,
                hint="all that is held is lost then: see why it is not answered, and that the chain answers",
            )
            self._observer.dispute_alert(LATE)
        self._on_late(self.book.nearest_answer_seconds <= period / 2)

    # --- turns ---

    async def _turn(self, channel_id: ChannelId, slots: asyncio.Semaphore, group: asyncio.TaskGroup) -> None:
        try:
            async with slots:
                await self._advance(channel_id)
        except Unanswerable as error:
            self._cannot_answer(channel_id, error)
        except OutcomeUnknown as error:
            # The journal knows the transaction: its next turn looks before it sends.
            self._failed(channel_id, error)
            self._reconcile_beside(group)
        except AioumError as error:
            self._failed(channel_id, error)
        except Exception as error:
            # A bug in one session's turn must not end the watching over the others.
            _log.exception("dispute-turn-broke", channel=to_hex(channel_id))
            self._failed(channel_id, AioumError(str(error)))
        finally:
            self._busy.discard(channel_id)

    async def _advance(self, channel_id: ChannelId) -> None:
        stored = await self._store.session(channel_id)
        if stored is None:
            return
        if not self._is_ours(stored):
            # Of another chain or PaymentManager: its calls stay, since nobody here can see what became of it.
            self._elsewhere.add(channel_id)
            self.book.forget(channel_id)
            return
        sending = await self.sending()
        while True:
            view = await self._look(channel_id)
            step = rules.next_step(view)
            match step:
                case rules.Wait(reason, until):
                    self._waits(channel_id, reason, until)
                    return
                case rules.Over(awarded):
                    await self._over(channel_id, view, awarded)
                    return
            if view.head.number < self._mined.get(channel_id, 0):
                self._waits(channel_id, "endpoint-behind", 0)
                return
            match step:
                case rules.AnswerChallenge(word):
                    await self._answer(sending, stored, view, word)
                case rules.Lapse():
                    done = self._done(channel_id, await sending.lapse(channel_id))
                    _log.info("lapse-sent", **done)
                case rules.Release():
                    done = self._done(channel_id, await sending.release(channel_id))
                    _log.info("release-sent", **done)

    async def _look(self, channel_id: ChannelId) -> HoldView:
        decisions = await self._known_decisions()
        head = await self._chain.head()
        newest = await self._chain.session(channel_id, head.number)
        case = await decisions.case(channel_id, head.number)
        final = newest
        if self._confirmations > 1:
            final = await self._chain.session(channel_id, max(0, head.number - self._confirmations + 1))
        view = HoldView(head, newest, case, final)
        tell_changes(channel_id, self.book.saw(channel_id, view), view, self._observer)
        return view

    async def _answer(
        self, sending: HeldMoneySender, stored: StoredSession, view: HoldView, word: Bytes32
    ) -> None:
        channel_id = stored.facts.channel_id
        if view.newest is None:
            return
        anchor = Anchor(view.newest.root, view.newest.call_count)
        leaves = await self._leaves(channel_id, anchor.call_count)
        answer = await asyncio.to_thread(find_answer, leaves, word, anchor)
        try:
            mined = await sending.answer(channel_id, answer)
        except ContractReverted:
            # Anybody may answer: where a stranger was faster, that is as good.
            again = await self._look(channel_id)
            if again.case.challenged_word == word:
                raise
            return
        self._observer.challenge_answered()
        _log.info("challenge-answered", **self._done(channel_id, mined))

    async def _leaves(self, channel_id: ChannelId, count: int) -> list[Bytes32]:
        leaves: list[Bytes32] = []
        while len(leaves) < count:
            calls = await self._store.calls(channel_id, len(leaves), _CALLS_PER_READ)
            found = [call.leaf for call in calls if call.leaf is not None]
            leaves.extend(found)
            if not found or len(found) < len(calls):
                break
        return leaves

    def _done(self, channel_id: ChannelId, mined: Mined) -> dict[str, Any]:
        self._mined[channel_id] = mined.block_number
        self._pauses.end(channel_id)
        return {
            "channel": to_hex(channel_id),
            "transaction": to_hex(mined.transaction_hash),
            "gas_used": mined.gas_used,
        }

    async def _over(self, channel_id: ChannelId, view: HoldView, awarded: int) -> None:
        await self._store.released(channel_id)
        # Durable: its calls may go once they are old enough.
        captured = 0 if view.final is None else view.final.settled
        if captured:
            _log.info("hold-over", channel=to_hex(channel_id), captured=captured, awarded=awarded)
            self._observer.money_released(captured - awarded)
        self.book.forget(channel_id)
        self._pauses.end(channel_id)
        self._mined.pop(channel_id, None)

    def _reconcile_beside(self, group: asyncio.TaskGroup) -> None:
        if not self._is_reconciling:
            self._is_reconciling = True
            group.create_task(self._reconcile_quietly())

    async def _reconcile_quietly(self) -> None:
        try:
            await self._sender.reconcile()
        except AioumError as error:
            self._round_failed(error)
        finally:
            self._is_reconciling = False

    # --- what is told ---

    def _waits(self, channel_id: ChannelId, reason: str, until: int) -> None:
        self.book.waits(channel_id, until)
        if not self._pauses.waits(channel_id, reason):
            return
        if reason == rules.ANSWER_TOO_LATE:
            _log.error(
                _LOST, channel=to_hex(channel_id), hint="all that is held can be claimed for the payer"
            )
            self._observer.dispute_alert(_LOST)
        else:
            _log.info("hold-waits", channel=to_hex(channel_id), reason=reason, until=until)

    def _cannot_answer(self, channel_id: ChannelId, error: Unanswerable) -> None:
        if self.book.cannot_answer(channel_id, error.details["word"]):
            _log.critical(
                _UNANSWERABLE,
                channel=to_hex(channel_id),
                seconds_left=int(self.book.seconds_left(channel_id) or 0),
                error=str(error),
                hint=error.hint,
                details=error.details,
            )
            self._observer.dispute_alert(_UNANSWERABLE)
        self._pauses.failed(channel_id, error.code)

    def _failed(self, channel_id: ChannelId, error: AioumError) -> None:
        _log.error(
            "dispute-step-failed",
            channel=to_hex(channel_id),
            code=error.code,
            error=str(error),
            hint=error.hint,
            details=error.details,
        )
        self._observer.dispute_alert(error.code)
        self._pauses.failed(channel_id, error.code)

    def _round_failed(self, error: AioumError) -> None:
        self._rounds.round_failed(error.code)
        if error.code != self._round_code:
            _log.error("disputes-failed", code=error.code, error=str(error), hint=error.hint)
            self._observer.dispute_alert(error.code)
        self._round_code = error.code

    def _is_ours(self, stored: StoredSession) -> bool:
        facts = stored.facts
        return (facts.chain_id, facts.payment_manager) == (self._chain.chain_id, self._chain.payment_manager)
