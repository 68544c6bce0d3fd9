// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {LogAnchor} from "../../src/LogAnchor.sol";
import {LogNode} from "../base/LogNode.sol";
import {TestBase} from "../base/TestBase.sol";

/// @notice What anchoring costs where a log has about a million entries. Its entries are all the same, so that a root
/// depends on the number of entries alone, and a tree of any size is a hundred hashes.
contract LogAnchorGasTest is TestBase {
    uint256 private constant _MILLION = 1 << 20;
    /// @dev PROTOCOL 4.5's target for an anchor with a proof at a million entries.
    uint256 private constant _TARGET = 70_000;

    LogAnchor private _log = new LogAnchor();
    address private _operator = address(0x0123456789012345678901234567890123456789);
    /// @dev By height, from a leaf up.
    bytes32[] private _perfect;

    function setUp() public {
        vm.warp(1_800_000_000);
        _perfect.push(LogNode.leaf("the same entry"));
        for (uint256 height = 0; height < 20; ++height) {
            _perfect.push(LogNode.node(_perfect[height], _perfect[height]));
        }
    }

    function test_the_first_anchor() public {
        _anchor(_MILLION, new bytes32[](0));
        vm.snapshotGasLastCall("LogAnchor", "anchor, the first");
    }

    function test_the_same_anchor_again() public {
        _anchor(_MILLION, new bytes32[](0));
        _anchor(_MILLION, new bytes32[](0));
        vm.snapshotGasLastCall("LogAnchor", "anchor, again");
    }

    function test_the_longest_proof_at_a_million_entries() public {
        bytes32[] memory proof = _grow(_MILLION - 1, _MILLION);
        uint256 used = vm.snapshotGasLastCall("LogAnchor", "anchor, 2^20 - 1 to 2^20 entries (21 hashes)");
        vm.assertEq(proof.length, 21);
        vm.assertLe(used, _TARGET, "the worst case is within the target");
    }

    function test_a_day_later_at_a_million_entries() public {
        _grow(_MILLION - 10_000, _MILLION);
        uint256 used = vm.snapshotGasLastCall("LogAnchor", "anchor, 2^20 - 10,000 to 2^20 entries");
        vm.assertLe(used, _TARGET, "the everyday case is within the target");
    }

    function test_a_tree_that_begins_with_a_perfect_one() public {
        _grow(_MILLION / 2, _MILLION);
        vm.snapshotGasLastCall("LogAnchor", "anchor, 2^19 to 2^20 entries (1 hash)");
    }

    function _grow(uint256 first, uint256 second) private returns (bytes32[] memory proof) {
        _anchor(first, new bytes32[](0));
        proof = _subproof(first, second, true);
        vm.warp(vm.getBlockTimestamp() + 1 days);
        _anchor(second, proof);
    }

    function _anchor(uint256 size, bytes32[] memory proof) private {
        bytes32 root = _rootOf(size);
        vm.prank(_operator);
        // forge-lint: disable-next-line(unsafe-typecast)
        _log.anchor(keccak256("service.example/log"), uint64(size), root, proof);
    }

    /// @dev RFC 9162 section 2.1.1, where all entries are the same.
    function _rootOf(uint256 size) private view returns (bytes32) {
        (uint256 split, uint256 height) = _split(size);
        if (split == size) return _perfect[height];
        return LogNode.node(_perfect[height], _rootOf(size - split));
    }

    /// @dev RFC 9162 section 2.1.4.1, where all entries are the same.
    function _subproof(uint256 first, uint256 second, bool whole) private view returns (bytes32[] memory) {
        if (first == second) {
            bytes32[] memory none;
            return whole ? none : _append(none, _rootOf(second));
        }
        (uint256 split,) = _split(second - 1);
        if (first <= split) return _append(_subproof(first, split, whole), _rootOf(second - split));
        return _append(_subproof(first - split, second - split, false), _rootOf(split));
    }

    /// @dev The largest power of two that is at most `size`, and its exponent.
    function _split(uint256 size) private pure returns (uint256 split, uint256 height) {
        for (split = 1; 2 * split <= size; split *= 2) {
            ++height;
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
