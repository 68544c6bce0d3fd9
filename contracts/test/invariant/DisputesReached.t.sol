// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TestBase} from "../base/TestBase.sol";
import {DisputeHandler} from "./DisputeHandler.sol";
import {DisputeWorld} from "./DisputeWorld.sol";

/// @notice Invariants of what never happens hold of themselves: the handler's actions, in a random order of their own,
/// bring about every kind of decision.
contract DisputesReachedTest is TestBase {
    uint256 private constant _WALKS = 12;
    uint256 private constant _STEPS = 150;

    mapping(DisputeWorld.Exit exit => uint256 times) private _exits;
    mapping(DisputeWorld.Fault fault => uint256 times) private _convictions;
    uint256 private _lapses;
    uint256 private _answers;
    uint256 private _silences;

    function test_random_actions_bring_about_every_kind_of_decision() public {
        vm.warp(1_800_000_000);
        for (uint256 i = 0; i < _WALKS; ++i) {
            DisputeHandler handler = new DisputeHandler();
            for (uint256 j = 0; j < _STEPS; ++j) {
                _step(handler, uint256(keccak256(abi.encode("walk", i, j))));
            }
            _count(handler);
        }
        for (uint256 exit = 1; exit < 4; ++exit) {
            vm.assertTrue(_exits[DisputeWorld.Exit(exit)] > 0, vm.toString(exit));
        }
        for (uint256 fault = 1; fault < 8; ++fault) {
            vm.assertTrue(_convictions[DisputeWorld.Fault(fault)] > 0, vm.toString(fault));
        }
        vm.assertTrue(_lapses > 0 && _answers > 0 && _silences > 0);
    }

    function _step(DisputeHandler handler, uint256 word) private {
        uint256 action = word % 12;
        uint256 seed = word >> 16;
        bool flag = (word >> 8) % 2 == 1;
        uint128 amount = uint128(word >> 100);
        // Every second session is the lying operator's: it has seven faults to show.
        if (action < 2) handler.sell(seed, flag ? 2 : seed >> 8, seed >> 16, bytes32(word));
        if (action == 2) handler.challenge(seed, uint64(amount), flag);
        if (action == 3) handler.answer(seed);
        if (action == 4) handler.claimUnanswered(seed);
        if (action == 5) handler.raise(seed, amount);
        if (action == 6) handler.rule(seed, amount);
        if (action == 7) handler.lapse(seed);
        if (action == 8) handler.release(seed, flag);
        if (action == 9) handler.accuse(seed);
        if (action == 10) handler.accuseHonest(seed, uint64(amount), uint64(amount >> 64), uint64(word >> 30));
        if (action == 11) handler.pass(seed, seed >> 32);
    }

    function _count(DisputeHandler handler) private {
        for (uint256 i = 0; i < 4; ++i) {
            _exits[DisputeWorld.Exit(i)] += handler.exits(DisputeWorld.Exit(i));
        }
        for (uint256 i = 0; i < 8; ++i) {
            _convictions[DisputeWorld.Fault(i)] += handler.convictions(DisputeWorld.Fault(i));
        }
        _lapses += handler.lapses();
        _answers += handler.answers();
        _silences += handler.silences();
    }
}
