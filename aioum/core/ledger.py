"""The operator's accounting of one session: pure functions of state and input (PROTOCOL 3.1, 3.2).

A store reads a `SessionState` (and the call that an input names), calls one function of this module inside
its transaction and writes what comes back. Nothing here performs IO, signs, or knows a clock.

The two rules everything rests on:

* A call goes admitted → recorded exactly once. Who comes second gets the stored call.
* Words (receipts, statements, settlements) derive only from recorded state, so at most one of each exists.

In a signed session (PROTOCOL 5) each seat has a head, and an envelope claims two names in it: its submission
id and the head that it continues. Whoever claims a name again with other bytes contradicts himself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from aioum.core.errors import Refused
from aioum.core.funding import Account, require_funds
from aioum.core.merkle import Frontier
from aioum.core.payment import CallReceipt, Statement
from aioum.core.prefix import AheadLeaf, advance
from aioum.core.seats import NO_SEATS, Seats, require_kind
from aioum.core.submission.envelope import Envelope
from aioum.core.transcript import frontier_root, leaf_hash
from aioum.core.types import ZERO_BYTES32, Bytes32, ChannelId

EMPTY_FRONTIER: Final = Frontier(0, ())


ABANDONED: Final = "abandoned"
"""Why a session is sealed that the operator gave up (`suspicion.abandon`): it captures nothing."""

SUSPECTED: Final = "suspect"
"""Why a session is final that was suspect until then."""


class Phase(StrEnum):
    """open → sealed → final; no way back.

    A session that is not final is `suspect` while this record of it may lack what was signed (PROTOCOL 3.2);
    it was sealed before where it has a seal reason, and open else. See `aioum.core.suspicion`.
    """

    OPEN = "open"
    SEALED = "sealed"
    FINAL = "final"
    SUSPECT = "suspect"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one session, `max_ahead` of its `ahead`; an unsigned one has one call in flight."""

    max_in_flight: int = 16
    max_unpaid_calls: int = 8
    max_ahead: int = 64


@dataclass(frozen=True, slots=True)
class SessionState:
    """Everything the accounting of a session needs. Amounts are base units.

    Attributes:
        signed: calls carry client-signed submissions, so position is authorized by the submission.
        deposit: the deposit at finality depth.
        close_pending: the payer's requestClose is pending at the newest known head.
        accepted: the highest valid voucher; `accepted_signature` is its signature.
        admitted: number of indexes ever admitted; the next call's index.
        spent: charges of all recorded calls.
        reserved: prices of admitted, unrecorded calls.
        failures: recorded calls that failed.
        frontier: the running root over the contiguous recorded prefix.
        ahead: recorded calls beyond that prefix, ascending.
        seats: of a signed session, with their heads; none until its roster was shown.
    """

    channel_id: ChannelId
    deposit: int
    signed: bool = False
    phase: Phase = Phase.OPEN
    seal_reason: str | None = None
    close_pending: bool = False
    accepted: int = 0
    accepted_signature: bytes = b""
    admitted: int = 0
    spent: int = 0
    reserved: int = 0
    failures: int = 0
    frontier: Frontier = EMPTY_FRONTIER
    ahead: tuple[AheadLeaf, ...] = ()
    seats: Seats = NO_SEATS

    @property
    def in_flight(self) -> int:
        """Admitted calls that are not recorded yet."""
        return self.admitted - self.frontier.size - len(self.ahead)

    @property
    def drained(self) -> bool:
        """Every admitted call is recorded."""
        return self.in_flight == 0

    @property
    def abandoned(self) -> bool:
        """Whether it is settled for nothing, whatever is recorded."""
        return self.seal_reason == ABANDONED

    @property
    def trusted(self) -> bool:
        """Whether words may be derived from this record."""
        return self.phase is not Phase.SUSPECT and self.seal_reason not in (ABANDONED, SUSPECTED)

    def require_trusted(self) -> None:
        """Raises Refused `session-suspect`."""
        if not self.trusted:
            raise Refused(
                "the node's record of this session may lack calls that it answered",
                code="session-suspect",
                hint="send the operator your evidence package: he can restore the session from it",
            )

    @property
    def prefix_spent(self) -> int:
        """Charges over the contiguous prefix."""
        return self.spent - sum(item.charge for item in self.ahead)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool (or its failure) gave. `failed` answers are problem documents and cost nothing."""

    response: bytes
    status: int
    content_type: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One admitted call; `answer`, `leaf` and `charge` are set once, together, when it is recorded.

    Attributes:
        request: canonical request bytes (PROTOCOL 1).
        price: base units reserved for it.
        amount: the cumulative voucher amount that came with it; `signature` is that voucher's.
        envelope: the client's signed submission in a signed session, else None.
    """

    index: int
    tool_id: str
    request: bytes
    price: int
    amount: int
    signature: bytes
    answer: Answer | None = None
    leaf: Bytes32 | None = None
    charge: int = 0
    envelope: Envelope | None = None

    @property
    def recorded(self) -> bool:
        """Whether the answer is fixed."""
        return self.answer is not None


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A paid call as it reaches the ledger. Voucher and envelope were verified before.

    Attributes:
        envelope: the signed submission in a signed session; None in an unsigned one.
    """

    tool_id: str
    request: bytes
    price: int
    amount: int
    signature: bytes
    envelope: Envelope | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """A new call: persist `state` and `call` before the tool runs."""

    state: SessionState
    call: Call


@dataclass(frozen=True, slots=True)
class Repeat:
    """The call is known: answer with it once it is recorded. Nothing to persist."""

    call: Call


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded call. `won` is False where somebody recorded it before; then nothing is to be persisted."""

    state: SessionState
    call: Call
    won: bool


@dataclass(frozen=True, slots=True)
class Settlement:
    """What the operator puts on-chain for a sealed, drained session."""

    channel_id: ChannelId
    voucher_amount: int
    capture: int
    call_count: int
    root: Bytes32
    signature: bytes


def admit(
    state: SessionState, request: CallRequest, existing: Call | None, limits: Limits
) -> Admitted | Repeat:
    """Admit a paid call, or recognize a retry.

    Args:
        state: the session as stored.
        request: the paid call; its voucher and its envelope were verified before.
        existing: the stored call that claims a name of `request.envelope` (signed session), or that came with
            the same amount (unsigned).
        limits: bounds of the session.

    Raises:
        Refused: `signature-required`, `session-unsigned`, `request-conflict`, `submission-conflict`,
            `amount-exceeds-deposit`, `amount-not-increasing`, `payment-insufficient`, `too-many-in-flight`,
            `session-suspect`, and those of `require_turn`. The state is unchanged.
    """
    state.require_trusted()
    require_kind(request.envelope, signed=state.signed)
    if existing is not None:
        if is_repeat(existing, request):
            return Repeat(existing)
        if request.envelope is None:
            raise Refused("another request was already admitted with this voucher", code="request-conflict")
        message = "the seat signed another submission under this id or on this head"
        raise state.seats.out_of_turn(request.envelope, state.admitted, message, code="submission-conflict")
    require_turn(state, request.envelope)
    account = Account(state.deposit, state.accepted, state.spent, state.reserved, state.signed)
    require_funds(account, amount=request.amount, price=request.price)
    most = limits.max_in_flight if state.signed else 1
    if state.in_flight >= most or len(state.ahead) >= limits.max_ahead:
        raise Refused("too many calls of this session are in flight", code="too-many-in-flight")
    call = Call(
        state.admitted, request.tool_id, request.request, request.price, request.amount, request.signature,
        envelope=request.envelope,
    )  # fmt: skip
    seats = state.seats
    if request.envelope is not None:
        seats = seats.after(request.envelope.submission(state.channel_id, request.request))
    higher = request.amount > state.accepted
    return Admitted(
        replace(
            state,
            accepted=request.amount if higher else state.accepted,
            accepted_signature=request.signature if higher else state.accepted_signature,
            admitted=state.admitted + 1,
            reserved=state.reserved + request.price,
            seats=seats,
        ),
        call,
    )


def is_repeat(existing: Call, request: CallRequest) -> bool:
    """Whether a stored call is this very request: the same bytes signed where they are signed."""
    if (existing.request, existing.tool_id) != (request.request, request.tool_id):
        return False
    if existing.envelope is None or request.envelope is None:
        return existing.envelope is request.envelope
    # A second valid signature of the same bytes says nothing new.
    return replace(existing.envelope, signature=b"") == replace(request.envelope, signature=b"")


def require_turn(state: SessionState, envelope: Envelope | None) -> None:
    """Whether the session takes new calls, and in a signed one this call as its next.

    Raises:
        Refused: `session-suspect`, `session-finalized`, `session-sealed`, `session-close-pending`, and those
            of `Seats.require_turn`.
    """
    state.require_trusted()
    if state.phase is Phase.FINAL:
        raise Refused("the session is finalized", code="session-finalized")
    if state.phase is Phase.SEALED:
        raise Refused("the session is sealed", code="session-sealed", details={"reason": state.seal_reason})
    if state.close_pending:
        raise Refused("the client requested a close on-chain", code="session-close-pending")
    if envelope is not None:
        state.seats.require_turn(envelope, state.admitted)


def record(state: SessionState, call: Call, answer: Answer, limits: Limits) -> Recorded:
    """Fix a call's answer, leaf and charge; advance the root; seal after too many failures.

    A call that is recorded already wins over `answer`: it comes back unchanged with `won` False.

    Raises:
        Refused: `session-suspect`.
    """
    state.require_trusted()
    if call.recorded:
        return Recorded(state, call, won=False)
    charge = 0 if answer.failed else call.price
    leaf = Bytes32(leaf_hash(call.index, call.request, answer.response, call.tool_id.encode()))
    failures = state.failures + (1 if answer.failed else 0)
    frontier, ahead = advance(state.frontier, state.ahead, AheadLeaf(call.index, leaf, charge))
    after = replace(
        state,
        spent=state.spent + charge,
        reserved=state.reserved - call.price,
        failures=failures,
        frontier=frontier,
        ahead=ahead,
    )
    if failures >= limits.max_unpaid_calls:
        after = seal(after, "too-many-unpaid-calls")
    return Recorded(after, replace(call, answer=answer, leaf=leaf, charge=charge), won=True)


def seal(state: SessionState, reason: str) -> SessionState:
    """Stop admission for good. Sealing again changes nothing; the first reason stays."""
    return replace(state, phase=Phase.SEALED, seal_reason=reason) if state.phase is Phase.OPEN else state


def finalize(state: SessionState) -> SessionState:
    """The chain finalized the channel."""
    reason = SUSPECTED if state.phase is Phase.SUSPECT else state.seal_reason or "finalized-on-chain"
    return replace(state, phase=Phase.FINAL, seal_reason=reason)


def observe_chain(state: SessionState, *, deposit: int, close_pending: bool) -> SessionState:
    """Take over the deposit at finality depth and the pending close at the newest head.

    `deposit` is taken as given: a reorg may lower it again.
    """
    return replace(state, deposit=deposit, close_pending=close_pending)


def receipt_of(channel_id: ChannelId, call: Call) -> CallReceipt:
    """The one receipt of a recorded call.

    Raises:
        Refused: `call-not-recorded`.
    """
    if call.leaf is None:
        raise Refused(f"call {call.index} is not recorded", code="call-not-recorded")
    return CallReceipt(channel_id, call.index, call.leaf, call.charge)


def statement_of(state: SessionState) -> Statement:
    """The one statement over the contiguous prefix.

    Raises:
        Refused: `session-suspect`; `nothing-recorded` where the prefix is empty.
    """
    state.require_trusted()
    if state.frontier.size == 0:
        raise Refused("no call is recorded yet", code="nothing-recorded")
    root = Bytes32(frontier_root(state.frontier))
    return Statement(state.channel_id, state.frontier.size, root, state.prefix_spent)


def settlement_of(state: SessionState) -> Settlement:
    """What is committed and captured: all indexes ever admitted, their root, exactly what was spent.

    Nothing at all of an abandoned session.

    Raises:
        Refused: `session-suspect`, `session-not-sealed` or `session-not-drained`.
    """
    if state.abandoned:
        return Settlement(state.channel_id, 0, 0, 0, ZERO_BYTES32, b"")
    state.require_trusted()
    if state.phase is Phase.OPEN:
        raise Refused("seal the session before settling it", code="session-not-sealed")
    if not state.drained:
        raise Refused(f"{state.in_flight} calls are still in flight", code="session-not-drained")
    paid = state.spent > 0
    return Settlement(
        channel_id=state.channel_id,
        voucher_amount=state.accepted if paid else 0,
        capture=state.spent,
        call_count=state.admitted,
        root=Bytes32(frontier_root(state.frontier)),
        signature=state.accepted_signature if paid else b"",
    )
