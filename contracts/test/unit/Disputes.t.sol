// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Case, Claim, DisputeState, IDisputeManager} from "../../src/interfaces/IDisputeManager.sol";
import {IPaymentManager} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice Disputes that an arbitrator rules on: raised, answered, ruled, lapsed.
contract DisputesTest is DisputeFixture {
    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _held();
    }

    function test_the_contract_says_once_how_its_disputes_are_to_be_understood() public {
        bytes32 salt = keccak256("salt");
        bytes32 codeHash = keccak256(bytes.concat(type(PaymentManager).creationCode, abi.encode(registry, GRACE)));
        address expected =
            address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", address(this), salt, codeHash)))));
        // The first contract that a contract creates.
        address decider = address(uint160(uint256(keccak256(abi.encodePacked(hex"d694", expected, hex"01")))));
        vm.expectEmit(decider);
        emit IDisputeManager.MetaEvidence(
            0,
            "data:application/json,{\"title\":\"Dispute over a session of paid tool calls\","
            "\"category\":\"aioum session\",\"question\":\"How much of the held money goes back to the payer?\","
            "\"description\":\"The evidence is an aioum evidence package. verify-evidence checks it against the "
            "session that the dispute's id names.\"}"
        );
        PaymentManager other = new PaymentManager{salt: salt}(registry, GRACE);
        vm.assertEq(address(other), expected);
        vm.assertEq(address(other.disputeManager()), decider);
    }

    function test_a_payer_raises_a_dispute_and_its_bond_is_taken() public {
        uint64 ruleBy = _now() + RULING;
        vm.expectEmit(address(decisions));
        emit IDisputeManager.DisputeRaised(_channel, client, arbitrator, Claim.NonDelivery, URI, HASH, ruleBy, BOND);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.Dispute(arbitrator, uint256(_channel), 0, uint256(_channel));
        vm.expectEmit(address(decisions));
        emit IDisputeManager.Evidence(arbitrator, uint256(_channel), client, URI);
        vm.prank(client);
        decisions.raiseDispute(_channel, Claim.NonDelivery, URI, HASH);

        vm.assertEq(token.balanceOf(address(decisions)), BOND);
        vm.assertEq(_spentByClient(), CAPTURED + BOND);
        vm.assertTrue(decisions.isPending(_channel));
        Case memory found = _case(_channel);
        vm.assertTrue(found.dispute == DisputeState.Pending);
        vm.assertEq(found.raisedAt, _now());
        vm.assertEq(found.ruleBy, ruleBy);
        vm.assertEq(found.answerBy, 0);
        vm.assertEq(found.challengedWord, bytes32(0));
        vm.assertEq(found.awarded, 0);
    }

    function test_a_payer_says_what_it_complains_of() public {
        Claim[2] memory claims = [Claim.WrongResult, Claim.Quality];
        for (uint256 i = 0; i < claims.length; ++i) {
            bytes32 channel = _held(bytes32(i));
            vm.expectEmit(address(decisions));
            emit IDisputeManager.DisputeRaised(channel, client, arbitrator, claims[i], URI, HASH, _now() + RULING, BOND);
            vm.prank(client);
            decisions.raiseDispute(channel, claims[i], URI, HASH);
        }
    }

    function test_nothing_happened_yet_to_a_session_without_a_case() public view {
        vm.assertFalse(decisions.isPending(_channel));
        Case memory none;
        vm.assertEq(keccak256(abi.encode(_case(_channel))), keccak256(abi.encode(none)));
    }

    function test_nobody_but_the_payer_raises_one() public {
        address[6] memory others = [operator, payee, arbitrator, thief, receiptSigner, address(manager)];
        for (uint256 i = 0; i < others.length; ++i) {
            _refusedRaise(others[i], _channel, _refusal(IDisputeManager.NotSessionPayer.selector, _channel, others[i]));
        }
    }

    function test_a_dispute_needs_somebody_who_rules() public {
        Terms memory terms = _disputeTerms();
        (terms.arbitrator, terms.rulingPeriod) = (address(0), 0);
        (serviceId, termsHash) = _register(terms);
        bytes32 channel = _held(keccak256("nobody rules"));
        _refusedRaise(client, channel, _refusal(IDisputeManager.NoArbitrator.selector, channel));
    }

    function test_a_dispute_is_raised_in_the_last_second_of_the_window_and_not_after() public {
        uint64 heldUntil = manager.holdOf(_channel).heldUntil;
        bytes32 other = _held(keccak256("other"));
        vm.warp(heldUntil - 1);
        _raise(_channel);
        vm.warp(heldUntil);
        _refusedRaise(client, other, _refusal(IDisputeManager.WindowClosed.selector, other, heldUntil));
    }

    function test_a_dispute_is_not_raised_before_the_session_is_over() public {
        bytes32 channel = _open(keccak256("still open"));
        _refusedRaise(client, channel, _refusal(IDisputeManager.NoMoneyHeld.selector, channel));
        bytes32 root = _rootOver(CALLS);
        vm.prank(operator);
        manager.commitResults(channel, root, CALLS);
        bytes memory voucher = _voucher(channel, 100);
        vm.prank(payee);
        manager.settle(channel, 100, voucher);
        _refusedRaise(client, channel, _refusal(IDisputeManager.WindowNotOpen.selector, channel));
    }

    function test_where_nothing_is_held_there_is_nothing_to_dispute() public {
        bytes32 plain = _openPlain();
        bytes memory voucher = _voucher(plain, 70);
        vm.prank(payee);
        manager.close(plain, 70, voucher);
        bytes32 free = _open(keccak256("free"));
        vm.prank(payee);
        manager.close(free, 0, "");
        bytes32[3] memory channels = [keccak256("unknown"), plain, free];
        for (uint256 i = 0; i < channels.length; ++i) {
            _refusedRaise(client, channels[i], _refusal(IDisputeManager.NoMoneyHeld.selector, channels[i]));
        }
    }

    function test_a_session_is_disputed_once_also_after_a_lapse_or_a_ruling() public {
        _raise(_channel);
        bytes memory refusal = _refusal(IDisputeManager.AlreadyDisputed.selector, _channel);
        _refusedRaise(client, _channel, refusal);

        bytes32 ruled = _held(keccak256("ruled"));
        _raise(ruled);
        _rule(ruled, 0);
        _refusedRaise(client, ruled, _refusal(IDisputeManager.NoMoneyHeld.selector, ruled));

        (bytes32 lapsed,) = _lapsedInsideTheWindow();
        _refusedRaise(client, lapsed, _refusal(IDisputeManager.AlreadyDisputed.selector, lapsed));
    }

    function test_evidence_has_a_hash_and_a_uri_of_1_to_8192_bytes() public {
        vm.startPrank(client);
        vm.expectRevert(_refusal(IDisputeManager.EvidenceHashMissing.selector, _channel));
        decisions.raiseDispute(_channel, Claim.Quality, URI, 0);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.URILengthInvalid.selector, 0, 8192));
        decisions.raiseDispute(_channel, Claim.Quality, "", HASH);
        string memory longest = string(new bytes(8192));
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.URILengthInvalid.selector, 8193, 8192));
        decisions.raiseDispute(_channel, Claim.Quality, string.concat(longest, "x"), HASH);
        decisions.raiseDispute(_channel, Claim.Quality, longest, HASH);
        vm.stopPrank();
    }

    function test_a_dispute_without_its_bond_does_not_happen() public {
        vm.prank(client);
        token.approve(address(decisions), BOND - 1);
        vm.prank(client);
        vm.expectRevert();
        decisions.raiseDispute(_channel, Claim.Quality, URI, HASH);
        vm.assertFalse(decisions.isPending(_channel));
        _elapse(WINDOW);
        manager.release(_channel);
    }

    function test_the_operator_responds_as_often_as_it_likes() public {
        _raise(_channel);
        for (uint256 i = 0; i < 2; ++i) {
            vm.expectEmit(address(decisions));
            emit IDisputeManager.Responded(_channel, operator, URI, HASH);
            vm.expectEmit(address(decisions));
            emit IDisputeManager.Evidence(arbitrator, uint256(_channel), operator, URI);
            vm.prank(operator);
            decisions.respond(_channel, URI, HASH);
        }
    }

    function test_nobody_but_the_operator_responds() public {
        _raise(_channel);
        address[5] memory others = [client, payee, arbitrator, thief, receiptSigner];
        for (uint256 i = 0; i < others.length; ++i) {
            vm.prank(others[i]);
            vm.expectRevert(_refusal(IDisputeManager.NotSessionOperator.selector, _channel, others[i]));
            decisions.respond(_channel, URI, HASH);
        }
    }

    function test_a_response_needs_a_pending_dispute_a_hash_and_a_uri() public {
        bytes memory none = _refusal(IDisputeManager.NoDisputePending.selector, _channel);
        vm.prank(operator);
        vm.expectRevert(none);
        decisions.respond(_channel, URI, HASH);
        _raise(_channel);
        vm.startPrank(operator);
        vm.expectRevert(_refusal(IDisputeManager.EvidenceHashMissing.selector, _channel));
        decisions.respond(_channel, URI, 0);
        vm.expectRevert(abi.encodeWithSelector(IDisputeManager.URILengthInvalid.selector, 0, 8192));
        decisions.respond(_channel, "", HASH);
        vm.stopPrank();
        _rule(_channel, 1);
        vm.prank(operator);
        vm.expectRevert(none);
        decisions.respond(_channel, URI, HASH);
    }

    function test_a_ruling_splits_what_is_held_and_gives_the_bond_back() public {
        _raise(_channel);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.Ruled(_channel, arbitrator, 250);
        vm.expectEmit(address(manager));
        emit IPaymentManager.Resolved(_channel, 250, 250);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.BondPaid(_channel, client, BOND);
        _rule(_channel, 250);
        vm.assertEq(token.balanceOf(payee), 250);
        vm.assertEq(_spentByClient(), 250);
        _assertMoney(_channel, CAPTURED, 0, 250, DEPOSIT - CAPTURED);
        _assertEmpty();
        vm.assertTrue(_case(_channel).dispute == DisputeState.Ruled);
        vm.assertFalse(decisions.isPending(_channel));
    }

    function test_an_award_of_anything_at_all_gives_the_bond_back() public {
        _raise(_channel);
        _rule(_channel, 1);
        vm.assertEq(token.balanceOf(payee), CAPTURED - 1);
        vm.assertEq(_spentByClient(), CAPTURED - 1);
        _assertEmpty();
    }

    function test_an_award_of_all_leaves_the_payee_nothing() public {
        _raise(_channel);
        _rule(_channel, CAPTURED);
        vm.assertEq(token.balanceOf(payee), 0);
        vm.assertEq(_spentByClient(), 0);
        _assertMoney(_channel, CAPTURED, 0, CAPTURED, DEPOSIT - CAPTURED);
        _assertEmpty();
    }

    function test_an_award_of_nothing_gives_the_payee_all_and_the_bond() public {
        _raise(_channel);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.BondPaid(_channel, payee, BOND);
        _rule(_channel, 0);
        vm.assertEq(token.balanceOf(payee), CAPTURED + BOND);
        vm.assertEq(_spentByClient(), CAPTURED + BOND);
        _assertMoney(_channel, CAPTURED, 0, 0, DEPOSIT - CAPTURED);
        _assertEmpty();
    }

    function test_the_case_says_what_was_awarded() public {
        _raise(_channel);
        _rule(_channel, 1);
        vm.assertEq(decisions.caseOf(_channel).awarded, 1);
    }

    function test_no_more_is_awarded_than_is_held() public {
        _raise(_channel);
        _refusedRule(
            arbitrator,
            CAPTURED + 1,
            abi.encodeWithSelector(IDisputeManager.AwardAboveHeld.selector, _channel, CAPTURED, CAPTURED + 1)
        );
    }

    function test_nobody_but_the_arbitrator_of_the_sessions_own_terms_rules() public {
        _raise(_channel);
        Terms memory terms = _disputeTerms();
        terms.arbitrator = stranger;
        vm.prank(operator);
        registry.update(serviceId, terms, "");
        address[6] memory others = [client, operator, payee, thief, receiptSigner, stranger];
        for (uint256 i = 0; i < others.length; ++i) {
            _refusedRule(others[i], 1, _refusal(IDisputeManager.NotArbitrator.selector, _channel, others[i]));
        }
        _rule(_channel, 1);
    }

    function test_a_ruling_needs_a_pending_dispute_and_happens_once() public {
        bytes memory none = _refusal(IDisputeManager.NoDisputePending.selector, _channel);
        _refusedRule(arbitrator, 0, none);
        _raise(_channel);
        _rule(_channel, 250);
        _refusedRule(arbitrator, 250, none);
        _refusedRule(arbitrator, 0, none);
    }

    function test_the_arbitrator_rules_until_the_last_second_before_its_time_is_over() public {
        bytes32 other = _held(keccak256("other"));
        _raise(_channel);
        _raise(other);
        _elapse(RULING - 1);
        _rule(other, 250);
        _elapse(1);
        _refusedRule(arbitrator, 250, _refusal(IDisputeManager.RulingTooLate.selector, _channel, _now()));
    }

    function test_what_nobody_ruled_on_lapses_by_anyone_and_the_payee_gets_bond_and_money() public {
        _raise(_channel);
        uint64 ruleBy = _now() + RULING;
        _elapse(RULING - 1);
        vm.expectRevert(_refusal(IDisputeManager.RulingStillDue.selector, _channel, ruleBy));
        decisions.lapse(_channel);
        _elapse(1);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.Lapsed(_channel);
        vm.expectEmit(address(decisions));
        emit IDisputeManager.BondPaid(_channel, payee, BOND);
        vm.prank(stranger);
        decisions.lapse(_channel);
        vm.assertTrue(_case(_channel).dispute == DisputeState.Lapsed);
        vm.assertFalse(decisions.isPending(_channel));
        _assertMoney(_channel, CAPTURED, CAPTURED, 0, DEPOSIT - CAPTURED);
        vm.assertEq(token.balanceOf(payee), BOND);
        manager.release(_channel);
        vm.assertEq(token.balanceOf(payee), CAPTURED + BOND);
        _assertEmpty();
    }

    function test_a_lapse_does_not_shorten_the_window() public {
        (bytes32 channel, uint64 heldUntil) = _lapsedInsideTheWindow();
        vm.expectRevert(_refusal(IPaymentManager.StillHeld.selector, channel, heldUntil));
        manager.release(channel);
        vm.warp(heldUntil);
        manager.release(channel);
    }

    function test_nothing_lapses_twice_or_without_a_dispute_or_after_a_ruling() public {
        bytes memory none = _refusal(IDisputeManager.NoDisputePending.selector, _channel);
        vm.expectRevert(none);
        decisions.lapse(_channel);
        _raise(_channel);
        _elapse(RULING);
        decisions.lapse(_channel);
        vm.expectRevert(none);
        decisions.lapse(_channel);
        _refusedRule(arbitrator, 250, none);

        bytes32 ruled = _held(keccak256("ruled"));
        _raise(ruled);
        _rule(ruled, 250);
        _elapse(RULING);
        vm.expectRevert(_refusal(IDisputeManager.NoDisputePending.selector, ruled));
        decisions.lapse(ruled);
    }

    function test_nothing_is_released_while_a_dispute_is_pending() public {
        _raise(_channel);
        _elapse(WINDOW);
        vm.expectRevert(_refusal(IPaymentManager.DecisionPending.selector, _channel));
        manager.release(_channel);
        // Ruled on after the window is over.
        _rule(_channel, 250);
        vm.expectRevert(_refusal(IPaymentManager.NothingHeld.selector, _channel));
        manager.release(_channel);
        vm.assertEq(token.balanceOf(payee), 250);
        _assertEmpty();
    }

    function test_one_sessions_dispute_does_not_hold_up_anothers_money() public {
        bytes32 other = _held(keccak256("other"));
        _raise(_channel);
        _elapse(WINDOW);
        manager.release(other);
        vm.assertEq(token.balanceOf(payee), CAPTURED);
        vm.assertEq(token.balanceOf(address(manager)), CAPTURED);
    }

    function _lapsedInsideTheWindow() private returns (bytes32 channel, uint64 heldUntil) {
        (serviceId, termsHash) = _register(_ruledWithin(1 days));
        channel = _held(keccak256("ruled in a day"));
        heldUntil = _now() + WINDOW;
        _raise(channel);
        _elapse(1 days);
        decisions.lapse(channel);
    }

    function _refusedRaise(address sender, bytes32 channel, bytes memory refusal) private {
        vm.prank(sender);
        vm.expectRevert(refusal);
        decisions.raiseDispute(channel, Claim.Quality, URI, HASH);
    }

    function _refusedRule(address sender, uint128 award, bytes memory refusal) private {
        vm.prank(sender);
        vm.expectRevert(refusal);
        decisions.rule(_channel, award);
    }
}
