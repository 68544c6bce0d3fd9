// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";

/// @notice The tree of PROTOCOL 2 built whole, level by level: slow, obvious, and independent of the verifier.
library TranscriptTree {
    /// @notice The root over the first `count` leaves.
    function rootOf(bytes32[] memory leaves, uint256 count) internal pure returns (bytes32) {
        bytes32[] memory level = _copy(leaves, count);
        while (level.length > 1) {
            level = _parents(level);
        }
        return level[0];
    }

    /// @notice The siblings of leaf `index`, bottom-up.
    function siblingsOf(bytes32[] memory leaves, uint256 count, uint256 index)
        internal
        pure
        returns (bytes32[] memory siblings)
    {
        bytes32[] memory level = _copy(leaves, count);
        while (level.length > 1) {
            uint256 sibling = index ^ 1;
            if (sibling < level.length) siblings = _append(siblings, level[sibling]);
            level = _parents(level);
            index /= 2;
        }
    }

    function _parents(bytes32[] memory level) private pure returns (bytes32[] memory parents) {
        parents = new bytes32[]((level.length + 1) / 2);
        for (uint256 i = 0; i < parents.length; ++i) {
            bool alone = 2 * i + 1 == level.length;
            parents[i] = alone ? level[2 * i] : TranscriptProof.nodeHash(level[2 * i], level[2 * i + 1]);
        }
    }

    function _copy(bytes32[] memory from, uint256 count) private pure returns (bytes32[] memory to) {
        to = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            to[i] = from[i];
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
