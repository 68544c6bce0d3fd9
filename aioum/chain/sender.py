"""Sending transactions so that a crash at any point loses nothing and repeats nothing.

Steps of one transaction, under the account's lock: take a nonce, sign, write the raw bytes to the journal,
hand them to the endpoint. From then on only the chain says what happened: a receipt with enough
confirmations, or another transaction under the same nonce. As long as it says nothing, the outcome is
unknown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from aioum.chain import refusals
from aioum.chain.calls import MAX_TRANSACTION_GAS, ContractCall
from aioum.chain.client import Chain
from aioum.chain.journal import (
    SignedTransaction,
    TransactionJournal,
    TransactionJournalError,
    TransactionState,
)
from aioum.chain.model import BlockRef, Mined
from aioum.chain.outcomes import Outcome, Reverted, Superseded, is_foreign, look_up
from aioum.chain.rpc import Fees
from aioum.chain.signers import Signer
from aioum.core.errors import AioumError, ChainError, OutcomeUnknown
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Bytes32

DEFAULT_RECEIPT_TIMEOUT_SECONDS: Final = 120.0
_GAS_MARGIN_PERCENT: Final = 30
_REBROADCAST_SECONDS: Final = 5.0
_NONCE_ATTEMPTS: Final = 3
# No reorganization reaches so deep; a block there tells one history of a chain from another.
_ANCHOR_DEPTH: Final = 128

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Account:
    """What a sender knows of its account in this history of the chain."""

    anchor: BlockRef
    next_nonce: int
    in_flight: set[Bytes32] = field(default_factory=set)


class Sender:
    """Sends the transactions of one account. Safe for concurrent `send`s; one Sender per account and
    journal.
    """

    def __init__(
        self,
        chain: Chain,
        signer: Signer,
        journal: TransactionJournal,
        *,
        confirmations: int = 1,
        receipt_timeout_seconds: float = DEFAULT_RECEIPT_TIMEOUT_SECONDS,
        poll_interval_seconds: float = 0.2,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make a sender; nothing is asked or sent yet.

        Args:
            chain: where to.
            signer: the account.
            journal: keeps what is signed; its durability is the sender's.
            confirmations: blocks, the transaction's own included, before an outcome counts; at least 1.
            receipt_timeout_seconds: how long to wait for that, per transaction.
            poll_interval_seconds: between two questions to the chain.
            clock: unix seconds.
        """
        self.chain = chain
        self.signer = signer
        self._rpc = chain.rpc
        self._journal = journal
        self._confirmations = confirmations
        self._receipt_timeout_seconds = receipt_timeout_seconds
        self._poll_interval_seconds = poll_interval_seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._account: _Account | None = None

    async def send(self, call: ContractCall, purpose: str) -> Mined:
        """Send a call and wait until it is confirmed.

        Args:
            call: what to send.
            purpose: kept in the journal beside the transaction, for whoever reconciles.

        Raises:
            ChainError: nothing was sent: `contract-reverted` (it would fail; details `error` and `args`),
                `transaction-refused` (details `rpc_message`), `nonce-contended`, `chain-unsupported`, or the
                endpoint's `rpc-…` codes.
                It is final: `transaction-reverted` (mined and failed; details as above, `transaction_hash`,
                `gas_used`), `transaction-superseded` (another transaction used the nonce; it never happens),
                `chain-history-changed` (the chain was reset while it was on its way).
            OutcomeUnknown: `outcome-unknown`: no receipt in time; it may still happen, and stays in the
                journal.
            TransactionJournalError: the journal failed; nothing was sent.
        """
        gas, fees = await self._gas_limit(call), await self._rpc.fees()
        async with self._lock:
            transaction = await _to_its_end(self._submit(call, purpose, gas, fees))
        outcome = await self._outcome(transaction)
        if isinstance(outcome, Mined):
            return outcome
        raise outcome.error()

    async def reconcile(self) -> list[Mined]:
        """After a restart: find out what became of every pending transaction, and hand in again those that
        are missing.

        Returns:
            those that are confirmed by now. Reverted and superseded ones are resolved in the journal; what
            the chain is still silent about after the receipt timeout stays pending (`unresolved`).

        Raises:
            ChainError: the endpoint's `rpc-…` codes: it could not be asked.
        """
        async with self._lock:
            await self._synchronize()
        pending = await self.unresolved()
        outcomes = await asyncio.gather(*map(self._outcome, pending), return_exceptions=True)
        mined = []
        for transaction, outcome in zip(pending, outcomes, strict=True):
            if isinstance(outcome, Mined):
                mined.append(outcome)
            elif isinstance(outcome, BaseException) and not isinstance(outcome, OutcomeUnknown | ChainError):
                raise outcome
            else:
                error = outcome if isinstance(outcome, AioumError) else outcome.error()
                _log.warning(
                    "transaction-not-confirmed",
                    transaction_hash=to_hex(transaction.transaction_hash),
                    purpose=transaction.purpose,
                    outcome=error.code,
                )
        return mined

    async def unresolved(self) -> list[SignedTransaction]:
        """What the journal holds of this account without an outcome, by nonce."""
        return await self._journal.unresolved(self.chain.chain_id, self.signer.address)

    async def _submit(self, call: ContractCall, purpose: str, gas: int, fees: Fees) -> SignedTransaction:
        for _ in range(_NONCE_ATTEMPTS):
            account = self._account or await self._synchronize()
            transaction = await self._sign(account, call, purpose, gas, fees)
            await self._journal.append(transaction)
            # Durable here: the raw transaction, not yet known to anybody else. A crash from here on leaves it
            # to `reconcile`, which hands in the very same bytes.
            account.next_nonce += 1
            account.in_flight.add(transaction.transaction_hash)
            refusal = await self._hand_in(transaction)
            if refusal is None:
                # The endpoint has it, or may have it. The journal still says pending, which is the truth.
                return transaction
            # Nobody has it, so its nonce is free again.
            account.next_nonce = transaction.nonce
            if not refusals.is_nonce_used(refusal):
                await self._resolve(transaction, TransactionState.REFUSED)
                raise refusals.refused(refusal, transaction)
            # Somebody else sends with this key: count again.
            await self._resolve(transaction, TransactionState.SUPERSEDED)
            self._account = None
        raise ChainError(
            f"another program keeps using the nonces of {address_text(self.signer.address)}",
            code="nonce-contended",
            hint="give each program an account of its own",
        )

    async def _sign(
        self, account: _Account, call: ContractCall, purpose: str, gas: int, fees: Fees
    ) -> SignedTransaction:
        fields: dict[str, Any] = {
            "type": 2,
            "chainId": self.chain.chain_id,
            "nonce": account.next_nonce,
            "to": b"" if call.to is None else call.to,
            "data": call.data,
            "value": call.value,
            "gas": gas,
            "maxFeePerGas": fees.max_fee,
            "maxPriorityFeePerGas": fees.max_priority_fee,
        }
        raw = await self.signer.sign_transaction(fields)
        return SignedTransaction(
            transaction_hash=Bytes32(keccak256(raw)),
            raw=raw,
            chain_id=self.chain.chain_id,
            account=self.signer.address,
            nonce=account.next_nonce,
            purpose=purpose,
            label=call.label,
            anchor_number=account.anchor.number,
            anchor_hash=account.anchor.hash,
            created_at_ms=int(self._clock() * 1000),
        )

    async def _hand_in(self, transaction: SignedTransaction) -> ChainError | None:
        """Broadcast; the error only where the endpoint surely did not take it."""
        try:
            await self._rpc.broadcast(transaction.raw)
        except ChainError as error:
            if error.code == "rpc-error" and refusals.is_certain(error):
                return error
        return None

    async def _synchronize(self) -> _Account:
        """Learn the next nonce from chain and journal, and hand in what a former process left behind."""
        anchor = await self._anchor()
        count = await self._rpc.transaction_count(self.signer.address, "pending")
        account = _Account(anchor, count)
        for transaction in await self.unresolved():
            if await is_foreign(self.chain, transaction):
                await self._resolve(transaction, TransactionState.FOREIGN)
                continue
            # A refusal proves nothing here: an earlier process may have handed it in elsewhere. It keeps its
            # place in the journal, but not its nonce: of two transactions under one nonce at most one ever
            # happens.
            if await self._hand_in(transaction) is None:
                account.next_nonce = max(account.next_nonce, transaction.nonce + 1)
                account.in_flight.add(transaction.transaction_hash)
        self._account = account
        return account

    async def _anchor(self) -> BlockRef:
        deep = await self.chain.block_at_depth(_ANCHOR_DEPTH)
        deployment = self.chain.deployment
        if deployment is None or deployment.block_number <= deep.number:
            return deep
        # A young devnet's first block can be the same in two runs, its deployment block (salted) cannot;
        # connecting checked it.
        return BlockRef(deployment.block_number, deployment.block_hash, deep.timestamp)

    async def _gas_limit(self, call: ContractCall) -> int:
        transaction = {
            "from": address_text(self.signer.address),
            "data": to_hex(call.data),
            "value": call.value,
        } | ({} if call.to is None else {"to": address_text(call.to)})
        try:
            needed = await self._rpc.estimate_gas(transaction)
        except ChainError as error:
            # The newest state lacks what transactions in flight will do; and not every endpoint estimates.
            in_flight = self._account is not None and self._account.in_flight
            if error.code == "rpc-error" or (error.code == "contract-reverted" and in_flight):
                return call.gas_limit
            raise
        generous = max(call.gas_limit, needed * (100 + _GAS_MARGIN_PERCENT) // 100)
        return max(needed, min(generous, MAX_TRANSACTION_GAS))

    async def _outcome(self, transaction: SignedTransaction) -> Outcome:
        """Poll until the chain has decided; hand the bytes in again from time to time, in case they were
        dropped.
        """
        deadline = self._clock() + self._receipt_timeout_seconds
        again = self._clock() + _REBROADCAST_SECONDS
        while True:
            outcome = await self._look_up(transaction)
            if outcome is not None:
                return outcome
            now = self._clock()
            if now >= min(again, deadline):
                await self._require_same_history(transaction)
                again = now + _REBROADCAST_SECONDS
                await self._hand_in(transaction)
            if now >= deadline:
                raise OutcomeUnknown(
                    f"no receipt of {transaction.label} ({to_hex(transaction.transaction_hash)}) within "
                    f"{self._receipt_timeout_seconds:g} s",
                    hint="it stays in the journal; reconcile looks it up again",
                    details={
                        "transaction_hash": to_hex(transaction.transaction_hash),
                        "purpose": transaction.purpose,
                    },
                )
            await asyncio.sleep(self._poll_interval_seconds)

    async def _look_up(self, transaction: SignedTransaction) -> Outcome | None:
        try:
            outcome = await look_up(self.chain, transaction, self._confirmations)
        except ChainError:
            # Silence of the endpoint says nothing about the transaction.
            return None
        if outcome is not None:
            states = {Mined: TransactionState.MINED, Reverted: TransactionState.REVERTED}
            block_number = None if isinstance(outcome, Superseded) else outcome.block_number
            state = states.get(type(outcome), TransactionState.SUPERSEDED)
            try:
                await self._resolve(transaction, state, block_number)
            except TransactionJournalError:
                # The chain's word stands without the journal's note of it; reconcile will find it again.
                _log.exception("transaction-journal-failed", purpose=transaction.purpose)
        return outcome

    async def _require_same_history(self, transaction: SignedTransaction) -> None:
        try:
            foreign = await is_foreign(self.chain, transaction)
        except ChainError:
            return
        if foreign:
            await self._resolve(transaction, TransactionState.FOREIGN)
            raise ChainError(
                "the chain has another history than when the transaction was signed",
                code="chain-history-changed",
                hint="a devnet was reset: connect again, with its new deployments file",
                details={"transaction_hash": to_hex(transaction.transaction_hash)},
            )

    async def _resolve(
        self, transaction: SignedTransaction, state: TransactionState, block_number: int | None = None
    ) -> None:
        await self._journal.resolve(transaction.transaction_hash, state, block_number)
        if self._account is not None:
            self._account.in_flight.discard(transaction.transaction_hash)


async def _to_its_end(submission: Coroutine[Any, Any, SignedTransaction]) -> SignedTransaction:
    """Run a submission whole, even if the caller is canceled: a nonce that is taken and not used blocks the
    account. The timeouts of its requests bound it.
    """
    task = asyncio.ensure_future(submission)
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
