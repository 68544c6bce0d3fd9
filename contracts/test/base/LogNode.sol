// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice Hashes of a transparency log's tree, as RFC 9162 section 2.1.1 says them.
library LogNode {
    /// @notice The leaf of an entry.
    function leaf(bytes memory entry) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(uint8(0), entry));
    }

    /// @notice An inner node.
    function node(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(uint8(1), left, right));
    }
}
