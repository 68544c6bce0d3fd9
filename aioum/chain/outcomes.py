"""What the chain says became of a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aioum.chain.attempts import fields_of
from aioum.chain.client import Chain
from aioum.chain.journal import SignedTransaction
from aioum.chain.model import BlockRef, Mined
from aioum.core.errors import ChainError, ContractReverted, TransactionReverted
from aioum.core.hextext import address, address_text, to_hex
from aioum.core.types import Bytes32

# No reorganization reaches so deep.
_ANCHOR_DEPTH: Final = 128


@dataclass(frozen=True, slots=True)
class Reverted:
    """It is in a block and failed, which is final. `reason` holds the decoded revert where a replay gave
    one.
    """

    transaction: SignedTransaction
    block_number: int
    gas_used: int
    reason: ContractReverted | None

    @property
    def transaction_hash(self) -> Bytes32:
        """The transaction's hash."""
        return self.transaction.transaction_hash

    def error(self) -> TransactionReverted:
        """The error for the caller, under the code of the custom error; where that is none of ours or not
        known `transaction-reverted`.
        """
        details: dict[str, Any] = {"reason": None, "error": None, "args": {}}
        if self.reason is not None:
            details = self.reason.details
        return TransactionReverted(
            f"{self.transaction.label} was mined and failed: {self.reason or 'no reason is known'}",
            code=details["reason"],
            hint=None if self.reason is None else self.reason.hint,
            details={
                **details,
                "transaction_hash": to_hex(self.transaction.transaction_hash),
                "block_number": self.block_number,
                "gas_used": self.gas_used,
            },
        )


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another transaction used its nonce: it can never happen."""

    transaction: SignedTransaction

    def error(self) -> ChainError:
        """The error for the caller: `transaction-superseded`."""
        return ChainError(
            f"another transaction of {address_text(self.transaction.account)} used nonce "
            f"{self.transaction.nonce}: {self.transaction.label} will never happen",
            code="transaction-superseded",
            hint="give each program an account of its own, then send again",
            details={"transaction_hash": to_hex(self.transaction.transaction_hash)},
        )


Outcome = Mined | Reverted | Superseded


async def anchor_of(chain: Chain) -> BlockRef:
    """A block that tells this history of the chain from another one.

    Raises:
        ChainError: the endpoint's `rpc-…` codes.
    """
    deep = await chain.block_at_depth(_ANCHOR_DEPTH)
    deployment = chain.deployment
    if deployment is None or deployment.block_number <= deep.number:
        return deep
    # A young devnet's first block can be the same in two runs, its deployment block (salted) cannot;
    # connecting checked it.
    return BlockRef(deployment.block_number, deployment.block_hash, deep.timestamp)


async def is_foreign(chain: Chain, transaction: SignedTransaction) -> bool:
    """Whether the chain has another history than the one that the transaction was signed for.

    Raises:
        ChainError: the endpoint's `rpc-…` codes.
    """
    block = await chain.block(transaction.anchor_number)
    return block is None or block.hash != transaction.anchor_hash


async def look_up(chain: Chain, variants: Sequence[SignedTransaction], confirmations: int) -> Outcome | None:
    """The outcome, once it has `confirmations` blocks (its own included); None while the chain is silent.

    Args:
        chain: where they were handed in.
        variants: all that was ever signed for one call under one nonce.
        confirmations: at least 1.

    Raises:
        ChainError: the endpoint's `rpc-…` codes; they say nothing about the transaction.
    """
    # Read before the receipts, so that a reorganization in between cannot make one look deeper than it is.
    final = await chain.block_at_depth(confirmations)
    found = await _mined_variant(chain, variants)
    if found is None:
        # One block deeper: an endpoint under load shows a block's state before the block's receipts.
        below = max(0, final.number - 1)
        if await chain.rpc.transaction_count(variants[0].account, below) <= variants[0].nonce:
            return None
        # It may have been mined between the two questions.
        found = await _mined_variant(chain, variants)
        if found is None:
            return Superseded(variants[0])
    transaction, receipt = found
    block_number = int(receipt["blockNumber"])
    if block_number > final.number and confirmations > 1:
        return None
    gas_used = int(receipt["gasUsed"])
    if receipt["status"] != 1:
        return Reverted(transaction, block_number, gas_used, await _reason(chain, transaction, block_number))
    created = receipt.get("contractAddress")
    return Mined(
        transaction_hash=transaction.transaction_hash,
        block_number=block_number,
        gas_used=gas_used,
        events=tuple(chain.decode(receipt["logs"])),
        purpose=transaction.purpose,
        gas_price=int(receipt["effectiveGasPrice"]),
        contract_address=None if created is None else address(created),
    )


async def _mined_variant(
    chain: Chain, variants: Sequence[SignedTransaction]
) -> tuple[SignedTransaction, Mapping[str, Any]] | None:
    # The newest first: it is the likeliest one.
    for transaction in reversed(variants):
        receipt = await chain.rpc.receipt(transaction.transaction_hash)
        if receipt is not None:
            return transaction, receipt
    return None


async def _reason(chain: Chain, transaction: SignedTransaction, block_number: int) -> ContractReverted | None:
    """Replay on the state after its block, which holds what came before it there, else on the state
    before.
    """
    request = _request(transaction)
    for block in (block_number, block_number - 1):
        try:
            await chain.rpc.simulate(request, max(0, block))
        except ContractReverted as error:
            return error
        except ChainError:
            continue
    return None


def _request(transaction: SignedTransaction) -> Mapping[str, Any]:
    fields = fields_of(transaction)
    request = {
        "from": address_text(transaction.account),
        "data": to_hex(fields["data"]),
        "value": fields["value"],
        "gas": fields["gas"],
    }
    return request | ({"to": address_text(fields["to"])} if fields["to"] else {})
