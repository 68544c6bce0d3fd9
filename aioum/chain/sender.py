"""Sending transactions so that a crash at any point loses nothing and repeats nothing.

Steps of one transaction, under the account's lock: take a nonce, sign, write the raw bytes to the journal,
hand them to the endpoint. From then on only the chain says what happened: a receipt with enough
confirmations, or another transaction under the same nonce. As long as it says nothing, the outcome is
unknown; one that is stuck is replaced by a dearer one of the same nonce and the same call, so that still at
most one of them happens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from aioum.chain import refusals
from aioum.chain.attempts import Attempt, attempts_in, fees_of
from aioum.chain.calls import MAX_TRANSACTION_GAS, ContractCall
from aioum.chain.client import Chain
from aioum.chain.dispatch import Dispatch, to_its_end
from aioum.chain.fees import FeePolicy, Fees, Market
from aioum.chain.journal import (
    SignedTransaction,
    TransactionJournal,
    TransactionState,
)
from aioum.chain.model import BlockRef, Mined
from aioum.chain.outcomes import Outcome, Superseded, anchor_of, is_foreign, look_up
from aioum.chain.send_observer import FEE_CAP_REACHED, NoObserver, SendObserver
from aioum.chain.signers import Signer
from aioum.core.errors import AioumError, ChainError, ContractReverted, OutcomeUnknown
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Bytes32

DEFAULT_RECEIPT_TIMEOUT_SECONDS: Final = 120.0
_GAS_MARGIN_PERCENT: Final = 30
_REBROADCAST_SECONDS: Final = 5.0
_NONCE_ATTEMPTS: Final = 3
_CAP_HINT: Final = "allow more per unit of gas, or wait until blocks are cheaper"

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Account:
    """What a sender knows of its account in this history of the chain."""

    anchor: BlockRef
    next_nonce: int


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
        fee_policy: FeePolicy | None = None,
        observer: SendObserver | None = None,
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
            fee_policy: when a stuck transaction is replaced, and what it may cost.
            observer: told about replacements and alerts.
        """
        self.chain = chain
        self.signer = signer
        self._rpc = chain.rpc
        self._journal = journal
        self._confirmations = confirmations
        self._receipt_timeout_seconds = receipt_timeout_seconds
        self._poll_interval_seconds = poll_interval_seconds
        self._clock = clock
        self._fee_policy = fee_policy or FeePolicy()
        self._observer = observer or NoObserver()
        self._dispatch = Dispatch(chain, signer, journal, clock)
        self._lock = asyncio.Lock()
        self._account: _Account | None = None
        # What waits for its outcome, by the hash of the transaction that was signed first. Whoever waits for
        # the same one shares it: it may grow a variant at any moment.
        self._in_flight: dict[Bytes32, Attempt] = {}

    async def send(self, call: ContractCall, purpose: str, *, is_independent: bool = False) -> Mined:
        """Send a call and wait until it is confirmed.

        Args:
            call: what to send.
            purpose: kept in the journal beside the transaction, for whoever reconciles.
            is_independent: it relies on nothing in flight, so what would revert now is never sent.

        Raises:
            ContractReverted: nothing was sent, it would fail: the code of the custom error, or
                `contract-reverted`; details `reason`, `error` and `args`.
            TransactionReverted: it is mined and failed, which is final: the code of the custom error, or
                `transaction-reverted`; details as above, `transaction_hash`, `gas_used`.
            ChainError: nothing was sent: `transaction-refused` (details `rpc_message`), `fee-cap-reached`
                (blocks are dearer than allowed), `nonce-contended`, `chain-unsupported`, or the endpoint's
                `rpc-…` codes. It is final: `transaction-superseded` (another transaction used the nonce; it
                never happens), `chain-history-changed` (the chain was reset while it was on its way).
            OutcomeUnknown: `outcome-unknown`: no receipt in time; it may still happen, and stays in the
                journal.
            TransactionJournalError: the journal failed; nothing was sent.
        """
        gas = await self._gas_limit(call, may_depend=bool(self._in_flight) and not is_independent)
        fees = await self._fees(call)
        async with self._lock:
            attempt = await to_its_end(self._submit(call, purpose, gas, fees))
        outcome = await self._outcome(attempt)
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
            pending = [self._shared(attempt) for attempt in attempts_in(await self.unresolved())]
        outcomes = await asyncio.gather(*map(self._outcome, pending), return_exceptions=True)
        mined = []
        for attempt, outcome in zip(pending, outcomes, strict=True):
            if isinstance(outcome, Mined):
                mined.append(outcome)
            elif isinstance(outcome, BaseException) and not isinstance(outcome, OutcomeUnknown | ChainError):
                raise outcome
            else:
                error = outcome if isinstance(outcome, AioumError) else outcome.error()
                _log.warning("transaction-not-confirmed", outcome=error.code, **attempt.facts())
        return mined

    async def unresolved(self) -> list[SignedTransaction]:
        """What the journal holds of this account without an outcome, by nonce."""
        return await self._journal.unresolved(self.chain.chain_id, self.signer.address)

    @property
    def in_flight(self) -> int:
        """How many calls were sent, or found in the journal, and have no outcome yet."""
        return len(self._in_flight)

    def observe(self, observer: SendObserver) -> None:
        """Tell somebody else from now on."""
        self._observer = observer

    async def _submit(self, call: ContractCall, purpose: str, gas: int, fees: Fees) -> Attempt:
        for _ in range(_NONCE_ATTEMPTS):
            account = self._account or await self._synchronize()
            transaction = await self._dispatch.sign(
                call, purpose, nonce=account.next_nonce, gas=gas, fees=fees, anchor=account.anchor
            )
            attempt = Attempt([transaction])
            account.next_nonce += 1
            self._in_flight[transaction.transaction_hash] = attempt
            refusal = await self._dispatch.hand_in(transaction)
            if refusal is None:
                # The endpoint has it, or may have it. The journal still says pending, which is the truth.
                return attempt
            # Nobody has it, so its nonce is free again.
            account.next_nonce = transaction.nonce
            if not refusals.is_nonce_used(refusal):
                await self._resolve(attempt, TransactionState.REFUSED)
                raise refusals.refused(refusal, transaction)
            # Somebody else sends with this key: count again.
            await self._resolve(attempt, TransactionState.SUPERSEDED)
            self._account = None
        raise ChainError(
            f"another program keeps using the nonces of {address_text(self.signer.address)}",
            code="nonce-contended",
            hint="give each program an account of its own",
        )

    async def _synchronize(self) -> _Account:
        """Learn the next nonce from chain and journal, and hand in what a former process left behind."""
        anchor = await anchor_of(self.chain)
        count = await self._rpc.transaction_count(self.signer.address, "pending")
        account = _Account(anchor, count)
        found = attempts_in(await self.unresolved())
        # What another process found the outcome of is not on its way any more.
        for gone in self._in_flight.keys() - {attempt.first.transaction_hash for attempt in found}:
            del self._in_flight[gone]
        for attempt in map(self._shared, found):
            if await is_foreign(self.chain, attempt.first):
                await self._resolve(attempt, TransactionState.FOREIGN)
                continue
            refused = [await self._dispatch.hand_in(variant) for variant in attempt.variants]
            # A refusal proves nothing here: an earlier process may have handed it in elsewhere. It keeps its
            # place in the journal, but not its nonce: of two transactions under one nonce at most one ever
            # happens.
            if any(refusal is None or refusals.is_replacement(refusal) for refusal in refused):
                account.next_nonce = max(account.next_nonce, attempt.nonce + 1)
            self._in_flight[attempt.first.transaction_hash] = attempt
        self._account = account
        return account

    def _shared(self, attempt: Attempt) -> Attempt:
        known = self._in_flight.get(attempt.first.transaction_hash)
        if known is None:
            return attempt
        # While another process had the account it may have signed dearer ones.
        hashes = {variant.transaction_hash for variant in known.variants}
        known.variants.extend(item for item in attempt.variants if item.transaction_hash not in hashes)
        return known

    async def _fees(self, call: ContractCall) -> Fees:
        market = await self._rpc.market()
        fees = self._fee_policy.first(market)
        if fees is None:
            self._observer.transaction_alert(FEE_CAP_REACHED)
            raise ChainError(
                f"{call.label} was not sent: blocks cost {market.base_fee} wei per unit of gas, and at most "
                f"{self._fee_policy.max_fee_per_gas_wei} are allowed",
                code=FEE_CAP_REACHED,
                hint=_CAP_HINT,
            )
        return fees

    async def _gas_limit(self, call: ContractCall, *, may_depend: bool) -> int:
        transaction = {
            "from": address_text(self.signer.address),
            "data": to_hex(call.data),
            "value": call.value,
        } | ({} if call.to is None else {"to": address_text(call.to)})
        try:
            needed = await self._rpc.estimate_gas(transaction)
        except ChainError as error:
            # The newest state lacks what transactions in flight will do; and not every endpoint estimates.
            if error.code == "rpc-error" or (isinstance(error, ContractReverted) and may_depend):
                return call.gas_limit
            raise
        generous = max(call.gas_limit, needed * (100 + _GAS_MARGIN_PERCENT) // 100)
        return max(needed, min(generous, MAX_TRANSACTION_GAS))

    async def _outcome(self, attempt: Attempt) -> Outcome:
        """Poll until the chain has decided; hand the bytes in again from time to time, in case they were
        dropped, and replace them by dearer ones where they are stuck.
        """
        deadline = self._clock() + self._receipt_timeout_seconds
        again = self._clock() + _REBROADCAST_SECONDS
        while True:
            outcome = await self._look_up(attempt)
            if outcome is not None:
                return outcome
            now = self._clock()
            if now >= min(again, deadline):
                await self._require_same_history(attempt)
                again = now + _REBROADCAST_SECONDS
                # All of them: the dearest may be the one that the account cannot pay for.
                for variant in reversed(attempt.variants):
                    await self._dispatch.hand_in(variant)
            if self._is_overdue(attempt):
                await self._replace(attempt)
            if now >= deadline:
                raise OutcomeUnknown(
                    f"no receipt of {attempt.first.label} ({to_hex(attempt.newest.transaction_hash)}) within "
                    f"{self._receipt_timeout_seconds:g} s",
                    hint="it stays in the journal; reconcile looks it up again",
                    details=attempt.facts(),
                )
            await asyncio.sleep(self._poll_interval_seconds)

    def _is_overdue(self, attempt: Attempt) -> bool:
        age_seconds = self._clock() - attempt.newest.created_at_ms / 1000
        return age_seconds >= self._fee_policy.replace_after_seconds and not attempt.is_cap_told

    async def _replace(self, attempt: Attempt) -> None:
        """Sign and hand in a dearer transaction, where the newest one keeps the call from happening."""
        try:
            async with self._lock:
                if not self._is_overdue(attempt) or not self._is_wanted(attempt):
                    return
                market = await self._rpc.market()
                paid = fees_of(attempt.newest)
                mined = await self._rpc.transaction_count(self.signer.address, "latest")
                # Behind other transactions it waits for them, unless blocks are too dear for it as well.
                if mined > attempt.nonce or (mined < attempt.nonce and paid.max_fee >= market.base_fee):
                    return
                fees = self._fee_policy.replacement(paid, market)
                if fees is None:
                    self._tell_cap(attempt, market)
                    return
                account = self._account or await self._synchronize()
                # Looked up from here on, before anybody else has seen it.
                replacement = await self._dispatch.sign_again(attempt, fees, account.anchor)
                attempt.variants.append(replacement)
            refusal = await self._dispatch.hand_in(replacement)
        except AioumError as error:
            # Nothing is lost by that: what was signed before may still happen, and it is tried again.
            _log.warning("transaction-not-replaced", code=error.code, error=str(error), **attempt.facts())
            return
        self._observer.transaction_replaced()
        _log.warning(
            "transaction-replaced",
            max_fee_wei=fees.max_fee,
            max_priority_fee_wei=fees.max_priority_fee,
            refused=None if refusal is None else str(refusal),
            **attempt.facts(),
        )

    def _is_wanted(self, attempt: Attempt) -> bool:
        """Whether no later call is meant to have its nonce."""
        return not any(
            other.nonce == attempt.nonce and other.first.created_at_ms > attempt.first.created_at_ms
            for other in self._in_flight.values()
        )

    def _tell_cap(self, attempt: Attempt, market: Market) -> None:
        attempt.is_cap_told = True
        self._observer.transaction_alert(FEE_CAP_REACHED)
        _log.error(
            FEE_CAP_REACHED,
            base_fee_wei=market.base_fee,
            allowed_wei=self._fee_policy.max_fee_per_gas_wei,
            hint=_CAP_HINT,
            **attempt.facts(),
        )

    async def _look_up(self, attempt: Attempt) -> Outcome | None:
        known = len(attempt.variants)
        try:
            outcome = await look_up(self.chain, tuple(attempt.variants), self._confirmations)
        except ChainError:
            # Silence of the endpoint says nothing about the transaction.
            return None
        if outcome is None or (isinstance(outcome, Superseded) and len(attempt.variants) != known):
            # One that was signed meanwhile may be what used the nonce.
            return None
        try:
            await self._settle(attempt, outcome)
        except AioumError:
            # The chain's word stands without the journal's note of it; reconcile will find it again.
            _log.exception("transaction-journal-failed", **attempt.facts())
        return outcome

    async def _settle(self, attempt: Attempt, outcome: Outcome) -> None:
        if isinstance(outcome, Superseded):
            await self._resolve(attempt, TransactionState.SUPERSEDED)
            return
        happened = outcome.transaction_hash
        state = TransactionState.MINED if isinstance(outcome, Mined) else TransactionState.REVERTED
        # The one that happened comes last: a crash in between leaves it to be found again, and never leaves
        # one behind that seems to have been superseded by a stranger.
        for variant in attempt.variants:
            if variant.transaction_hash != happened:
                await self._journal.resolve(variant.transaction_hash, TransactionState.SUPERSEDED)
        await self._journal.resolve(happened, state, outcome.block_number)
        self._forget(attempt)

    async def _require_same_history(self, attempt: Attempt) -> None:
        try:
            foreign = await is_foreign(self.chain, attempt.first)
        except ChainError:
            return
        if foreign:
            await self._resolve(attempt, TransactionState.FOREIGN)
            raise ChainError(
                "the chain has another history than when the transaction was signed",
                code="chain-history-changed",
                hint="a devnet was reset: connect again, with its new deployments file",
                details={"transaction_hash": to_hex(attempt.first.transaction_hash)},
            )

    async def _resolve(self, attempt: Attempt, state: TransactionState) -> None:
        for variant in attempt.variants:
            await self._journal.resolve(variant.transaction_hash, state)
        self._forget(attempt)

    def _forget(self, attempt: Attempt) -> None:
        self._in_flight.pop(attempt.first.transaction_hash, None)
