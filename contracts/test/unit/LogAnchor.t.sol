// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ILogAnchor} from "../../src/interfaces/ILogAnchor.sol";
import {LogAnchor} from "../../src/LogAnchor.sol";
import {ConsistencyTree} from "../base/ConsistencyTree.sol";
import {LogNode} from "../base/LogNode.sol";
import {TestBase} from "../base/TestBase.sol";

/// @notice The cheat codes that show that there was no event.
interface EventRecorder {
    struct RecordedEvent {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function recordLogs() external;
    function getRecordedLogs() external view returns (RecordedEvent[] memory);
}

contract LogAnchorTest is TestBase {
    bytes32 private constant _ORIGIN = keccak256("service.example/log");
    /// @dev The root over the eight entries that implementations of certificate transparency test with.
    bytes32 private constant _ROOT_OF_EIGHT = 0x5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328;

    address private _operator = address(0x0123456789012345678901234567890123456789);
    LogAnchor private _log = new LogAnchor();
    bytes32[] private _leaves;

    function setUp() public {
        vm.warp(1_800_000_000);
        string[8] memory entries = [
            "",
            "\x00",
            "\x10",
            "\x20\x21",
            "\x30\x31",
            "\x40\x41\x42\x43",
            "\x50\x51\x52\x53\x54\x55\x56\x57",
            "\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f"
        ];
        for (uint256 i = 0; i < entries.length; ++i) {
            _leaves.push(LogNode.leaf(bytes(entries[i])));
        }
    }

    function test_the_tree_that_these_tests_build_is_that_of_certificate_transparency() public view {
        vm.assertEq(_rootOf(8), _ROOT_OF_EIGHT);
    }

    function test_nothing_is_anchored_at_first() public view {
        _assertAnchored(_operator, _ORIGIN, 0, 0, 0);
    }

    function test_every_growth_of_a_log_is_anchored() public {
        for (uint64 first = 1; first <= 7; ++first) {
            for (uint64 second = first + 1; second <= 8; ++second) {
                bytes32 origin = keccak256(abi.encode(first, second));
                _anchor(origin, first, _rootOf(first), new bytes32[](0));
                _assertAnchored(_operator, origin, first, vm.getBlockTimestamp(), _rootOf(first));
                vm.warp(vm.getBlockTimestamp() + 60);
                bytes32[] memory proof = _proof(first, second);
                bytes32 root = _rootOf(second);
                vm.expectEmit(address(_log));
                emit ILogAnchor.Anchored(_operator, origin, second, root);
                _anchor(origin, second, root, proof);
                _assertAnchored(_operator, origin, second, vm.getBlockTimestamp(), root);
            }
        }
    }

    function test_a_log_grows_again_and_again() public {
        _anchorFirst(1);
        for (uint64 size = 2; size <= 8; ++size) {
            _anchor(_ORIGIN, size, _rootOf(size), _proof(size - 1, size));
        }
        _assertAnchored(_operator, _ORIGIN, 8, vm.getBlockTimestamp(), _ROOT_OF_EIGHT);
    }

    function test_the_first_anchor_may_have_any_size_and_takes_no_proof() public {
        bytes32 root = _rootOf(5);
        vm.expectEmit(address(_log));
        emit ILogAnchor.Anchored(_operator, _ORIGIN, type(uint64).max, root);
        _anchor(_ORIGIN, type(uint64).max, root, new bytes32[](0));
        _assertAnchored(_operator, _ORIGIN, type(uint64).max, vm.getBlockTimestamp(), root);

        vm.expectRevert(abi.encodeWithSelector(ILogAnchor.FirstAnchorTakesNoProof.selector, 2));
        _anchor(keccak256("another log"), 5, root, new bytes32[](2));
        _assertAnchored(_operator, keccak256("another log"), 0, 0, 0);
    }

    function test_equal_values_do_nothing_whatever_the_proof() public {
        _anchorFirst(5);
        uint256 anchoredAt = vm.getBlockTimestamp();
        vm.warp(anchoredAt + 60);
        EventRecorder(address(vm)).recordLogs();
        _anchor(_ORIGIN, 5, _rootOf(5), new bytes32[](0));
        _anchor(_ORIGIN, 5, _rootOf(5), new bytes32[](3));
        vm.assertEq(EventRecorder(address(vm)).getRecordedLogs().length, 0);
        _assertAnchored(_operator, _ORIGIN, 5, anchoredAt, _rootOf(5));
    }

    function test_neither_an_empty_log_nor_a_zero_root_is_anchored() public {
        vm.expectRevert(abi.encodeWithSelector(ILogAnchor.InvalidAnchor.selector, 0, _ORIGIN));
        _anchor(_ORIGIN, 0, _ORIGIN, new bytes32[](0));
        vm.expectRevert(abi.encodeWithSelector(ILogAnchor.InvalidAnchor.selector, 1, 0));
        _anchor(_ORIGIN, 1, 0, new bytes32[](0));
        // Not even as the equal of what is not there.
        vm.expectRevert(abi.encodeWithSelector(ILogAnchor.InvalidAnchor.selector, 0, 0));
        _anchor(_ORIGIN, 0, 0, new bytes32[](0));
    }

    function test_a_log_neither_shrinks_nor_has_two_roots_at_one_size() public {
        _anchorFirst(5);
        bytes32 anchored = _rootOf(5);
        for (uint64 size = 1; size <= 5; ++size) {
            bytes32 root = size == 5 ? keccak256("another root") : _rootOf(size);
            vm.expectRevert(abi.encodeWithSelector(ILogAnchor.SizeNotGrowing.selector, 5, anchored, size, root));
            _anchor(_ORIGIN, size, root, new bytes32[](0));
        }
        _assertAnchored(_operator, _ORIGIN, 5, vm.getBlockTimestamp(), anchored);
    }

    function test_an_anchored_root_is_not_taken_for_another_size() public {
        _anchorFirst(5);
        bytes32 anchored = _rootOf(5);
        vm.expectRevert(abi.encodeWithSelector(ILogAnchor.SizeNotGrowing.selector, 5, anchored, 4, anchored));
        _anchor(_ORIGIN, 4, anchored, new bytes32[](0));
        bytes32[][2] memory proofs = [new bytes32[](0), _proof(5, 8)];
        for (uint256 i = 0; i < proofs.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ILogAnchor.InconsistentLog.selector, 5, anchored, 8, anchored));
            _anchor(_ORIGIN, 8, anchored, proofs[i]);
        }
    }

    function test_what_was_anchored_before_does_not_come_back() public {
        _anchorFirst(3);
        _anchor(_ORIGIN, 8, _rootOf(8), _proof(3, 8));
        bytes32 root = _rootOf(3);
        vm.expectRevert(abi.encodeWithSelector(ILogAnchor.SizeNotGrowing.selector, 8, _ROOT_OF_EIGHT, 3, root));
        _anchor(_ORIGIN, 3, root, new bytes32[](0));
    }

    function test_a_rewritten_log_is_refused_with_every_proof() public {
        bytes32 anchored = _rootOf(5);
        bytes32[] memory honest = _proof(5, 8);
        for (uint256 i = 0; i < 5; ++i) {
            bytes32 origin = keccak256(abi.encode(i));
            _anchor(origin, 5, anchored, new bytes32[](0));
            bytes32 leaf = _leaves[i];
            _leaves[i] = LogNode.leaf("never happened");
            bytes32 root = _rootOf(8);
            bytes32[][3] memory proofs = [honest, _proof(5, 8), new bytes32[](0)];
            _leaves[i] = leaf;
            for (uint256 j = 0; j < proofs.length; ++j) {
                vm.expectRevert(abi.encodeWithSelector(ILogAnchor.InconsistentLog.selector, 5, anchored, 8, root));
                _anchor(origin, 8, root, proofs[j]);
            }
            _assertAnchored(_operator, origin, 5, vm.getBlockTimestamp(), anchored);
        }
    }

    function test_a_true_root_needs_its_own_proof() public {
        _anchorFirst(6);
        bytes32[] memory proof = _proof(6, 8);
        bytes32[] memory longer = new bytes32[](proof.length + 1);
        bytes32[] memory shorter = new bytes32[](proof.length - 1);
        for (uint256 i = 0; i < proof.length; ++i) {
            longer[i] = proof[i];
            if (i < shorter.length) shorter[i] = proof[i];
        }
        bytes32[] memory changed = _proof(6, 8);
        changed[proof.length - 1] ^= bytes32(uint256(1));
        bytes32[][4] memory proofs = [longer, shorter, changed, _proof(5, 8)];
        bytes32 anchored = _rootOf(6);
        for (uint256 i = 0; i < proofs.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(ILogAnchor.InconsistentLog.selector, 6, anchored, 8, _ROOT_OF_EIGHT));
            _anchor(_ORIGIN, 8, _ROOT_OF_EIGHT, proofs[i]);
        }
        _anchor(_ORIGIN, 8, _ROOT_OF_EIGHT, proof);
        _assertAnchored(_operator, _ORIGIN, 8, vm.getBlockTimestamp(), _ROOT_OF_EIGHT);
    }

    function test_logs_of_two_origins_and_of_two_operators_are_apart() public {
        address other = address(0x9876543210987654321098765432109876543210);
        _anchorFirst(5);
        _anchor(keccak256("another log"), 3, _rootOf(3), new bytes32[](0));
        bytes32 forged = keccak256("forged");
        vm.prank(other);
        _log.anchor(_ORIGIN, 2, forged, new bytes32[](0));
        _assertAnchored(_operator, _ORIGIN, 5, vm.getBlockTimestamp(), _rootOf(5));
        _assertAnchored(_operator, keccak256("another log"), 3, vm.getBlockTimestamp(), _rootOf(3));
        _assertAnchored(other, _ORIGIN, 2, vm.getBlockTimestamp(), forged);
    }

    /// @notice Nothing between no gas and enough of it anchors something else, or something that is not proven.
    function test_an_anchor_that_runs_out_of_gas_changes_nothing() public {
        _anchorFirst(7);
        bytes32 anchored = _rootOf(7);
        bytes memory honest = abi.encodeCall(ILogAnchor.anchor, (_ORIGIN, 8, _ROOT_OF_EIGHT, _proof(7, 8)));
        uint256 starved = 0;
        for (uint256 limit = 500; limit < 60_000; limit += 37) {
            vm.prank(_operator);
            (bool done, bytes memory reason) = address(_log).call{gas: limit}(honest);
            if (done) break;
            ++starved;
            vm.assertEq(reason.length, 0);
            _assertAnchored(_operator, _ORIGIN, 7, vm.getBlockTimestamp(), anchored);
        }
        vm.assertTrue(starved > 100);
        _assertAnchored(_operator, _ORIGIN, 8, vm.getBlockTimestamp(), _ROOT_OF_EIGHT);
    }

    function _anchorFirst(uint64 size) private {
        _anchor(_ORIGIN, size, _rootOf(size), new bytes32[](0));
    }

    function _anchor(bytes32 origin, uint64 size, bytes32 root, bytes32[] memory proof) private {
        vm.prank(_operator);
        _log.anchor(origin, size, root, proof);
    }

    function _assertAnchored(address operator, bytes32 origin, uint64 size, uint256 anchoredAt, bytes32 root)
        private
        view
    {
        (uint64 sizeNow, uint64 anchoredAtNow, bytes32 rootNow) = _log.anchored(operator, origin);
        vm.assertEq(sizeNow, size);
        vm.assertEq(anchoredAtNow, anchoredAt);
        vm.assertEq(rootNow, root);
    }

    function _rootOf(uint256 size) private view returns (bytes32) {
        return ConsistencyTree.rootOf(_leaves, 0, size, LogNode.node);
    }

    function _proof(uint256 first, uint256 second) private view returns (bytes32[] memory) {
        return ConsistencyTree.proofOf(_leaves, first, second, LogNode.node);
    }
}
