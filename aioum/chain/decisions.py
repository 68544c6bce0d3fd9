"""Reading what was decided, or is pending, over sessions' held money (PROTOCOL 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

from aioum.chain.abi import DISPUTE_MANAGER, decode_event, struct_values
from aioum.chain.client import Chain
from aioum.chain.model import ChainEvent
from aioum.chain.payment_reads import dispute_manager_of
from aioum.chain.scan import logs_between
from aioum.core.hextext import address, to_hex
from aioum.core.types import Address, Bytes32, ChannelId


class DisputeState(IntEnum):
    """Where a session's dispute stands, as the contract numbers it."""

    NONE = 0
    PENDING = 1
    RULED = 2
    LAPSED = 3
    OVERTAKEN = 4


@dataclass(frozen=True, slots=True)
class Case:
    """All that happened to a session's held money.

    Attributes:
        raised_at, rule_by: unix seconds; 0 without a dispute. `rule_by` stands still while a challenge is
            pending.
        answer_by: unix seconds; a pending challenge is answered before it. 0: none is pending.
        challenged_word: names the word that is challenged; zero where none is.
        awarded: base units that a decision gave back to the payer.
    """

    dispute: DisputeState
    raised_at: int
    rule_by: int
    answer_by: int
    challenged_word: Bytes32
    awarded: int

    @property
    def is_challenged(self) -> bool:
        """Whether a challenge is pending."""
        return self.answer_by != 0

    @property
    def is_pending(self) -> bool:
        """Whether a dispute or a challenge keeps held money from leaving."""
        return self.is_challenged or self.dispute is DisputeState.PENDING


class Decisions:
    """The DisputeManager of a chain's PaymentManager. Every method raises ChainError as `Chain` does.

    Attributes:
        chain: what it reads through.
        address: the contract's own.
    """

    def __init__(self, chain: Chain, dispute_manager: Address) -> None:
        self.chain = chain
        self.address = dispute_manager

    @classmethod
    async def of(cls, chain: Chain) -> Self:
        """The DisputeManager that the PaymentManager itself names."""
        return cls(chain, await dispute_manager_of(chain.rpc, chain.payment_manager))

    async def case(self, channel_id: ChannelId, block: int | None = None) -> Case:
        """What happened to a session's held money, at the newest block or the one given."""
        values = await self._read("caseOf", channel_id, block=block)
        dispute, *rest = struct_values(DISPUTE_MANAGER, "caseOf", 0, values)
        return Case(DisputeState(dispute), *rest)

    async def is_pending(self, channel_id: ChannelId, block: int | None = None) -> bool:
        """Whether a dispute or a challenge keeps a session's held money from leaving."""
        return bool(await self._read("isPending", channel_id, block=block))

    async def awarded(self, channel_id: ChannelId, block: int | None = None) -> int:
        """Base units that a decision gave back to a session's payer."""
        return int(await self._read("awarded", channel_id, block=block))

    async def credit(self, token: Address, owner: Address, block: int | None = None) -> int:
        """Base units of bonds that `owner` can pull with claimCredit."""
        return int(await self._read("credits", token, owner, block=block))

    async def answer_period_seconds(self) -> int:
        """Seconds that an operator has to answer a challenge."""
        return int(await self._read("answerPeriodSeconds"))

    async def max_uri_bytes(self) -> int:
        """The longest address of evidence or of a response that the contract takes."""
        return int(await self._read("MAX_URI_BYTES"))

    async def payment_manager(self) -> Address:
        """The PaymentManager that holds the money."""
        return address(await self._read("paymentManager"))

    async def service_registry(self) -> Address:
        """The ServiceRegistry whose terms name arbitrators, windows and bonds."""
        return address(await self._read("registry"))

    async def events(
        self, from_block: int, to_block: int, channel_id: ChannelId | None = None
    ) -> list[ChainEvent]:
        """The contract's events in order, both blocks included, or only those about one channel."""
        # The channel is the first indexed parameter of all of them but ERC-1497's and CreditClaimed.
        topics = [] if channel_id is None else [None, to_hex(channel_id)]
        found = [
            event
            async for log in logs_between(self.chain.rpc, self.address, from_block, to_block, topics)
            if (event := decode_event(log)) is not None
        ]
        return found if channel_id is None else [event for event in found if event.channel_id == channel_id]

    async def _read(self, function: str, *args: Any, block: int | None = None) -> Any:
        at: Any = "latest" if block is None else block
        return await self.chain.rpc.read(DISPUTE_MANAGER, self.address, function, *args, block=at)
