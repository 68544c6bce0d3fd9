// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title TranscriptProof
/// @notice Leaves and inclusion proofs of a session's transcript (PROTOCOL 2): the tree shape of RFC 6962 over
/// keccak256, leaf preimages of 128 bytes, node preimages of 64 bytes.
library TranscriptProof {
    /// @notice The leaf of one call.
    function leafHash(uint256 index, bytes32 requestHash, bytes32 responseHash, bytes32 toolIdHash)
        internal
        pure
        returns (bytes32 leaf)
    {
        return keccak256(abi.encode(index, requestHash, responseHash, toolIdHash));
    }

    /// @notice An inner node.
    function nodeHash(bytes32 left, bytes32 right) internal pure returns (bytes32 node) {
        assembly ("memory-safe") {
            mstore(0x00, left)
            mstore(0x20, right)
            node := keccak256(0x00, 0x40)
        }
    }

    /// @notice Whether `leaf` is call `index` of the `callCount` calls under `root`.
    /// @param callCount The committed count. It must never come from the proof: a proof does not bind the tree's size.
    /// @param siblings Bottom-up; exactly those that the shape asks for.
    function verify(bytes32 leaf, uint256 index, uint256 callCount, bytes32[] calldata siblings, bytes32 root)
        internal
        pure
        returns (bool)
    {
        if (index >= callCount) return false;
        bytes32 node = leaf;
        uint256 used = 0;
        while (callCount > 1) {
            // A level's odd last node has no sibling and moves up unchanged.
            if (index != callCount - 1 || callCount % 2 == 0) {
                if (used == siblings.length) return false;
                bytes32 sibling = siblings[used++];
                node = index % 2 == 1 ? nodeHash(sibling, node) : nodeHash(node, sibling);
            }
            index /= 2;
            callCount = callCount / 2 + callCount % 2;
        }
        return used == siblings.length && node == root;
    }
}
