// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

import {GasFloor} from "./GasFloor.sol";

/// @title VoucherSignature
/// @notice Whether a client signed a digest: by its key, or by the contract that it is (PROTOCOL 3).
/// @dev ECDSA comes first, whatever code the signer has: an account that sets an EIP-7702 delegation after it signed
/// must not take its outstanding vouchers back by that.
library VoucherSignature {
    /// @notice Gas that a contract account gets to judge a signature.
    uint256 internal constant ERC1271_GAS = 150_000;
    /// @notice Longest signature that is looked at, in bytes, so that a batch item's cost stays bounded.
    uint256 internal constant MAX_SIGNATURE_BYTES = 4096;

    /// @notice Whether `signature` is `signer`'s over `digest`.
    /// @dev Reverts with `InsufficientGas` where a contract account could not be given its gas in full: too little gas
    /// is never an answer.
    function isValid(address signer, bytes32 digest, bytes calldata signature) internal view returns (bool) {
        // slither-disable-next-line unused-return
        (address recovered, ECDSA.RecoverError failure,) = ECDSA.tryRecoverCalldata(digest, signature);
        if (failure == ECDSA.RecoverError.NoError && recovered == signer) return true;
        if (signer.code.length == 0 || signature.length > MAX_SIGNATURE_BYTES) return false;
        return _isValidForContract(signer, digest, signature);
    }

    function _isValidForContract(address signer, bytes32 digest, bytes calldata signature) private view returns (bool) {
        bytes memory question = abi.encodeCall(IERC1271.isValidSignature, (digest, signature));
        bytes32 answer;
        bool exact;
        GasFloor.requireForCall(ERC1271_GAS);
        // At most one word of the answer is copied, so a long one costs its sender and nobody else.
        assembly ("memory-safe") {
            mstore(0x00, 0)
            let success := staticcall(ERC1271_GAS, signer, add(question, 0x20), mload(question), 0x00, 0x20)
            answer := mload(0x00)
            exact := and(success, eq(returndatasize(), 0x20))
        }
        return exact && answer == bytes32(IERC1271.isValidSignature.selector);
    }
}
