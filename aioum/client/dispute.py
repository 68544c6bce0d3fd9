"""A dispute that is on-chain: finding it again, and following it to its end (PROTOCOL 4.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from aioum.chain.decisions import Case, Decisions, DisputeState
from aioum.chain.dispute_calls import Claim
from aioum.chain.events import DisputeRaised
from aioum.chain.model import ChainEvent
from aioum.chain.scan import first_block_since
from aioum.client.settings import ClientSettings
from aioum.client.silence import is_silence
from aioum.core.errors import ChainError, OutcomeUnknown
from aioum.core.types import Address, Bytes32, ChannelId

DECIDING_EVENTS: Final = frozenset({"Ruled", "Lapsed", "LieProven"})


@dataclass(frozen=True, slots=True)
class Raised:
    """A dispute as it was raised, from its event. `bond` is base units of the session's token.

    Attributes:
        rule_by: unix seconds; a challenge that is pending meanwhile moves it, see `Case.rule_by`.
    """

    channel_id: ChannelId
    claim: Claim
    payer: Address
    arbitrator: Address
    evidence_uri: str
    evidence_hash: Bytes32
    rule_by: int
    bond: int
    block_number: int
    transaction_hash: Bytes32


@dataclass(frozen=True, slots=True)
class Decision:
    """The end of a dispute.

    Attributes:
        state: RULED, LAPSED, or OVERTAKEN by a proven lie.
        awarded: base units that went back to the payer.
        bond_returned: whether the bond went back to the payer; else it went to the payee.
    """

    state: DisputeState
    awarded: int
    bond_returned: bool


class Dispute:
    """A raised dispute. Iterate over it to follow what happens; `decided` waits for its end.

    Reads the chain alone, so another process can follow the same one.
    """

    def __init__(self, decisions: Decisions, raised: Raised, settings: ClientSettings) -> None:
        """Made by `PaidSession.dispute` and `Recourse.raised`."""
        self._decisions = decisions
        self._settings = settings
        self.raised = raised

    def __repr__(self) -> str:
        return f"Dispute(0x{self.raised.channel_id.hex()}, {self.raised.claim.text})"

    async def case(self) -> Case:
        """Where it stands now. Raises ChainError as `Chain`."""
        return await self._decisions.case(self.raised.channel_id)

    async def __aiter__(self) -> AsyncIterator[ChainEvent]:
        """What the DisputeManager emits about the session, from the raise to the decision, in order.

        An endpoint that does not answer is asked again. Counts blocks with `ClientSettings.confirmations`.

        Raises:
            ChainError: as `Chain`, but for silence.
        """
        following = self.raised.block_number
        while True:
            events, following = await self._events_since(following)
            for event in events:
                yield event
            if any(event.name in DECIDING_EVENTS for event in events):
                return
            await asyncio.sleep(self._settings.poll_seconds)

    async def decided(self, timeout_seconds: float | None = None) -> Decision:
        """Wait for the decision.

        A ruling period that ended does not end the dispute by itself: somebody has to call `lapse`.

        Args:
            timeout_seconds: of the machine's clock; None waits for ever.

        Raises:
            OutcomeUnknown: `dispute-pending`, not decided within that time.
            ChainError: as `Chain`, but for silence.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    decision = await self._decision()
                    if decision is not None:
                        return decision
                    await asyncio.sleep(self._settings.poll_seconds)
        except TimeoutError as error:
            raise OutcomeUnknown(
                f"the dispute is not decided within {timeout_seconds:g} s",
                code="dispute-pending",
                hint="follow it again later: it is on-chain",
            ) from error

    async def _events_since(self, first: int) -> tuple[list[ChainEvent], int]:
        chain = self._decisions.chain
        try:
            last = (await chain.block_at_depth(self._settings.confirmations)).number
            if last < first:
                return [], first
            return await self._decisions.events(first, last, self.raised.channel_id), last + 1
        except ChainError as error:
            if not is_silence(error):
                raise
            return [], first

    async def _decision(self) -> Decision | None:
        chain = self._decisions.chain
        try:
            block = await chain.block_at_depth(self._settings.confirmations)
            case = await self._decisions.case(self.raised.channel_id, block.number)
        except ChainError as error:
            if not is_silence(error):
                raise
            return None
        if case.dispute in (DisputeState.NONE, DisputeState.PENDING):
            return None
        # After a lapse a lie can still be proven; the bond of the dispute is gone by then.
        returned = case.awarded > 0 and case.dispute is not DisputeState.LAPSED
        return Decision(case.dispute, case.awarded, bond_returned=returned)


async def find_raised(decisions: Decisions, channel_id: ChannelId) -> Raised | None:
    """The dispute of a session, or None. Found by its own time, however long the chain is.

    Raises:
        ChainError: as `Chain`.
    """
    case = await decisions.case(channel_id)
    if not case.raised_at:
        return None
    chain = decisions.chain
    head = (await chain.head()).number
    first = await first_block_since(chain.rpc, case.raised_at, chain.first_block, head)
    last = await first_block_since(chain.rpc, case.raised_at + 1, first, head) - 1
    for event in await decisions.events(first, last, channel_id):
        if isinstance(event.body, DisputeRaised):
            return _raised(event, event.body)
    raise ChainError(
        f"the endpoint does not show the dispute of {case.raised_at}", code="dispute-not-shown",
        hint="use an endpoint that keeps the whole chain",
    )  # fmt: skip


def _raised(event: ChainEvent, raised: DisputeRaised) -> Raised:
    return Raised(
        channel_id=raised.channel_id,
        claim=Claim(raised.claim),
        payer=raised.payer,
        arbitrator=raised.arbitrator,
        evidence_uri=raised.evidence_uri,
        evidence_hash=raised.evidence_hash,
        rule_by=raised.rule_by,
        bond=raised.bond,
        block_number=event.block_number,
        transaction_hash=event.transaction_hash,
    )
