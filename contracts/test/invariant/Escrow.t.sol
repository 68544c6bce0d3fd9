// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SessionView} from "../../src/interfaces/IPaymentManager.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {TestBase} from "../base/TestBase.sol";
import {DenylistToken} from "../mocks/Tokens.sol";
import {EscrowHandler} from "./EscrowHandler.sol";

/// @notice What holds after every step, whoever did what in whichever order (the list at the end of PROTOCOL 4).
contract EscrowInvariantTest is TestBase {
    EscrowHandler private _handler;
    PaymentManager private _manager;

    function setUp() public {
        vm.warp(1_800_000_000);
        _handler = new EscrowHandler();
        _manager = _handler.manager();
        _target(address(_handler));
    }

    function invariant_the_balance_is_exactly_what_is_owed() public view {
        for (uint256 i = 0; i < 2; ++i) {
            DenylistToken token = _handler.tokens(i);
            vm.assertEq(token.balanceOf(address(_manager)), _owed(token) + _handler.donated(token));
        }
    }

    function invariant_every_payer_and_payee_has_what_is_theirs_and_the_thief_nothing() public view {
        for (uint256 i = 0; i < 2; ++i) {
            DenylistToken token = _handler.tokens(i);
            address payee = _handler.payee();
            uint256 captured = 0;
            uint256[3] memory spent;
            for (uint256 j = 0; j < _handler.channelCount(); ++j) {
                SessionView memory found = _manager.sessionOfChannel(_handler.channels(j));
                if (found.token != address(token)) continue;
                captured += found.settled;
                for (uint256 k = 0; k < 3; ++k) {
                    if (found.payer == _handler.payers(k)) spent[k] += found.deposit - found.refunded;
                }
            }
            vm.assertEq(_holdingsOf(token, payee), captured);
            for (uint256 k = 0; k < 3; ++k) {
                vm.assertEq(_holdingsOf(token, _handler.payers(k)), type(uint128).max - spent[k]);
            }
            vm.assertEq(token.balanceOf(_handler.thief()), 0);
        }
        vm.assertEq(_handler.thefts(), 0);
    }

    function invariant_every_channel_is_as_the_books_say() public view {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            bytes32 id = _handler.channels(i);
            SessionView memory found = _manager.sessionOfChannel(id);
            EscrowHandler.Book memory book = _handler.bookOf(id);
            vm.assertEq(found.deposit, book.deposit);
            vm.assertEq(found.settled, book.settled);
            vm.assertLe(found.settled, found.deposit);
            vm.assertEq(found.root, book.root);
            vm.assertEq(found.callCount, book.callCount);
            vm.assertEq(found.commitRequired, book.commitRequired);
            vm.assertEq(found.refunded, found.finalizedAt == 0 ? 0 : found.deposit - found.settled);
            if (found.finalizedAt == 0) vm.assertEq(found.closeRequestedAt, book.closeRequestedAt);
        }
    }

    function invariant_nothing_is_settled_without_the_root_that_the_terms_ask_for() public view {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            SessionView memory found = _manager.sessionOfChannel(_handler.channels(i));
            if (found.commitRequired && found.settled != 0) vm.assertTrue(found.root != 0);
            vm.assertEq(found.root == 0, found.callCount == 0);
        }
    }

    function invariant_a_finalized_channel_never_changes() public view {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            bytes32 id = _handler.channels(i);
            bytes32 finalState = _handler.bookOf(id).finalState;
            vm.assertEq(finalState == 0, _manager.sessionOfChannel(id).finalizedAt == 0);
            if (finalState != 0) vm.assertEq(_handler.stateOf(id), finalState);
        }
    }

    function invariant_numbers_and_ids_name_the_same_channels() public view {
        vm.assertEq(_manager.sessionCount(), _handler.channelCount());
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            SessionView memory found = _manager.session(i + 1);
            vm.assertEq(found.channelId, _handler.channels(i));
            vm.assertEq(_manager.sessionResultsRoot(i + 1), found.root);
            vm.assertEq(_manager.sessionCallCount(i + 1), found.callCount);
        }
    }

    /// @notice Liveness: whatever happened, the payers alone get everybody's channels to an end, and every owner alone
    /// takes its credits, until nothing is left but what was given away.
    function afterInvariant() public {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            _handler.exit(i);
        }
        for (uint256 i = 0; i < 2; ++i) {
            DenylistToken token = _handler.tokens(i);
            for (uint256 j = 0; j < 3; ++j) {
                _handler.claimFor(token, _handler.payers(j));
            }
            _handler.claimFor(token, _handler.payee());
            vm.assertEq(token.balanceOf(address(_manager)), _handler.donated(token));
        }
    }

    function _owed(DenylistToken token) private view returns (uint256 owed) {
        for (uint256 i = 0; i < _handler.channelCount(); ++i) {
            SessionView memory found = _manager.sessionOfChannel(_handler.channels(i));
            if (found.token == address(token)) owed += found.deposit - found.settled - found.refunded;
        }
        for (uint256 i = 0; i < 3; ++i) {
            owed += _manager.credits(address(token), _handler.payers(i));
        }
        owed += _manager.credits(address(token), _handler.payee());
    }

    function _holdingsOf(DenylistToken token, address owner) private view returns (uint256) {
        return token.balanceOf(owner) + _manager.credits(address(token), owner) + _handler.claimed(token, owner);
    }
}
