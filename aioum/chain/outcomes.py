"""What the chain says became of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aioum.chain.client import Chain
from aioum.chain.journal import SignedTransaction
from aioum.chain.model import Mined
from aioum.core.errors import ChainError
from aioum.core.hextext import address, address_text, from_hex, to_hex


@dataclass(frozen=True, slots=True)
class Reverted:
    """It is in a block and failed, which is final. `reason` holds the decoded revert where a replay gave
    one.
    """

    transaction: SignedTransaction
    block_number: int
    gas_used: int
    reason: ChainError | None

    def error(self) -> ChainError:
        """The error for the caller: `transaction-reverted`."""
        details: dict[str, Any] = {"error": None, "args": {}} if self.reason is None else self.reason.details
        return ChainError(
            f"{self.transaction.label} was mined and failed: {self.reason or 'no reason is known'}",
            code="transaction-reverted",
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


async def is_foreign(chain: Chain, transaction: SignedTransaction) -> bool:
    """Whether the chain has another history than the one that the transaction was signed for.

    Raises:
        ChainError: the endpoint's `rpc-…` codes.
    """
    block = await chain.block(transaction.anchor_number)
    return block is None or block.hash != transaction.anchor_hash


async def look_up(chain: Chain, transaction: SignedTransaction, confirmations: int) -> Outcome | None:
    """The outcome, once it has `confirmations` blocks (its own included); None while the chain is silent.

    Raises:
        ChainError: the endpoint's `rpc-…` codes; they say nothing about the transaction.
    """
    # Read before the receipt, so that a reorganization in between cannot make the receipt look deeper than it
    # is.
    final = await chain.block_at_depth(confirmations)
    receipt = await chain.rpc.receipt(transaction.transaction_hash)
    if receipt is None:
        # One block deeper: an endpoint under load shows a block's state before the block's receipts.
        below = max(0, final.number - 1)
        if await chain.rpc.transaction_count(transaction.account, below) <= transaction.nonce:
            return None
        # It may have been mined between the two questions.
        receipt = await chain.rpc.receipt(transaction.transaction_hash)
        if receipt is None:
            return Superseded(transaction)
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


async def _reason(chain: Chain, transaction: SignedTransaction, block_number: int) -> ChainError | None:
    """Replay on the state after its block, which holds what came before it there, else on the state
    before.
    """
    request = _request(transaction)
    for block in (block_number, block_number - 1):
        try:
            await chain.rpc.simulate(request, max(0, block))
        except ChainError as error:
            if error.code == "contract-reverted":
                return error
    return None


def _request(transaction: SignedTransaction) -> Mapping[str, Any]:
    from eth_account.typed_transactions.typed_transaction import TypedTransaction
    from hexbytes import HexBytes

    fields = TypedTransaction.from_bytes(HexBytes(transaction.raw)).as_dict()
    to = fields["to"]
    request = {
        "from": address_text(transaction.account),
        "data": to_hex(fields["data"]),
        "value": fields["value"],
        "gas": fields["gas"],
    }
    return request | ({"to": address_text(from_hex(to) if isinstance(to, str) else to)} if to else {})
