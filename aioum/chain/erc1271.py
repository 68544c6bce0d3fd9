"""Contract signatures (ERC-1271), asked for exactly as the PaymentManager asks (PROTOCOL 3).

The question runs as the constructor of a contract that is never created: the staticcall gets the same 150,000
gas, and the answer the same test (success, exactly 32 bytes, the magic value), as on-chain. A wallet that
reverts, runs out of gas or has no code is thus a plain "no"; whatever the endpoint itself does wrong stays
an error.
"""

from __future__ import annotations

from typing import Final

from aioum.core.hashing import keccak256
from aioum.core.types import Address

WALLET_GAS: Final = 150_000
# Enough for the EIP-150 share of the inner call, the calldata and keeping the 32 output bytes.
QUESTION_GAS: Final = 1_000_000
MAX_SIGNATURE_SIZE_BYTES: Final = 8_192
_MAGIC: Final = keccak256(b"isValidSignature(bytes32,bytes)")[:4]


def question(signer: Address, digest: bytes, signature: bytes) -> bytes:
    """Creation code that returns the word 1 where the contract `signer` accepts the signature, else 0.

    Args:
        signer: the contract.
        digest: 32 bytes.
        signature: at most MAX_SIGNATURE_SIZE_BYTES.
    """
    calldata = (
        _MAGIC
        + digest
        + (64).to_bytes(32, "big")
        + len(signature).to_bytes(32, "big")
        + signature
        + bytes(-len(signature) % 32)
    )
    size = len(calldata).to_bytes(2, "big")
    code = b"".join(
        (
            # codecopy(0, start, size): the calldata, which follows the code
            b"\x61" + size + b"\x61" + b"START" + b"\x5f\x39",
            # success = staticcall(WALLET_GAS, signer, 0, size, 0, 32)
            b"\x60\x20\x5f\x61"
            + size
            + b"\x5f\x73"
            + signer
            + b"\x62"
            + WALLET_GAS.to_bytes(3, "big")
            + b"\xfa",
            # and returndatasize() == 32, and the word is the magic value
            b"\x60\x20\x3d\x14\x16",
            b"\x7f" + _MAGIC.ljust(32, b"\0") + b"\x5f\x51\x14\x16",
            # return the word
            b"\x5f\x52\x60\x20\x5f\xf3",
        )
    )
    start = len(code) - len(b"START") + 2
    return code.replace(b"START", start.to_bytes(2, "big"), 1) + calldata


def is_yes(answer: bytes) -> bool:
    """Whether the output of `question` says yes."""
    return answer == (1).to_bytes(32, "big")
