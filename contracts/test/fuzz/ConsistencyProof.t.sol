// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";
import {ConsistencyTree} from "../base/ConsistencyTree.sol";
import {TestBase} from "../base/TestBase.sol";
import {ConsistencyProofHarness} from "../mocks/ConsistencyProofHarness.sol";

/// @notice The verifier against a tree that is built whole, by recursion.
contract ConsistencyProofFuzzTest is TestBase {
    /// @dev What a proof says, with what it is to be held against.
    struct Case {
        uint256 first;
        uint256 second;
        bytes32 firstRoot;
        bytes32 secondRoot;
        bytes32[] proof;
    }

    uint256 private constant _MAX_FUZZED_SIZE = 300;

    ConsistencyProofHarness private _harness = new ConsistencyProofHarness();

    function test_every_tree_of_up_to_64_entries_begins_with_every_smaller_one() public view {
        bytes32[] memory leaves = _leaves(0, 64);
        for (uint256 second = 1; second <= 64; ++second) {
            for (uint256 first = 1; first <= second; ++first) {
                _assertAccepted(_case(leaves, first, second), "a true proof is accepted");
            }
        }
    }

    function testFuzz_every_tree_begins_with_every_smaller_one(uint256 seed, uint256 first, uint256 second)
        public
        view
    {
        (Case memory proven,) = _fuzzedCase(seed, first, second);
        _assertAccepted(proven, "a true proof is accepted");
    }

    function testFuzz_no_hash_of_a_proof_and_neither_root_may_be_another(
        uint256 seed,
        uint256 first,
        uint256 second,
        uint8 bit
    ) public view {
        (Case memory proven,) = _fuzzedCase(seed, first, second);
        bytes32 flip = bytes32(uint256(1) << bit);
        for (uint256 i = 0; i < proven.proof.length; ++i) {
            proven.proof[i] ^= flip;
            _assertRefused(proven, "a hash was changed");
            proven.proof[i] ^= flip;
        }
        proven.firstRoot ^= flip;
        _assertRefused(proven, "the first root was changed");
        proven.secondRoot ^= flip;
        // Of equal trees nothing is known but that they are equal.
        if (proven.first != proven.second) _assertRefused(proven, "both roots were changed");
        proven.firstRoot ^= flip;
        _assertRefused(proven, "the second root was changed");
    }

    function testFuzz_no_hash_of_a_proof_may_be_left_out(uint256 seed, uint256 first, uint256 second) public view {
        (Case memory proven,) = _fuzzedCase(seed, first, second);
        bytes32[] memory whole = proven.proof;
        for (uint256 left = 0; left < whole.length; ++left) {
            proven.proof = new bytes32[](whole.length - 1);
            for (uint256 i = 0; i < proven.proof.length; ++i) {
                proven.proof[i] = whole[i < left ? i : i + 1];
            }
            _assertRefused(proven, "a hash was left out");
        }
        proven.proof = new bytes32[](0);
        if (whole.length != 0) _assertRefused(proven, "all hashes were left out");
    }

    function testFuzz_no_hash_may_be_added_to_a_proof(uint256 seed, uint256 first, uint256 second) public view {
        (Case memory proven,) = _fuzzedCase(seed, first, second);
        bytes32[4] memory added = [bytes32(0), keccak256(abi.encode(seed)), proven.firstRoot, proven.secondRoot];
        bytes32[] memory whole = proven.proof;
        for (uint256 place = 0; place <= whole.length; ++place) {
            proven.proof = new bytes32[](whole.length + 1);
            for (uint256 i = 0; i < whole.length; ++i) {
                proven.proof[i < place ? i : i + 1] = whole[i];
            }
            for (uint256 i = 0; i < added.length; ++i) {
                proven.proof[place] = added[i];
                _assertRefused(proven, "a hash was added");
            }
        }
    }

    function testFuzz_neither_hashes_nor_roots_change_places(uint256 seed, uint256 first, uint256 second) public view {
        (Case memory proven,) = _fuzzedCase(seed, first, second);
        bytes32[] memory proof = proven.proof;
        for (uint256 i = 0; i < proof.length; ++i) {
            for (uint256 j = 0; j < i; ++j) {
                (proof[i], proof[j]) = (proof[j], proof[i]);
                _assertRefused(proven, "two hashes changed places");
                (proof[i], proof[j]) = (proof[j], proof[i]);
            }
        }
        if (proven.first == proven.second) return;
        (proven.firstRoot, proven.secondRoot) = (proven.secondRoot, proven.firstRoot);
        _assertRefused(proven, "the roots changed places");
        (proven.first, proven.second) = (proven.second, proven.first);
        _assertRefused(proven, "the trees changed places");
    }

    /// @notice A history that was rewritten anywhere has no proof: neither the rewritten tree's, nor the true one's.
    function testFuzz_a_rewritten_history_is_not_consistent(uint256 seed, uint256 first, uint256 second, uint256 where)
        public
        view
    {
        (Case memory proven, bytes32[] memory leaves) = _fuzzedCase(seed, first, second);
        leaves[where % proven.first] = keccak256("another call");
        Case memory rewritten = _case(leaves, proven.first, proven.second);
        _assertAccepted(rewritten, "the rewritten tree begins with its own");
        rewritten.firstRoot = proven.firstRoot;
        _assertRefused(rewritten, "the rewritten tree's proof");
        rewritten.proof = proven.proof;
        _assertRefused(rewritten, "the true tree's proof");
    }

    /// @notice A proof does not bind sizes: it holds for others too where they ask for the very same steps. With any
    /// others it is refused.
    function test_a_proof_under_other_sizes_is_refused_unless_they_ask_for_the_same_steps() public view {
        uint256 same = 0;
        bytes32[] memory leaves = _leaves(0, 12);
        for (uint256 second = 1; second <= leaves.length; ++second) {
            for (uint256 first = 1; first <= second; ++first) {
                Case memory proven = _case(leaves, first, second);
                for (proven.second = 0; proven.second <= leaves.length; ++proven.second) {
                    for (proven.first = 0; proven.first <= leaves.length; ++proven.first) {
                        bool accepted = _askTheSame(first, second, proven.first, proven.second);
                        vm.assertEq(_verify(proven), accepted);
                        if (accepted) ++same;
                    }
                }
            }
        }
        // At least that each pair of sizes is the same as itself, and that there are others.
        vm.assertTrue(same > 78);
    }

    function testFuzz_a_proof_under_other_sizes_is_refused_unless_they_ask_for_the_same_steps(
        uint256 seed,
        uint256 first,
        uint256 second,
        uint256 otherFirst,
        uint256 otherSecond
    ) public view {
        (Case memory proven,) = _fuzzedCase(seed, first, second);
        (first, second) = (proven.first, proven.second);
        proven.second = otherSecond % 2 == 0 ? second : _bound(otherSecond, 0, 2 * _MAX_FUZZED_SIZE);
        proven.first = otherFirst % 2 == 0 ? first : _bound(otherFirst, 0, 2 * _MAX_FUZZED_SIZE);
        vm.assertEq(_verify(proven), _askTheSame(first, second, proven.first, proven.second));
    }

    function test_nothing_begins_with_no_tree_and_no_tree_with_a_larger_one() public view {
        bytes32[] memory leaves = _leaves(0, 2);
        Case memory proven = _case(leaves, 2, 2);
        _assertAccepted(proven, "a tree begins with itself");
        proven.first = 0;
        _assertRefused(proven, "no tree");
        (proven.first, proven.second) = (0, 0);
        _assertRefused(proven, "no trees");
        (proven.first, proven.second) = (2, 1);
        _assertRefused(proven, "a larger tree");
    }

    function test_the_largest_sizes_do_not_overflow() public view {
        Case memory proven = Case(type(uint256).max - 1, type(uint256).max, 0, 0, new bytes32[](256));
        _assertRefused(proven, "the largest sizes");
        (proven.first, proven.proof) = (1, new bytes32[](1024));
        _assertRefused(proven, "far too many hashes");
    }

    function _assertAccepted(Case memory proven, string memory why) private view {
        vm.assertTrue(_verify(proven), why);
    }

    function _assertRefused(Case memory proven, string memory why) private view {
        vm.assertFalse(_verify(proven), why);
    }

    function _verify(Case memory proven) private view returns (bool) {
        return _harness.verify(proven.first, proven.second, proven.firstRoot, proven.secondRoot, proven.proof);
    }

    function _fuzzedCase(uint256 seed, uint256 first, uint256 second)
        private
        pure
        returns (Case memory proven, bytes32[] memory leaves)
    {
        second = _bound(second, 1, _MAX_FUZZED_SIZE);
        leaves = _leaves(seed, second);
        proven = _case(leaves, _bound(first, 1, second), second);
    }

    function _case(bytes32[] memory leaves, uint256 first, uint256 second) private pure returns (Case memory proven) {
        proven.first = first;
        proven.second = second;
        proven.firstRoot = ConsistencyTree.rootOf(leaves, 0, first, TranscriptProof.nodeHash);
        proven.secondRoot = ConsistencyTree.rootOf(leaves, 0, second, TranscriptProof.nodeHash);
        proven.proof = ConsistencyTree.proofOf(leaves, first, second, TranscriptProof.nodeHash);
    }

    function _leaves(uint256 seed, uint256 count) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            leaves[i] = keccak256(abi.encode(seed, i));
        }
    }

    function _askTheSame(uint256 first, uint256 second, uint256 otherFirst, uint256 otherSecond)
        private
        pure
        returns (bool)
    {
        if (otherFirst == 0 || otherFirst > otherSecond) return false;
        return keccak256(_steps(first, second, true)) == keccak256(_steps(otherFirst, otherSecond, true));
    }

    /// @dev What a proof's hashes are, bottom-up, by the recursion of RFC 9162 section 2.1.4.1: the (S)ubtree that ends
    /// the first tree, a (L)eft or a (R)ight sibling.
    function _steps(uint256 first, uint256 second, bool whole) private pure returns (bytes memory) {
        if (first == second) return whole ? bytes("") : bytes("S");
        uint256 split = 1;
        while (2 * split < second) split *= 2;
        if (first <= split) return bytes.concat(_steps(first, split, whole), "R");
        return bytes.concat(_steps(first - split, second - split, false), "L");
    }
}
