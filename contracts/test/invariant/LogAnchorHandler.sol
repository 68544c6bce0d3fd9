// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ILogAnchor} from "../../src/interfaces/ILogAnchor.sol";
import {LogAnchor} from "../../src/LogAnchor.sol";
import {ConsistencyTree} from "../base/ConsistencyTree.sol";
import {LogNode} from "../base/LogNode.sol";
import {TestBase} from "../base/TestBase.sol";

/// @notice Operators that append to their logs and anchor them, the same operators when they try to rewrite what they
/// anchored, a stranger, and the clock.
/// @dev What must not be anchored is expected to fail; every anchor that was taken is kept for the invariants.
contract LogAnchorHandler is TestBase {
    /// @notice One anchor that was mined.
    struct Mined {
        uint64 size;
        uint64 minedAt;
        bytes32 root;
    }

    uint256 public constant LOG_COUNT = 3;
    uint256 private constant _MAX_ENTRIES = 200;

    LogAnchor public immutable anchors = new LogAnchor();

    /// @dev The first two logs are one operator's.
    address[LOG_COUNT] private _operators = [address(0xa11ce), address(0xa11ce), address(0xb0b)];
    bytes32[LOG_COUNT] private _origins = [keccak256("one"), keccak256("two"), keccak256("one")];
    bytes32[][LOG_COUNT] private _leaves;
    Mined[][LOG_COUNT] private _mined;

    function append(uint256 which, uint256 count) external {
        bytes32[] storage leaves = _leaves[which % LOG_COUNT];
        for (uint256 i = 0; i < 1 + count % 17 && leaves.length < _MAX_ENTRIES; ++i) {
            leaves.push(LogNode.leaf(abi.encode(which % LOG_COUNT, leaves.length)));
        }
    }

    /// @notice Anchors what the operator has, or a part of it that is not anchored yet.
    function anchorHonestly(uint256 which, uint256 sizeSeed) external {
        which %= LOG_COUNT;
        uint64 last = lastSize(which);
        if (_leaves[which].length == last) return;
        uint64 size = uint64(_bound(sizeSeed, last + 1, _leaves[which].length));
        bytes32 root = honestRoot(which, size);
        bytes32[] memory proof;
        if (last != 0) proof = ConsistencyTree.proofOf(_leaves[which], last, size, LogNode.node);
        vm.prank(_operators[which]);
        anchors.anchor(_origins[which], size, root, proof);
        _mined[which].push(Mined(size, uint64(vm.getBlockTimestamp()), root));
    }

    function anchorAgain(uint256 which, bytes32[] calldata anyProof) external {
        which %= LOG_COUNT;
        uint64 last = lastSize(which);
        if (last == 0) return;
        bytes32 root = honestRoot(which, last);
        vm.prank(_operators[which]);
        anchors.anchor(_origins[which], last, root, anyProof);
    }

    /// @notice Goes back to an earlier size, or to a second root at the same one.
    function rewind(uint256 which, uint256 sizeSeed, bytes32 otherRoot) external {
        which %= LOG_COUNT;
        uint64 last = lastSize(which);
        if (last == 0) return;
        uint64 size = uint64(_bound(sizeSeed, 1, last));
        bytes32 root = size == last ? otherRoot : honestRoot(which, size);
        _mustFail(which, size, root, new bytes32[](0));
    }

    /// @notice Rewrites one anchored entry and anchors the longer tree that results, with the best proofs there are.
    function rewrite(uint256 which, uint256 indexSeed, uint256 sizeSeed, bytes32 entry) external {
        which %= LOG_COUNT;
        uint64 last = lastSize(which);
        if (last == 0 || _leaves[which].length == last) return;
        uint64 size = uint64(_bound(sizeSeed, last + 1, _leaves[which].length));
        bytes32[] memory forged = _leaves[which];
        bytes32[] memory honestProof = ConsistencyTree.proofOf(forged, last, size, LogNode.node);
        forged[indexSeed % last] = LogNode.leaf(abi.encode("forged", entry));
        bytes32 root = ConsistencyTree.rootOf(forged, 0, size, LogNode.node);
        _mustFail(which, size, root, ConsistencyTree.proofOf(forged, last, size, LogNode.node));
        _mustFail(which, size, root, honestProof);
    }

    /// @notice Leaves anchored entries out: the log is as long as it says, by entries from behind the gap.
    function omit(uint256 which, uint256 indexSeed, uint256 sizeSeed) external {
        which %= LOG_COUNT;
        uint64 last = lastSize(which);
        if (last == 0 || _leaves[which].length < uint256(last) + 2) return;
        uint64 size = uint64(_bound(sizeSeed, last + 1, _leaves[which].length - 1));
        bytes32[] memory shorter = new bytes32[](size);
        for (uint256 i = 0; i < size; ++i) {
            shorter[i] = _leaves[which][i < indexSeed % last ? i : i + 1];
        }
        bytes32 root = ConsistencyTree.rootOf(shorter, 0, size, LogNode.node);
        _mustFail(which, size, root, ConsistencyTree.proofOf(shorter, last, size, LogNode.node));
    }

    function anchorAnything(uint256 which, uint64 size, bytes32 root, bytes32[] calldata proof) external {
        which %= LOG_COUNT;
        if (lastSize(which) != 0) _mustFail(which, size, root, proof);
    }

    /// @notice Somebody else anchors under the same origin, for itself.
    function anchorForOneself(address stranger, uint256 which, uint64 size, bytes32 root) external {
        if (stranger == _operators[0] || stranger == _operators[2] || size == 0 || root == 0) return;
        (uint64 last,,) = anchors.anchored(stranger, _origins[which % LOG_COUNT]);
        if (last != 0) return;
        vm.prank(stranger);
        anchors.anchor(_origins[which % LOG_COUNT], size, root, new bytes32[](0));
    }

    function pass(uint256 seconds_) external {
        vm.warp(vm.getBlockTimestamp() + _bound(seconds_, 1, 1 days));
    }

    /// @notice The size that was anchored last.
    function lastSize(uint256 which) public view returns (uint64) {
        uint256 count = _mined[which].length;
        return count == 0 ? 0 : _mined[which][count - 1].size;
    }

    /// @notice The root over the first `size` entries of a log as its operator appended them.
    function honestRoot(uint256 which, uint256 size) public view returns (bytes32) {
        return ConsistencyTree.rootOf(_leaves[which], 0, size, LogNode.node);
    }

    function minedOf(uint256 which) external view returns (Mined[] memory) {
        return _mined[which];
    }

    function anchoredNow(uint256 which) external view returns (uint64 size, uint64 anchoredAt, bytes32 root) {
        return anchors.anchored(_operators[which], _origins[which]);
    }

    function _mustFail(uint256 which, uint64 size, bytes32 root, bytes32[] memory proof) private {
        vm.prank(_operators[which]);
        try ILogAnchor(anchors).anchor(_origins[which], size, root, proof) {
            // Equal values are no forgery: they change nothing.
            vm.assertTrue(size == lastSize(which) && root == honestRoot(which, size), "a forgery was anchored");
        } catch {}
    }
}
