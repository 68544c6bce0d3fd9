// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Case, DisputeState, IDisputeManager, Lie, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice L4: the operator is asked to show that what it signed is part of what it anchored.
contract ChallengesTest is DisputeFixture {
    bytes32 private constant _OTHER = keccak256("another history");

    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _held();
    }

    function test_a_payer_challenges_a_receipt_and_its_bond_is_taken() public {
        Receipt memory receipt = _receipt(_channel, 2);
        uint64 answerBy = _now() + ANSWER;
        vm.expectEmit(address(decisions));
        emit IDisputeManager.ReceiptChallenged(_channel, 2, leaves[2], answerBy, BOND);
        _challenge(_channel, receipt);
        vm.assertEq(token.balanceOf(address(decisions)), BOND);
        vm.assertEq(_spentByClient(), CAPTURED + BOND);
        _assertPending(answerBy, _receiptWord(2, leaves[2]));
    }

    function test_a_payer_challenges_a_statement_and_its_bond_is_taken() public {
        Statement memory statement = _statement(_channel, 3);
        uint64 answerBy = _now() + ANSWER;
        vm.expectEmit(address(decisions));
        emit IDisputeManager.StatementChallenged(_channel, 3, _rootOver(3), answerBy, BOND);
        _challenge(_channel, statement);
        vm.assertEq(token.balanceOf(address(decisions)), BOND);
        _assertPending(answerBy, keccak256(abi.encode(uint256(2), uint64(3), _rootOver(3))));
    }

    function test_nobody_but_the_payer_challenges() public {
        Receipt memory receipt = _receipt(_channel, 2);
        Statement memory statement = _statement(_channel, 3);
        address[5] memory others = [operator, payee, arbitrator, thief, receiptSigner];
        for (uint256 i = 0; i < others.length; ++i) {
            bytes memory refusal = _refusal(IDisputeManager.NotSessionPayer.selector, _channel, others[i]);
            vm.startPrank(others[i]);
            vm.expectRevert(refusal);
            decisions.challengeReceipt(_channel, receipt);
            vm.expectRevert(refusal);
            decisions.challengeStatement(_channel, statement);
            vm.stopPrank();
        }
    }

    function test_only_a_receipt_of_an_anchored_call_is_challenged() public {
        _refused(_receipt(_channel, CALLS, _OTHER, 1), _notChallengeable());
        _refused(_receipt(_channel, type(uint64).max, _OTHER, 1), _notChallengeable());
        _challenge(_channel, _receipt(_channel, CALLS - 1));
    }

    function test_only_a_statement_over_some_but_not_all_anchored_calls_is_challenged() public {
        _refused(_statement(_channel, 0, bytes32(0), 0), _notChallengeable());
        _refused(_statement(_channel, CALLS), _notChallengeable());
        _refused(_statement(_channel, CALLS + 1, _OTHER, 0), _notChallengeable());
        _challenge(_channel, _statement(_channel, CALLS - 1));
    }

    function test_only_the_operators_words_are_challenged() public {
        bytes memory refusal =
            abi.encodeWithSelector(IDisputeManager.NotOperatorsWord.selector, _channel, receiptSigner, client);
        Receipt memory receipt = _receipt(_channel, 2);
        receipt.signature = _sign(CLIENT_KEY, _receiptDigest(_channel, 2, leaves[2], CHARGE));
        _refused(receipt, refusal);
        Statement memory statement = _statement(_channel, 3);
        statement.signature = _sign(CLIENT_KEY, _statementDigest(_channel, 3, statement.root, statement.spent));
        _refused(statement, refusal);
    }

    function test_a_challenge_is_made_in_the_last_second_of_the_window_and_not_after() public {
        bytes32 other = _held(keccak256("other"));
        uint64 heldUntil = manager.holdOf(other).heldUntil;
        vm.warp(heldUntil - 1);
        _challenge(_channel, _receipt(_channel, 2));
        vm.warp(heldUntil);
        bytes memory closed = _refusal(IDisputeManager.WindowClosed.selector, other, heldUntil);
        Receipt memory receipt = _receipt(other, 2);
        Statement memory statement = _statement(other, 3);
        vm.startPrank(client);
        vm.expectRevert(closed);
        decisions.challengeReceipt(other, receipt);
        vm.expectRevert(closed);
        decisions.challengeStatement(other, statement);
        vm.stopPrank();
    }

    function test_one_challenge_at_a_time() public {
        uint64 answerBy = _now() + ANSWER;
        _challenge(_channel, _receipt(_channel, 2));
        bytes memory refusal = _refusal(IDisputeManager.ChallengePending.selector, _channel, answerBy);
        _refused(_receipt(_channel, 2), refusal);
        _refused(_statement(_channel, 3), refusal);
        _answer(_channel, 2);
        _challenge(_channel, _statement(_channel, 3));
        vm.assertEq(token.balanceOf(payee), BOND);
        vm.assertEq(token.balanceOf(address(decisions)), BOND);
    }

    function test_every_call_of_an_honest_history_is_shown_and_the_payee_gets_the_bond() public {
        for (uint64 i = 0; i < CALLS; ++i) {
            _challenge(_channel, _receipt(_channel, i));
            bytes32[] memory siblings = _siblings(i);
            vm.expectEmit(address(decisions));
            emit IDisputeManager.ChallengeAnswered(_channel, stranger);
            vm.expectEmit(address(decisions));
            emit IDisputeManager.BondPaid(_channel, payee, BOND);
            vm.prank(stranger);
            decisions.answerReceipt(_channel, i, leaves[i], siblings);
            _assertAnswered(i + 1);
        }
    }

    function test_every_statement_of_an_honest_history_is_shown_and_the_payee_gets_the_bond() public {
        for (uint64 count = 1; count < CALLS; ++count) {
            _challenge(_channel, _statement(_channel, count));
            bytes32 root = _rootOver(count);
            bytes32[] memory proof = _consistency(count);
            vm.expectEmit(address(decisions));
            emit IDisputeManager.ChallengeAnswered(_channel, stranger);
            vm.prank(stranger);
            decisions.answerStatement(_channel, count, root, proof);
            _assertAnswered(count);
        }
    }

    function test_a_receipt_of_another_leaf_than_the_anchored_one_cannot_be_answered() public {
        _challenge(_channel, _receipt(_channel, 2, _OTHER, CHARGE));
        vm.expectRevert(_refusal(IDisputeManager.ProofInvalid.selector, _channel));
        decisions.answerReceipt(_channel, 2, _OTHER, _siblings(2));
        _refusedAnswer(2, leaves[2], _siblings(2), _anotherWord(_receiptWord(2, _OTHER), _receiptWord(2, leaves[2])));
        _elapse(ANSWER);
        decisions.claimUnanswered(_channel);
        _assertGivenBack();
    }

    function test_a_statement_of_another_root_cannot_be_answered() public {
        _challenge(_channel, _statement(_channel, 3, _OTHER, 0));
        bytes32[] memory proof = _consistency(3);
        vm.expectRevert(_refusal(IDisputeManager.ProofInvalid.selector, _channel));
        decisions.answerStatement(_channel, 3, _OTHER, proof);
    }

    function test_an_answer_is_about_the_very_word_that_was_challenged() public {
        _challenge(_channel, _receipt(_channel, 2));
        bytes32 challenged = _receiptWord(2, leaves[2]);
        // Another call; the same leaf at another place; the same leaf as if it were a root.
        _refusedAnswer(1, leaves[1], _siblings(1), _anotherWord(challenged, _receiptWord(1, leaves[1])));
        _refusedAnswer(3, leaves[2], _siblings(3), _anotherWord(challenged, _receiptWord(3, leaves[2])));
        bytes32 asStatement = keccak256(abi.encode(uint256(2), uint64(2), leaves[2]));
        vm.expectRevert(_anotherWord(challenged, asStatement));
        decisions.answerStatement(_channel, 2, leaves[2], new bytes32[](0));
    }

    function test_a_proof_has_every_hash_in_its_place_and_no_other() public {
        _challenge(_channel, _receipt(_channel, 2));
        bytes memory refusal = _refusal(IDisputeManager.ProofInvalid.selector, _channel);
        bytes32[] memory siblings = _siblings(2);
        (siblings[0], siblings[1]) = (siblings[1], siblings[0]);
        _refusedAnswer(2, leaves[2], siblings, refusal);
        _refusedAnswer(2, leaves[2], new bytes32[](0), refusal);
        bytes32[] memory longer = new bytes32[](4);
        for (uint256 i = 0; i < 3; ++i) {
            longer[i] = _siblings(2)[i];
        }
        _refusedAnswer(2, leaves[2], longer, refusal);
        _answer(_channel, 2);
    }

    function test_a_failed_answer_changes_nothing() public {
        _challenge(_channel, _receipt(_channel, 2));
        bytes32 before = keccak256(abi.encode(_case(_channel)));
        vm.expectRevert(_refusal(IDisputeManager.ProofInvalid.selector, _channel));
        decisions.answerReceipt(_channel, 2, leaves[2], new bytes32[](0));
        vm.assertEq(keccak256(abi.encode(_case(_channel))), before);
    }

    function test_an_answer_comes_in_the_last_second_before_its_time_is_over_and_not_after() public {
        bytes32 late = _held(keccak256("late"));
        _challenge(_channel, _receipt(_channel, 2));
        _challenge(late, _receipt(late, 2));
        uint64 answerBy = _now() + ANSWER;
        _elapse(ANSWER - 1);
        _answer(_channel, 2);
        vm.expectRevert(_refusal(IDisputeManager.AnswerStillDue.selector, late, answerBy));
        decisions.claimUnanswered(late);
        _elapse(1);
        bytes32[] memory siblings = _siblings(2);
        vm.expectRevert(_refusal(IDisputeManager.AnswerTooLate.selector, late, answerBy));
        decisions.answerReceipt(late, 2, leaves[2], siblings);
        vm.expectRevert(_refusal(IDisputeManager.AnswerTooLate.selector, late, answerBy));
        decisions.answerStatement(late, 2, leaves[2], siblings);
        decisions.claimUnanswered(late);
    }

    function test_what_nobody_answered_gives_everything_and_the_bond_back_by_anyone() public {
        _challenge(_channel, _receipt(_channel, 2, _OTHER, CHARGE));
        _elapse(ANSWER);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.LieProven(_channel, Lie.Unanswered, stranger, CAPTURED);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.BondPaid(_channel, client, BOND);
        vm.prank(stranger);
        decisions.claimUnanswered(_channel);
        _assertGivenBack();
        vm.expectRevert(_refusal(IDisputeManager.NoChallengePending.selector, _channel));
        decisions.claimUnanswered(_channel);
    }

    function test_there_is_nothing_to_answer_or_claim_without_a_challenge() public {
        bytes memory none = _refusal(IDisputeManager.NoChallengePending.selector, _channel);
        bytes32[] memory siblings = _siblings(2);
        vm.expectRevert(none);
        decisions.claimUnanswered(_channel);
        vm.expectRevert(none);
        decisions.answerReceipt(_channel, 2, leaves[2], siblings);
        vm.expectRevert(none);
        decisions.answerStatement(_channel, 2, leaves[2], siblings);
        _challenge(_channel, _receipt(_channel, 2));
        _answer(_channel, 2);
        vm.expectRevert(none);
        decisions.answerReceipt(_channel, 2, leaves[2], siblings);
        _elapse(ANSWER);
        vm.expectRevert(none);
        decisions.claimUnanswered(_channel);
    }

    function test_a_challenge_needs_its_bond_and_no_arbitrator() public {
        vm.prank(client);
        token.approve(address(decisions), BOND - 1);
        Receipt memory receipt = _receipt(_channel, 2);
        vm.prank(client);
        vm.expectRevert();
        decisions.challengeReceipt(_channel, receipt);
        vm.assertFalse(decisions.isPending(_channel));
        vm.prank(client);
        token.approve(address(decisions), BOND);
        _challenge(_channel, receipt);
    }

    function test_a_single_call_is_its_own_proof() public {
        leaves = _transcript(1);
        bytes32 channel = _open(keccak256("single"));
        _settle(_honest(channel, CHARGE));
        _challenge(channel, _receipt(channel, 0));
        decisions.answerReceipt(channel, 0, leaves[0], new bytes32[](0));
        vm.assertEq(token.balanceOf(payee), BOND);
    }

    function test_a_random_root_cannot_be_shown_to_have_anything_in_it() public {
        bytes32 channel = _open(keccak256("random"));
        bytes memory voucher = _voucher(channel, CAPTURED);
        vm.startPrank(payee);
        manager.commitResults(channel, _OTHER, CALLS);
        manager.close(channel, CAPTURED, voucher);
        vm.stopPrank();
        _challenge(channel, _receipt(channel, 0));
        vm.expectRevert(_refusal(IDisputeManager.ProofInvalid.selector, channel));
        decisions.answerReceipt(channel, 0, leaves[0], _siblings(0));
        _elapse(ANSWER);
        decisions.claimUnanswered(channel);
        _assertMoney(channel, CAPTURED, 0, CAPTURED, DEPOSIT - CAPTURED);
    }

    function _receiptWord(uint64 index, bytes32 leaf) private pure returns (bytes32) {
        return keccak256(abi.encode(uint256(1), index, leaf));
    }

    function _notChallengeable() private view returns (bytes memory) {
        return _refusal(IDisputeManager.NotChallengeable.selector, _channel, CALLS);
    }

    function _anotherWord(bytes32 challenged, bytes32 answered) private view returns (bytes memory) {
        return abi.encodeWithSelector(IDisputeManager.AnswersAnotherWord.selector, _channel, challenged, answered);
    }

    function _assertPending(uint64 answerBy, bytes32 word) private view {
        Case memory found = _case(_channel);
        vm.assertTrue(decisions.isPending(_channel));
        vm.assertTrue(found.dispute == DisputeState.None);
        vm.assertEq(found.answerBy, answerBy);
        vm.assertEq(found.challengedWord, word);
        vm.assertEq(found.ruleBy, 0);
    }

    function _assertAnswered(uint256 challenges) private view {
        vm.assertFalse(decisions.isPending(_channel));
        vm.assertEq(_case(_channel).challengedWord, bytes32(0));
        vm.assertEq(token.balanceOf(payee), challenges * BOND);
        vm.assertEq(token.balanceOf(address(decisions)), 0);
        _assertMoney(_channel, CAPTURED, CAPTURED, 0, DEPOSIT - CAPTURED);
    }

    function _assertGivenBack() private view {
        _assertMoney(_channel, CAPTURED, 0, CAPTURED, DEPOSIT - CAPTURED);
        vm.assertEq(_spentByClient(), 0);
        _assertEmpty();
    }

    function _refused(Receipt memory receipt, bytes memory refusal) private {
        vm.prank(client);
        vm.expectRevert(refusal);
        decisions.challengeReceipt(_channel, receipt);
    }

    function _refused(Statement memory statement, bytes memory refusal) private {
        vm.prank(client);
        vm.expectRevert(refusal);
        decisions.challengeStatement(_channel, statement);
    }

    function _refusedAnswer(uint64 index, bytes32 leaf, bytes32[] memory proof, bytes memory refusal) private {
        vm.expectRevert(refusal);
        decisions.answerReceipt(_channel, index, leaf, proof);
    }
}
