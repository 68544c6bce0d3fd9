"""What a person is told where a contract of ours refuses."""

import pytest
from eth_abi.abi import encode

from aioum.chain.abi import CONTRACTS, artifact, canonical_type
from aioum.chain.errors import reverted
from aioum.core.hashing import keccak256

OF_LIBRARIES = {
    "AddressEmptyCode", "ERC20InvalidApprover", "ERC20InvalidReceiver", "ERC20InvalidSender",
    "ERC20InvalidSpender", "FailedCall", "InsufficientBalance", "InvalidShortString",
    "ReentrancyGuardReentrantCall", "SafeERC20FailedOperation", "StringTooLong",
}  # fmt: skip
BETWEEN_CONTRACTS = {"AwardExceedsHeld", "NotDisputeManager", "NotReceiver"}
"""Nobody outside can run into these by a call that makes sense."""

DECLARED = {
    entry["name"]: entry for name in CONTRACTS for entry in artifact(name).abi if entry["type"] == "error"
}


def _nothing(kind: str) -> object:
    """A value of an ABI type."""
    if kind == "address":
        return bytes(20)
    return "" if kind == "string" else bytes(32) if kind == "bytes32" else 0


@pytest.mark.parametrize("name", sorted(set(DECLARED) - OF_LIBRARIES - BETWEEN_CONTRACTS))
def test_every_error_of_our_contracts_is_decoded_and_says_what_to_do(name: str) -> None:
    types = [canonical_type(parameter) for parameter in DECLARED[name]["inputs"]]
    selector = keccak256(f"{name}({','.join(types)})".encode())[:4]
    error = reverted(selector + encode(types, [_nothing(kind) for kind in types]))
    assert (error.code, error.details["error"]) == ("contract-reverted", name)
    assert error.hint
