"""Money is a non-negative int of token base units, at most 2^128 - 1 (PROTOCOL 0)."""

from __future__ import annotations

import re

from aioum.core.errors import InvalidInput

MAX_AMOUNT = 2**128 - 1
_AMOUNT = re.compile(r"0|[1-9][0-9]{0,38}", re.ASCII)


def parse_amount(text: object) -> int:
    """Parse wire text `0|[1-9][0-9]{0,38}` into base units.

    Raises:
        InvalidInput: `amount-invalid`.
    """
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise InvalidInput(f"not an amount in base units: {text!r:.80}", code="amount-invalid")
    return check_amount(int(text))


def check_amount(value: int) -> int:
    """Return `value` if it is an amount. Raises InvalidInput `amount-invalid`."""
    if type(value) is not int or not 0 <= value <= MAX_AMOUNT:
        raise InvalidInput(f"amount out of range 0…2^128-1: {value!r:.80}", code="amount-invalid")
    return value


def parse_token_amount(text: str, decimals: int) -> int:
    """Parse what a person types (`1.50`) into base units of a token with `decimals` places.

    Raises:
        InvalidInput: `amount-invalid`, also where it has more places than the token.
    """
    if not re.fullmatch(r"[0-9]{1,39}(\.[0-9]{1,77})?", text, re.ASCII):
        raise InvalidInput(f"not an amount: {text!r:.80}", code="amount-invalid", hint="write it like 1.50")
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > decimals:
        raise InvalidInput(f"{text} has more than {decimals} decimal places", code="amount-invalid")
    return check_amount(int(whole + fraction.ljust(decimals, "0")))


def format_token_amount(value: int, decimals: int) -> str:
    """Return base units as a decimal text a person reads, without trailing zeros."""
    digits = str(value).rjust(decimals + 1, "0")
    if decimals == 0:
        return digits
    fraction = digits[-decimals:].rstrip("0")
    return digits[:-decimals] + ("." + fraction if fraction else "")
