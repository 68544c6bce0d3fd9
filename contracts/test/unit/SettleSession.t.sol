// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {IPaymentManager, SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

/// @notice Commit, capture, refund and end in one call.
contract SettleSessionTest is PaymentFixture {
    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _open();
    }

    function test_it_commits_captures_refunds_and_ends_at_once() public {
        uint256 before = token.balanceOf(client);
        Settlement memory item = _settlement(_channel, 700);
        vm.expectEmit(address(manager));
        emit IPaymentManager.ResultsCommitted(_channel, 1, ROOT, 3);
        vm.expectEmit(address(manager));
        emit IEscrow.Settled(_channel, 700, 700);
        vm.expectEmit(address(manager));
        emit IEscrow.Finalized(_channel, 1, 700, DEPOSIT - 700);
        _settleAs(payee, item);

        SessionView memory found = _view(_channel);
        vm.assertEq(found.root, ROOT);
        vm.assertEq(found.callCount, 3);
        vm.assertEq(found.settled, 700);
        vm.assertEq(found.refunded, DEPOSIT - 700);
        vm.assertEq(found.finalizedAt, block.timestamp);
        vm.assertEq(token.balanceOf(payee), 700);
        vm.assertEq(token.balanceOf(client) - before, DEPOSIT - 700);
    }

    function test_the_operator_can_send_it_and_the_payee_gets_the_money() public {
        _settleAs(operator, _settlement(_channel, 700));
        vm.assertEq(token.balanceOf(payee), 700);
        vm.assertEq(token.balanceOf(operator), 0);
    }

    function test_nobody_else_can_send_it() public {
        Settlement memory item = _settlement(_channel, 700);
        address[3] memory others = [client, thief, receiptSigner];
        for (uint256 i = 0; i < others.length; ++i) {
            bytes memory refusal =
                abi.encodeWithSelector(IPaymentManager.NotPayeeOrOperator.selector, _channel, others[i]);
            _refusedAs(others[i], item, refusal);
        }
        bytes32 plain = _openPlain();
        _refusedAs(
            operator,
            _settlement(plain, 1),
            abi.encodeWithSelector(IPaymentManager.NotPayeeOrOperator.selector, plain, operator)
        );
    }

    function test_less_than_the_voucher_may_be_captured_and_the_rest_is_refunded() public {
        Settlement memory item = _settlement(_channel, 700);
        item.capture = 500;
        _settleAs(operator, item);
        vm.assertEq(token.balanceOf(payee), 500);
        vm.assertEq(_view(_channel).refunded, DEPOSIT - 500);
    }

    function test_more_than_the_voucher_may_not() public {
        Settlement memory item = _settlement(_channel, 700);
        item.capture = 701;
        _refused(item, _refusal(IEscrow.CaptureExceedsVoucher.selector, 700, 701));
    }

    function test_a_voucher_above_the_deposit_is_refused_even_for_a_small_capture() public {
        Settlement memory item = _settlement(_channel, DEPOSIT + 1);
        item.capture = 1;
        _refused(item, _refusal(IEscrow.AmountExceedsDeposit.selector, DEPOSIT, DEPOSIT + 1));
    }

    function test_what_is_settled_cannot_be_taken_back() public {
        _commit(_channel);
        bytes memory voucher = _voucher(_channel, 500);
        vm.prank(payee);
        manager.settle(_channel, 500, voucher);
        _refused(_settlement(_channel, 499), _refusal(IPaymentManager.CaptureBelowSettled.selector, 500, 499));
    }

    function test_capturing_what_is_settled_already_needs_no_voucher() public {
        _commit(_channel);
        bytes memory voucher = _voucher(_channel, 500);
        vm.prank(payee);
        manager.settle(_channel, 500, voucher);
        _settleAs(operator, Settlement(_channel, 0, 500, 3, ROOT, ""));
        vm.assertEq(token.balanceOf(payee), 500);
        vm.assertEq(_view(_channel).refunded, DEPOSIT - 500);
    }

    function test_an_unused_session_ends_with_nothing_committed_and_all_refunded() public {
        _settleAs(operator, Settlement(_channel, 0, 0, 0, bytes32(0), ""));
        SessionView memory found = _view(_channel);
        vm.assertEq(found.root, bytes32(0));
        vm.assertEq(found.refunded, DEPOSIT);
    }

    function test_calls_that_cost_nothing_are_committed_all_the_same() public {
        _settleAs(operator, Settlement(_channel, 0, 0, 3, ROOT, ""));
        SessionView memory found = _view(_channel);
        vm.assertEq(found.root, ROOT);
        vm.assertEq(found.refunded, DEPOSIT);
    }

    function test_root_and_call_count_are_zero_together_or_not_at_all() public {
        Settlement memory item = _settlement(_channel, 700);
        item.callCount = 0;
        _refused(item, abi.encodeWithSelector(IPaymentManager.InvalidCommitment.selector, ROOT, uint64(0)));
        item.callCount = 3;
        item.root = bytes32(0);
        _refused(item, abi.encodeWithSelector(IPaymentManager.InvalidCommitment.selector, bytes32(0), uint64(3)));
    }

    function test_a_committed_root_must_be_repeated_exactly() public {
        _commit(_channel);
        bytes memory refusal =
            abi.encodeWithSelector(IPaymentManager.RootAlreadyCommitted.selector, _channel, ROOT, uint64(3));
        Settlement memory item = _settlement(_channel, 700);
        item.root = keccak256("another");
        _refused(item, refusal);
        item.root = ROOT;
        item.callCount = 4;
        _refused(item, refusal);
        item.callCount = 2;
        _refused(item, refusal);
        item.root = bytes32(0);
        item.callCount = 0;
        _refused(item, refusal);
        _settleAs(operator, _settlement(_channel, 700));
        vm.assertEq(token.balanceOf(payee), 700);
    }

    function test_a_refused_settlement_leaves_no_root_behind() public {
        Settlement memory item = _settlement(_channel, 700);
        item.signature = "";
        _refused(item, abi.encodeWithSelector(IEscrow.InvalidSignature.selector, _channel, client));
        vm.assertEq(_view(_channel).root, bytes32(0));
    }

    function test_sending_it_again_does_nothing() public {
        Settlement memory item = _settlement(_channel, 700);
        _settleAs(operator, item);
        bytes32 before = keccak256(abi.encode(_view(_channel)));
        uint256 clientBalance = token.balanceOf(client);
        vm.warp(block.timestamp + 1);
        _settleAs(operator, item);
        _settleAs(payee, item);
        vm.assertEq(keccak256(abi.encode(_view(_channel))), before);
        vm.assertEq(token.balanceOf(payee), 700);
        vm.assertEq(token.balanceOf(client), clientBalance);
    }

    function test_sending_it_again_with_anything_else_reverts() public {
        _settleAs(operator, _settlement(_channel, 700));
        bytes memory over = abi.encodeWithSelector(IEscrow.ChannelFinalized.selector, _channel);
        Settlement memory item = _settlement(_channel, 701);
        _refused(item, over);
        item = _settlement(_channel, 699);
        _refused(item, over);
        item = _settlement(_channel, 700);
        item.root = keccak256("another");
        _refused(item, over);
        item = _settlement(_channel, 700);
        item.callCount = 4;
        _refused(item, over);
    }

    function test_sending_it_again_tells_a_stranger_nothing() public {
        Settlement memory item = _settlement(_channel, 700);
        _settleAs(operator, item);
        _refusedAs(thief, item, abi.encodeWithSelector(IPaymentManager.NotPayeeOrOperator.selector, _channel, thief));
    }

    function test_after_a_withdrawal_it_is_too_late() public {
        vm.startPrank(client);
        manager.requestClose(_channel);
        vm.warp(block.timestamp + GRACE);
        manager.withdraw(_channel);
        vm.stopPrank();
        _refused(_settlement(_channel, 700), abi.encodeWithSelector(IEscrow.ChannelFinalized.selector, _channel));
    }

    function test_until_a_withdrawal_it_is_not() public {
        vm.prank(client);
        manager.requestClose(_channel);
        vm.warp(block.timestamp + 10 * GRACE);
        _settleAs(operator, _settlement(_channel, 700));
        vm.assertEq(token.balanceOf(payee), 700);
    }

    function test_a_plain_channel_can_be_settled_so_by_its_payee() public {
        bytes32 plain = _openPlain();
        _settleAs(payee, _settlement(plain, 700));
        vm.assertEq(_view(plain).root, ROOT);
        vm.assertEq(token.balanceOf(payee), 700);
    }

    function test_an_unknown_channel_is_refused() public {
        bytes32 unknown = keccak256("unknown");
        _refused(_settlement(unknown, 1), abi.encodeWithSelector(IEscrow.ChannelNotFound.selector, unknown));
    }

    function _settleAs(address sender, Settlement memory item) private {
        vm.prank(sender);
        manager.settleSession(item);
    }

    function _refused(Settlement memory item, bytes memory refusal) private {
        _refusedAs(operator, item, refusal);
    }

    function _refusedAs(address sender, Settlement memory item, bytes memory refusal) private {
        vm.prank(sender);
        vm.expectRevert(refusal);
        manager.settleSession(item);
    }

    function _refusal(bytes4 selector, uint128 limit, uint128 given) private view returns (bytes memory) {
        return abi.encodeWithSelector(selector, _channel, limit, given);
    }
}
