// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DisputeState, IDisputeManager} from "../../src/interfaces/IDisputeManager.sol";
import {IPaymentManager} from "../../src/interfaces/IPaymentManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice What waits while a challenge is pending, and whose clock stands still.
contract PendingChallengesTest is DisputeFixture {
    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _held();
    }

    function test_nothing_is_released_while_a_challenge_is_pending_also_after_the_window() public {
        vm.warp(manager.holdOf(_channel).heldUntil - 1);
        _challenge(_channel, _receipt(_channel, 2));
        _elapse(10);
        bytes memory pending = _refusal(IPaymentManager.DecisionPending.selector, _channel);
        vm.expectRevert(pending);
        manager.release(_channel);
        _elapse(ANSWER);
        vm.expectRevert(pending);
        manager.release(_channel);
        decisions.claimUnanswered(_channel);
        _assertGivenBack();
    }

    function test_after_an_answer_the_money_is_released_at_the_end_of_the_window() public {
        _challenge(_channel, _receipt(_channel, 2));
        _answer(_channel, 2);
        _elapse(WINDOW);
        manager.release(_channel);
        vm.assertEq(token.balanceOf(payee), CAPTURED + BOND);
        _assertEmpty();
    }

    function test_nobody_rules_and_nothing_lapses_while_a_challenge_is_pending() public {
        _raise(_channel);
        _challenge(_channel, _receipt(_channel, 2));
        uint64 answerBy = _now() + ANSWER;
        bytes memory pending = _refusal(IDisputeManager.ChallengePending.selector, _channel, answerBy);
        vm.prank(arbitrator);
        vm.expectRevert(pending);
        decisions.rule(_channel, 0);
        _elapse(RULING + ANSWER);
        vm.expectRevert(pending);
        decisions.lapse(_channel);
        decisions.claimUnanswered(_channel);
        _assertGivenBack();
        vm.assertTrue(_case(_channel).dispute == DisputeState.Overtaken);
    }

    function test_the_ruling_clock_stands_still_while_a_challenge_is_pending() public {
        _raise(_channel);
        uint64 ruleBy = _now() + RULING;
        _elapse(1 days);
        _challenge(_channel, _receipt(_channel, 2));
        _elapse(5 hours);
        _answer(_channel, 2);
        vm.assertEq(_case(_channel).ruleBy, ruleBy + 5 hours);
        // Again: the times add up.
        _challenge(_channel, _statement(_channel, 3));
        _elapse(7 hours);
        decisions.answerStatement(_channel, 3, _rootOver(3), _consistency(3));
        ruleBy += 12 hours;
        vm.assertEq(_case(_channel).ruleBy, ruleBy);
        vm.warp(ruleBy - 1);
        vm.expectRevert(_refusal(IDisputeManager.RulingStillDue.selector, _channel, ruleBy));
        decisions.lapse(_channel);
        _rule(_channel, 250);
        vm.assertEq(token.balanceOf(payee), 2 * BOND + 250);
        _assertEmpty();
    }

    function test_a_dispute_raised_during_a_challenge_gets_the_time_since_then_only() public {
        _challenge(_channel, _receipt(_channel, 2));
        _elapse(4 hours);
        _raise(_channel);
        uint64 ruleBy = _now() + RULING;
        _elapse(6 hours);
        _answer(_channel, 2);
        vm.assertEq(_case(_channel).ruleBy, ruleBy + 6 hours);
    }

    function test_a_challenge_does_not_bring_an_arbitrators_time_back_that_was_over() public {
        (serviceId, termsHash) = _register(_ruledWithin(1 days));
        bytes32 channel = _held(keccak256("over"));
        _raise(channel);
        uint64 ruleBy = _now() + 1 days;
        _elapse(1 days + 1);
        _challenge(channel, _receipt(channel, 2));
        _elapse(3 hours);
        _answer(channel, 2);
        vm.assertEq(_case(channel).ruleBy, ruleBy + 3 hours);
        vm.prank(arbitrator);
        vm.expectRevert(_refusal(IDisputeManager.RulingTooLate.selector, channel, ruleBy + 3 hours));
        decisions.rule(channel, CAPTURED);
        decisions.lapse(channel);
    }

    function test_an_answer_without_a_dispute_or_after_a_lapse_moves_no_clock() public {
        _challenge(_channel, _receipt(_channel, 2));
        _answer(_channel, 2);
        vm.assertEq(_case(_channel).ruleBy, 0);

        (serviceId, termsHash) = _register(_ruledWithin(1 days));
        bytes32 channel = _held(keccak256("lapsed"));
        _raise(channel);
        uint64 ruleBy = _now() + 1 days;
        _elapse(1 days);
        decisions.lapse(channel);
        _challenge(channel, _receipt(channel, 2));
        _elapse(1 hours);
        _answer(channel, 2);
        vm.assertEq(_case(channel).ruleBy, ruleBy);
        vm.assertTrue(_case(channel).dispute == DisputeState.Lapsed);
    }

    function _assertGivenBack() private view {
        _assertMoney(_channel, CAPTURED, 0, CAPTURED, DEPOSIT - CAPTURED);
        vm.assertEq(_spentByClient(), 0);
        _assertEmpty();
    }
}
