// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {IPaymentManager, SessionView} from "../../src/interfaces/IPaymentManager.sol";
import {IServiceRegistry} from "../../src/interfaces/IServiceRegistry.sol";
import {TokenTransfer} from "../../src/libraries/TokenTransfer.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

/// @notice The escrow core of the scheme, on plain channels.
contract EscrowCoreTest is PaymentFixture {
    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _openPlain();
    }

    function test_opening_takes_exactly_the_deposit_and_says_so() public {
        uint256 before = token.balanceOf(client);
        bytes32 expected =
            manager.computeChannelId(client, payee, address(token), bytes32(uint256(1)), vm.addr(DELEGATE_KEY));
        vm.expectEmit(address(manager));
        emit IEscrow.ChannelOpened(
            2, expected, client, payee, address(token), 7, bytes32(uint256(1)), vm.addr(DELEGATE_KEY)
        );
        vm.prank(client);
        bytes32 id = manager.open(payee, address(token), 7, bytes32(uint256(1)), vm.addr(DELEGATE_KEY));
        vm.assertEq(id, expected);
        vm.assertEq(before - token.balanceOf(client), 7);
        vm.assertEq(manager.sessionCount(), 2);
    }

    function test_a_plain_channel_has_no_terms_and_needs_no_root() public {
        SessionView memory found = _view(_channel);
        vm.assertEq(found.sessionId, 1);
        vm.assertEq(found.channelId, _channel);
        vm.assertEq(found.payer, client);
        vm.assertEq(found.payee, payee);
        vm.assertEq(found.token, address(token));
        vm.assertEq(found.operator, address(0));
        vm.assertEq(found.serviceId, 0);
        vm.assertEq(found.termsHash, bytes32(0));
        vm.assertEq(found.openedAt, block.timestamp);
        vm.assertFalse(found.commitRequired);
        _settle(600);
        vm.assertEq(_view(_channel).settled, 600);
    }

    function test_the_same_parameters_open_only_once() public {
        vm.prank(client);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ChannelAlreadyExists.selector, _channel));
        manager.open(payee, address(token), DEPOSIT, keccak256("salt"), address(0));
    }

    function test_a_payee_a_deposit_and_a_token_are_needed() public {
        vm.startPrank(client);
        vm.expectRevert(IEscrow.ZeroPayee.selector);
        manager.open(address(0), address(token), 1, 0, address(0));
        vm.expectRevert(IEscrow.ZeroDeposit.selector);
        manager.open(payee, address(token), 0, 0, address(0));
        vm.expectRevert(abi.encodeWithSelector(TokenTransfer.TokenWithoutCode.selector, thief));
        manager.open(payee, thief, 1, 0, address(0));
        vm.stopPrank();
    }

    function test_settling_pays_the_difference_to_what_is_settled() public {
        vm.expectEmit(address(manager));
        emit IEscrow.Settled(_channel, 400, 400);
        _settle(400);
        vm.expectEmit(address(manager));
        emit IEscrow.Settled(_channel, 1000, 600);
        _settle(1000);
        vm.assertEq(token.balanceOf(payee), 1000);
        vm.assertEq(token.balanceOf(address(manager)), DEPOSIT - 1000);
    }

    function test_a_voucher_that_is_not_above_what_is_settled_is_refused() public {
        _settle(400);
        _settleRefused(400, _voucher(_channel, 400), IEscrow.AmountNotIncreasing.selector, 400);
        _settleRefused(399, _voucher(_channel, 399), IEscrow.AmountNotIncreasing.selector, 400);
        _settleRefused(0, _voucher(_channel, 0), IEscrow.AmountNotIncreasing.selector, 400);
    }

    function test_a_voucher_above_the_deposit_is_refused_and_good_again_after_a_top_up() public {
        bytes memory voucher = _voucher(_channel, DEPOSIT + 1);
        _settleRefused(DEPOSIT + 1, voucher, IEscrow.AmountExceedsDeposit.selector, DEPOSIT);
        vm.prank(client);
        manager.topUp(_channel, 1);
        vm.prank(payee);
        manager.settle(_channel, DEPOSIT + 1, voucher);
        vm.assertEq(token.balanceOf(payee), DEPOSIT + 1);
    }

    function test_only_the_payee_settles_and_closes() public {
        bytes memory voucher = _voucher(_channel, 1);
        address[2] memory others = [client, thief];
        for (uint256 i = 0; i < others.length; ++i) {
            vm.startPrank(others[i]);
            vm.expectRevert(abi.encodeWithSelector(IEscrow.NotPayee.selector, _channel, others[i]));
            manager.settle(_channel, 1, voucher);
            vm.expectRevert(abi.encodeWithSelector(IEscrow.NotPayee.selector, _channel, others[i]));
            manager.close(_channel, 1, voucher);
            vm.stopPrank();
        }
    }

    function test_only_the_payer_tops_up_asks_to_close_and_withdraws() public {
        address[2] memory others = [payee, thief];
        for (uint256 i = 0; i < others.length; ++i) {
            bytes memory refusal = abi.encodeWithSelector(IEscrow.NotPayer.selector, _channel, others[i]);
            vm.startPrank(others[i]);
            vm.expectRevert(refusal);
            manager.topUp(_channel, 1);
            vm.expectRevert(refusal);
            manager.requestClose(_channel);
            vm.expectRevert(refusal);
            manager.withdraw(_channel);
            vm.stopPrank();
        }
    }

    function test_closing_pays_the_payee_refunds_the_payer_and_ends_the_channel() public {
        uint256 before = token.balanceOf(client);
        _settle(100);
        bytes memory voucher = _voucher(_channel, 300);
        vm.expectEmit(address(manager));
        emit IEscrow.Settled(_channel, 300, 200);
        vm.expectEmit(address(manager));
        emit IEscrow.Finalized(_channel, 1, 300, DEPOSIT - 300);
        vm.prank(payee);
        manager.close(_channel, 300, voucher);

        vm.assertEq(token.balanceOf(payee), 300);
        vm.assertEq(token.balanceOf(client) - before, DEPOSIT - 300);
        vm.assertEq(token.balanceOf(address(manager)), 0);
        SessionView memory found = _view(_channel);
        vm.assertEq(found.settled, 300);
        vm.assertEq(found.refunded, DEPOSIT - 300);
        vm.assertEq(found.finalizedAt, block.timestamp);
    }

    function test_closing_at_or_below_what_is_settled_needs_no_signature() public {
        _settle(100);
        vm.prank(payee);
        manager.close(_channel, 100, "");
        vm.assertEq(_view(_channel).settled, 100);
        vm.assertEq(token.balanceOf(payee), 100);
    }

    function test_closing_at_zero_refunds_everything() public {
        vm.prank(payee);
        manager.close(_channel, 0, "");
        vm.assertEq(_view(_channel).refunded, DEPOSIT);
    }

    function test_closing_above_what_is_settled_needs_a_signature() public {
        vm.prank(payee);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.InvalidSignature.selector, _channel, client));
        manager.close(_channel, 1, "");
    }

    function test_topping_up_adds_to_the_deposit() public {
        vm.expectEmit(address(manager));
        emit IEscrow.ToppedUp(_channel, 5, DEPOSIT + 5);
        vm.prank(client);
        manager.topUp(_channel, 5);
        vm.assertEq(_view(_channel).deposit, DEPOSIT + 5);
        vm.assertEq(token.balanceOf(address(manager)), DEPOSIT + 5);
    }

    function test_a_top_up_is_not_zero_and_fits_128_bits() public {
        vm.startPrank(client);
        vm.expectRevert(IEscrow.ZeroDeposit.selector);
        manager.topUp(_channel, 0);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.DepositOverflow.selector, _channel, DEPOSIT, type(uint128).max));
        manager.topUp(_channel, type(uint128).max);
        vm.stopPrank();
    }

    function test_the_payer_gets_out_alone_after_the_grace_period() public {
        _settle(250);
        uint256 before = token.balanceOf(client);
        uint64 closeableAt = uint64(block.timestamp) + GRACE;
        vm.expectEmit(address(manager));
        emit IEscrow.CloseRequested(_channel, closeableAt);
        vm.startPrank(client);
        manager.requestClose(_channel);
        vm.warp(closeableAt - 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.CloseNotReady.selector, _channel, closeableAt));
        manager.withdraw(_channel);
        vm.warp(closeableAt);
        manager.withdraw(_channel);
        vm.stopPrank();
        vm.assertEq(token.balanceOf(client) - before, DEPOSIT - 250);
        vm.assertEq(_view(_channel).closeRequestedAt, closeableAt - GRACE);
    }

    function test_withdrawing_without_a_request_is_refused_however_late() public {
        vm.warp(block.timestamp + 365 days);
        vm.prank(client);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.CloseNotReady.selector, _channel, 0));
        manager.withdraw(_channel);
    }

    function test_asking_to_close_again_does_not_restart_the_clock() public {
        uint64 requestedAt = uint64(block.timestamp);
        vm.startPrank(client);
        manager.requestClose(_channel);
        vm.warp(requestedAt + 500);
        manager.requestClose(_channel);
        vm.stopPrank();
        vm.assertEq(_view(_channel).closeRequestedAt, requestedAt);
    }

    function test_a_top_up_takes_a_pending_close_back() public {
        vm.startPrank(client);
        manager.requestClose(_channel);
        vm.expectEmit(address(manager));
        emit IEscrow.CloseCancelled(_channel);
        manager.topUp(_channel, 1);
        vm.assertEq(_view(_channel).closeRequestedAt, 0);
        vm.warp(block.timestamp + GRACE);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.CloseNotReady.selector, _channel, 0));
        manager.withdraw(_channel);
        vm.stopPrank();
    }

    function test_the_payee_can_settle_and_close_while_a_close_is_pending() public {
        vm.prank(client);
        manager.requestClose(_channel);
        _settle(10);
        vm.warp(block.timestamp + GRACE);
        bytes memory voucher = _voucher(_channel, 20);
        vm.prank(payee);
        manager.close(_channel, 20, voucher);
        vm.assertEq(token.balanceOf(payee), 20);
    }

    function test_a_finalized_channel_never_moves_and_never_opens_again() public {
        bytes memory voucher = _voucher(_channel, 500);
        vm.prank(payee);
        manager.close(_channel, 0, "");
        bytes memory over = abi.encodeWithSelector(IEscrow.ChannelFinalized.selector, _channel);

        vm.startPrank(payee);
        vm.expectRevert(over);
        manager.settle(_channel, 500, voucher);
        vm.expectRevert(over);
        manager.close(_channel, 500, voucher);
        vm.expectRevert(over);
        manager.close(_channel, 0, "");
        vm.expectRevert(over);
        manager.commitResults(_channel, ROOT, 3);
        vm.stopPrank();

        vm.startPrank(client);
        vm.expectRevert(over);
        manager.topUp(_channel, 1);
        vm.expectRevert(over);
        manager.requestClose(_channel);
        vm.expectRevert(over);
        manager.withdraw(_channel);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ChannelAlreadyExists.selector, _channel));
        manager.open(payee, address(token), DEPOSIT, keccak256("salt"), address(0));
        vm.stopPrank();
    }

    function test_nothing_works_on_an_unknown_channel() public {
        bytes32 unknown = keccak256("unknown");
        bytes memory refusal = abi.encodeWithSelector(IEscrow.ChannelNotFound.selector, unknown);
        vm.expectRevert(refusal);
        manager.settle(unknown, 1, "");
        vm.expectRevert(refusal);
        manager.close(unknown, 1, "");
        vm.expectRevert(refusal);
        manager.topUp(unknown, 1);
        vm.expectRevert(refusal);
        manager.requestClose(unknown);
        vm.expectRevert(refusal);
        manager.withdraw(unknown);
        vm.expectRevert(refusal);
        manager.commitResults(unknown, ROOT, 3);
        vm.assertFalse(manager.isVoucherValid(unknown, 1, ""));
        vm.assertEq(_view(unknown).sessionId, 0);
        vm.assertEq(_view(unknown).channelId, bytes32(0));
        vm.assertEq(manager.session(99).sessionId, 0);
    }

    function test_a_grace_period_under_900_seconds_is_refused() public {
        vm.expectRevert(_graceOutOfRange(899));
        new PaymentManager(registry, 899);
    }

    function test_a_grace_period_over_thirty_days_is_refused() public {
        vm.expectRevert(_graceOutOfRange(30 days + 1));
        new PaymentManager(registry, 30 days + 1);
    }

    function test_the_grace_period_lies_between_900_seconds_and_thirty_days() public {
        vm.assertEq(new PaymentManager(registry, 900).gracePeriodSeconds(), 900);
        vm.assertEq(new PaymentManager(registry, 30 days).gracePeriodSeconds(), 30 days);
    }

    function test_a_registry_without_code_is_refused() public {
        vm.expectRevert(abi.encodeWithSelector(IPaymentManager.RegistryWithoutCode.selector, thief));
        new PaymentManager(IServiceRegistry(thief), GRACE);
    }

    function _settle(uint128 amount) private {
        bytes memory voucher = _voucher(_channel, amount);
        vm.prank(payee);
        manager.settle(_channel, amount, voucher);
    }

    function _settleRefused(uint128 amount, bytes memory voucher, bytes4 selector, uint128 limit) private {
        vm.prank(payee);
        vm.expectRevert(abi.encodeWithSelector(selector, _channel, limit, amount));
        manager.settle(_channel, amount, voucher);
    }

    function _graceOutOfRange(uint64 given) private pure returns (bytes memory) {
        return abi.encodeWithSelector(IEscrow.GracePeriodOutOfRange.selector, given, uint64(900), uint64(30 days));
    }
}
