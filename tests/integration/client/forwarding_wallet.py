"""A contract wallet (ERC-1271) that forwards what its owner has it call, as smart accounts do."""

import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import solcx
from eth_abi.abi import encode

from aioum.chain import calls
from aioum.chain.calls import ContractCall
from aioum.core.payment import Domain, SignedMessage
from aioum.core.signing import COUNTERFACTUAL_SUFFIX, LocalKey
from aioum.core.types import Address
from aioum.devnet.running import RunningDevnet
from tests.integration.conftest import FundedAccount

REPOSITORY = Path(__file__).resolve().parents[3]

SOURCE = """
// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

contract ForwardingWallet {
    error NotOwner(address caller);

    address private immutable _owner;

    constructor(address owner) {
        _owner = owner;
    }

    function execute(address to, uint256 value, bytes calldata data) external {
        if (msg.sender != _owner) revert NotOwner(msg.sender);
        (bool done, bytes memory answer) = to.call{value: value}(data);
        if (!done) {
            assembly ("memory-safe") {
                revert(add(answer, 0x20), mload(answer))
            }
        }
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (signature.length != 65) return 0xffffffff;
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        bool owners = ecrecover(digest, uint8(signature[64]), r, s) == _owner;
        return owners ? bytes4(0x1626ba7e) : bytes4(0xffffffff);
    }
}
"""


@cache
def _creation_code() -> bytes:
    output = solcx.compile_standard(
        {
            "language": "Solidity",
            "sources": {"wallet.sol": {"content": SOURCE}},
            "settings": {
                "evmVersion": "cancun",
                "outputSelection": {"wallet.sol": {"ForwardingWallet": ["evm.bytecode.object"]}},
            },
        },
        solc_binary=REPOSITORY / "scripts" / "solc",
    )
    compiled = output["contracts"]["wallet.sol"]["ForwardingWallet"]
    return bytes.fromhex(compiled["evm"]["bytecode"]["object"])


async def deploy_forwarding_wallet(owner: FundedAccount, devnet: RunningDevnet, balance: int) -> Address:
    """A wallet of this owner that holds `balance` base units of the devnet's token, and approved nobody."""
    creation = _creation_code() + encode(["address"], [owner.key.address])
    mined = await owner.sender.send(ContractCall(None, creation, 1_000_000, "create"), "wallet")
    assert mined.contract_address is not None
    await owner.sender.send(calls.mint(devnet.token, mined.contract_address, balance), "fund")
    return mined.contract_address


class WalletSigner:
    """The wallet's own signatures: its owner's, which nobody but the wallet takes for the wallet's."""

    def __init__(self, address: Address, owner: LocalKey) -> None:
        self._address = address
        self._owner = owner

    @property
    def address(self) -> Address:
        return self._address

    async def sign(self, message: SignedMessage, domain: Domain) -> bytes:
        return self._owner.sign_digest(message.digest(domain))

    async def sign_transaction(self, fields: Mapping[str, Any]) -> bytes:
        raise AssertionError("a contract sends no transactions")


class CounterfactualSigner(WalletSigner):
    """Signatures of a wallet that nobody deployed yet, wrapped as ERC-6492 has it."""

    def __init__(self, owner: LocalKey) -> None:
        super().__init__(Address(secrets.token_bytes(20)), owner)

    async def sign(self, message: SignedMessage, domain: Domain) -> bytes:
        signature = await super().sign(message, domain)
        factory, creation = Address(secrets.token_bytes(20)), b"creation"
        return encode(["address", "bytes", "bytes"], [factory, creation, signature]) + COUNTERFACTUAL_SUFFIX
