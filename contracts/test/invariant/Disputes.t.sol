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
    DisputeHandler private _handler;
    PaymentManager private _manager;
    IDisputeManager private _judge;

    function setUp() public {
        vm.warp(1_800_000_000);
        _handler = new DisputeHandler();
        (_manager, _judge) = (_handler.manager(), _handler.judge());
        _target(address(_handler));
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
