// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TestBase} from "../base/TestBase.sol";
import {TranscriptTree} from "../base/TranscriptTree.sol";
import {TranscriptProofHarness} from "../mocks/TranscriptProofHarness.sol";

contract TranscriptProofFuzzTest is TestBase {
    TranscriptProofHarness private _harness = new TranscriptProofHarness();

    function testFuzz_a_call_of_the_tree_is_proven_and_no_other(uint256 seed, uint256 size, uint256 index) public view {
        (bytes32[] memory leaves, bytes32 root, bytes32[] memory siblings) = _tree(seed, size, index);
        index %= leaves.length;
        vm.assertTrue(_harness.verify(leaves[index], index, leaves.length, siblings, root));
        for (uint256 i = 0; i < leaves.length; ++i) {
            if (i != index) vm.assertFalse(_harness.verify(leaves[index], i, leaves.length, siblings, root));
            if (i != index) vm.assertFalse(_harness.verify(leaves[i], index, leaves.length, siblings, root));
        }
    }

    function testFuzz_siblings_are_neither_more_nor_fewer_nor_others(uint256 seed, uint256 size, uint256 index)
        public
        view
    {
        (bytes32[] memory leaves, bytes32 root, bytes32[] memory siblings) = _tree(seed, size, index);
        index %= leaves.length;
        bytes32[] memory more = new bytes32[](siblings.length + 1);
        for (uint256 i = 0; i < siblings.length; ++i) {
            more[i] = siblings[i];
        }
        vm.assertFalse(_harness.verify(leaves[index], index, leaves.length, more, root));
        if (siblings.length == 0) return;
        bytes32[] memory fewer = new bytes32[](siblings.length - 1);
        for (uint256 i = 0; i < fewer.length; ++i) {
            fewer[i] = siblings[i];
        }
        vm.assertFalse(_harness.verify(leaves[index], index, leaves.length, fewer, root));
        siblings[seed % siblings.length] ^= bytes32(uint256(1));
        vm.assertFalse(_harness.verify(leaves[index], index, leaves.length, siblings, root));
    }

    function test_an_empty_tree_proves_nothing() public view {
        vm.assertFalse(_harness.verify(bytes32(0), 0, 0, new bytes32[](0), bytes32(0)));
    }

    function test_the_largest_counts_do_not_overflow() public view {
        vm.assertFalse(
            _harness.verify(bytes32(0), type(uint256).max - 1, type(uint256).max, new bytes32[](256), bytes32(0))
        );
    }

    function _tree(uint256 seed, uint256 size, uint256 index)
        private
        pure
        returns (bytes32[] memory leaves, bytes32 root, bytes32[] memory siblings)
    {
        leaves = new bytes32[](1 + size % 40);
        for (uint256 i = 0; i < leaves.length; ++i) {
            leaves[i] = keccak256(abi.encode(seed, i));
        }
        root = TranscriptTree.rootOf(leaves, leaves.length);
        siblings = TranscriptTree.siblingsOf(leaves, leaves.length, index % leaves.length);
    }
}
