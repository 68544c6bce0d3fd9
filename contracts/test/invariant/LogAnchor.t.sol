// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TestBase} from "../base/TestBase.sol";
import {LogAnchorHandler} from "./LogAnchorHandler.sol";

/// @notice What holds of every anchored log, whatever its operator and others try.
contract LogAnchorInvariantTest is TestBase {
    LogAnchorHandler private _handler;

    function setUp() public {
        vm.warp(1_800_000_000);
        _handler = new LogAnchorHandler();
        _target(address(_handler));
    }

    function invariant_a_log_is_anchored_as_its_operator_anchored_it_honestly_last() public view {
        for (uint256 i = 0; i < _handler.LOG_COUNT(); ++i) {
            LogAnchorHandler.Mined[] memory mined = _handler.minedOf(i);
            LogAnchorHandler.Mined memory last;
            if (mined.length != 0) last = mined[mined.length - 1];
            (uint64 size, uint64 anchoredAt, bytes32 root) = _handler.anchoredNow(i);
            vm.assertEq(size, last.size);
            vm.assertEq(anchoredAt, last.minedAt);
            vm.assertEq(root, last.root);
        }
    }

    function invariant_sizes_never_fall() public view {
        for (uint256 i = 0; i < _handler.LOG_COUNT(); ++i) {
            LogAnchorHandler.Mined[] memory mined = _handler.minedOf(i);
            for (uint256 j = 1; j < mined.length; ++j) {
                vm.assertLt(mined[j - 1].size, mined[j].size);
            }
        }
    }

    /// @notice At the end of a run: every root that was ever anchored is that of a prefix of the log.
    function afterInvariant() public view {
        for (uint256 i = 0; i < _handler.LOG_COUNT(); ++i) {
            LogAnchorHandler.Mined[] memory mined = _handler.minedOf(i);
            for (uint256 j = 0; j < mined.length; ++j) {
                vm.assertEq(mined[j].root, _handler.honestRoot(i, mined[j].size));
            }
        }
    }
}
