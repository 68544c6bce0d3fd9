"""What a person and a program are told where a contract of ours refuses."""

from typing import Any

import pytest
from eth_abi.abi import encode

from aioum.chain.abi import CONTRACTS, artifact, canonical_type
from aioum.chain.errors import HINTS, reason_code, reverted
from aioum.core.errors import ContractReverted
from aioum.core.hashing import keccak256

DECLARED = {
    entry["name"]: entry for name in CONTRACTS for entry in artifact(name).abi if entry["type"] == "error"
}
CODES = {
    "AlreadyDisputed": "already-disputed",
    "AnswerTooLate": "answer-time-over",
    "ChannelNotFound": "channel-unknown",
    "DescriptorURITooLong": "descriptor-uri-too-long",
    "ERC20InsufficientAllowance": "erc20-insufficient-allowance",
    "NotArbitrator": "not-arbitrator",
    "SafeERC20FailedOperation": "safe-erc20-failed-operation",
    "URILengthInvalid": "uri-length-invalid",
}


def revert_data(name: str) -> bytes:
    """What the contract reverts with, every argument zero or empty."""
    nothing: dict[str, Any] = {"address": bytes(20), "string": "", "bytes32": bytes(32)}
    types = [canonical_type(parameter) for parameter in DECLARED[name]["inputs"]]
    selector = keccak256(f"{name}({','.join(types)})".encode())[:4]
    return selector + encode(types, [nothing.get(kind, 0) for kind in types])


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_every_custom_error_has_a_reason_code_of_its_own_and_says_what_to_do(name: str) -> None:
    error = reverted(revert_data(name))
    assert error.code == error.details["reason"] == reason_code(name)
    assert error.details["error"] == name
    assert error.hint == HINTS[name]


def test_reason_codes_are_the_words_of_the_errors_and_no_two_are_the_same() -> None:
    assert {name: reason_code(name) for name in CODES} == CODES
    assert len({reason_code(name) for name in DECLARED}) == len(DECLARED) == len(HINTS)


@pytest.mark.parametrize(
    "data", [b"", b"\1\2\3\4", keccak256(b"Error(string)")[:4] + encode(["string"], ["no"])]
)
def test_a_revert_that_is_no_custom_error_of_ours_keeps_the_general_code(data: bytes) -> None:
    error = reverted(data)
    assert isinstance(error, ContractReverted)
    assert (error.code, error.details["reason"]) == ("contract-reverted", None)


def test_a_code_of_the_caller_stands_and_the_reason_is_beside_it() -> None:
    error = reverted(revert_data("NothingHeld"), code="settlement-skipped", details={"a": 1})
    assert (error.code, error.details["reason"], error.details["a"]) == (
        "settlement-skipped",
        "nothing-held",
        1,
    )
