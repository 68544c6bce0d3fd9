// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {IPaymentManager, SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {IServiceRegistry, Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

/// @notice Opening under terms, committing a root, and what that has to do with money.
contract SessionsTest is PaymentFixture {
    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _open();
    }

    function test_opening_binds_terms_roster_and_nonce_into_the_channel_id() public {
        bytes32 nonce = keccak256("another nonce");
        bytes32 roster = keccak256("roster");
        address delegate = vm.addr(DELEGATE_KEY);
        bytes32 salt = keccak256(abi.encode(nonce, termsHash, roster));
        bytes32 expected = manager.computeChannelId(client, payee, address(token), salt, delegate);
        vm.expectEmit(address(manager));
        emit IPaymentManager.SessionOpened(
            2, expected, client, serviceId, termsHash, payee, address(token), DEPOSIT, nonce, delegate, roster
        );
        vm.prank(client);
        bytes32 id = manager.openSession(serviceId, termsHash, DEPOSIT, nonce, delegate, roster);
        vm.assertEq(id, expected);
    }

    function test_a_session_can_be_read_by_number_and_by_channel() public view {
        SessionView memory found = manager.session(1);
        vm.assertEq(found.sessionId, 1);
        vm.assertEq(found.channelId, _channel);
        vm.assertEq(found.payer, client);
        vm.assertEq(found.payee, payee);
        vm.assertEq(found.token, address(token));
        vm.assertEq(found.authorizedSigner, address(0));
        vm.assertEq(found.operator, operator);
        vm.assertEq(found.serviceId, serviceId);
        vm.assertEq(found.termsHash, termsHash);
        vm.assertEq(found.deposit, DEPOSIT);
        vm.assertEq(found.openedAt, block.timestamp);
        vm.assertTrue(found.commitRequired);
        vm.assertEq(found.disputeWindow, 0);
        vm.assertEq(keccak256(abi.encode(found)), keccak256(abi.encode(_view(_channel))));
    }

    function test_opening_under_terms_that_are_no_longer_current_reverts() public {
        vm.prank(operator);
        registry.update(serviceId, _terms(false), "");
        bytes32 current = registry.currentTerms(serviceId);
        _openingRefused(serviceId, termsHash, current);
    }

    function test_opening_under_a_retired_or_unknown_service_reverts() public {
        vm.prank(operator);
        registry.retire(serviceId);
        _openingRefused(serviceId, termsHash, bytes32(0));
        _openingRefused(serviceId, bytes32(0), bytes32(0));
        _openingRefused(99, bytes32(0), bytes32(0));
    }

    function test_opening_under_another_services_terms_reverts() public {
        Terms memory other = _terms(true);
        other.payee = thief;
        (uint256 id, bytes32 hash) = _register(other);
        _openingRefused(serviceId, hash, termsHash);
        _openingRefused(id, termsHash, hash);
    }

    function test_the_same_opening_works_only_once() public {
        vm.prank(client);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ChannelAlreadyExists.selector, _channel));
        manager.openSession(serviceId, termsHash, DEPOSIT, keccak256("nonce"), address(0), bytes32(0));
    }

    function test_payee_and_operator_can_commit() public {
        vm.expectEmit(address(manager));
        emit IPaymentManager.ResultsCommitted(_channel, 1, ROOT, 3);
        vm.prank(operator);
        manager.commitResults(_channel, ROOT, 3);
        vm.assertEq(manager.sessionResultsRoot(1), ROOT);
        vm.assertEq(manager.sessionCallCount(1), 3);

        bytes32 second = _open(keccak256("second"));
        vm.prank(payee);
        manager.commitResults(second, ROOT, 4);
        vm.assertEq(manager.sessionCallCount(2), 4);
    }

    function test_nobody_else_can_commit() public {
        address[3] memory others = [client, thief, receiptSigner];
        for (uint256 i = 0; i < others.length; ++i) {
            vm.prank(others[i]);
            vm.expectRevert(abi.encodeWithSelector(IPaymentManager.NotPayeeOrOperator.selector, _channel, others[i]));
            manager.commitResults(_channel, ROOT, 3);
        }
    }

    function test_a_commitment_is_written_once() public {
        _commit(_channel);
        bytes memory refusal =
            abi.encodeWithSelector(IPaymentManager.RootAlreadyCommitted.selector, _channel, ROOT, uint64(3));
        vm.startPrank(operator);
        vm.expectRevert(refusal);
        manager.commitResults(_channel, keccak256("another"), 3);
        vm.expectRevert(refusal);
        manager.commitResults(_channel, ROOT, 4);
        vm.expectRevert(refusal);
        manager.commitResults(_channel, ROOT, 3);
        vm.stopPrank();
        vm.assertEq(manager.sessionResultsRoot(1), ROOT);
        vm.assertEq(manager.sessionCallCount(1), 3);
    }

    function test_root_and_call_count_must_not_be_zero() public {
        vm.startPrank(operator);
        vm.expectRevert(abi.encodeWithSelector(IPaymentManager.InvalidCommitment.selector, bytes32(0), uint64(3)));
        manager.commitResults(_channel, bytes32(0), 3);
        vm.expectRevert(abi.encodeWithSelector(IPaymentManager.InvalidCommitment.selector, ROOT, uint64(0)));
        manager.commitResults(_channel, ROOT, 0);
        vm.stopPrank();
    }

    function test_a_commitment_is_possible_while_a_close_is_pending_and_not_after_the_end() public {
        vm.prank(client);
        manager.requestClose(_channel);
        vm.warp(block.timestamp + GRACE);
        _commit(_channel);

        bytes32 second = _open(keccak256("second"));
        vm.startPrank(client);
        manager.requestClose(second);
        vm.warp(block.timestamp + GRACE);
        manager.withdraw(second);
        vm.stopPrank();
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ChannelFinalized.selector, second));
        manager.commitResults(second, ROOT, 3);
    }

    function test_no_money_moves_on_a_commit_required_session_without_a_root() public {
        bytes memory voucher = _voucher(_channel, 1);
        bytes memory refusal = abi.encodeWithSelector(IEscrow.RootRequired.selector, _channel);
        vm.startPrank(payee);
        vm.expectRevert(refusal);
        manager.settle(_channel, 1, voucher);
        vm.expectRevert(refusal);
        manager.close(_channel, 1, voucher);
        vm.expectRevert(refusal);
        manager.settleSession(Settlement(_channel, 1, 1, 0, bytes32(0), voucher));
        manager.close(_channel, 0, "");
        vm.stopPrank();
        vm.assertEq(_view(_channel).refunded, DEPOSIT);
    }

    function test_money_moves_once_the_root_is_committed() public {
        _commit(_channel);
        bytes memory voucher = _voucher(_channel, 1);
        vm.prank(payee);
        manager.settle(_channel, 1, voucher);
        vm.assertEq(token.balanceOf(payee), 1);
    }

    function test_dropping_commit_required_from_the_service_does_not_free_an_open_session_from_it() public {
        vm.prank(operator);
        registry.update(serviceId, _terms(false), "");
        bytes memory voucher = _voucher(_channel, 1);
        vm.prank(payee);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.RootRequired.selector, _channel));
        manager.settle(_channel, 1, voucher);
        vm.assertTrue(_view(_channel).commitRequired);
    }

    function test_adding_commit_required_to_the_service_does_not_bind_an_open_session() public {
        bytes32 channel = _openWithoutCommit();
        vm.prank(operator);
        registry.update(2, _terms(true), "");
        bytes memory voucher = _voucher(channel, 1);
        vm.prank(payee);
        manager.settle(channel, 1, voucher);
        vm.assertFalse(_view(channel).commitRequired);
        vm.assertEq(token.balanceOf(payee), 1);
    }

    function test_another_payee_in_the_service_does_not_get_an_open_sessions_money() public {
        Terms memory changed = _terms(true);
        changed.payee = thief;
        vm.prank(operator);
        registry.update(serviceId, changed, "");
        bytes memory voucher = _voucher(_channel, 100);
        vm.prank(thief);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NotPayee.selector, _channel, thief));
        manager.settle(_channel, 100, voucher);
        Settlement memory item = _settlement(_channel, 100);
        vm.prank(operator);
        manager.settleSession(item);
        vm.assertEq(token.balanceOf(payee), 100);
        vm.assertEq(token.balanceOf(thief), 0);
    }

    function test_a_retired_services_open_sessions_go_on_to_their_end() public {
        vm.prank(operator);
        registry.retire(serviceId);
        vm.prank(client);
        manager.topUp(_channel, 10);
        Settlement memory item = _settlement(_channel, DEPOSIT + 10);
        vm.prank(payee);
        manager.settleSession(item);
        vm.assertEq(token.balanceOf(payee), DEPOSIT + 10);
    }

    function _openingRefused(uint256 id, bytes32 hash, bytes32 current) private {
        vm.prank(client);
        vm.expectRevert(abi.encodeWithSelector(IPaymentManager.TermsNotCurrent.selector, id, hash, current));
        manager.openSession(id, hash, DEPOSIT, keccak256("other nonce"), address(0), bytes32(0));
    }
}
