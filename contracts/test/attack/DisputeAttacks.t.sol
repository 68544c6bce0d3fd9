// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Claim, IDisputeManager, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {ICredits} from "../../src/interfaces/ICredits.sol";
import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {IPaymentManager} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {GasFloor} from "../../src/libraries/GasFloor.sol";
import {TokenTransfer} from "../../src/libraries/TokenTransfer.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";
import {TurningToken} from "../mocks/AuthorizedTokens.sol";
import {BurnerToken, DenylistToken, FalseToken, MintableToken} from "../mocks/Tokens.sol";

/// @notice Held money and bonds among people and tokens that refuse, delay, grief or repeat.
contract DisputeAttacksTest is DisputeFixture {
    bytes32 private constant _OTHER = keccak256("another history");

    DenylistToken private _denying;

    function setUp() public override {
        super.setUp();
        _denying = new DenylistToken();
    }

    function test_a_denied_payee_does_not_hold_up_a_release() public {
        bytes32 channel = _heldIn(_denying);
        _denying.setDenied(payee, true);
        _elapse(WINDOW);
        vm.expectEmit(address(manager));
        emit ICredits.Credited(address(_denying), payee, channel, CAPTURED);
        manager.release(channel);
        vm.assertEq(_view(channel).held, 0);
        _claimAt(manager, _denying, payee, CAPTURED);
    }

    function test_a_denied_payee_does_not_hold_up_the_payers_award_and_bond() public {
        bytes32 channel = _heldIn(_denying);
        _raise(channel);
        _denying.setDenied(payee, true);
        uint256 before = _denying.balanceOf(client);
        _rule(channel, 200);
        vm.assertEq(_denying.balanceOf(client) - before, 200 + BOND);
        _claimAt(manager, _denying, payee, CAPTURED - 200);
    }

    function test_a_denied_payer_does_not_hold_up_the_payees_part() public {
        bytes32 channel = _heldIn(_denying);
        _raise(channel);
        _denying.setDenied(client, true);
        _rule(channel, 200);
        vm.assertEq(_denying.balanceOf(payee), CAPTURED - 200);
        _claimAt(manager, _denying, client, 200);
        _claimAt(decisions, _denying, client, BOND);
    }

    function test_a_denied_payee_does_not_hold_up_a_lapse_or_an_answer() public {
        bytes32 channel = _heldIn(_denying);
        _raise(channel);
        _challenge(channel, _receipt(channel, 2));
        _denying.setDenied(payee, true);
        _answer(channel, 2);
        _elapse(RULING);
        decisions.lapse(channel);
        manager.release(channel);
        _claimAt(decisions, _denying, payee, 2 * uint256(BOND));
        _claimAt(manager, _denying, payee, CAPTURED);
    }

    function test_a_denied_payer_does_not_hold_up_a_proof_or_what_was_not_answered() public {
        bytes32 lied = _heldIn(_denying);
        bytes32 silent = _held(keccak256("silent"));
        bytes32 challenged = _held(keccak256("challenged"));
        _raise(lied);
        _challenge(challenged, _receipt(challenged, 2, _OTHER, 1));
        _raise(silent);
        _challenge(silent, _receipt(silent, 2));
        _denying.setDenied(client, true);
        decisions.proveStatementAgainstRoot(lied, _statement(lied, CALLS, _OTHER, 1));
        _elapse(ANSWER);
        decisions.claimUnanswered(challenged);
        decisions.claimUnanswered(silent);
        vm.assertEq(_view(lied).awarded, CAPTURED);
        _claimAt(manager, _denying, client, 3 * uint256(CAPTURED));
        _claimAt(decisions, _denying, client, 4 * uint256(BOND));
        vm.assertEq(_denying.balanceOf(payee), 0);
    }

    function test_a_token_that_says_false_burns_gas_or_is_gone_leaves_credits() public {
        FalseToken lying = new FalseToken();
        bytes32 channel = _heldIn(lying);
        _raise(channel);
        lying.setRefusing(true);
        _rule(channel, 200);
        lying.setRefusing(false);
        _assertSplitAsCredits(lying);

        BurnerToken burning = new BurnerToken();
        channel = _heldIn(burning);
        _raise(channel);
        burning.setMode(BurnerToken.Mode.BurnGas);
        _rule(channel, 200);
        burning.setMode(BurnerToken.Mode.Honest);
        _assertSplitAsCredits(burning);

        BurnerToken leaving = new BurnerToken();
        channel = _heldIn(leaving);
        _raise(channel);
        bytes memory code = address(leaving).code;
        vm.etch(address(leaving), "");
        _rule(channel, 200);
        vm.etch(address(leaving), code);
        _assertSplitAsCredits(leaving);
    }

    function test_a_credit_of_a_bond_is_claimed_by_its_owner_alone_and_once() public {
        bytes32 channel = _heldIn(_denying);
        _raise(channel);
        _denying.setDenied(client, true);
        _rule(channel, 1);
        vm.prank(thief);
        vm.expectRevert(abi.encodeWithSelector(ICredits.NoCredit.selector, address(_denying), thief));
        decisions.claimCredit(address(_denying), thief);
        address[2] memory nobodies = [address(0), address(decisions)];
        for (uint256 i = 0; i < nobodies.length; ++i) {
            vm.prank(client);
            vm.expectRevert(abi.encodeWithSelector(ICredits.InvalidRecipient.selector, nobodies[i]));
            decisions.claimCredit(address(_denying), nobodies[i]);
        }
        _claimAt(decisions, _denying, client, BOND);
        vm.prank(client);
        vm.expectRevert(abi.encodeWithSelector(ICredits.NoCredit.selector, address(_denying), client));
        decisions.claimCredit(address(_denying), client);
    }

    function test_a_token_that_starts_to_keep_something_takes_no_bond_and_opens_no_case() public {
        TurningToken turning = new TurningToken();
        bytes32 channel = _heldIn(turning);
        Receipt memory receipt = _receipt(channel, 2);
        Statement memory statement = _statement(channel, 3);
        uint256[2] memory kept = [uint256(1), 100];
        for (uint256 i = 0; i < kept.length; ++i) {
            turning.setKeptPercent(kept[i]);
            bytes memory refusal = abi.encodeWithSelector(
                TokenTransfer.TransferAmountMismatch.selector,
                address(turning),
                uint256(BOND),
                uint256(BOND) - (uint256(BOND) * kept[i]) / 100
            );
            vm.startPrank(client);
            vm.expectRevert(refusal);
            decisions.raiseDispute(channel, Claim.Quality, URI, HASH);
            vm.expectRevert(refusal);
            decisions.challengeReceipt(channel, receipt);
            vm.expectRevert(refusal);
            decisions.challengeStatement(channel, statement);
            vm.stopPrank();
        }
        vm.assertFalse(decisions.isPending(channel));
    }

    function test_money_that_lies_in_the_contract_is_nobodys_bond() public {
        token.mint(address(decisions), 10 * BOND);
        bytes32 channel = _held();
        vm.prank(client);
        token.approve(address(decisions), 0);
        vm.prank(client);
        vm.expectRevert();
        decisions.raiseDispute(channel, Claim.Quality, URI, HASH);
        vm.prank(client);
        token.approve(address(decisions), BOND);
        _raise(channel);
        _rule(channel, 0);
        vm.assertEq(token.balanceOf(address(decisions)), 10 * BOND);
    }

    function test_another_payment_managers_decisions_are_nothing_here() public {
        bytes32 channel = _held();
        PaymentManager other = new PaymentManager(registry, GRACE);
        address stranger_ = address(other.disputeManager());
        vm.prank(stranger_);
        vm.expectRevert(abi.encodeWithSelector(IPaymentManager.NotDisputeManager.selector, stranger_));
        manager.resolve(channel, CAPTURED);
        IDisputeManager elsewhere = other.disputeManager();
        vm.prank(client);
        vm.expectRevert(_refusal(IDisputeManager.NoMoneyHeld.selector, channel));
        elsewhere.raiseDispute(channel, Claim.Quality, URI, HASH);
    }

    function test_whichever_way_held_money_left_no_other_way_moves_anything_again() public {
        for (uint256 way = 0; way < 5; ++way) {
            bytes32 channel = _open(bytes32(way));
            _settle(_honest(channel, CAPTURED + 1));
            bytes[] memory orders = _allOrders(channel);
            _leaveBy(way, channel);
            uint256[3] memory before = _balances();
            for (uint256 i = 0; i < orders.length; ++i) {
                address[3] memory senders = [client, arbitrator, operator];
                for (uint256 j = 0; j < senders.length; ++j) {
                    vm.prank(senders[j]);
                    (bool done,) = address(i < 1 ? address(manager) : address(decisions)).call(orders[i]);
                    vm.assertFalse(done, string.concat(vm.toString(way), " ", vm.toString(i)));
                }
            }
            _elapse(40 days);
            vm.expectRevert(_refusal(IPaymentManager.NothingHeld.selector, channel));
            manager.release(channel);
            vm.assertEq(keccak256(abi.encode(_balances())), keccak256(abi.encode(before)));
        }
        _assertEmpty();
    }

    function test_a_session_that_was_decided_never_opens_again() public {
        bytes32 channel = _held();
        _raise(channel);
        _rule(channel, CAPTURED);
        vm.prank(client);
        vm.expectRevert(_refusal(IEscrow.ChannelAlreadyExists.selector, channel));
        manager.openSession(serviceId, termsHash, DEPOSIT, keccak256("held"), address(0), bytes32(0));
        vm.assertEq(_view(channel).awarded, CAPTURED);
    }

    function test_a_payer_that_challenges_to_the_end_costs_a_day_and_a_bond_each_time() public {
        bytes32 channel = _held();
        uint64 heldUntil = manager.holdOf(channel).heldUntil;
        uint256 challenges = 0;
        while (_now() < heldUntil) {
            _challenge(channel, _receipt(channel, 2));
            ++challenges;
            _elapse(ANSWER - 1);
            _answer(channel, 2);
        }
        vm.assertLe(_now(), heldUntil + ANSWER);
        manager.release(channel);
        vm.assertEq(token.balanceOf(payee), CAPTURED + challenges * BOND);
        _assertEmpty();
    }

    function test_the_largest_amounts_are_held_split_and_bonded_exactly() public {
        uint128 most = type(uint128).max;
        Terms memory terms = _disputeTerms();
        terms.disputeBond = most;
        (serviceId, termsHash) = _register(terms);
        token.mint(client, 4 * uint256(most));
        uint256 before = token.balanceOf(client);
        vm.prank(client);
        bytes32 channel = manager.openSession(serviceId, termsHash, most, keccak256("n"), address(0), bytes32(0));
        _settle(_honest(channel, most));
        _raise(channel);
        _challenge(channel, _receipt(channel, 2));
        vm.assertEq(token.balanceOf(address(decisions)), 2 * uint256(most));
        _answer(channel, 2);
        _rule(channel, most - 1);
        vm.assertEq(token.balanceOf(payee), uint256(most) + 1);
        vm.assertEq(before - token.balanceOf(client), uint256(most) + 1);
        _assertMoney(channel, most, 0, most - 1, 0);
        _assertEmpty();
    }

    function testFuzz_no_gas_limit_turns_a_good_payment_of_a_decision_into_a_credit(uint256 gasLimit, uint256 which)
        public
    {
        bytes32 channel = _held();
        _raise(channel);
        (address sender, bytes memory order) = (arbitrator, abi.encodeCall(decisions.rule, (channel, 200)));
        which %= 4;
        if (which == 1) {
            order =
                abi.encodeCall(decisions.proveStatementAgainstRoot, (channel, _statement(channel, CALLS, _OTHER, 1)));
        }
        if (which == 2) {
            _elapse(RULING);
            order = abi.encodeCall(decisions.lapse, (channel));
        }
        if (which == 3) {
            _challenge(channel, _receipt(channel, 2));
            order = abi.encodeCall(decisions.answerReceipt, (channel, 2, leaves[2], _siblings(2)));
        }
        bytes32 before = keccak256(abi.encode(_view(channel), _case(channel)));
        vm.prank(sender);
        (bool done, bytes memory answer) = address(decisions).call{gas: _bound(gasLimit, 50_000, 600_000)}(order);
        if (!done) {
            vm.assertEq(keccak256(abi.encode(_view(channel), _case(channel))), before);
            // forge-lint: disable-next-line(unsafe-typecast)
            if (answer.length != 0) vm.assertTrue(bytes4(answer) == GasFloor.InsufficientGas.selector);
        }
        address[2] memory owners = [client, payee];
        for (uint256 i = 0; i < owners.length; ++i) {
            vm.assertEq(manager.credits(address(token), owners[i]), 0);
            vm.assertEq(decisions.credits(address(token), owners[i]), 0);
        }
    }

    function test_a_release_with_too_little_gas_says_so_and_releases_nothing() public {
        bytes32 channel = _held();
        _elapse(WINDOW);
        (bool done, bytes memory answer) =
            address(manager).call{gas: 200_000}(abi.encodeCall(manager.release, (channel)));
        vm.assertFalse(done);
        // forge-lint: disable-next-line(unsafe-typecast)
        vm.assertTrue(bytes4(answer) == GasFloor.InsufficientGas.selector);
        vm.assertEq(_view(channel).held, CAPTURED);
        manager.release(channel);
    }

    /// @dev A session in another token, that is over and held.
    function _heldIn(MintableToken other) private returns (bytes32) {
        other.mint(client, 100 * uint256(DEPOSIT));
        vm.startPrank(client);
        other.approve(address(manager), type(uint256).max);
        other.approve(address(decisions), type(uint256).max);
        vm.stopPrank();
        (serviceId, termsHash) = _register(_disputeTermsIn(address(other)));
        return _held();
    }

    function _claimAt(ICredits debtor, MintableToken other, address owner, uint256 amount) private {
        vm.assertEq(debtor.credits(address(other), owner), amount);
        uint256 before = other.balanceOf(stranger);
        vm.prank(owner);
        debtor.claimCredit(address(other), stranger);
        vm.assertEq(other.balanceOf(stranger) - before, amount);
    }

    function _assertSplitAsCredits(MintableToken other) private {
        _claimAt(manager, other, client, 200);
        _claimAt(manager, other, payee, CAPTURED - 200);
        _claimAt(decisions, other, client, BOND);
        vm.assertEq(other.balanceOf(address(manager)) + other.balanceOf(address(decisions)), 0);
    }

    /// @dev Release; ruling; proof; silence; proof while a dispute and a challenge are pending.
    function _leaveBy(uint256 way, bytes32 channel) private {
        if (way == 0) _elapse(WINDOW);
        if (way == 0) manager.release(channel);
        if (way == 1 || way == 4) _raise(channel);
        if (way == 1) _rule(channel, 250);
        if (way == 3 || way == 4) _challenge(channel, _receipt(channel, 2));
        if (way == 3) _elapse(ANSWER);
        if (way == 3) decisions.claimUnanswered(channel);
        if (way == 2 || way == 4) {
            decisions.proveStatementAgainstRoot(channel, _statement(channel, CALLS, _OTHER, 1));
        }
        vm.assertEq(_view(channel).held, 0);
    }

    /// @dev Everything that anybody could try; the first is the PaymentManager's.
    function _allOrders(bytes32 channel) private view returns (bytes[] memory orders) {
        Receipt memory receipt = _receipt(channel, 2);
        orders = new bytes[](15);
        orders[0] = abi.encodeCall(manager.release, (channel));
        orders[1] = abi.encodeCall(decisions.raiseDispute, (channel, Claim.Quality, URI, HASH));
        orders[2] = abi.encodeCall(decisions.rule, (channel, 0));
        orders[3] = abi.encodeCall(decisions.lapse, (channel));
        orders[4] = abi.encodeCall(decisions.respond, (channel, URI, HASH));
        orders[5] = abi.encodeCall(decisions.challengeReceipt, (channel, receipt));
        orders[6] = abi.encodeCall(decisions.challengeStatement, (channel, _statement(channel, 3)));
        orders[7] = abi.encodeCall(decisions.answerReceipt, (channel, 2, leaves[2], _siblings(2)));
        orders[8] = abi.encodeCall(decisions.answerStatement, (channel, 3, _rootOver(3), _consistency(3)));
        orders[9] = abi.encodeCall(decisions.claimUnanswered, (channel));
        orders[10] =
            abi.encodeCall(decisions.proveConflictingReceipts, (channel, receipt, _receipt(channel, 2, _OTHER, 1)));
        orders[11] =
            abi.encodeCall(decisions.proveStatementAgainstRoot, (channel, _statement(channel, CALLS, _OTHER, 1)));
        orders[12] = abi.encodeCall(decisions.proveOmittedReceipt, (channel, _receipt(channel, CALLS, _OTHER, 1)));
        orders[13] = abi.encodeCall(decisions.proveOvercharge, (channel, _statement(channel, CALLS), new Receipt[](0)));
        orders[14] = abi.encodeCall(
            decisions.proveConflictingStatements, (channel, _statement(channel, 3), _statement(channel, 3, _OTHER, 1))
        );
    }

    function _balances() private view returns (uint256[3] memory) {
        return [token.balanceOf(client), token.balanceOf(payee), token.balanceOf(address(manager))];
    }
}
