"""The settlements of a node: each is in the journal before it can reach the chain, and is looked up there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aioum.chain.calls import Settlement, settle_session, settle_sessions
from aioum.chain.client import Chain
from aioum.chain.model import ChainEvent, Mined
from aioum.chain.sender import Sender
from aioum.core import ledger
from aioum.core.errors import ChainError, ContractReverted, OutcomeUnknown
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import ChannelId
from aioum_node.settlement.batches import Batches

PURPOSE_PREFIX: Final = "settle:"
"""Begins the purpose of a settlement in the transaction journal; channel ids in hex follow, with commas."""


class SentSettlements:
    """Sends settlements of one account, and knows what became of them.

    Args:
        chain: where to.
        sender: of the payee or the terms' operator.
        max_items: settlements that may share a transaction.
    """

    def __init__(self, chain: Chain, sender: Sender, max_items: int) -> None:
        self._chain = chain
        self._sender = sender
        self._max_items = max_items
        self._batches = Batches(self._send, max_items)
        # What was in a transaction that was refused as a whole goes alone from then on.
        self._loners: set[ChannelId] = set()
        self._mined: dict[ChannelId, Mined] = {}
        self._doubtful: set[str] = set()
        self.is_reconciled = False
        """Whether everything that a former process left behind was looked up once."""

    def mined(self, channel_id: ChannelId) -> Mined | None:
        """The transaction that finalized a session, where this process knows it."""
        return self._mined.get(channel_id)

    def forget(self, channel_id: ChannelId) -> None:
        """Keep nothing of a session any more."""
        self._mined.pop(channel_id, None)
        self._loners.discard(channel_id)

    async def is_unresolved(self, channel_id: ChannelId) -> bool:
        """Whether an earlier attempt may still happen: it is to be looked up, not repeated."""
        channel_hex = to_hex(channel_id)
        return any(
            channel_hex in transaction.purpose.removeprefix(PURPOSE_PREFIX).split(",")
            for transaction in await self._sender.unresolved()
        )

    async def send(self, settlement: ledger.Settlement, *, alone: bool) -> Mined:
        """Send one and wait until it is confirmed.

        Args:
            settlement: what to settle.
            alone: in a transaction of its own, now.

        Raises:
            ChainError: as `Sender.send`, and as `Batches.settle`.
            OutcomeUnknown, TransactionJournalError: as `Sender.send`.
        """
        item = chain_settlement(settlement)
        if alone or self._max_items == 1 or item.channel_id in self._loners:
            return await self._send([item])
        # A batch never reverts for one item's sake, so nobody else would notice that this one is refused.
        call = settle_session(self._chain.payment_manager, item)
        await self._chain.rpc.simulate(
            {
                "from": address_text(self._sender.signer.address),
                "to": address_text(self._chain.payment_manager),
                "data": to_hex(call.data),
            }
        )
        return await self._batches.settle(item)

    async def _send(self, items: list[Settlement]) -> Mined:
        manager = self._chain.payment_manager
        call = settle_session(manager, items[0]) if len(items) == 1 else settle_sessions(manager, items)
        purpose = PURPOSE_PREFIX + ",".join(to_hex(item.channel_id) for item in items)
        try:
            mined = await self._sender.send(call, purpose, is_independent=True)
        except OutcomeUnknown:
            self._doubtful.add(purpose)
            raise
        except ChainError as error:
            if isinstance(error, ContractReverted) or error.code == "transaction-refused":
                self._loners.update(item.channel_id for item in items)
            raise
        self._remember(mined)
        return mined

    async def reconcile(self) -> None:
        """Look up what the journal holds without an outcome.

        Raises:
            ChainError: as `Sender.reconcile`.
        """
        for mined in await self._sender.reconcile():
            self._remember(mined)
        silent = {transaction.purpose for transaction in await self._sender.unresolved()}
        self._doubtful = self._doubtful & silent if self.is_reconciled else silent
        self.is_reconciled = True

    @property
    def is_doubtful(self) -> bool:
        """Whether there are transactions that nobody waits for and that have no outcome yet."""
        return bool(self._doubtful)

    def _remember(self, mined: Mined) -> None:
        # One that was sent again after another had settled emits nothing: it is not what ended the session.
        for event in mined.events:
            if event.name == "Finalized" and event.channel_id is not None:
                self._mined[event.channel_id] = mined


def gas_share(gas_used: int, events: Iterable[ChainEvent]) -> int:
    """What each session that a transaction ended has of its gas.

    Args:
        gas_used: by the transaction.
        events: of it.
    """
    return gas_used // max(1, sum(event.name == "Finalized" for event in events))


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
