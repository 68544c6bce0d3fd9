// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DisputeState, IDisputeManager, Lie, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {IPaymentManager} from "../../src/interfaces/IPaymentManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice L1: two words of the operator that cannot both be true.
contract DoubleSigningTest is DisputeFixture {
    bytes32 private constant _OTHER = keccak256("another history");

    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _held();
    }

    function test_two_receipts_of_one_call_with_another_leaf_give_everything_back() public {
        Receipt memory one = _receipt(_channel, 2);
        Receipt memory other = _receipt(_channel, 2, _OTHER, CHARGE);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.LieProven(_channel, Lie.DoubleSigning, stranger, CAPTURED);
        vm.expectEmit(address(manager));
        emit IPaymentManager.Resolved(_channel, CAPTURED, 0);
        vm.prank(stranger);
        decisions.proveConflictingReceipts(_channel, one, other);
        _assertGivenBack();
    }

    function test_two_receipts_of_one_call_with_another_charge_do_too() public {
        decisions.proveConflictingReceipts(
            _channel, _receipt(_channel, 0), _receipt(_channel, 0, leaves[0], CHARGE + 1)
        );
        _assertGivenBack();
    }

    function test_it_does_not_matter_which_of_the_two_charges_more() public {
        decisions.proveConflictingReceipts(
            _channel, _receipt(_channel, 0, leaves[0], CHARGE + 1), _receipt(_channel, 0)
        );
        _assertGivenBack();
    }

    function test_the_call_may_lie_behind_what_was_anchored() public {
        decisions.proveConflictingReceipts(
            _channel, _receipt(_channel, 99, _OTHER, 1), _receipt(_channel, 99, _OTHER, 2)
        );
        _assertGivenBack();
    }

    function test_the_same_receipt_twice_is_no_conflict() public {
        _refusedReceipts(_receipt(_channel, 2), _receipt(_channel, 2), _noConflict());
    }

    function test_receipts_of_different_calls_are_no_conflict() public {
        _refusedReceipts(_receipt(_channel, 2), _receipt(_channel, 3), _noConflict());
        _refusedReceipts(
            _receipt(_channel, 2, leaves[2], CHARGE), _receipt(_channel, 3, leaves[2], CHARGE), _noConflict()
        );
    }

    function test_both_receipts_must_be_the_operators() public {
        Receipt memory good = _receipt(_channel, 2);
        Receipt memory forged = _receipt(_channel, 2, _OTHER, CHARGE);
        forged.signature = _sign(THIEF_KEY, _receiptDigest(_channel, 2, _OTHER, CHARGE));
        bytes memory refusal = _notOperators(thief);
        _refusedReceipts(good, forged, refusal);
        _refusedReceipts(forged, good, refusal);
    }

    function test_two_statements_over_equally_many_calls_with_another_root_give_everything_back() public {
        Statement memory one = _statement(_channel, 3);
        Statement memory other = _statement(_channel, 3, _OTHER, one.spent);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.LieProven(_channel, Lie.DoubleSigning, stranger, CAPTURED);
        vm.prank(stranger);
        decisions.proveConflictingStatements(_channel, one, other);
        _assertGivenBack();
    }

    function test_two_statements_over_equally_many_calls_with_another_sum_do_too() public {
        Statement memory one = _statement(_channel, 3);
        decisions.proveConflictingStatements(_channel, one, _statement(_channel, 3, one.root, one.spent - 1));
        _assertGivenBack();
    }

    function test_it_does_not_matter_which_of_the_two_sums_is_larger() public {
        Statement memory one = _statement(_channel, 3);
        decisions.proveConflictingStatements(_channel, _statement(_channel, 3, one.root, one.spent - 1), one);
        _assertGivenBack();
    }

    function test_statements_over_fewer_and_more_calls_are_no_conflict_nor_is_one_twice() public {
        _refusedStatements(_statement(_channel, 3), _statement(_channel, 4), _noConflict());
        _refusedStatements(_statement(_channel, 3), _statement(_channel, 3), _noConflict());
    }

    function test_both_statements_must_be_the_operators() public {
        Statement memory good = _statement(_channel, 3);
        Statement memory forged = _statement(_channel, 3, _OTHER, 0);
        forged.signature = _sign(CLIENT_KEY, _statementDigest(_channel, 3, _OTHER, 0));
        bytes memory refusal = _notOperators(client);
        _refusedStatements(good, forged, refusal);
        _refusedStatements(forged, good, refusal);
    }

    function test_a_statement_over_all_calls_with_another_root_than_the_anchored_one_gives_everything_back() public {
        Statement memory statement = _statement(_channel, CALLS, _OTHER, CAPTURED);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.LieProven(_channel, Lie.DoubleSigning, stranger, CAPTURED);
        vm.prank(stranger);
        decisions.proveStatementAgainstRoot(_channel, statement);
        _assertGivenBack();
    }

    function test_a_statement_that_says_what_was_anchored_proves_nothing() public {
        _refusedAgainstRoot(_statement(_channel, CALLS), _noConflict());
    }

    function test_a_statement_over_another_number_of_calls_proves_nothing_against_the_root() public {
        _refusedAgainstRoot(_statement(_channel, CALLS - 1), _noConflict());
        _refusedAgainstRoot(_statement(_channel, CALLS + 1, _OTHER, CAPTURED), _noConflict());
    }

    function test_a_statement_of_somebody_else_proves_nothing_against_the_root() public {
        Statement memory forged = _statement(_channel, CALLS, _OTHER, CAPTURED);
        forged.signature = _sign(THIEF_KEY, _statementDigest(_channel, CALLS, _OTHER, CAPTURED));
        _refusedAgainstRoot(forged, _notOperators(thief));
    }

    function test_a_lie_is_proven_in_the_last_second_of_the_window_and_not_after() public {
        uint64 heldUntil = manager.holdOf(_channel).heldUntil;
        bytes32 other = _held(keccak256("other"));
        Statement memory late = _statement(other, CALLS, _OTHER, CAPTURED);
        vm.warp(heldUntil - 1);
        decisions.proveStatementAgainstRoot(_channel, _statement(_channel, CALLS, _OTHER, CAPTURED));
        vm.warp(heldUntil);
        vm.expectRevert(_refusal(IDisputeManager.WindowClosed.selector, other, heldUntil));
        decisions.proveStatementAgainstRoot(other, late);
        manager.release(other);
        vm.assertEq(token.balanceOf(payee), CAPTURED);
        vm.assertEq(_spentByClient(), CAPTURED);
        _assertEmpty();
    }

    function test_a_lie_is_not_proven_before_the_session_is_over() public {
        bytes32 open = _open(keccak256("open"));
        bytes32 root = _rootOver(CALLS);
        vm.prank(operator);
        manager.commitResults(open, root, CALLS);
        Receipt memory one = _receipt(open, 2);
        Receipt memory other = _receipt(open, 2, _OTHER, CHARGE);
        vm.expectRevert(_refusal(IDisputeManager.NoMoneyHeld.selector, open));
        decisions.proveConflictingReceipts(open, one, other);
        bytes memory voucher = _voucher(open, 100);
        vm.prank(payee);
        manager.settle(open, 100, voucher);
        vm.expectRevert(_refusal(IDisputeManager.WindowNotOpen.selector, open));
        decisions.proveConflictingReceipts(open, one, other);
    }

    function test_what_a_lie_gave_back_is_not_decided_again() public {
        Statement memory statement = _statement(_channel, CALLS, _OTHER, CAPTURED);
        decisions.proveStatementAgainstRoot(_channel, statement);
        bytes memory refusal = _refusal(IDisputeManager.NoMoneyHeld.selector, _channel);
        _refusedAgainstRoot(statement, refusal);
        _elapse(WINDOW);
        vm.expectRevert(_refusal(IPaymentManager.NothingHeld.selector, _channel));
        manager.release(_channel);
        _assertGivenBack();
    }

    function test_what_was_ruled_on_is_not_decided_again() public {
        _raise(_channel);
        _rule(_channel, 0);
        _refusedAgainstRoot(
            _statement(_channel, CALLS, _OTHER, CAPTURED), _refusal(IDisputeManager.NoMoneyHeld.selector, _channel)
        );
        vm.assertEq(token.balanceOf(payee), CAPTURED + BOND);
    }

    function test_a_lie_overtakes_a_pending_dispute_and_its_bond_comes_back() public {
        _raise(_channel);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.BondPaid(_channel, client, BOND);
        decisions.proveStatementAgainstRoot(_channel, _statement(_channel, CALLS, _OTHER, CAPTURED));
        _assertGivenBack();
        vm.assertTrue(_case(_channel).dispute == DisputeState.Overtaken);
        vm.assertFalse(decisions.isPending(_channel));

        bytes memory over = _refusal(IDisputeManager.NoDisputePending.selector, _channel);
        vm.prank(arbitrator);
        vm.expectRevert(over);
        decisions.rule(_channel, 0);
        _elapse(RULING);
        vm.expectRevert(over);
        decisions.lapse(_channel);
    }

    function test_a_lie_gives_both_bonds_back_where_a_dispute_and_a_challenge_are_pending() public {
        _raise(_channel);
        _challenge(_channel, _receipt(_channel, 1));
        vm.assertEq(token.balanceOf(address(decisions)), 2 * BOND);
        vm.prank(stranger);
        decisions.proveStatementAgainstRoot(_channel, _statement(_channel, CALLS, _OTHER, CAPTURED));
        _assertGivenBack();
        vm.assertEq(_case(_channel).answerBy, 0);
        vm.assertEq(_case(_channel).challengedWord, bytes32(0));
        vm.expectRevert(_refusal(IDisputeManager.NoChallengePending.selector, _channel));
        decisions.claimUnanswered(_channel);
    }

    function test_a_lie_gives_the_challenges_bond_back_where_no_dispute_is_pending() public {
        _challenge(_channel, _receipt(_channel, 1));
        decisions.proveStatementAgainstRoot(_channel, _statement(_channel, CALLS, _OTHER, CAPTURED));
        _assertGivenBack();
        vm.assertTrue(_case(_channel).dispute == DisputeState.None);
    }

    function test_a_lie_is_proven_after_a_lapse_too_while_the_window_is_open() public {
        (serviceId, termsHash) = _register(_ruledWithin(1 days));
        bytes32 channel = _held(keccak256("lapsed"));
        _raise(channel);
        _elapse(1 days);
        decisions.lapse(channel);
        vm.assertEq(token.balanceOf(payee), BOND);
        decisions.proveStatementAgainstRoot(channel, _statement(channel, CALLS, _OTHER, CAPTURED));
        vm.assertTrue(_case(channel).dispute == DisputeState.Lapsed);
        _assertMoney(channel, CAPTURED, 0, CAPTURED, DEPOSIT - CAPTURED);
        vm.assertEq(token.balanceOf(payee), BOND);
    }

    function test_what_settle_captured_mid_session_is_given_back_too() public {
        bytes32 channel = _open(keccak256("mid"));
        bytes32 root = _rootOver(CALLS);
        vm.prank(operator);
        manager.commitResults(channel, root, CALLS);
        bytes memory voucher = _voucher(channel, 300);
        vm.startPrank(payee);
        manager.settle(channel, 300, voucher);
        manager.close(channel, 0, "");
        vm.stopPrank();
        decisions.proveStatementAgainstRoot(channel, _statement(channel, CALLS, _OTHER, CAPTURED));
        _assertMoney(channel, 300, 0, 300, DEPOSIT - 300);
        vm.assertEq(_spentByClient(), CAPTURED);
    }

    function _assertGivenBack() private view {
        _assertMoney(_channel, CAPTURED, 0, CAPTURED, DEPOSIT - CAPTURED);
        vm.assertEq(_spentByClient(), 0);
        vm.assertEq(token.balanceOf(payee), 0);
        _assertEmpty();
    }

    function _noConflict() private view returns (bytes memory) {
        return _refusal(IDisputeManager.WordsDoNotConflict.selector, _channel);
    }

    function _notOperators(address signer) private view returns (bytes memory) {
        return abi.encodeWithSelector(IDisputeManager.NotOperatorsWord.selector, _channel, receiptSigner, signer);
    }

    function _refusedReceipts(Receipt memory one, Receipt memory other, bytes memory refusal) private {
        vm.expectRevert(refusal);
        decisions.proveConflictingReceipts(_channel, one, other);
    }

    function _refusedStatements(Statement memory one, Statement memory other, bytes memory refusal) private {
        vm.expectRevert(refusal);
        decisions.proveConflictingStatements(_channel, one, other);
    }

    function _refusedAgainstRoot(Statement memory statement, bytes memory refusal) private {
        vm.expectRevert(refusal);
        decisions.proveStatementAgainstRoot(_channel, statement);
    }
}
