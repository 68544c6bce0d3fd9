// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {Hold, IPaymentManager, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice Money that was captured under a dispute window: how long it stays, and how it leaves.
contract HoldsTest is DisputeFixture {
    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _open();
    }

    function test_what_is_captured_is_held_and_what_is_not_goes_back_at_once() public {
        Settlement memory item = _honest(_channel, CAPTURED);
        vm.expectEmit(address(manager));
        emit IEscrow.Settled(_channel, CAPTURED, CAPTURED);
        vm.expectEmit(address(manager));
        emit IEscrow.Finalized(_channel, 1, CAPTURED, DEPOSIT - CAPTURED);
        _settle(item);
        _assertMoney(_channel, CAPTURED, CAPTURED, 0, DEPOSIT - CAPTURED);
        vm.assertEq(token.balanceOf(payee), 0);
        vm.assertEq(token.balanceOf(address(manager)), CAPTURED);
        vm.assertEq(_spentByClient(), CAPTURED);
    }

    function test_an_open_session_holds_what_settle_captured_so_far() public {
        _assertMoney(_channel, 0, 0, 0, 0);
        _settleTo(200);
        _assertMoney(_channel, 200, 200, 0, 0);
        _settleTo(300);
        _assertMoney(_channel, 300, 300, 0, 0);
        vm.assertEq(token.balanceOf(payee), 0);
        vm.assertEq(token.balanceOf(address(manager)), DEPOSIT);
    }

    function test_what_settle_captured_before_is_held_with_the_rest() public {
        _settleTo(200);
        _settle(_honest(_channel, CAPTURED));
        _assertMoney(_channel, CAPTURED, CAPTURED, 0, DEPOSIT - CAPTURED);
        vm.assertEq(token.balanceOf(payee), 0);
    }

    function test_closing_holds_what_it_captures() public {
        _settleTo(200);
        bytes memory voucher = _voucher(_channel, 450);
        vm.prank(payee);
        manager.close(_channel, 450, voucher);
        _assertMoney(_channel, 450, 450, 0, DEPOSIT - 450);
        vm.assertEq(token.balanceOf(payee), 0);
        vm.assertEq(_spentByClient(), 450);
    }

    function test_closing_without_a_voucher_leaves_held_what_was() public {
        _settleTo(200);
        vm.prank(payee);
        manager.close(_channel, 0, "");
        _assertMoney(_channel, 200, 200, 0, DEPOSIT - 200);
    }

    function test_a_payer_that_withdraws_gets_the_rest_and_not_what_is_held() public {
        _settleTo(200);
        vm.prank(client);
        manager.requestClose(_channel);
        _elapse(GRACE);
        vm.prank(client);
        manager.withdraw(_channel);
        _assertMoney(_channel, 200, 200, 0, DEPOSIT - 200);
        vm.assertEq(_spentByClient(), 200);

        _elapse(WINDOW);
        manager.release(_channel);
        _assertMoney(_channel, 200, 0, 0, DEPOSIT - 200);
        vm.assertEq(token.balanceOf(payee), 200);
    }

    function test_nothing_is_released_before_the_channel_is_over() public {
        _settleTo(200);
        _elapse(WINDOW);
        _refusedRelease(_channel, _refusal(IPaymentManager.StillHeld.selector, _channel, uint256(0)));
    }

    function test_from_the_first_second_after_the_window_anybody_releases_to_the_payee() public {
        _settle(_honest(_channel, CAPTURED));
        uint64 heldUntil = _now() + WINDOW;
        vm.assertEq(manager.holdOf(_channel).heldUntil, heldUntil);
        _elapse(WINDOW - 1);
        _refusedRelease(_channel, _refusal(IPaymentManager.StillHeld.selector, _channel, heldUntil));
        _elapse(1);
        vm.expectEmit(address(manager));
        emit IPaymentManager.Released(_channel, CAPTURED);
        vm.prank(stranger);
        manager.release(_channel);
        _assertMoney(_channel, CAPTURED, 0, 0, DEPOSIT - CAPTURED);
        vm.assertEq(token.balanceOf(payee), CAPTURED);
        _assertEmpty();
    }

    function test_held_money_is_released_once() public {
        bytes32 other = _held(keccak256("other"));
        _settle(_honest(_channel, CAPTURED));
        _elapse(WINDOW);
        manager.release(_channel);
        _refusedRelease(_channel, _refusal(IPaymentManager.NothingHeld.selector, _channel));
        vm.assertEq(token.balanceOf(payee), CAPTURED);
        vm.assertEq(token.balanceOf(address(manager)), CAPTURED);
        manager.release(other);
        _assertEmpty();
    }

    function test_where_nothing_was_captured_there_is_nothing_to_release() public {
        _settle(Settlement(_channel, 0, 0, 0, bytes32(0), ""));
        _elapse(WINDOW);
        _refusedRelease(_channel, _refusal(IPaymentManager.NothingHeld.selector, _channel));
    }

    function test_channels_without_a_window_hold_nothing_and_pay_at_once() public {
        bytes32 plain = _openPlain();
        bytes memory voucher = _voucher(plain, 70);
        vm.startPrank(payee);
        manager.settle(plain, 70, voucher);
        vm.assertEq(token.balanceOf(payee), 70);
        manager.close(plain, 0, "");
        vm.stopPrank();
        _assertMoney(plain, 70, 0, 0, DEPOSIT - 70);
        _elapse(WINDOW);
        _refusedRelease(plain, _refusal(IPaymentManager.NothingHeld.selector, plain));
    }

    function test_an_unknown_channel_has_nothing_to_release_or_resolve() public {
        bytes32 unknown = keccak256("unknown");
        _refusedRelease(unknown, _refusal(IEscrow.ChannelNotFound.selector, unknown));
        vm.prank(address(decisions));
        vm.expectRevert(_refusal(IEscrow.ChannelNotFound.selector, unknown));
        manager.resolve(unknown, 0);
        Hold memory none = manager.holdOf(unknown);
        vm.assertEq(keccak256(abi.encode(none)), keccak256(new bytes(9 * 32)));
    }

    function test_what_a_decision_needs_to_know_is_the_channels_own() public {
        _settle(_honest(_channel, CAPTURED));
        Hold memory hold = manager.holdOf(_channel);
        vm.assertEq(hold.payer, client);
        vm.assertEq(hold.payee, payee);
        vm.assertEq(hold.token, address(token));
        vm.assertEq(hold.termsHash, termsHash);
        vm.assertEq(hold.root, _rootOver(CALLS));
        vm.assertEq(hold.callCount, CALLS);
        vm.assertEq(hold.held, CAPTURED);
        vm.assertEq(hold.finalizedAt, _now());
        vm.assertEq(hold.heldUntil, _now() + WINDOW);
    }

    function test_nobody_but_the_dispute_manager_resolves() public {
        _settle(_honest(_channel, CAPTURED));
        address[7] memory others = [client, operator, payee, arbitrator, thief, receiptSigner, address(manager)];
        for (uint256 i = 0; i < others.length; ++i) {
            vm.prank(others[i]);
            vm.expectRevert(abi.encodeWithSelector(IPaymentManager.NotDisputeManager.selector, others[i]));
            manager.resolve(_channel, CAPTURED);
        }
        _assertMoney(_channel, CAPTURED, CAPTURED, 0, DEPOSIT - CAPTURED);
    }

    function test_nothing_is_decided_before_the_channel_is_over() public {
        _settleTo(200);
        vm.prank(address(decisions));
        vm.expectRevert(abi.encodeWithSelector(IPaymentManager.StillHeld.selector, _channel, 0));
        manager.resolve(_channel, 200);
        _assertMoney(_channel, 200, 200, 0, 0);
    }

    function test_a_decision_splits_what_is_held_and_not_more_of_it_than_there_is() public {
        _settle(_honest(_channel, CAPTURED));
        vm.startPrank(address(decisions));
        vm.expectRevert(
            abi.encodeWithSelector(IPaymentManager.AwardExceedsHeld.selector, _channel, CAPTURED, CAPTURED + 1)
        );
        manager.resolve(_channel, CAPTURED + 1);
        vm.expectEmit(address(manager));
        emit IPaymentManager.Resolved(_channel, 120, CAPTURED - 120);
        manager.resolve(_channel, 120);
        vm.expectRevert(_refusal(IPaymentManager.NothingHeld.selector, _channel));
        manager.resolve(_channel, 0);
        vm.stopPrank();
        vm.assertEq(token.balanceOf(payee), CAPTURED - 120);
        vm.assertEq(_spentByClient(), CAPTURED - 120);
        _assertEmpty();
    }

    function test_what_was_resolved_is_not_released_too() public {
        _settle(_honest(_channel, CAPTURED));
        vm.prank(address(decisions));
        manager.resolve(_channel, 0);
        _elapse(WINDOW);
        _refusedRelease(_channel, _refusal(IPaymentManager.NothingHeld.selector, _channel));
    }

    function test_what_was_released_is_not_resolved_too() public {
        _settle(_honest(_channel, CAPTURED));
        _elapse(WINDOW);
        manager.release(_channel);
        vm.prank(address(decisions));
        vm.expectRevert(_refusal(IPaymentManager.NothingHeld.selector, _channel));
        manager.resolve(_channel, CAPTURED);
    }

    function test_settling_again_does_nothing_while_money_is_held_and_after_it_left() public {
        Settlement memory item = _honest(_channel, CAPTURED);
        _settle(item);
        _settle(item);
        _assertMoney(_channel, CAPTURED, CAPTURED, 0, DEPOSIT - CAPTURED);
        _elapse(WINDOW);
        manager.release(_channel);
        _settle(item);
        vm.assertEq(token.balanceOf(payee), CAPTURED);
        _assertEmpty();
    }

    function test_a_batch_holds_some_and_pays_others_and_a_bad_item_blocks_neither() public {
        (uint256 id, bytes32 hash) = _register(_terms(true));
        Settlement[] memory items = new Settlement[](4);
        items[0] = _honest(_channel, 100);
        items[1] = _honest(_openFor(client, id, hash, keccak256("at once"), address(0)), 101);
        items[2] = _honest(_open(keccak256("bad")), 102);
        items[2].signature = "";
        items[3] = _honest(_open(keccak256("last")), 103);
        vm.expectEmit(address(manager));
        emit IPaymentManager.SettlementSkipped(
            items[2].channelId, _refusal(IEscrow.InvalidSignature.selector, items[2].channelId, client)
        );
        vm.prank(operator);
        manager.settleSessions(items);
        _assertMoney(_channel, 100, 100, 0, DEPOSIT - 100);
        _assertMoney(items[1].channelId, 101, 0, 0, DEPOSIT - 101);
        _assertMoney(items[2].channelId, 0, 0, 0, 0);
        _assertMoney(items[3].channelId, 103, 103, 0, DEPOSIT - 103);
        vm.assertEq(token.balanceOf(payee), 101);
        vm.assertEq(token.balanceOf(address(manager)), 100 + DEPOSIT + 103);
    }

    function test_terms_that_change_later_change_nothing_for_a_session() public {
        _settle(_honest(_channel, CAPTURED));
        Terms memory terms = _disputeTerms();
        terms.disputeWindow = 30 days;
        terms.payee = stranger;
        vm.startPrank(operator);
        registry.update(serviceId, terms, "");
        registry.retire(serviceId);
        vm.stopPrank();
        _elapse(WINDOW);
        manager.release(_channel);
        vm.assertEq(token.balanceOf(payee), CAPTURED);
    }

    function test_a_root_over_2_to_the_56_calls_does_not_fit() public {
        bytes32 root = keccak256("too many");
        bytes memory refusal = abi.encodeWithSelector(IPaymentManager.InvalidCommitment.selector, root, uint64(1) << 56);
        vm.startPrank(operator);
        vm.expectRevert(refusal);
        manager.commitResults(_channel, root, uint64(1) << 56);
        vm.expectRevert(refusal);
        manager.settleSession(Settlement(_channel, 0, 0, uint64(1) << 56, root, ""));
        vm.expectRevert(abi.encodeWithSelector(IPaymentManager.InvalidCommitment.selector, root, type(uint64).max));
        manager.commitResults(_channel, root, type(uint64).max);
        manager.commitResults(_channel, root, (uint64(1) << 56) - 1);
        vm.stopPrank();
        vm.assertEq(_view(_channel).callCount, (uint256(1) << 56) - 1);
    }

    function test_both_contracts_know_each_other_for_ever() public view {
        vm.assertEq(address(decisions.paymentManager()), address(manager));
        vm.assertEq(address(decisions.registry()), address(registry));
        vm.assertEq(decisions.answerPeriodSeconds(), ANSWER);
        vm.assertTrue(address(manager.disputeManager()) == address(decisions));
    }

    function _settleTo(uint128 amount) private {
        if (_view(_channel).root == 0) {
            bytes32 root = _rootOver(CALLS);
            vm.prank(operator);
            manager.commitResults(_channel, root, CALLS);
        }
        bytes memory voucher = _voucher(_channel, amount);
        vm.prank(payee);
        manager.settle(_channel, amount, voucher);
    }

    function _refusedRelease(bytes32 channel, bytes memory refusal) private {
        vm.expectRevert(refusal);
        manager.release(channel);
    }
}
