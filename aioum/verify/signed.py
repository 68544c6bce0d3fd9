"""Members that carry an operator's signature: reading them, and who signed."""

from __future__ import annotations

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.hextext import address_text, from_hex
from aioum.core.payment import Domain, SignedMessage
from aioum.core.signing import recover
from aioum.core.types import Address
from aioum.verify.report import Finding


def members(value: JsonValue, *names: str) -> dict[str, JsonValue]:
    """An object that has at least the members `names`; what else it has is for newer readers.

    Raises:
        InvalidInput: it is no object, or lacks one.
    """
    if not isinstance(value, dict) or not value.keys() >= set(names):
        raise InvalidInput(f"expected an object with {', '.join(names)}")
    return value


def signature_of(value: dict[str, JsonValue]) -> bytes:
    """The `signature` member as bytes. Raises InvalidInput."""
    return from_hex(value["signature"])


def count_of(value: dict[str, JsonValue], name: str) -> int:
    """A non-negative integer member. Raises InvalidInput."""
    number = value[name]
    if type(number) is not int or number < 0:
        raise InvalidInput(f"{name} is not a non-negative integer")
    return number


def signer_finding(
    prefix: str, message: SignedMessage, domain: Domain, signature: bytes, expected: Address, what: str
) -> Finding | None:
    """Why `expected` did not sign a message, or None where it did.

    Args:
        prefix: put before `-signature-malformed`, `-signature-high-s`, `-signature-invalid` or
            `-signer-mismatch`.
        message: what was to be signed.
        domain: chain and PaymentManager.
        signature: 65 bytes where it is well-formed.
        expected: the signer.
        what: how to call the message in a sentence.
    """
    try:
        signer = recover(message.digest(domain), signature)
    except SignatureInvalid as error:
        return Finding(f"{prefix}-{error.code}", f"{what}: {error}.")
    if signer == expected:
        return None
    return Finding(
        f"{prefix}-signer-mismatch",
        f"{what} was not signed by {address_text(expected)} with this content; "
        f"the signature gives {address_text(signer)}.",
    )
