"""What the PaymentManager says beside what `Chain` asks it (PROTOCOL 4.2).

Every read takes the state of the newest block, or of the block given, and raises ChainError as `Rpc.read`.
"""

from __future__ import annotations

from dataclasses import dataclass

from aioum.chain.abi import PAYMENT_MANAGER, struct_values
from aioum.chain.rpc import BlockName, Rpc
from aioum.core.hextext import address
from aioum.core.types import ZERO_ADDRESS, Address, Bytes32, ChannelId


@dataclass(frozen=True, slots=True)
class Hold:
    """What a decision about held money needs to know.

    Attributes:
        terms_hash: zero for plain channels.
        root, call_count: what is anchored; both zero where nothing is.
        held: base units that are held now.
        finalized_at, held_until: unix seconds, both 0 while the channel is open.
    """

    payer: Address
    payee: Address
    token: Address
    terms_hash: Bytes32
    root: Bytes32
    call_count: int
    held: int
    finalized_at: int
    held_until: int


@dataclass(frozen=True, slots=True)
class SigningDomain:
    """The EIP-712 domain that a contract says it signs under (ERC-5267).

    Attributes:
        fields: one byte, whose bits say which of the others count.
    """

    fields: bytes
    name: str
    version: str
    chain_id: int
    verifying_contract: Address
    salt: Bytes32
    extensions: tuple[int, ...]


async def session_count(rpc: Rpc, payment_manager: Address, block: int | BlockName = "latest") -> int:
    """How many channels were ever opened; the newest has this number."""
    return int(await rpc.read(PAYMENT_MANAGER, payment_manager, "sessionCount", block=block))


async def session_results_root(
    rpc: Rpc, payment_manager: Address, session_id: int, block: int | BlockName = "latest"
) -> Bytes32:
    """The root of a session's anchored history; zero where nothing is anchored."""
    root = await rpc.read(PAYMENT_MANAGER, payment_manager, "sessionResultsRoot", session_id, block=block)
    return Bytes32(bytes(root))


async def session_call_count(
    rpc: Rpc, payment_manager: Address, session_id: int, block: int | BlockName = "latest"
) -> int:
    """The number of calls in a session's anchored history; 0 where nothing is anchored."""
    return int(await rpc.read(PAYMENT_MANAGER, payment_manager, "sessionCallCount", session_id, block=block))


async def hold_of(
    rpc: Rpc, payment_manager: Address, channel_id: ChannelId, block: int | BlockName = "latest"
) -> Hold | None:
    """What is held for a channel, or None where it was never opened here."""
    values = await rpc.read(PAYMENT_MANAGER, payment_manager, "holdOf", channel_id, block=block)
    hold = Hold(*struct_values(PAYMENT_MANAGER, "holdOf", 0, values))
    return hold if any(hold.payer) else None


async def computed_channel_id(
    rpc: Rpc,
    payment_manager: Address,
    *,
    payer: Address,
    payee: Address,
    token: Address,
    salt: Bytes32,
    authorized_signer: Address = ZERO_ADDRESS,
) -> ChannelId:
    """The id that the contract gives a channel; equal to `core.payment.compute_channel_id`."""
    args = (bytes(payer), bytes(payee), bytes(token), salt, bytes(authorized_signer))
    return ChannelId(bytes(await rpc.read(PAYMENT_MANAGER, payment_manager, "computeChannelId", *args)))


async def dispute_manager_of(rpc: Rpc, payment_manager: Address) -> Address:
    """The DisputeManager, which alone decides on held money."""
    return address(await rpc.read(PAYMENT_MANAGER, payment_manager, "disputeManager"))


async def service_registry_of(rpc: Rpc, payment_manager: Address) -> Address:
    """The ServiceRegistry whose terms sessions are opened under."""
    return address(await rpc.read(PAYMENT_MANAGER, payment_manager, "registry"))


async def signing_domain(rpc: Rpc, payment_manager: Address) -> SigningDomain:
    """The domain of vouchers and receipts, in the contract's own words."""
    fields, name, version, chain_id, contract, salt, extensions = await rpc.read(
        PAYMENT_MANAGER, payment_manager, "eip712Domain"
    )
    return SigningDomain(
        bytes(fields), name, version, chain_id, address(contract), Bytes32(bytes(salt)), tuple(extensions)
    )
