// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice RFC 9162 section 2.1.4.1 as it is written there, by recursion over ranges of leaves: slow, obvious, and
/// independent of the verifier.
library ConsistencyTree {
    /// @notice The root over the leaves [from, to).
    function rootOf(
        bytes32[] memory leaves,
        uint256 from,
        uint256 to,
        function(bytes32, bytes32) pure returns (bytes32) node
    ) internal pure returns (bytes32) {
        if (to - from == 1) return leaves[from];
        uint256 middle = from + _split(to - from);
        return node(rootOf(leaves, from, middle, node), rootOf(leaves, middle, to, node));
    }

    /// @notice PROOF(first, D[second]).
    function proofOf(
        bytes32[] memory leaves,
        uint256 first,
        uint256 second,
        function(bytes32, bytes32) pure returns (bytes32) node
    ) internal pure returns (bytes32[] memory) {
        return _subproof(leaves, first, 0, second, true, node);
    }

    /// @dev SUBPROOF(count, D[from:to], whole).
    function _subproof(
        bytes32[] memory leaves,
        uint256 count,
        uint256 from,
        uint256 to,
        bool whole,
        function(bytes32, bytes32) pure returns (bytes32) node
    ) private pure returns (bytes32[] memory) {
        if (count == to - from) {
            bytes32[] memory none;
            return whole ? none : _append(none, rootOf(leaves, from, to, node));
        }
        uint256 split = _split(to - from);
        if (count <= split) {
            bytes32[] memory left = _subproof(leaves, count, from, from + split, whole, node);
            return _append(left, rootOf(leaves, from + split, to, node));
        }
        bytes32[] memory right = _subproof(leaves, count - split, from + split, to, false, node);
        return _append(right, rootOf(leaves, from, from + split, node));
    }

    /// @dev The largest power of two below `size`, which is at least 2.
    function _split(uint256 size) private pure returns (uint256 split) {
        split = 1;
        while (2 * split < size) {
            split *= 2;
        }
    }

    function _append(bytes32[] memory list, bytes32 item) private pure returns (bytes32[] memory longer) {
        longer = new bytes32[](list.length + 1);
        for (uint256 i = 0; i < list.length; ++i) {
            longer[i] = list[i];
        }
        longer[list.length] = item;
    }
}
