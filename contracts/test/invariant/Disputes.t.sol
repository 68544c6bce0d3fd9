// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Case, DisputeState, IDisputeManager} from "../../src/interfaces/IDisputeManager.sol";
import {SessionView} from "../../src/interfaces/IPaymentManager.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {TestBase} from "../base/TestBase.sol";
import {DisputeHandler} from "./DisputeHandler.sol";
import {ClearingToken, DisputeWorld} from "./DisputeWorld.sol";

/// @notice What holds of held money, bonds and decisions after every step, whoever did what in whichever order (the
/// list at the end of PROTOCOL 4, and 4.3).
contract DisputesInvariantTest is TestBase {
    uint256 private constant _WALKS = 12;
    uint256 private constant _STEPS = 170;

    DisputeHandler private _handler;
    PaymentManager private _manager;
    IDisputeManager private _judge;

    mapping(DisputeWorld.Exit exit => uint256 times) private _exits;
    mapping(DisputeWorld.Fault fault => uint256 times) private _convictions;
    uint256 private _lapses;
    uint256 private _answers;
    uint256 private _silences;

    function setUp() public {
        vm.warp(1_800_000_000);
        _meet();
        _target(address(_handler));
    }

    /// @notice What is said of events that never happen holds of itself: actions in a random order of their own bring
    /// about every kind of decision, and all of it holds of them too.
    function test_random_actions_bring_about_every_kind_of_decision() public {
        for (uint256 i = 0; i < _WALKS; ++i) {
            _meet();
            for (uint256 j = 0; j < _STEPS; ++j) {
                _step(_handler, uint256(keccak256(abi.encode("walk", i, j))));
            }
            _count(_handler);
            // Calls, so that each has a memory of its own.
            this.checkAll();
            this.afterInvariant();
            this.checkAll();
        }
        for (uint256 exit = 1; exit < 4; ++exit) {
            vm.assertTrue(_exits[DisputeWorld.Exit(exit)] > 0, vm.toString(exit));
        }
        for (uint256 fault = 1; fault < 8; ++fault) {
            vm.assertTrue(_convictions[DisputeWorld.Fault(fault)] > 0, vm.toString(fault));
        }
        vm.assertTrue(_lapses > 0 && _answers > 0 && _silences > 0);
    }

    /// @notice All that holds after every step.
    function checkAll() external view {
        invariant_the_manager_has_exactly_what_is_deposited_held_or_credited();
        invariant_the_judge_has_exactly_the_pending_bonds_and_credits();
        invariant_everybody_has_to_the_unit_what_is_theirs();
        invariant_every_session_is_as_the_books_say();
        invariant_paid_refunded_held_and_awarded_add_up_to_the_deposit();
        invariant_no_money_moves_without_the_root();
        invariant_a_finalized_session_never_changes_but_by_its_decision();
        invariant_every_case_is_as_the_books_say_and_was_raised_inside_its_window();
        invariant_who_keeps_the_rules_is_convicted_by_silence_alone_and_who_answers_never();
    }

    function invariant_the_manager_has_exactly_what_is_deposited_held_or_credited() public view {
        for (uint256 i = 0; i < 2; ++i) {
            ClearingToken token = _handler.tokens(i);
            uint256 owed = _handler.donated(token, address(_manager));
            for (uint256 j = 0; j < _handler.channelCount(); ++j) {
                SessionView memory found = _manager.sessionOfChannel(_handler.channels(j));
                if (found.token != address(token)) continue;
                // While a channel is open, what it holds is a part of its deposit.
                if (found.finalizedAt != 0) owed += found.held;
                else owed += found.deposit - (found.disputeWindow == 0 ? found.settled : 0);
            }
            for (uint256 j = 0; j < _handler.ownerCount(); ++j) {
                owed += _manager.credits(address(token), _handler.owners(j));
            }
            vm.assertEq(token.balanceOf(address(_manager)), owed);
        }
    }

    function invariant_the_judge_has_exactly_the_pending_bonds_and_credits() public view {
        for (uint256 i = 0; i < 2; ++i) {
            ClearingToken token = _handler.tokens(i);
            uint256 owed = _handler.donated(token, address(_judge)) + _bondsPendingOnChain(token);
            vm.assertEq(_bondsPendingOnChain(token), _handler.pendingBonds(token));
            for (uint256 j = 0; j < _handler.ownerCount(); ++j) {
                owed += _judge.credits(address(token), _handler.owners(j));
            }
            vm.assertEq(token.balanceOf(address(_judge)), owed);
        }
    }

    function invariant_everybody_has_to_the_unit_what_is_theirs() public view {
        for (uint256 i = 0; i < 2; ++i) {
            ClearingToken token = _handler.tokens(i);
            for (uint256 j = 0; j < _handler.ownerCount(); ++j) {
                address owner = _handler.owners(j);
                uint256 funds = j < 3 ? type(uint128).max : 0;
                uint256 has = token.balanceOf(owner) + _handler.claimed(token, owner);
                has += _manager.credits(address(token), owner) + _judge.credits(address(token), owner);
                vm.assertEq(has, funds + _handler.due(token, owner) - _handler.paidIn(token, owner));
            }
            vm.assertEq(token.balanceOf(_handler.thief()), 0);
            vm.assertEq(token.balanceOf(_handler.arbitrator()), 0);
            vm.assertEq(token.balanceOf(_handler.operator()), 0);
        }
        vm.assertEq(_handler.thefts(), 0);
    }

    function invariant_every_session_is_as_the_books_say() public view {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            bytes32 id = _handler.channels(i);
            SessionView memory found = _manager.sessionOfChannel(id);
            DisputeWorld.Book memory book = _handler.bookOf(id);
            vm.assertEq(found.deposit, book.deposit);
            vm.assertEq(found.settled, book.settled);
            vm.assertLe(found.settled, found.deposit);
            vm.assertEq(found.root, book.root);
            vm.assertEq(found.callCount, book.callCount);
            vm.assertEq(found.finalizedAt, book.finalizedAt);
            vm.assertEq(found.held, _handler.heldOf(id));
            vm.assertEq(found.awarded, book.awarded);
            vm.assertEq(_judge.awarded(id), book.awarded);
        }
    }

    function invariant_paid_refunded_held_and_awarded_add_up_to_the_deposit() public view {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            bytes32 id = _handler.channels(i);
            SessionView memory found = _manager.sessionOfChannel(id);
            DisputeWorld.Book memory book = _handler.bookOf(id);
            if (found.finalizedAt == 0) continue;
            bool paid = _handler.serviceOf(id).window == 0 || book.exit != DisputeWorld.Exit.None;
            uint256 toPayee = paid ? found.settled - found.awarded : 0;
            vm.assertEq(toPayee + found.refunded + found.held + found.awarded, found.deposit);
        }
    }

    function invariant_no_money_moves_without_the_root() public view {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            SessionView memory found = _manager.sessionOfChannel(_handler.channels(i));
            if (found.settled != 0) vm.assertTrue(found.root != 0);
            vm.assertEq(found.root == 0, found.callCount == 0);
        }
    }

    function invariant_a_finalized_session_never_changes_but_by_its_decision() public view {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            bytes32 id = _handler.channels(i);
            bytes32 finalState = _handler.bookOf(id).finalState;
            if (finalState != 0) vm.assertEq(_handler.finalStateOf(id), finalState);
        }
    }

    function invariant_every_case_is_as_the_books_say_and_was_raised_inside_its_window() public view {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            bytes32 id = _handler.channels(i);
            Case memory found = _judge.caseOf(id);
            DisputeWorld.Book memory book = _handler.bookOf(id);
            vm.assertTrue(found.dispute == book.dispute);
            vm.assertEq(found.raisedAt, book.raisedAt);
            vm.assertEq(found.ruleBy, book.ruleBy);
            vm.assertEq(found.answerBy, book.challengedAt == 0 ? 0 : book.challengedAt + 24 hours);
            vm.assertEq(found.challengedWord == 0, found.answerBy == 0);
            vm.assertEq(_judge.isPending(id), book.dispute == DisputeState.Pending || book.challengedAt != 0);
            if (found.raisedAt == 0) continue;
            vm.assertTrue(book.finalizedAt != 0 && found.raisedAt >= book.finalizedAt);
            vm.assertLt(found.raisedAt, book.finalizedAt + _handler.serviceOf(id).window);
            vm.assertTrue(_handler.serviceOf(id).arbitrated);
        }
    }

    function invariant_who_keeps_the_rules_is_convicted_by_silence_alone_and_who_answers_never() public view {
        vm.assertEq(_handler.wrongConvictions(), 0);
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            bytes32 id = _handler.channels(i);
            DisputeWorld.Book memory book = _handler.bookOf(id);
            if (book.fault != DisputeWorld.Fault.None || _judge.awarded(id) == 0) continue;
            bool ruled = _judge.caseOf(id).dispute == DisputeState.Ruled;
            vm.assertTrue(ruled || (book.unanswered && !book.diligent));
        }
    }

    /// @notice Liveness: whatever happened, each owner alone gets what is theirs in bounded time, until nothing is left
    /// but what was given away.
    function afterInvariant() public {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            _handler.empty(i);
        }
        for (uint256 i = 0; i < 2; ++i) {
            ClearingToken token = _handler.tokens(i);
            for (uint256 j = 0; j < _handler.ownerCount(); ++j) {
                _handler.claimFor(token, _handler.owners(j));
            }
            vm.assertEq(token.balanceOf(address(_manager)), _handler.donated(token, address(_manager)));
            vm.assertEq(token.balanceOf(address(_judge)), _handler.donated(token, address(_judge)));
        }
    }

    function _meet() private {
        _handler = new DisputeHandler();
        (_manager, _judge) = (_handler.manager(), _handler.judge());
    }

    function _step(DisputeHandler handler, uint256 word) private {
        uint256 action = word % 15;
        uint256 seed = word >> 16;
        bool flag = (word >> 8) % 2 == 1;
        uint128 amount = uint128(word >> 100);
        // Every second session is the lying operator's: it has seven faults to show.
        if (action < 2) handler.sell(seed, flag ? 2 : seed >> 8, seed >> 16, bytes32(word));
        if (action == 2) handler.challenge(seed, uint64(amount), flag);
        if (action == 3) handler.answer(seed);
        if (action == 4) handler.claimUnanswered(seed);
        if (action == 5) handler.raise(seed, amount);
        if (action == 6) handler.rule(seed, amount);
        if (action == 7) handler.lapse(seed);
        if (action == 8) handler.release(seed, flag);
        if (action == 9) handler.accuse(seed);
        if (action == 10) handler.accuseHonest(seed, uint64(amount), uint64(amount >> 64), uint64(word >> 30));
        if (action == 11) handler.pass(seed, seed >> 32);
        if (action == 12) handler.passToAnEdge(seed, seed >> 32, seed >> 64);
        if (action == 13) handler.accuseWithForgeries(seed, uint64(amount));
        // A dispute over what is challenged already is the rarest of all.
        if (action == 14) handler.challenge(seed, uint64(amount), flag);
        if (action == 14) handler.raise(seed, amount);
    }

    function _count(DisputeHandler handler) private {
        for (uint256 i = 0; i < 4; ++i) {
            _exits[DisputeWorld.Exit(i)] += handler.exits(DisputeWorld.Exit(i));
        }
        for (uint256 i = 0; i < 8; ++i) {
            _convictions[DisputeWorld.Fault(i)] += handler.convictions(DisputeWorld.Fault(i));
        }
        _lapses += handler.lapses();
        _answers += handler.answers();
        _silences += handler.silences();
    }

    function _bondsPendingOnChain(ClearingToken token) private view returns (uint256 pending) {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            bytes32 id = _handler.channels(i);
            DisputeWorld.Service memory service = _handler.serviceOf(id);
            if (address(service.token) != address(token)) continue;
            Case memory found = _judge.caseOf(id);
            if (found.dispute == DisputeState.Pending) pending += service.bond;
            if (found.answerBy != 0) pending += service.bond;
        }
    }
}
