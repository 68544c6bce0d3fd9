// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DisputeState, IDisputeManager, Lie, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice L2: the operator signed for a call that what it anchored does not have.
contract OmissionTest is DisputeFixture {
    bytes32 private constant _LEAF = keccak256("a call that was left out");

    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _held();
    }

    function test_a_receipt_of_the_first_call_that_was_left_out_gives_everything_back() public {
        Receipt memory receipt = _receipt(_channel, CALLS, _LEAF, 0);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.LieProven(_channel, Lie.Omission, stranger, CAPTURED);
        vm.prank(stranger);
        decisions.proveOmittedReceipt(_channel, receipt);
        _assertGivenBack();
    }

    function test_a_receipt_of_any_later_call_does_too() public {
        decisions.proveOmittedReceipt(_channel, _receipt(_channel, type(uint64).max, _LEAF, 0));
        _assertGivenBack();
    }

    function test_a_receipt_of_the_last_anchored_call_shows_nothing_left_out() public {
        for (uint64 i = 0; i < CALLS; ++i) {
            _refusedReceipt(_receipt(_channel, i), _nothingOmitted());
        }
        _refusedReceipt(_receipt(_channel, CALLS - 1, _LEAF, 0), _nothingOmitted());
    }

    function test_a_statement_over_one_call_more_gives_everything_back() public {
        Statement memory statement = _statement(_channel, CALLS + 1, _LEAF, 0);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.LieProven(_channel, Lie.Omission, stranger, CAPTURED);
        vm.prank(stranger);
        decisions.proveOmittedStatement(_channel, statement);
        _assertGivenBack();
    }

    function test_a_statement_over_as_many_calls_or_fewer_shows_nothing_left_out() public {
        for (uint64 count = 1; count <= CALLS; ++count) {
            _refusedStatement(_statement(_channel, count), _nothingOmitted());
        }
        _refusedStatement(_statement(_channel, CALLS, _LEAF, 0), _nothingOmitted());
        _refusedStatement(_statement(_channel, 0, bytes32(0), 0), _nothingOmitted());
    }

    function test_the_words_must_be_the_operators() public {
        bytes memory refusal =
            abi.encodeWithSelector(IDisputeManager.NotOperatorsWord.selector, _channel, receiptSigner, thief);
        Receipt memory receipt = _receipt(_channel, CALLS, _LEAF, 0);
        receipt.signature = _sign(THIEF_KEY, _receiptDigest(_channel, CALLS, _LEAF, 0));
        _refusedReceipt(receipt, refusal);
        Statement memory statement = _statement(_channel, CALLS + 1, _LEAF, 0);
        statement.signature = _sign(THIEF_KEY, _statementDigest(_channel, CALLS + 1, _LEAF, 0));
        _refusedStatement(statement, refusal);
    }

    function test_an_omission_is_shown_in_the_last_second_of_the_window_and_not_after() public {
        bytes32 other = _held(keccak256("other"));
        uint64 heldUntil = manager.holdOf(other).heldUntil;
        vm.warp(heldUntil - 1);
        decisions.proveOmittedReceipt(_channel, _receipt(_channel, CALLS, _LEAF, 0));
        vm.warp(heldUntil);
        bytes memory closed = _refusal(IDisputeManager.WindowClosed.selector, other, heldUntil);
        Receipt memory receipt = _receipt(other, CALLS, _LEAF, 0);
        vm.expectRevert(closed);
        decisions.proveOmittedReceipt(other, receipt);
        Statement memory statement = _statement(other, CALLS + 1, _LEAF, 0);
        vm.expectRevert(closed);
        decisions.proveOmittedStatement(other, statement);
    }

    function test_an_omission_overtakes_a_dispute_and_a_challenge() public {
        _raise(_channel);
        _challenge(_channel, _statement(_channel, 2));
        decisions.proveOmittedStatement(_channel, _statement(_channel, CALLS + 1, _LEAF, 0));
        _assertGivenBack();
        vm.assertTrue(_case(_channel).dispute == DisputeState.Overtaken);
        _refusedReceipt(_receipt(_channel, CALLS, _LEAF, 0), _refusal(IDisputeManager.NoMoneyHeld.selector, _channel));
    }

    function _assertGivenBack() private view {
        _assertMoney(_channel, CAPTURED, 0, CAPTURED, DEPOSIT - CAPTURED);
        vm.assertEq(_spentByClient(), 0);
        _assertEmpty();
    }

    function _nothingOmitted() private view returns (bytes memory) {
        return _refusal(IDisputeManager.NothingOmitted.selector, _channel, CALLS);
    }

    function _refusedReceipt(Receipt memory receipt, bytes memory refusal) private {
        vm.expectRevert(refusal);
        decisions.proveOmittedReceipt(_channel, receipt);
    }

    function _refusedStatement(Statement memory statement, bytes memory refusal) private {
        vm.expectRevert(refusal);
        decisions.proveOmittedStatement(_channel, statement);
    }
}
