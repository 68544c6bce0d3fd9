"""What the ServiceRegistry says beside what `Chain` asks it (PROTOCOL 4.1).

Every read takes the state of the newest block, or of the block given, and raises ChainError as `Rpc.read`.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from aioum.chain.abi import SERVICE_REGISTRY
from aioum.chain.rpc import BlockName, Rpc
from aioum.core.hextext import address
from aioum.core.payment import Terms
from aioum.core.types import Address, Bytes32


@dataclass(frozen=True, slots=True)
class PaymentTerms:
    """The part of terms that moving a session's money depends on."""

    operator: Address
    payee: Address
    token: Address
    commit_required: bool
    dispute_window_seconds: int


async def service_count(rpc: Rpc, registry: Address, block: int | BlockName = "latest") -> int:
    """How many services were ever registered; the newest has this id."""
    return int(await rpc.read(SERVICE_REGISTRY, registry, "serviceCount", block=block))


async def operator_of(
    rpc: Rpc, registry: Address, terms_hash: Bytes32, block: int | BlockName = "latest"
) -> Address | None:
    """The operator in the terms ever registered under this hash, or None."""
    operator = address(await rpc.read(SERVICE_REGISTRY, registry, "operatorOf", terms_hash, block=block))
    return operator if any(operator) else None


async def payment_terms(
    rpc: Rpc, registry: Address, terms_hash: Bytes32, block: int | BlockName = "latest"
) -> PaymentTerms | None:
    """The part of the terms ever registered under this hash that payments depend on, or None."""
    operator, payee, token, commit_required, dispute_window = await rpc.read(
        SERVICE_REGISTRY, registry, "paymentTerms", terms_hash, block=block
    )
    found = PaymentTerms(address(operator), address(payee), address(token), commit_required, dispute_window)
    return found if any(found.operator) else None


async def computed_terms_hash(rpc: Rpc, registry: Address, service_id: int, terms: Terms) -> Bytes32:
    """The hash that the contract gives terms of a service; equal to `core.payment.terms_hash`."""
    found = await rpc.read(SERVICE_REGISTRY, registry, "computeTermsHash", service_id, astuple(terms))
    return Bytes32(bytes(found))


async def max_descriptor_uri_bytes(rpc: Rpc, registry: Address) -> int:
    """The longest address of a card that the contract takes."""
    return int(await rpc.read(SERVICE_REGISTRY, registry, "MAX_DESCRIPTOR_URI_BYTES"))
