"""Signing and handing in: what is signed is in the journal before any endpoint sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from aioum.chain import refusals
from aioum.chain.attempts import Attempt, fields_of
from aioum.chain.calls import ContractCall
from aioum.chain.client import Chain
from aioum.chain.fees import Fees
from aioum.chain.journal import SignedTransaction, TransactionJournal
from aioum.chain.model import BlockRef
from aioum.chain.signers import Signer
from aioum.core.errors import ChainError
from aioum.core.hashing import keccak256
from aioum.core.types import Bytes32

T = TypeVar("T")


class Dispatch:
    """The account's signer, the journal and the way to the chain.

    Args:
        chain: where to.
        signer: the account.
        journal: keeps what is signed.
        clock: unix seconds.
    """

    def __init__(
        self, chain: Chain, signer: Signer, journal: TransactionJournal, clock: Callable[[], float]
    ) -> None:
        self._chain = chain
        self._signer = signer
        self._journal = journal
        self._clock = clock

    async def sign(
        self, call: ContractCall, purpose: str, *, nonce: int, gas: int, fees: Fees, anchor: BlockRef
    ) -> SignedTransaction:
        """Sign a call and keep it, pending.

        Raises:
            TransactionJournalError: it is not kept, and must not be handed in.
        """
        fields: dict[str, Any] = {
            "type": 2,
            "chainId": self._chain.chain_id,
            "nonce": nonce,
            "to": b"" if call.to is None else call.to,
            "data": call.data,
            "value": call.value,
            "gas": gas,
        }
        return await self._sign(fields, fees, purpose, call.label, anchor)

    async def sign_again(self, attempt: Attempt, fees: Fees, anchor: BlockRef) -> SignedTransaction:
        """Sign the same call under the same nonce for other fees, and keep it beside the others.

        Raises:
            TransactionJournalError: as `sign`.
        """
        first = attempt.first
        return await self._sign(fields_of(first), fees, first.purpose, first.label, anchor)

    async def hand_in(self, transaction: SignedTransaction) -> ChainError | None:
        """Broadcast; the error only where the endpoint surely did not take it."""
        try:
            await self._chain.rpc.broadcast(transaction.raw)
        except ChainError as error:
            if error.code == "rpc-error" and refusals.is_certain(error):
                return error
        return None

    async def _sign(
        self, fields: Mapping[str, Any], fees: Fees, purpose: str, label: str, anchor: BlockRef
    ) -> SignedTransaction:
        raw = await self._signer.sign_transaction(
            {**fields, "maxFeePerGas": fees.max_fee, "maxPriorityFeePerGas": fees.max_priority_fee}
        )
        transaction = SignedTransaction(
            transaction_hash=Bytes32(keccak256(raw)),
            raw=raw,
            chain_id=self._chain.chain_id,
            account=self._signer.address,
            nonce=fields["nonce"],
            purpose=purpose,
            label=label,
            anchor_number=anchor.number,
            anchor_hash=anchor.hash,
            created_at_ms=int(self._clock() * 1000),
        )
        await self._journal.append(transaction)
        # Durable here: the raw transaction, not yet known to anybody else. A crash from here on leaves it to
        # `Sender.reconcile`, which hands in the very same bytes.
        return transaction


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run something whole, even if the caller is canceled: a nonce that is taken and not used blocks the
    account, for one. What it waits for has bounds of its own.
    """
    task = asyncio.ensure_future(work)
    canceled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            canceled = error
    if canceled is not None:
        task.exception()
        raise canceled
    return task.result()
