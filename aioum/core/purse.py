"""The client's accounting of one session: what it signs next, and when it stops paying (PROTOCOL 3.1, 3.2).

In a signed session several calls can be open, and are answered in any order (PROTOCOL 6).

Pure. The client writes the same transcript as the operator, independently, and believes only what matches
its own record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from aioum.core.errors import AioumError, Divergence, PolicyRefused
from aioum.core.ledger import EMPTY_FRONTIER
from aioum.core.merkle import Frontier
from aioum.core.payment import CallReceipt, Statement
from aioum.core.prefix import AheadLeaf, advance
from aioum.core.problem import is_problem
from aioum.core.transcript import frontier_root, leaf_hash
from aioum.core.types import Bytes32, ChannelId

NO_MONEY_CODES: Final = frozenset({"deposit-exhausted", "spend-limit-exceeded"})
"""Why a session does not pay for one call, and may yet pay for a cheaper one."""

STATEMENT_INTERVAL_CALLS: Final = 16
"""A client asks for a signed statement at least this often and stops without it (PROTOCOL 3.2)."""


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A call that was or is about to be sent and has no accepted answer. Every retry repeats it unchanged."""

    index: int
    tool_id: str
    request: bytes
    price: int
    amount: int


@dataclass(frozen=True, slots=True)
class PurseState:
    """The client's side of a session. Amounts are base units.

    Attributes:
        signed: calls carry signed submissions (PROTOCOL 5); the voucher only funds them.
        spend_limit: most that vouchers may ever authorize here, or None for the deposit alone.
        highest: the highest amount ever signed.
        spent: charges of all answered calls.
        frontier: over the answered calls up to the first that has no answer.
        ahead: answered calls beyond that one, ascending.
        open: calls without an answer, ascending; at most one in an unsigned session.
        since_statement: answered calls since the last agreed statement.
        stopped: reason code that ended paying, or None.
    """

    channel_id: ChannelId
    deposit: int
    signed: bool = False
    spend_limit: int | None = None
    highest: int = 0
    spent: int = 0
    frontier: Frontier = EMPTY_FRONTIER
    ahead: tuple[AheadLeaf, ...] = ()
    open: tuple[Outstanding, ...] = ()
    since_statement: int = 0
    stopped: str | None = None

    @property
    def next_index(self) -> int:
        """Index of the first call that has no answer, whether it was made yet or not."""
        return self.frontier.size

    @property
    def made(self) -> int:
        """Calls that have an index: answered or open. The next one gets this as its own."""
        return self.frontier.size + len(self.ahead) + len(self.open)

    @property
    def outstanding(self) -> Outstanding | None:
        """The first call without an answer, or None."""
        return self.open[0] if self.open else None

    @property
    def prefix_spent(self) -> int:
        """Charges of the calls under `root`."""
        return self.spent - sum(item.charge for item in self.ahead)

    @property
    def root(self) -> Bytes32:
        """Root over the answered calls before `next_index`; zero where there are none."""
        return Bytes32(frontier_root(self.frontier))

    @property
    def statement_due(self) -> bool:
        """Whether a statement is needed before the next call."""
        return self.since_statement + len(self.open) >= STATEMENT_INTERVAL_CALLS


def begin_call(
    state: PurseState, tool_id: str, request: bytes, price: int, max_open: int = 1
) -> tuple[PurseState, Outstanding]:
    """Decide the next voucher.

    An unsigned session signs max(highest + 1, spent + price): the amount names the call, and a failed call
    never wedges it. In a signed one the submission names the call, and max(highest, spent + prices of open
    calls + price) will do.

    Args:
        state: the session.
        tool_id: what is called.
        request: canonical bytes.
        price: base units.
        max_open: calls of a signed session that may be open, this one included.

    Returns:
        The state to persist before sending, and the call to send.

    Raises:
        PolicyRefused: `paying-stopped`, `statement-due`, `call-outstanding`, `deposit-exhausted`,
            `spend-limit-exceeded`.
    """
    if state.stopped is not None:
        raise PolicyRefused(f"this session stopped paying: {state.stopped}", code="paying-stopped")
    if len(state.open) >= (max_open if state.signed else 1):
        raise PolicyRefused("a call of this session has no answer yet", code="call-outstanding")
    if state.statement_due:
        raise PolicyRefused("a signed statement is due before the next call", code="statement-due")
    after, call = _begin(state, tool_id, request, price)
    if state.spend_limit is not None and call.amount > state.spend_limit:
        raise PolicyRefused(
            f"the call needs a voucher of {call.amount}, the spend limit is {state.spend_limit}",
            code="spend-limit-exceeded",
            hint="raise the spend limit of the session",
        )
    if call.amount > state.deposit:
        raise PolicyRefused(
            f"the call needs a voucher of {call.amount}, the deposit is {state.deposit}",
            code="deposit-exhausted",
            hint="top up the session",
        )
    return after, call


def accept_answer(state: PurseState, call: Outstanding, response: bytes, receipt: CallReceipt) -> PurseState:
    """Hold a receipt, whose signature was verified, against our own record.

    Raises:
        Divergence: `receipt-index-mismatch`, `receipt-leaf-mismatch` or `receipt-charge-mismatch`.
            A transport may have altered the answer: repeat the request before believing it.
    """
    if receipt.channel_id != state.channel_id or receipt.index != call.index:
        raise Divergence(
            f"the receipt is for index {receipt.index}, ours is {call.index}", code="receipt-index-mismatch"
        )
    leaf = Bytes32(leaf_hash(call.index, call.request, response, call.tool_id.encode()))
    if receipt.leaf != leaf:
        raise Divergence(
            f"the operator signed another record of call {call.index}", code="receipt-leaf-mismatch"
        )
    due = 0 if is_problem(response) else call.price
    if receipt.charge not in (0, due):
        raise Divergence(
            f"call {call.index} was charged {receipt.charge}, at most {due} is due",
            code="receipt-charge-mismatch",
        )
    frontier, ahead = advance(state.frontier, state.ahead, AheadLeaf(call.index, leaf, receipt.charge))
    return replace(
        state,
        spent=state.spent + receipt.charge,
        frontier=frontier,
        ahead=ahead,
        open=tuple(other for other in state.open if other.index != call.index),
        since_statement=state.since_statement + 1,
    )


def accept_statement(state: PurseState, statement: Statement) -> PurseState:
    """Hold a statement, whose signature was verified, against our own record up to the first open call.

    Raises:
        Divergence: `statement-count-mismatch`, `statement-root-mismatch` or `statement-spent-mismatch`.
    """
    if statement.channel_id != state.channel_id or statement.call_count != state.next_index:
        raise Divergence(
            f"the operator states {statement.call_count} calls, we know {state.next_index}",
            code="statement-count-mismatch",
        )
    if statement.root != state.root:
        raise Divergence("the operator states another root than ours", code="statement-root-mismatch")
    if statement.spent != state.prefix_spent:
        raise Divergence(
            f"the operator states {statement.spent} spent, we know {state.prefix_spent}",
            code="statement-spent-mismatch",
        )
    return replace(state, since_statement=len(state.ahead))


def abandon_call(state: PurseState) -> PurseState:
    """Give up the outstanding call after the node refused it for good without recording it.

    Its amount stays signed, so the next call signs more.

    Raises:
        PolicyRefused: `signed-call-outstanding`, a submission is never replaced by another.
    """
    if state.signed:
        raise PolicyRefused("a signed call cannot be given up", code="signed-call-outstanding")
    return replace(state, open=())


def adopt_answer(state: PurseState, call: Outstanding, response: bytes, receipt: CallReceipt) -> PurseState:
    """Take over a call that the operator had recorded although it was refused: a refusal can be forged.

    `call` was given up, or is an open one. What was given up the operator recorded before anything that we
    signed later, so it is the next call of our record.

    Raises:
        PolicyRefused: `call-outstanding`, another call has to be settled or given up first.
        Divergence: as `accept_answer`.
    """
    if call in state.open:
        return accept_answer(state, call, response, receipt)
    if state.open:
        raise PolicyRefused("a call of this session has no answer yet", code="call-outstanding")
    return accept_answer(state, replace(call, index=state.next_index), response, receipt)


def missed_call(
    state: PurseState, tool_id: str, request: bytes, price: int
) -> tuple[PurseState, Outstanding]:
    """The next call as another copy of this record began it, which a seat of ours signed and we lack.

    Limits were its business. What its voucher was follows from the calls before.

    Raises:
        PolicyRefused: `call-outstanding`.
    """
    if state.open:
        raise PolicyRefused("a call of this session has no answer yet", code="call-outstanding")
    return _begin(state, tool_id, request, price)


def _begin(state: PurseState, tool_id: str, request: bytes, price: int) -> tuple[PurseState, Outstanding]:
    least = state.highest if state.signed else state.highest + 1
    amount = max(least, state.spent + sum(call.price for call in state.open) + price)
    call = Outstanding(state.made, tool_id, request, price, amount)
    return open_call(state, call), call


def open_call(state: PurseState, call: Outstanding) -> PurseState:
    """The state with a call that `begin_call` decided. Answers that came in between lower no amount that
    decision needed, so it still holds.
    """
    return replace(state, highest=max(state.highest, call.amount), open=(*state.open, call))


def accept_settlement(
    state: PurseState, *, root: Bytes32, call_count: int, settled: int, refunded: int, deposit: int
) -> PurseState:
    """Hold what the chain says of a finalized session against our own record. Nothing can be paid afterwards.

    Args:
        state: our own record.
        root: what is anchored; zero where nothing is.
        call_count: calls under that root.
        settled: base units captured.
        refunded: base units returned to the payer.
        deposit: base units that were in the channel.

    Raises:
        Divergence: `captured-above-spent`, `anchored-root-mismatch`, `unanswered-call-anchored` (more calls
            than we have answers of, and we did make them), `refund-mismatch`.
    """
    outstanding = state.outstanding
    least = state.ahead[-1].index + 1 if state.ahead else state.next_index
    if outstanding is not None and max(least, state.next_index + 1) <= call_count <= state.made:
        raise Divergence(
            f"the operator anchored call {outstanding.index}, whose answer it never gave us",
            code="unanswered-call-anchored",
        )
    if call_count and (root, call_count) != (state.root, least):
        raise Divergence(
            f"the operator anchored another history of {call_count} calls than ours of {state.next_index}",
            code="anchored-root-mismatch",
        )
    if settled > state.spent:
        raise Divergence(
            f"the operator captured {settled}, our calls cost {state.spent}", code="captured-above-spent"
        )
    if settled + refunded != deposit:
        raise Divergence(
            f"{settled} captured and {refunded} refunded are not the deposit of {deposit}",
            code="refund-mismatch",
        )
    return replace(state, deposit=deposit, stopped=state.stopped or "session-closed")


def observe_deposit(state: PurseState, deposit: int) -> PurseState:
    """Take over the deposit as the chain has it now, base units."""
    return replace(state, deposit=deposit)


def stop_paying(state: PurseState, error: AioumError) -> PurseState:
    """End paying for good; the first reason stays."""
    return state if state.stopped is not None else replace(state, stopped=error.code)
