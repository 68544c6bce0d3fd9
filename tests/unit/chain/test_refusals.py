"""What clients say when they refuse a transaction, and what is no refusal at all."""

import pytest

from aioum.chain import refusals
from aioum.core.errors import ChainError


def error(code: int, message: str) -> ChainError:
    return ChainError(message, code="rpc-error", details={"rpc_code": code, "rpc_message": message})


@pytest.mark.parametrize(
    "code, message",
    [
        (-32000, "already known"),
        (-32003, "transaction already imported"),
        (-32010, "AlreadyKnown"),
        (-32000, "ALREADY_EXISTS: already known"),
        (-32000, "Known transaction"),
        (-32603, "Internal error"),
        (-32000, "upstream request timeout"),
        (-32000, "the request timed out"),
        (-32005, "limit exceeded"),
    ],
)
def test_a_transaction_that_the_endpoint_has_or_may_have_is_not_refused(code: int, message: str) -> None:
    assert not refusals.is_certain(error(code, message))


@pytest.mark.parametrize(
    "code, message",
    [
        (-32000, "insufficient funds for gas * price + value"),
        (-32003, "Insufficient funds for gas * price + value"),
        (-32000, "nonce too low: next nonce 5, tx nonce 4"),
        (-32010, "OldNonce, Current nonce: 5, nonce of rejected tx: 4"),
        (-32000, "exceeds block gas limit"),
        (-32602, "invalid argument 0"),
    ],
)
def test_a_judgment_on_the_transaction_is_a_refusal(code: int, message: str) -> None:
    assert refusals.is_certain(error(code, message))


def test_a_spent_nonce_is_told_from_other_refusals() -> None:
    assert refusals.is_nonce_used(error(-32000, "nonce too low: next nonce 5, tx nonce 4"))
    assert refusals.is_nonce_used(error(-32010, "OldNonce"))
    assert not refusals.is_nonce_used(error(-32000, "nonce too high"))
    assert not refusals.is_nonce_used(error(-32000, "insufficient funds"))


@pytest.mark.parametrize(
    "message",
    ["replacement transaction underpriced", "Replacement transaction underpriced", "ReplacementNotAllowed"],
)
def test_a_nonce_that_another_transaction_waits_under_is_told_from_other_refusals(message: str) -> None:
    assert refusals.is_replacement(error(-32000, message))
    assert not refusals.is_replacement(error(-32000, "transaction underpriced"))
