"""Random honest sessions against the real store: failures, retries, crashes, calls in flight, closes.

No HTTP and no chain: a `Node` is the life of one process over a `SqliteStore` file. A crash cancels whatever
the process was doing, at whatever step, and opens the file again. Every word the node derives (receipts,
statements, settlements) is kept by `Words`, which refuses a second one that says something else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from aioum.core import purse
from aioum.core.errors import Refused
from aioum.core.hashing import keccak256
from aioum.core.ledger import (
    Answer,
    Call,
    CallRequest,
    Limits,
    Phase,
    Repeat,
    SessionState,
    Settlement,
    finalize,
    observe_chain,
    receipt_of,
    seal,
    settlement_of,
    statement_of,
)
from aioum.core.payment import CallReceipt, Statement
from aioum.core.problem import PROBLEM_CONTENT_TYPE, problem_bytes
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.transcript import Entry, transcript_root
from aioum.core.types import Address, Bytes32, ChannelId
from aioum_node.interrupted_calls import recover_interrupted
from aioum_node.rosters import accepted_keys
from aioum_node.store.port import SessionFacts
from aioum_node.store.sqlite import SqliteStore
from tests.pens import ROSTER, Pen

LIMITS = Limits(max_in_flight=4, max_unpaid_calls=4)
PRICE = 10
SEAT_KEYS = accepted_keys(ROSTER)
T = TypeVar("T")


class Down(Exception):
    """The node died before it answered."""


@dataclass
class Words:
    """All words ever derived for a session; a contradiction is an assertion error at once."""

    receipts: dict[int, CallReceipt] = field(default_factory=dict)
    statements: dict[int, Statement] = field(default_factory=dict)
    settlement: Settlement | None = None
    admitted: int = 0
    executions: Counter[int] = field(default_factory=Counter)

    def receipt(self, word: CallReceipt) -> CallReceipt:
        assert self.receipts.setdefault(word.index, word) == word, "two receipts contradict each other"
        return word

    def statement(self, word: Statement) -> Statement:
        assert self.statements.setdefault(word.call_count, word) == word, (
            "two statements contradict each other"
        )
        return word

    def settle(self, word: Settlement) -> None:
        assert self.settlement in (None, word), "two settlements contradict each other"
        self.settlement = word


@dataclass
class World:
    """What outlives every process: the store's file, and the words that left it."""

    path: Path
    random: Random
    words: dict[ChannelId, Words] = field(default_factory=dict)
    crashes: int = 0
    interrupted: int = 0
    losses: int = 0


class Node:
    """One operator whose process crashes now and then."""

    def __init__(self, world: World, store: SqliteStore) -> None:
        self.world = world
        self.store = store
        self._up = asyncio.Event()
        self._up.set()
        self._asked = 0
        self._running: set[asyncio.Task[object]] = set()
        self._waiting: dict[tuple[ChannelId, int], asyncio.Event] = {}

    async def ask(self, work: Coroutine[object, object, T]) -> T:
        """Run a request in this process. Raises Down where a crash ends it, or where nothing listens."""
        if not self._up.is_set():
            work.close()
            raise Down
        self._asked += 1
        task = asyncio.ensure_future(work)
        self._running.add(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            raise Down from None
        finally:
            self._running.discard(task)

    async def up(self) -> None:
        """Wait until the node listens."""
        await self._up.wait()

    async def crash_after(self, requests: int) -> None:
        """Crash once this many further requests have come in."""
        due = self._asked + requests
        while self._asked < due:
            await asyncio.sleep(0.001)
        await self.crash()

    async def crash(self) -> None:
        """Die at whatever step every request has reached, and start again on the same file."""
        self._up.clear()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self.store.close()
        self._waiting.clear()
        self.store = SqliteStore(self.world.path, LIMITS)
        self.world.interrupted += await recover_interrupted(self.store, 0)
        self.world.crashes += 1
        self._up.set()

    async def call(self, channel: ChannelId, request: CallRequest) -> tuple[Call, CallReceipt]:
        words = self.world.words[channel]
        outcome = await self.store.admit(channel, request, 0)
        index = outcome.call.index
        words.admitted = max(words.admitted, index + 1)
        if isinstance(outcome, Repeat):
            return await self._repeat(channel, outcome.call)
        done = self._waiting.setdefault((channel, index), asyncio.Event())
        words.executions[index] += 1
        answer = await _run_tool(self.world.random)
        recorded = await self.store.record(channel, index, answer, 0)
        done.set()
        self._waiting.pop((channel, index), None)
        return recorded.call, words.receipt(receipt_of(channel, recorded.call))

    async def _repeat(self, channel: ChannelId, call: Call) -> tuple[Call, CallReceipt]:
        if not call.recorded:
            waiting = self._waiting.get((channel, call.index))
            if waiting is not None:
                await waiting.wait()
            [call] = await self.store.calls(channel, call.index, 1)
            if not call.recorded:
                raise Down
        return call, self.world.words[channel].receipt(receipt_of(channel, call))

    async def statement(self, channel: ChannelId) -> Statement:
        stored = await self.store.session(channel)
        assert stored is not None
        return self.world.words[channel].statement(statement_of(stored.state))

    async def close(self, channel: ChannelId, reason: str, *, on_chain: bool) -> None:
        """Seal, drain, settle; may be cut short by a crash and is then repeated."""
        if on_chain:
            await self.store.update(channel, _closing, 0)
        stored = await self.store.update(channel, lambda state: seal(state, reason), 0)
        while not stored.state.drained:
            # Hundreds may wait here at once, some for the next crash; asking more often is all they would do.
            await asyncio.sleep(0.02)
            again = await self.store.session(channel)
            assert again is not None
            stored = again
        self.world.words[channel].settle(settlement_of(stored.state))
        await self.store.update(channel, finalize, 0)


def _closing(state: SessionState) -> SessionState:
    return observe_chain(state, deposit=state.deposit, close_pending=True)


async def _run_tool(random: Random) -> Answer:
    fails = random.random() < 0.2
    text = b"%d" % random.getrandbits(64)
    for _ in range(random.randrange(3)):
        await asyncio.sleep(0)
    if fails:
        return Answer(
            problem_bytes(500, "tool-failed", text.decode()), 500, PROBLEM_CONTENT_TYPE, failed=True
        )
    return Answer(text, 200, "text/plain", failed=False)


async def repeat_until_answered(
    world: World, node: Node, channel: ChannelId, request: CallRequest
) -> tuple[Call, CallReceipt]:
    """A client's persistence: the same request after every crash and lost answer, sometimes twice at once."""
    while True:
        try:
            if world.random.random() < 0.1:
                both = await asyncio.gather(
                    node.ask(node.call(channel, request)), node.ask(node.call(channel, request)),
                    return_exceptions=True,
                )  # fmt: skip
                answers = [item for item in both if isinstance(item, tuple)]
                for item in both:
                    if isinstance(item, BaseException) and not isinstance(item, Down):
                        raise item
                if not answers:
                    raise Down
                answer = answers[0]
            else:
                answer = await node.ask(node.call(channel, request))
        except Down:
            await node.up()
            continue
        if world.random.random() < 0.1:
            world.losses += 1
            continue
        return answer


async def _persist(node: Node, work: str, channel: ChannelId) -> None:
    while True:
        try:
            if work == "statement":
                await node.ask(node.statement(channel))
            else:
                await node.ask(node.close(channel, work, on_chain=work == "exit"))
            return
        except Down:
            await node.up()


async def unsigned_session(world: World, node: Node, channel: ChannelId) -> None:
    """One call at a time with the client's own accounting; may stop in the middle of a call."""
    random = world.random
    await _open(world, node, channel, signed=False)
    state = purse.PurseState(channel, deposit=120)
    for number in range(random.randrange(8)):
        state, call = purse.begin_call(state, "echo", b'{"n":%d}' % number, PRICE)
        request = CallRequest("echo", call.request, PRICE, call.amount, b"v%d" % call.amount)
        try:
            answered, receipt = await repeat_until_answered(world, node, channel, request)
        except Refused as refusal:
            if refusal.code != "session-sealed":
                raise
            state = purse.abandon_call(state)
            break
        assert answered.answer is not None
        state = purse.accept_answer(state, call, answered.answer.response, receipt)
        if random.random() < 0.2:
            await _persist(node, "statement", channel)
            known = world.words[channel].statements[state.next_index]
            state = purse.accept_statement(state, known)
    if random.random() < 0.2:  # the client vanishes with a call on its way
        state, call = purse.begin_call(state, "echo", b'{"n":"last"}', PRICE)
        request = CallRequest("echo", call.request, PRICE, call.amount, b"v%d" % call.amount)
        lost = asyncio.ensure_future(node.ask(node.call(channel, request)))
        await asyncio.gather(_persist(node, "idle", channel), lost, return_exceptions=True)
        await _persist(node, "idle", channel)
        return
    await _persist(node, random.choice(["client", "idle", "exit"]), channel)
    settlement = world.words[channel].settlement
    assert settlement is not None
    assert (settlement.call_count, settlement.root) == (state.next_index, state.root)
    assert settlement.capture == state.spent


async def signed_session(world: World, node: Node, channel: ChannelId) -> None:
    """Calls in flight together, each repeated until answered, and a close that meets them on their way."""
    random = world.random
    await _open(world, node, channel, signed=True)
    count = random.randrange(1, 6)
    pens = [Pen(channel, seat) for seat in ROSTER.seats]
    # Signed and kept before anything is sent: whatever is lost on the way, no envelope is replaced.
    signed = [random.choice(pens).sign(b'{"n":%d}' % index, index) for index in range(count)]

    async def one(index: int) -> None:
        amount = PRICE * (index + 1)
        request = CallRequest("echo", b'{"n":%d}' % index, PRICE, amount, b"v%d" % amount, signed[index])
        while True:
            try:
                await repeat_until_answered(world, node, channel, request)
                return
            except Refused as refusal:
                if refusal.code in ("session-sealed", "session-close-pending", "session-finalized"):
                    return
                if refusal.code not in ("cursor-out-of-order", "too-many-in-flight"):
                    raise
                await asyncio.sleep(0.001)

    async def close() -> None:
        for _ in range(random.randrange(40)):
            await asyncio.sleep(0)
        await _persist(node, random.choice(["client", "idle", "exit"]), channel)

    async with asyncio.TaskGroup() as group:
        for index in range(count):
            group.create_task(one(index))
        group.create_task(close())


async def _open(world: World, node: Node, channel: ChannelId, *, signed: bool) -> None:
    world.words[channel] = Words()
    nobody, nothing = Address(bytes(20)), Bytes32(bytes(32))
    facts = SessionFacts(
        channel_id=channel,
        session_id=len(world.words),
        chain_id=31337,
        payment_manager=nobody,
        payer=nobody,
        payee=nobody,
        token=nobody,
        authorized_signer=nobody,
        service_id=1,
        terms_hash=nothing,
        nonce=nothing,
        roster_hash=ROSTER.hash if signed else nothing,
        descriptor_hash=nothing,
        commit_required=True,
        roster=ROSTER if signed else None,
    )
    seats = Seats.at_genesis(channel, ROSTER) if signed else NO_SEATS
    state = SessionState(channel, deposit=120, signed=signed, seats=seats)
    while True:
        try:
            await node.ask(node.store.open(facts, state, 0))
            return
        except Down:
            await node.up()


async def simulate(path: Path, *, sessions: int, at_once: int, seed: int) -> World:
    """Run `sessions` sessions in waves of `at_once`, with crashes in every wave."""
    world = World(path, Random(seed))
    node = Node(world, SqliteStore(path, LIMITS))
    for first in range(0, sessions, at_once):
        kinds = (unsigned_session, signed_session)
        wave = [
            asyncio.ensure_future(kinds[number % 2](world, node, ChannelId(keccak256(b"%d" % number))))
            for number in range(first, min(first + at_once, sessions))
        ]
        crashing = asyncio.ensure_future(_crash_now_and_then(world, node))
        try:
            await asyncio.gather(*wave)
        finally:
            crashing.cancel()
            await asyncio.gather(crashing, *wave, return_exceptions=True)
    for channel, words in world.words.items():
        await _audit(node.store, channel, words)
    await node.store.close()
    return world


async def _crash_now_and_then(world: World, node: Node) -> None:
    while True:
        await node.crash_after(world.random.randrange(300, 2_000))


def root_of_calls(calls: list[Call]) -> bytes:
    """The root rebuilt from what is stored."""
    entries = []
    for call in calls:
        assert call.answer is not None
        entries.append(Entry(call.index, call.tool_id, call.request.decode(), call.answer.response.decode()))
    return transcript_root(entries)


async def _audit(store: SqliteStore, channel: ChannelId, words: Words) -> None:
    """Hold what was settled against what is stored and what was ever admitted, executed and spent."""
    stored = await store.session(channel)
    calls = await store.calls(channel, 0, 1_000)
    settlement = words.settlement
    assert stored is not None
    assert settlement is not None, "a closed session was never settled"
    assert stored.state.phase is Phase.FINAL
    # An admission can be durable although the crash took its answer, so more may be stored than was seen.
    assert settlement.call_count == len(calls) >= words.admitted, "the root covers less than was admitted"
    assert settlement.root == root_of_calls(calls)
    assert [call.index for call in calls] == list(range(len(calls)))
    assert settlement.capture == sum(call.charge for call in calls), "captured is not what was spent"
    assert settlement.capture <= settlement.voucher_amount <= stored.state.accepted
    assert all(count == 1 for count in words.executions.values()), "a call was executed twice"
    assert await store.equivocations(channel) == [], "an honest seat contradicted itself"
    heads = Seats.at_genesis(channel, ROSTER) if stored.state.signed else NO_SEATS
    for call in calls:
        if call.envelope is not None:
            submission = call.envelope.submission(channel, call.request)
            submission.require_signed(call.envelope.signature, SEAT_KEYS[call.envelope.seat])
            heads.require_turn(call.envelope, call.index)
            heads = heads.after(submission)
    assert stored.state.seats == heads, "the heads are not those of the recorded calls"
    for index, receipt in words.receipts.items():
        assert receipt == receipt_of(channel, calls[index])
