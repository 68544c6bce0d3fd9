"""What a token signs under, and which authorizations it has seen (EIP-712, ERC-5267, EIP-3009)."""

from __future__ import annotations

from typing import Any, Final

from aioum.chain.rpc import Rpc
from aioum.core.authorization import TokenDomain
from aioum.core.errors import ChainError, ContractReverted
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address, Bytes32

_NO_ANSWER: Final = frozenset({"contract-missing", "rpc-error"})
# eip712Domain's bits of name, version, chainId and verifyingContract; a salt would be a fifth.
_FIELDS: Final = b"\x0f"


async def token_domain(rpc: Rpc, token: Address, chain_id: int) -> TokenDomain:
    """The EIP-712 domain of a token: by its eip712Domain() (ERC-5267), else by name() and version(), and held
    against its DOMAIN_SEPARATOR().

    Raises:
        ChainError: `token-domain-unknown`, the token does not say it, or says two things: it takes no
            authorizations that we could sign. Or as `Rpc.simulate`.
    """
    described = await _ask(
        rpc,
        token,
        "eip712Domain()",
        ("bytes1", "string", "string", "uint256", "address", "bytes32", "uint256[]"),
    )
    if described is not None and described[0] == _FIELDS:
        name, version = described[1], described[2]
    else:
        named, versioned = (
            await _ask(rpc, token, "name()", ("string",)),
            await _ask(rpc, token, "version()", ("string",)),
        )
        if named is None or versioned is None:
            raise _unknown(token, "it says neither eip712Domain nor name and version")
        name, version = named[0], versioned[0]
    domain = TokenDomain(name, version, chain_id, token)
    separator = await _ask(rpc, token, "DOMAIN_SEPARATOR()", ("bytes32",))
    if separator is None or separator[0] != domain.separator:
        raise _unknown(token, "its DOMAIN_SEPARATOR is that of another domain, or missing")
    return domain


async def is_authorization_used(rpc: Rpc, token: Address, payer: Address, nonce: Bytes32) -> bool:
    """Whether the token has used, or the payer canceled, this nonce.

    Raises:
        ChainError: `token-domain-unknown`, it is no token of EIP-3009; or as `Rpc.simulate`.
    """
    known = await _ask(
        rpc, token, "authorizationState(address,bytes32)", ("bool",), payer.rjust(32, b"\0") + nonce
    )
    if known is None:
        raise _unknown(token, "it has no authorizationState")
    return bool(known[0])


async def _ask(
    rpc: Rpc, token: Address, function: str, types: tuple[str, ...], args: bytes = b""
) -> tuple[Any, ...] | None:
    """The answer of a view function that the token may not have; then None."""
    from eth_abi.abi import decode
    from eth_abi.exceptions import DecodingError

    call = {"to": address_text(token), "data": to_hex(keccak256(function.encode())[:4] + args)}
    try:
        return tuple(decode(types, await rpc.simulate(call)))
    except (DecodingError, UnicodeDecodeError, ContractReverted):
        return None
    except ChainError as error:
        if error.code not in _NO_ANSWER:
            raise
        return None


def _unknown(token: Address, why: str) -> ChainError:
    return ChainError(
        f"nothing can be authorized for the token {address_text(token)}: {why}",
        code="token-domain-unknown",
        hint="the payer can open and top up by itself, with gas of its own",
    )
