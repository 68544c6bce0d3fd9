// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

/// @notice Money over the whole width of its type.
contract AmountsFuzzTest is PaymentFixture {
    function setUp() public override {
        super.setUp();
        token.mint(client, type(uint128).max);
    }

    function testFuzz_captured_and_refunded_are_the_deposit(
        uint128 deposit,
        uint128 topUp,
        uint128 first,
        uint128 voucherAmount,
        uint128 capture
    ) public {
        deposit = _bound128(deposit, 1, type(uint128).max - 1);
        topUp = _bound128(topUp, 1, type(uint128).max - deposit);
        uint128 total = deposit + topUp;
        first = _bound128(first, 1, total);
        voucherAmount = _bound128(voucherAmount, first, total);
        capture = _bound128(capture, first, voucherAmount);

        uint256 before = token.balanceOf(client);
        vm.startPrank(client);
        bytes32 channel = manager.openSession(serviceId, termsHash, deposit, keccak256("n"), address(0), bytes32(0));
        manager.topUp(channel, topUp);
        vm.stopPrank();
        vm.assertEq(before - token.balanceOf(client), total);
        _commit(channel);
        bytes memory voucher = _voucher(channel, first);
        vm.prank(payee);
        manager.settle(channel, first, voucher);
        vm.assertEq(token.balanceOf(payee), first);
        voucher = _voucher(channel, voucherAmount);
        vm.prank(operator);
        manager.settleSession(Settlement(channel, voucherAmount, capture, 3, ROOT, voucher));

        SessionView memory found = _view(channel);
        vm.assertEq(found.settled, capture);
        vm.assertEq(found.settled + found.refunded, total);
        vm.assertEq(token.balanceOf(payee), capture);
        vm.assertEq(before - token.balanceOf(client), capture);
        vm.assertEq(token.balanceOf(address(manager)), 0);
    }

    function testFuzz_a_capture_outside_what_is_settled_voucher_and_deposit_is_refused(
        uint128 settled,
        uint128 voucherAmount,
        uint128 capture
    ) public {
        bytes32 channel = _open();
        _commit(channel);
        settled = _bound128(settled, 1, DEPOSIT);
        bytes memory voucher = _voucher(channel, settled);
        vm.prank(payee);
        manager.settle(channel, settled, voucher);

        bool allowed = capture == settled || (capture > settled && capture <= voucherAmount && voucherAmount <= DEPOSIT);
        voucher = _voucher(channel, voucherAmount);
        vm.prank(operator);
        if (!allowed) vm.expectRevert();
        manager.settleSession(Settlement(channel, voucherAmount, capture, 3, ROOT, voucher));
        vm.assertEq(_view(channel).settled, allowed ? capture : settled);
    }

    function testFuzz_only_the_exact_voucher_is_accepted(uint128 signed, uint128 claimed, bytes calldata noise) public {
        bytes32 channel = _open();
        signed = _bound128(signed, 0, type(uint128).max);
        bytes memory voucher = _voucher(channel, signed);
        vm.assertTrue(manager.isVoucherValid(channel, signed, voucher));
        if (claimed != signed) vm.assertFalse(manager.isVoucherValid(channel, claimed, voucher));
        if (keccak256(noise) != keccak256(voucher)) {
            vm.assertFalse(manager.isVoucherValid(channel, signed, noise));
        }
    }
}
