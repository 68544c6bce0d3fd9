// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ConsistencyProof} from "../../src/libraries/ConsistencyProof.sol";
import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";
import {ConsistencyTree} from "../base/ConsistencyTree.sol";
import {TestBase} from "../base/TestBase.sol";
import {TranscriptTree} from "../base/TranscriptTree.sol";

/// @notice For all leaves, all proofs, and every shape of up to eight calls: what is verified is so. Keccak256 is taken
/// for a function without collisions; everything else is the code itself.
/// @dev Leaves may be any words, also ones that are hashes of nodes: the sizes come from the chain, and that is enough.
contract ProofChecks is TestBase {
    uint256 private constant _MOST_CALLS = 8;

    /// @custom:halmos --array-lengths siblings={0,1,2,3,4,5}
    function check_a_verified_leaf_is_the_histories_leaf(
        bytes32[8] calldata words,
        uint256 count,
        uint256 index,
        bytes32 leaf,
        bytes32[] calldata siblings
    ) public pure {
        bytes32[] memory leaves = _leaves(words);
        for (uint256 n = 1; n <= _MOST_CALLS; ++n) {
            if (n != count) continue;
            if (!TranscriptProof.verify(leaf, index, n, siblings, TranscriptTree.rootOf(leaves, n))) return;
            for (uint256 i = 0; i < n; ++i) {
                if (i != index) continue;
                assert(leaf == leaves[i]);
                return;
            }
            assert(false);
        }
    }

    /// @custom:halmos --array-lengths proof={0,1,2,3,4,5}
    function check_a_verified_beginning_is_the_histories_beginning(
        bytes32[8] calldata words,
        uint256 count,
        uint256 first,
        bytes32 firstRoot,
        bytes32[] calldata proof
    ) public view {
        bytes32[] memory leaves = _leaves(words);
        for (uint256 n = 1; n <= _MOST_CALLS; ++n) {
            if (n != count) continue;
            bytes32 root = TranscriptTree.rootOf(leaves, n);
            for (uint256 k = 1; k <= n; ++k) {
                if (k != first) continue;
                if (!ConsistencyProof.verify(k, n, firstRoot, root, proof, TranscriptProof.nodeHash)) return;
                assert(firstRoot == TranscriptTree.rootOf(leaves, k));
                return;
            }
            assert(!ConsistencyProof.verify(first, n, firstRoot, root, proof, TranscriptProof.nodeHash));
        }
    }

    /// @notice Who has the history can always answer.
    function check_every_call_and_every_beginning_of_a_history_is_provable(bytes32[8] calldata words) public view {
        bytes32[] memory leaves = _leaves(words);
        for (uint256 n = 1; n <= _MOST_CALLS; ++n) {
            bytes32 root = TranscriptTree.rootOf(leaves, n);
            for (uint256 i = 0; i < n; ++i) {
                bytes32[] memory siblings = TranscriptTree.siblingsOf(leaves, n, i);
                assert(this.included(leaves[i], i, n, siblings, root));
                bytes32[] memory proof = ConsistencyTree.proofOf(leaves, i + 1, n, TranscriptProof.nodeHash);
                assert(this.begins(i + 1, n, TranscriptTree.rootOf(leaves, i + 1), root, proof));
            }
        }
    }

    /// @notice Must be refuted: a count that comes from the proof binds nothing.
    /// @custom:halmos --array-lengths siblings=2
    function refute_a_root_binds_its_count(bytes32[8] calldata words, bytes32 leaf, bytes32[] calldata siblings)
        public
        pure
    {
        bytes32 root = TranscriptTree.rootOf(_leaves(words), 3);
        assert(!TranscriptProof.verify(leaf, 0, 4, siblings, root));
    }

    function included(bytes32 leaf, uint256 index, uint256 count, bytes32[] calldata siblings, bytes32 root)
        external
        pure
        returns (bool)
    {
        return TranscriptProof.verify(leaf, index, count, siblings, root);
    }

    function begins(uint256 first, uint256 second, bytes32 firstRoot, bytes32 secondRoot, bytes32[] calldata proof)
        external
        view
        returns (bool)
    {
        return ConsistencyProof.verify(first, second, firstRoot, secondRoot, proof, TranscriptProof.nodeHash);
    }

    function _leaves(bytes32[8] calldata words) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](words.length);
        for (uint256 i = 0; i < words.length; ++i) {
            leaves[i] = words[i];
        }
    }
}
