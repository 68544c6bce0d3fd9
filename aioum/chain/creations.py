"""Which contracts a deployment creates, in which order and out of what; nothing here asks a chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioum.chain.abi import (
    DEV_TOKEN,
    DISPUTE_MANAGER,
    LOG_ANCHOR,
    PAYMENT_MANAGER,
    RATING_REGISTRY,
    SERVICE_REGISTRY,
    encode_creation,
)
from aioum.chain.calls import MAX_TRANSACTION_GAS, ContractCall
from aioum.chain.runtime_code import runtime_code
from aioum.core.types import Address

_PURPOSE_PREFIX: Final = "deploy:"
# What a constructor itself may use: some words of storage, and the PaymentManager's child announces itself.
_CONSTRUCTOR_GAS: Final = 300_000
_TRANSACTION_GAS: Final = 21_000
_CREATE_GAS: Final = 32_000
_CODE_BYTE_GAS: Final = 200
_INITCODE_WORD_GAS: Final = 2
_CALLDATA_GAS: Final = (4, 16)


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What is to be deployed.

    Attributes:
        grace_period_seconds: between a payer's requestClose and its withdraw; 900 seconds to 30 days.
        dev_token_symbol: also create play money, to be listed under this symbol; devnets only.
        salt: fresh random bytes for a devnet. Two devnets started in one second are otherwise the same chain,
            block for block, and what belongs to one could be taken for the other's. Changes neither code nor
            addresses.
    """

    grace_period_seconds: int
    dev_token_symbol: str | None = None
    salt: bytes = b""

    @property
    def contracts(self) -> tuple[str, ...]:
        """Names of what is created, in order. The PaymentManager creates its DisputeManager."""
        token = () if self.dev_token_symbol is None else (DEV_TOKEN,)
        return (SERVICE_REGISTRY, PAYMENT_MANAGER, *token, RATING_REGISTRY, LOG_ANCHOR)

    def creation(self, contract: str, addresses: Mapping[str, Address]) -> ContractCall:
        """The transaction that creates a contract.

        Args:
            contract: one of `contracts`.
            addresses: of the contracts before it, by name.
        """
        types, args = self._arguments(contract, addresses)
        data = encode_creation(contract, types, args)
        if contract == SERVICE_REGISTRY:
            # A constructor without parameters ignores what follows its code.
            data += self.salt
        return ContractCall(None, data, _gas_bound(contract, data), f"create {contract}")

    def _arguments(
        self, contract: str, addresses: Mapping[str, Address]
    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        if contract == PAYMENT_MANAGER:
            values = (bytes(addresses[SERVICE_REGISTRY]), self.grace_period_seconds)
            return ("address", "uint64"), values
        if contract == RATING_REGISTRY:
            return ("address",), (bytes(addresses[PAYMENT_MANAGER]),)
        return (), ()


def purpose_of(contract: str) -> str:
    """What the journal calls the transaction that creates a contract."""
    return _PURPOSE_PREFIX + contract


def contract_of(purpose: str) -> str | None:
    """The contract that a transaction of this purpose creates; None where it is none of ours."""
    contract = purpose.removeprefix(_PURPOSE_PREFIX)
    return None if contract == purpose else contract


def _gas_bound(contract: str, data: bytes) -> int:
    """More than the creation can need, by the prices of the EVM (EIP-2028, EIP-3860)."""
    zeros = data.count(0)
    created = [contract, *((DISPUTE_MANAGER,) if contract == PAYMENT_MANAGER else ())]
    gas = _TRANSACTION_GAS + zeros * _CALLDATA_GAS[0] + (len(data) - zeros) * _CALLDATA_GAS[1]
    for name in created:
        gas += _CREATE_GAS + _CODE_BYTE_GAS * len(runtime_code(name).code) + _CONSTRUCTOR_GAS
        # The child's creation code is a part of its parent's.
        gas += _INITCODE_WORD_GAS * -(-len(data) // 32)
    return min(gas, MAX_TRANSACTION_GAS)
