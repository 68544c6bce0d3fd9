// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";
import {TestBase} from "../base/TestBase.sol";
import {TranscriptTree} from "../base/TranscriptTree.sol";
import {TranscriptProofHarness} from "../mocks/TranscriptProofHarness.sol";

/// @notice tests/vectors/transcript.json, computed by Solidity.
contract TranscriptVectorTest is TestBase {
    string private _json;
    bytes32[] private _leaves;
    TranscriptProofHarness private _harness;

    function setUp() public {
        _json = vm.readFile("../tests/vectors/transcript.json");
        _harness = new TranscriptProofHarness();
        for (uint256 i = 0; vm.keyExistsJson(_json, _entry(i, "")); ++i) {
            _leaves.push(vm.parseJsonBytes32(_json, _entry(i, ".leaf")));
        }
    }

    function test_hashes_and_leaves_of_all_entries() public view {
        vm.assertEq(_leaves.length, 100);
        for (uint256 i = 0; i < _leaves.length; ++i) {
            bytes32 requestHash = _hashOf(i, ".request");
            bytes32 responseHash = _hashOf(i, ".response");
            bytes32 toolIdHash = _hashOf(i, ".toolId");
            vm.assertEq(requestHash, vm.parseJsonBytes32(_json, _entry(i, ".requestHash")));
            vm.assertEq(responseHash, vm.parseJsonBytes32(_json, _entry(i, ".responseHash")));
            vm.assertEq(toolIdHash, vm.parseJsonBytes32(_json, _entry(i, ".toolIdHash")));
            vm.assertEq(TranscriptProof.leafHash(i, requestHash, responseHash, toolIdHash), _leaves[i]);
        }
    }

    function test_all_roots() public view {
        string[] memory sizes = vm.parseJsonKeys(_json, ".roots");
        vm.assertEq(sizes.length, 18);
        for (uint256 i = 0; i < sizes.length; ++i) {
            bytes32 root = vm.parseJsonBytes32(_json, string.concat(".roots.", sizes[i]));
            vm.assertEq(TranscriptTree.rootOf(_leaves, vm.parseUint(sizes[i])), root, sizes[i]);
        }
    }

    function test_all_proofs_hold_and_hold_for_nothing_else() public view {
        uint256 count = 0;
        for (; vm.keyExistsJson(_json, _proof(count, "")); ++count) {
            uint256 size = vm.parseJsonUint(_json, _proof(count, ".size"));
            uint256 index = vm.parseJsonUint(_json, _proof(count, ".index"));
            bytes32[] memory siblings = vm.parseJsonBytes32Array(_json, _proof(count, ".siblings"));
            bytes32 root = vm.parseJsonBytes32(_json, string.concat(".roots.", vm.toString(size)));
            bytes32 leaf = _leaves[index];
            vm.assertTrue(_harness.verify(leaf, index, size, siblings, root));
            vm.assertFalse(_harness.verify(keccak256("other"), index, size, siblings, root));
            vm.assertFalse(_harness.verify(leaf, index, size, siblings, keccak256("other")));
            vm.assertFalse(_harness.verify(leaf, size, size, siblings, root));
            if (size > 1) vm.assertFalse(_harness.verify(leaf, index ^ 1, size, siblings, root));
        }
        vm.assertEq(count, 36);
    }

    function _hashOf(uint256 index, string memory member) private view returns (bytes32) {
        return keccak256(bytes(vm.parseJsonString(_json, _entry(index, member))));
    }

    function _entry(uint256 index, string memory member) private pure returns (string memory) {
        return string.concat(".entries[", vm.toString(index), "]", member);
    }

    function _proof(uint256 index, string memory member) private pure returns (string memory) {
        return string.concat(".proofs[", vm.toString(index), "]", member);
    }
}
