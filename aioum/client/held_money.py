"""What is held for a session on-chain, and every step that may move it (PROTOCOL 4.2, 4.3).

A step is a value first, so that a person can see its bond and its gas before it is sent. Nothing here needs
the client's own record: an arbitrator or anybody else works with a channel id alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from aioum.chain import calls, dispute_calls
from aioum.chain.abi import decode_event
from aioum.chain.calls import ContractCall
from aioum.chain.decisions import Case, Decisions
from aioum.chain.events import Event
from aioum.chain.model import BlockRef, ChainSession, Mined
from aioum.client.context import ClientContext
from aioum.core.errors import ChainError, ContractReverted, PolicyRefused
from aioum.core.hextext import address_text, to_hex
from aioum.core.payment import Terms
from aioum.core.types import Address, Bytes32, ChannelId

E = TypeVar("E", bound=Event)

_ALLOWANCE_ERRORS: Final = frozenset({"ERC20InsufficientAllowance", "ERC20InsufficientBalance"})


@dataclass(frozen=True, slots=True)
class Standing:
    """A session's held money at one block. Amounts are base units, times unix seconds.

    Attributes:
        terms: what the session was opened under; None for a plain channel.
        head: the block; its timestamp is the clock of all deadlines.
    """

    session: ChainSession
    terms: Terms | None
    case: Case
    head: BlockRef

    @property
    def held_until(self) -> int:
        """When the dispute window ends; 0 while the session is not final, or where there is none."""
        session = self.session
        window = session.dispute_window_seconds
        return session.finalized_at + window if session.is_finalized and window else 0

    @property
    def is_window_open(self) -> bool:
        """Whether disputes, proofs and challenges are still taken."""
        return self.head.timestamp < self.held_until

    @property
    def is_releasable(self) -> bool:
        """Whether `release` would pay the payee now."""
        return bool(
            self.session.held and self.held_until and not self.is_window_open and not self.case.is_pending
        )

    @property
    def bond(self) -> int:
        """What a dispute or a challenge costs whoever is not right."""
        return 0 if self.terms is None else self.terms.dispute_bond

    @property
    def arbitrator(self) -> Address | None:
        """Who rules on disputes; None where the terms name nobody."""
        return self.terms.arbitrator if self.terms is not None and any(self.terms.arbitrator) else None

    def require_window(self) -> None:
        """Check that something is held, and can still be asked for.

        Raises:
            ChainError: `session-not-final`, `nothing-held`, `dispute-window-closed`.
        """
        session = self.session
        if not session.is_finalized:
            raise ChainError(
                "the session is not finalized; the dispute window opens when it is",
                code="session-not-final",
                hint="close it, or exit it",
            )
        if not session.held:
            left = "there is no dispute window" if not self.held_until else "nothing is left of it"
            raise ChainError(f"nothing is held for the session: {left}", code="nothing-held")
        if not self.is_window_open:
            raise ChainError(
                f"the dispute window ended at {self.held_until}, the chain's clock says "
                f"{self.head.timestamp}",
                code="dispute-window-closed",
            )


@dataclass(frozen=True, slots=True)
class Step:
    """One call that moves held money, or may.

    Attributes:
        purpose: kept beside the transaction.
        bond: base units of `token` that it pulls.
    """

    call: ContractCall
    purpose: str
    bond: int = 0
    token: Address | None = None


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step costs now.

    Attributes:
        gas: what it would use, with the approval of its bond where that is missing.
        is_estimated: False where that approval has to be mined before anybody can tell; then `gas` is the
            most that it is given.
        gas_price_wei: what a unit of gas would cost in the next block.
        bond: base units of the token.
    """

    gas: int
    is_estimated: bool
    gas_price_wei: int
    bond: int

    @property
    def fee_wei(self) -> int:
        """The fee, without the bond."""
        return self.gas * self.gas_price_wei


class HeldMoney:
    """Reads and moves held money of sessions on one chain."""

    def __init__(self, context: ClientContext) -> None:
        """Made by `Marketplace.held_money`, and by sessions for themselves."""
        self._context = context
        self._known: Decisions | None = None

    async def decisions(self) -> Decisions:
        """The DisputeManager. Raises ChainError as `Decisions.of`."""
        if self._known is None:
            self._known = await Decisions.of(self._context.chain)
        return self._known

    async def standing(self, channel_id: ChannelId) -> Standing:
        """What is held for a session, at the newest block.

        Raises:
            ChainError: `session-not-on-chain`, or as `Chain`.
        """
        return await standing_of(await self.decisions(), channel_id)

    async def dispute(
        self, standing: Standing, claim: dispute_calls.Claim, evidence_uri: str, evidence_hash: Bytes32
    ) -> Step:
        """Dispute what was captured.

        Raises:
            ChainError: as `require_window`; `arbitrator-missing`, `already-disputed`.
        """
        standing.require_window()
        if standing.case.raised_at:
            raise ChainError(
                f"the session was disputed at {standing.case.raised_at}; that is done once",
                code="already-disputed",
                hint="follow it: `aioum dispute status`",
            )
        if standing.arbitrator is None:
            raise ChainError(
                "the session's terms name no arbitrator",
                code="arbitrator-missing",
                hint="only lies that its own words prove can be held against this operator",
            )
        channel_id = standing.session.channel_id
        at = (await self.decisions()).address
        call = dispute_calls.raise_dispute(at, channel_id, claim, evidence_uri, evidence_hash)
        return bonded(standing, call, "dispute")

    async def rule(self, channel_id: ChannelId, award: int) -> Step:
        """Give `award` base units of what is held back to the payer. By the arbitrator."""
        return self._plain(
            channel_id, dispute_calls.rule((await self.decisions()).address, channel_id, award)
        )

    async def lapse(self, channel_id: ChannelId) -> Step:
        """End a dispute that nobody ruled on in time. By anyone."""
        return self._plain(channel_id, dispute_calls.lapse((await self.decisions()).address, channel_id))

    async def claim_unanswered(self, channel_id: ChannelId) -> Step:
        """End a challenge that nobody answered in time. By anyone."""
        at = (await self.decisions()).address
        return self._plain(channel_id, dispute_calls.claim_unanswered(at, channel_id))

    async def release(self, channel_id: ChannelId) -> Step:
        """Pay what is held to the payee, after the window. By anyone."""
        return self._plain(channel_id, calls.release(self._context.chain.payment_manager, channel_id))

    async def credits(self, token: Address, owner: Address | None = None) -> tuple[int, int]:
        """Base units that `owner` (None: the payer) can pull from the PaymentManager, and of bonds from the
        DisputeManager.
        """
        owner = owner or self._context.payer.address
        decisions = await self.decisions()
        return await self._context.chain.credit(token, owner), await decisions.credit(token, owner)

    async def pull(self, token: Address, to: Address | None = None) -> list[Step]:
        """The steps that send all credits of the payer to `to` (None: the payer itself).

        Raises:
            ChainError: `credit-missing`, or as `Chain`.
        """
        owner = self._context.payer.address
        to = to or owner
        from_payments, from_bonds = await self.credits(token)
        steps = []
        if from_payments:
            call = calls.claim_credit(self._context.chain.payment_manager, token, to)
            steps.append(Step(call, "claim-credit"))
        if from_bonds:
            at = (await self.decisions()).address
            steps.append(Step(dispute_calls.claim_bond_credit(at, token, to), "claim-bond-credit"))
        if not steps:
            raise ChainError(f"nothing waits for {address_text(owner)} in this token", code="credit-missing")
        return steps

    async def cost(self, step: Step) -> StepCost:
        """What a step would cost.

        Raises:
            ContractReverted: it would fail.
            PolicyRefused: `balance-too-low`, the payer does not hold the bond.
        """
        payer, market = self._context.payer, await self._context.chain.rpc.market()
        gas_price_wei = market.base_fee + market.priority_fee
        approval = await self._missing_approval(step)
        if approval is None:
            return StepCost(await payer.estimate_gas(step.call), True, gas_price_wei, step.bond)
        gas = await payer.estimate_gas(approval)
        try:
            return StepCost(gas + await payer.estimate_gas(step.call), True, gas_price_wei, step.bond)
        except ContractReverted as error:
            if error.details.get("error") not in _ALLOWANCE_ERRORS:
                raise
            return StepCost(gas + step.call.gas_limit, False, gas_price_wei, step.bond)

    async def make(self, step: Step) -> Mined:
        """Approve the step's bond where that is missing, and send it.

        Raises:
            PolicyRefused: `balance-too-low`.
            ChainError, OutcomeUnknown: as `Payer.send`.
        """
        if not step.bond or step.token is None:
            return await self._context.payer.send(step.call, step.purpose)
        spender = (await self.decisions()).address
        approving = f"approve-bond, {step.purpose}"
        async with self._context.allowances.covering(step.token, step.bond, approving, spender):
            # Durable from here on, in the sender's journal before it leaves; and a session takes one dispute,
            # and one challenge at a time, so no restart can pay a bond twice.
            return await self._context.payer.send(step.call, step.purpose)

    async def event(self, mined: Mined, kind: type[E]) -> E:
        """The event of this kind that the DisputeManager emitted in a step of ours.

        Raises:
            ChainError: `event-missing`, or as `Chain`.
        """
        at = (await self.decisions()).address
        receipt = await self._context.chain.rpc.receipt(mined.transaction_hash)
        for log in () if receipt is None else receipt["logs"]:
            event = decode_event(log)
            if event is not None and event.contract == at and isinstance(event.body, kind):
                return event.body
        raise ChainError(
            f"the endpoint does not show what {to_hex(mined.transaction_hash)} did",
            code="event-missing",
            hint="it is mined; look at the session again",
        )

    async def _missing_approval(self, step: Step) -> ContractCall | None:
        if not step.bond or step.token is None:
            return None
        chain, owner = self._context.chain, self._context.payer.address
        balance = await chain.token_balance(step.token, owner)
        if balance < step.bond:
            raise PolicyRefused(
                f"the bond is {step.bond} base units of the token, the payer holds {balance}",
                code="balance-too-low",
                hint="fund the payer's account",
            )
        spender = (await self.decisions()).address
        if await chain.token_allowance(step.token, owner, spender) >= step.bond:
            return None
        return calls.approve(step.token, spender, step.bond)

    def _plain(self, channel_id: ChannelId, call: ContractCall) -> Step:
        return Step(call, f"{call.label} {to_hex(channel_id)}")


async def standing_of(decisions: Decisions, channel_id: ChannelId) -> Standing:
    """What is held for a session, at the newest block.

    Raises:
        ChainError: `session-not-on-chain`, or as `Chain`.
    """
    chain = decisions.chain
    head = await chain.head()
    session = await chain.session(channel_id, head.number)
    if session is None:
        raise ChainError(
            f"the chain has no session {to_hex(channel_id)}",
            code="session-not-on-chain",
            hint="is it of this chain? a devnet may have been reset",
        )
    registered = await chain.terms(session.terms_hash) if any(session.terms_hash) else None
    case = await decisions.case(channel_id, head.number)
    return Standing(session, None if registered is None else registered.terms, case, head)


def bonded(standing: Standing, call: ContractCall, what: str) -> Step:
    """A step that pulls the terms' bond."""
    session = standing.session
    purpose = f"{what} {to_hex(session.channel_id)}"
    return Step(call, purpose, standing.bond, session.token)
