"""What a deployment costs, before anything of it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aioum.chain.calls import MAX_TRANSACTION_GAS, ContractCall
from aioum.chain.creations import DeploymentPlan
from aioum.chain.fees import FeePolicy, Fees
from aioum.chain.rpc import Rpc
from aioum.core.errors import ChainError
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address

# A sender gives so much more than the estimate.
_LIMIT_MARGIN_PERCENT: Final = 30
# Code that constructors look for where a contract will lie that is not created yet.
_STAND_IN_CODE: Final = b"\0"


@dataclass(frozen=True, slots=True)
class CreationCost:
    """Gas of one creation.

    Attributes:
        contract: its name.
        gas: what it needs, by the endpoint's estimate.
        gas_limit: the most that it can use; what is not used is not paid.
        is_estimated: False where the endpoint could not tell, and `gas` is `gas_limit`.
    """

    contract: str
    gas: int
    gas_limit: int
    is_estimated: bool


@dataclass(frozen=True, slots=True)
class DeploymentCost:
    """Gas of everything that is still to be created, and its price now.

    Attributes:
        creations: in order.
        gas_price_wei: what a unit of gas would cost in the next block.
        max_gas_price_wei: the most that is paid for one, and what the account has to hold.
        balance_wei: what it holds.
    """

    creations: tuple[CreationCost, ...]
    gas_price_wei: int
    max_gas_price_wei: int
    balance_wei: int

    @property
    def gas(self) -> int:
        """Gas of all creations."""
        return sum(creation.gas for creation in self.creations)

    @property
    def fee_wei(self) -> int:
        """What they would cost now."""
        return self.gas * self.gas_price_wei

    @property
    def max_fee_wei(self) -> int:
        """The most that they can cost."""
        return sum(creation.gas_limit for creation in self.creations) * self.max_gas_price_wei

    def require_funds(self, account: Address) -> None:
        """Check that the account can pay, even if blocks become dearer on the way.

        Raises:
            ChainError: `funds-insufficient`.
        """
        if self.balance_wei < self.max_fee_wei:
            raise ChainError(
                f"{address_text(account)} holds {self.balance_wei} wei, and the deployment may cost "
                f"{self.max_fee_wei} wei",
                code="funds-insufficient",
                hint=f"send at least {self.max_fee_wei - self.balance_wei} wei to it; nothing was sent yet",
                details={"balance_wei": self.balance_wei, "max_fee_wei": self.max_fee_wei},
            )


async def estimate_deployment(
    rpc: Rpc,
    account: Address,
    plan: DeploymentPlan,
    addresses: Mapping[str, Address],
    fee_policy: FeePolicy | None = None,
) -> DeploymentCost:
    """Ask what the creations that are left would cost. Nothing is sent.

    Args:
        rpc: the chain.
        account: pays.
        plan: what is to be deployed.
        addresses: of the contracts that are created already, by name.
        fee_policy: what a unit of gas may cost.

    Raises:
        ContractReverted: a creation would fail.
        ChainError: `fee-cap-reached`, or the endpoint's `rpc-…` codes.
    """
    market = await rpc.market()
    fees = (fee_policy or FeePolicy()).first(market)
    if fees is None:
        raise ChainError(
            f"blocks cost {market.base_fee} wei per unit of gas, which is more than is allowed",
            code="fee-cap-reached",
            hint="allow more per unit of gas, or wait until blocks are cheaper",
        )
    known = dict(addresses)
    stand_ins: dict[Address, bytes] = {}
    creations = []
    for number, contract in enumerate(plan.contracts, start=1):
        if contract in known:
            continue
        call = plan.creation(contract, known)
        creations.append(await _cost(rpc, account, contract, call, stand_ins))
        known[contract] = Address(bytes([0xA0 + number]) * 20)
        stand_ins[known[contract]] = _STAND_IN_CODE
    return DeploymentCost(
        tuple(creations), _price(fees, market.base_fee), fees.max_fee, await rpc.balance(account)
    )


async def _cost(
    rpc: Rpc, account: Address, contract: str, call: ContractCall, stand_ins: Mapping[Address, bytes]
) -> CreationCost:
    transaction = {"from": address_text(account), "data": to_hex(call.data), "value": 0}
    try:
        gas = await rpc.estimate_gas(transaction, stand_ins)
    except ChainError as error:
        # Not every endpoint estimates, or takes code that is not there yet.
        if error.code != "rpc-error":
            raise
        return CreationCost(contract, call.gas_limit, call.gas_limit, is_estimated=False)
    limit = max(call.gas_limit, gas * (100 + _LIMIT_MARGIN_PERCENT) // 100)
    return CreationCost(contract, gas, max(gas, min(limit, MAX_TRANSACTION_GAS)), is_estimated=True)


def _price(fees: Fees, base_fee: int) -> int:
    return min(fees.max_fee, base_fee + fees.max_priority_fee)
