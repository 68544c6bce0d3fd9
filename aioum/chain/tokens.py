"""Moving tokens (ERC-20, EIP-3009), and what a token says beside what `Chain` asks it."""

from __future__ import annotations

from aioum.chain.abi import DEV_TOKEN, encode_call
from aioum.chain.calls import ContractCall
from aioum.chain.rpc import BlockName, Rpc
from aioum.core.amounts import check_amount
from aioum.core.authorization import ReceiveWithAuthorization
from aioum.core.types import Address

_GAS = 150_000
_ECDSA_BYTES = 65


def transfer(token: Address, to: Address, amount: int) -> ContractCall:
    """Send base units of the caller's tokens."""
    return ContractCall(
        token, encode_call(DEV_TOKEN, "transfer", (to, check_amount(amount))), _GAS, "transfer"
    )


def transfer_from(token: Address, owner: Address, to: Address, amount: int) -> ContractCall:
    """Send base units of an owner's tokens, who approved the caller for them."""
    data = encode_call(DEV_TOKEN, "transferFrom", (owner, to, check_amount(amount)))
    return ContractCall(token, data, _GAS, "transferFrom")


def receive_with_authorization(
    token: Address, authorization: ReceiveWithAuthorization, signature: bytes
) -> ContractCall:
    """Take what a payer signed for. By the receiver that it names.

    Args:
        token: whose domain the payer signed under.
        authorization: what it signed.
        signature: 65 bytes r, s, v; of another length: what the payer's ERC-1271 contract takes.
    """
    value = check_amount(authorization.value)
    args = (
        authorization.payer, authorization.receiver, value, authorization.valid_after,
        authorization.valid_before, authorization.nonce,
    )  # fmt: skip
    name = "receiveWithAuthorization"
    if len(signature) != _ECDSA_BYTES:
        return ContractCall(token, encode_call(DEV_TOKEN, name, (*args, signature)), 300_000, name)
    split = (signature[64], signature[:32], signature[32:64])
    return ContractCall(token, encode_call(DEV_TOKEN, name, (*args, *split)), 300_000, name)


async def token_name(rpc: Rpc, token: Address) -> str:
    """A token's name, as it calls itself: never a proof of which token it is. Raises ChainError as
    `Rpc.read`.
    """
    return str(await rpc.read(DEV_TOKEN, token, "name"))


async def total_supply(rpc: Rpc, token: Address, block: int | BlockName = "latest") -> int:
    """Base units of a token that there are. Raises ChainError as `Rpc.read`."""
    return int(await rpc.read(DEV_TOKEN, token, "totalSupply", block=block))
