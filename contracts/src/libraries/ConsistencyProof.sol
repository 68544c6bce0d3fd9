// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title ConsistencyProof
/// @notice That one tree's entries begin with all of another's: RFC 9162 section 2.1.4.2, over whatever hash the tree's
/// nodes have. Bits of the last entry's index say, from the bottom up, on which side each proof hash stands.
library ConsistencyProof {
    /// @notice Whether the tree of `second` entries under `secondRoot` begins with the `first` under `firstRoot`.
    /// @param first 1 to `second`. Neither size may come from the proof: a proof does not bind them.
    /// @param proof Bottom-up; exactly the hashes that the sizes ask for: none where they are equal.
    /// @param node The hash of an inner node, of its left and right child; `view`, as SHA-256 is a precompile.
    function verify(
        uint256 first,
        uint256 second,
        bytes32 firstRoot,
        bytes32 secondRoot,
        bytes32[] calldata proof,
        function(bytes32, bytes32) view returns (bytes32) node
    ) internal view returns (bool) {
        if (first == 0 || first > second) return false;
        if (first == second) return proof.length == 0 && firstRoot == secondRoot;

        uint256 firstLast = first - 1;
        uint256 secondLast = second - 1;
        // Up to the largest full subtree that ends the first tree; the rest of its way is shared.
        while (firstLast % 2 == 1) (firstLast, secondLast) = (firstLast / 2, secondLast / 2);

        uint256 used = 0;
        bytes32 firstNode = firstRoot;
        if (firstLast != 0) {
            if (proof.length == 0) return false;
            // The first tree is no full one, so its root is not a node of the second: the proof names that subtree.
            firstNode = proof[used++];
        }
        bytes32 secondNode = firstNode;
        for (; used < proof.length; ++used) {
            if (secondLast == 0) return false;
            bytes32 sibling = proof[used];
            if (firstLast % 2 == 1 || firstLast == secondLast) {
                firstNode = node(sibling, firstNode);
                secondNode = node(sibling, secondNode);
                // Levels at which the first tree's last node has no sibling, and moves up unchanged.
                while (firstLast % 2 == 0 && firstLast != 0) {
                    (firstLast, secondLast) = (firstLast / 2, secondLast / 2);
                }
            } else {
                secondNode = node(secondNode, sibling);
            }
            (firstLast, secondLast) = (firstLast / 2, secondLast / 2);
        }
        return secondLast == 0 && firstNode == firstRoot && secondNode == secondRoot;
    }
}
