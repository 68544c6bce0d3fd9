// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DisputeState, IDisputeManager, Lie, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice L3: more was captured than the operator's own words add up to.
contract OverchargeTest is DisputeFixture {
    bytes32 private _honestly;
    bytes32 private _dear;

    function setUp() public override {
        super.setUp();
        _honestly = _held();
        _dear = _capturing(CAPTURED + 1);
    }

    function test_a_statement_over_all_calls_shows_that_one_unit_too_much_was_captured() public {
        Statement memory statement = _statement(_dear, CALLS);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.LieProven(_dear, Lie.Overcharge, stranger, CAPTURED + 1);
        vm.prank(stranger);
        decisions.proveOvercharge(_dear, statement, new Receipt[](0));
        _assertGivenBack();
    }

    function test_receipts_of_all_calls_show_it_without_a_statement() public {
        decisions.proveOvercharge(_dear, _none(), _receipts(_dear, 0, CALLS));
        _assertGivenBack();
    }

    function test_a_statement_over_the_first_calls_and_receipts_of_the_others_show_it() public {
        for (uint64 covered = 1; covered < CALLS; ++covered) {
            bytes32 channel = _capturing(keccak256(abi.encode(covered)), CAPTURED + 1);
            decisions.proveOvercharge(channel, _statement(channel, covered), _receipts(channel, covered, CALLS));
            _assertMoney(channel, CAPTURED + 1, 0, CAPTURED + 1, DEPOSIT - CAPTURED - 1);
        }
    }

    function test_what_was_charged_exactly_is_no_overcharge_whatever_words_say_so() public {
        for (uint64 covered = 0; covered <= CALLS; ++covered) {
            Statement memory statement = covered == 0 ? _none() : _statement(_honestly, covered);
            _refused(_honestly, statement, _receipts(_honestly, covered, CALLS), _notOvercharged(CAPTURED, CAPTURED));
        }
    }

    function test_capturing_less_than_was_charged_is_no_overcharge() public {
        bytes32 channel = _capturing(keccak256("cheap"), CAPTURED - 1);
        _refused(
            channel, _statement(channel, CALLS), new Receipt[](0), _notOvercharged(channel, CAPTURED, CAPTURED - 1)
        );
    }

    function test_a_statement_over_no_calls_is_not_looked_at() public {
        Statement memory noise = Statement(0, keccak256("noise"), type(uint128).max, "no signature");
        decisions.proveOvercharge(_dear, noise, _receipts(_dear, 0, CALLS));
        _assertGivenBack();
    }

    function test_the_words_cover_every_call_once_in_order() public {
        bytes memory refusal = _coverage(_dear, CALLS);
        Statement memory none = _none();
        // One too few, one too many, from the wrong one on, one twice, two swapped.
        _refused(_dear, none, _receipts(_dear, 0, CALLS - 1), refusal);
        _refused(_dear, _statement(_dear, 2), _receipts(_dear, 1, CALLS), refusal);
        _refused(_dear, _statement(_dear, 2), _receipts(_dear, 1, CALLS - 1), refusal);
        Receipt[] memory receipts = _receipts(_dear, 0, CALLS);
        receipts[3] = receipts[2];
        _refused(_dear, none, receipts, refusal);
        receipts = _receipts(_dear, 0, CALLS);
        (receipts[0], receipts[1]) = (receipts[1], receipts[0]);
        _refused(_dear, none, receipts, refusal);
        _refused(_dear, none, new Receipt[](0), refusal);
    }

    function test_a_statement_over_more_calls_than_were_anchored_covers_nothing() public {
        Statement memory statement = _statement(_dear, CALLS + 1, keccak256("longer"), 1);
        _refused(_dear, statement, new Receipt[](0), _coverage(_dear, CALLS));
    }

    function test_at_most_32_receipts_are_looked_at() public {
        leaves = _transcript(33);
        bytes32 channel = _open(keccak256("long"));
        _settle(_honest(channel, 33 * CHARGE + 1));
        _refused(channel, _none(), _receipts(channel, 0, 33), _coverage(channel, 33));
        decisions.proveOvercharge(channel, _statement(channel, 1), _receipts(channel, 1, 33));
        _assertMoney(channel, 33 * CHARGE + 1, 0, 33 * CHARGE + 1, DEPOSIT - 33 * CHARGE - 1);
    }

    function test_every_word_must_be_the_operators() public {
        bytes memory refusal =
            abi.encodeWithSelector(IDisputeManager.NotOperatorsWord.selector, _dear, receiptSigner, thief);
        Statement memory statement = _statement(_dear, 2, _rootOver(2), 0);
        statement.signature = _sign(THIEF_KEY, _statementDigest(_dear, 2, statement.root, 0));
        _refused(_dear, statement, _receipts(_dear, 2, CALLS), refusal);
        Receipt[] memory receipts = _receipts(_dear, 0, CALLS);
        receipts[4] = Receipt(4, leaves[4], 0, _sign(THIEF_KEY, _receiptDigest(_dear, 4, leaves[4], 0)));
        _refused(_dear, _none(), receipts, refusal);
    }

    function test_charges_that_do_not_fit_128_bits_are_added_up_all_the_same() public {
        Receipt[] memory receipts = _receipts(_dear, 1, CALLS);
        receipts[0] = _receipt(_dear, 1, leaves[1], type(uint128).max);
        receipts[1] = _receipt(_dear, 2, leaves[2], type(uint128).max);
        Statement memory statement = _statement(_dear, 1, leaves[0], type(uint128).max);
        uint256 charged = 3 * uint256(type(uint128).max) + 2 * CHARGE;
        _refused(_dear, statement, receipts, _notOvercharged(_dear, charged, CAPTURED + 1));
    }

    function test_failed_calls_cost_nothing() public {
        Receipt[] memory receipts = _receipts(_honestly, 0, CALLS);
        receipts[3] = _receipt(_honestly, 3, leaves[3], 0);
        decisions.proveOvercharge(_honestly, _none(), receipts);
        _assertMoney(_honestly, CAPTURED, 0, CAPTURED, DEPOSIT - CAPTURED);
    }

    function test_what_settle_captured_mid_session_counts() public {
        bytes32 channel = _open(keccak256("mid"));
        bytes32 root = _rootOver(CALLS);
        vm.prank(operator);
        manager.commitResults(channel, root, CALLS);
        bytes memory voucher = _voucher(channel, CAPTURED + 1);
        vm.startPrank(payee);
        manager.settle(channel, CAPTURED + 1, voucher);
        manager.close(channel, 0, "");
        vm.stopPrank();
        decisions.proveOvercharge(channel, _statement(channel, CALLS), new Receipt[](0));
        _assertMoney(channel, CAPTURED + 1, 0, CAPTURED + 1, DEPOSIT - CAPTURED - 1);
    }

    function test_an_overcharge_is_shown_in_the_last_second_of_the_window_and_not_after() public {
        uint64 heldUntil = manager.holdOf(_dear).heldUntil;
        vm.warp(heldUntil - 1);
        decisions.proveOvercharge(_dear, _statement(_dear, CALLS), new Receipt[](0));
        _assertGivenBack();
        vm.warp(heldUntil - WINDOW);
        bytes32 late = _capturing(keccak256("late"), CAPTURED + 1);
        vm.warp(heldUntil);
        _refused(
            late,
            _statement(late, CALLS),
            new Receipt[](0),
            _refusal(IDisputeManager.WindowClosed.selector, late, heldUntil)
        );
    }

    function test_an_overcharge_overtakes_a_dispute_and_a_challenge() public {
        _raise(_dear);
        _challenge(_dear, _receipt(_dear, 1));
        decisions.proveOvercharge(_dear, _statement(_dear, CALLS), new Receipt[](0));
        _assertGivenBack();
        vm.assertTrue(_case(_dear).dispute == DisputeState.Overtaken);
        vm.assertEq(token.balanceOf(address(decisions)), 0);
    }

    function _capturing(uint128 capture) private returns (bytes32) {
        return _capturing(keccak256("dear"), capture);
    }

    function _capturing(bytes32 nonce, uint128 capture) private returns (bytes32 channel) {
        channel = _open(nonce);
        _settle(_honest(channel, capture));
    }

    function _none() private pure returns (Statement memory none) {}

    function _receipts(bytes32 channel, uint64 from, uint64 to) private view returns (Receipt[] memory receipts) {
        receipts = new Receipt[](to - from);
        for (uint64 i = from; i < to; ++i) {
            receipts[i - from] = _receipt(channel, i);
        }
    }

    function _assertGivenBack() private view {
        _assertMoney(_dear, CAPTURED + 1, 0, CAPTURED + 1, DEPOSIT - CAPTURED - 1);
        // What the honest session cost.
        vm.assertEq(_spentByClient(), CAPTURED);
        vm.assertEq(token.balanceOf(payee), 0);
    }

    function _coverage(bytes32 channel, uint64 callCount) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IDisputeManager.CoverageInvalid.selector, channel, callCount, uint256(32));
    }

    function _notOvercharged(uint256 charged, uint128 captured) private view returns (bytes memory) {
        return _notOvercharged(_honestly, charged, captured);
    }

    function _notOvercharged(bytes32 channel, uint256 charged, uint128 captured) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IDisputeManager.NotOvercharged.selector, channel, charged, captured);
    }

    function _refused(bytes32 channel, Statement memory statement, Receipt[] memory receipts, bytes memory refusal)
        private
    {
        vm.expectRevert(refusal);
        decisions.proveOvercharge(channel, statement, receipts);
    }
}
