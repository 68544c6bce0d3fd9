// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {MoneyFixture} from "./MoneyFixture.sol";

/// @notice For every deposit, amount, voucher, root, count and time: a session's money is conserved to the unit, other
/// people's is not touched, what is settled never falls, and a root is written once and before any money moves.
/// @dev A call that reverts changes nothing, and ends the check: what is asserted is asserted of all that can succeed.
contract EscrowChecks is MoneyFixture {
    function check_settling_twice_conserves(
        uint128 deposit,
        uint128 first,
        uint128 second,
        Signature calldata one,
        Signature calldata other,
        bool refused
    ) public {
        bytes32 id = _open(false, deposit);
        _commit(id);
        token.refuse(PAYEE, refused);
        _settle(id, first, one);
        vm.prank(PAYEE);
        manager.settle(id, second, _bytes(other));
        assert(_view(id).settled > first);
        _assertConserved(id, deposit);
    }

    function check_closing_conserves(
        uint128 deposit,
        uint128 first,
        uint128 last,
        Signature calldata one,
        Signature calldata other,
        bool clientRefused,
        bool payeeRefused
    ) public {
        bytes32 id = _open(false, deposit);
        _commit(id);
        token.refuse(CLIENT, clientRefused);
        token.refuse(PAYEE, payeeRefused);
        _settle(id, first, one);
        vm.prank(PAYEE);
        manager.close(id, last, _bytes(other));
        assert(_view(id).settled == (last > first ? last : first));
        _assertConserved(id, deposit);
    }

    function check_settling_a_session_conserves(
        bool window,
        uint128 deposit,
        uint128 first,
        Settlement calldata item,
        Signature calldata one,
        Signature calldata other
    ) public {
        bytes32 id = _open(window, deposit);
        _commit(id);
        _settle(id, first, one);
        _settleSession(id, item, other);
        SessionView memory found = _view(id);
        assert(found.settled == item.capture && item.capture >= first);
        assert(found.root == ROOT && found.callCount == 3);
        _assertConserved(id, deposit);
    }

    function check_withdrawing_conserves_and_waits_for_the_grace_period(
        bool window,
        uint128 deposit,
        uint128 first,
        uint32 waited,
        Signature calldata one
    ) public {
        bytes32 id = _open(window, deposit);
        _commit(id);
        _settle(id, first, one);
        vm.prank(CLIENT);
        manager.requestClose(id);
        vm.warp(START + waited);
        vm.prank(CLIENT);
        manager.withdraw(id);
        assert(waited >= GRACE);
        _assertConserved(id, deposit);
    }

    function check_a_top_up_conserves(uint128 deposit, uint128 added, uint128 amount, Signature calldata signature)
        public
    {
        bytes32 id = _open(false, deposit);
        _commit(id);
        vm.prank(CLIENT);
        manager.topUp(id, added);
        assert(uint256(deposit) + added <= type(uint128).max);
        vm.prank(PAYEE);
        manager.close(id, amount, _bytes(signature));
        _assertConserved(id, deposit + added);
    }

    function check_a_root_is_written_once(bytes32 root, uint64 callCount, bytes32 laterRoot, uint64 laterCount) public {
        bytes32 id = _open(false, 1000);
        vm.prank(OPERATOR);
        manager.commitResults(id, root, callCount);
        assert(root != 0);
        assert(callCount != 0);
        assert(!_try(PAYEE, abi.encodeCall(manager.commitResults, (id, laterRoot, laterCount))));
        assert(_view(id).root == root);
        assert(_view(id).callCount == callCount);
    }

    function check_a_settlement_repeats_the_root_or_writes_the_first(
        bytes32 root,
        uint64 callCount,
        bool committed,
        Settlement calldata item,
        Signature calldata signature
    ) public {
        bytes32 id = _open(false, 1000);
        if (committed) {
            vm.prank(OPERATOR);
            manager.commitResults(id, root, callCount);
        }
        _settleSession(id, item, signature);
        SessionView memory found = _view(id);
        assert(found.root == item.root);
        assert(found.callCount == item.callCount);
        if (committed) assert(found.root == root);
        if (committed) assert(found.callCount == callCount);
        if (found.root == 0) assert(found.callCount == 0);
        if (found.root == 0) assert(found.settled == 0);
    }

    function check_no_money_moves_before_the_root(bool window, uint128 amount, Signature calldata signature) public {
        bytes32 id = _open(window, 1000);
        assert(!_try(PAYEE, abi.encodeCall(manager.settle, (id, amount, _bytes(signature)))));
        if (amount != 0) assert(!_try(PAYEE, abi.encodeCall(manager.close, (id, amount, _bytes(signature)))));
        assert(_has(PAYEE) == 0);
    }

    function check_a_channel_that_is_over_never_changes(
        uint128 deposit,
        uint128 capture,
        uint128 amount,
        Settlement calldata item,
        Signature calldata one,
        Signature calldata other
    ) public {
        bytes32 id = _hold(deposit, capture, one);
        bytes32 state = keccak256(abi.encode(_view(id)));
        Settlement memory again =
            Settlement(id, item.voucherAmount, item.capture, item.callCount, item.root, _bytes(other));
        _try(OPERATOR, abi.encodeCall(manager.settleSession, (again)));
        bool any = _try(PAYEE, abi.encodeCall(manager.settle, (id, amount, _bytes(other))));
        any = _try(PAYEE, abi.encodeCall(manager.close, (id, amount, _bytes(other)))) || any;
        any = _try(OPERATOR, abi.encodeCall(manager.commitResults, (id, item.root, item.callCount))) || any;
        any = _try(CLIENT, abi.encodeCall(manager.topUp, (id, amount))) || any;
        any = _try(CLIENT, abi.encodeCall(manager.withdraw, (id))) || any;
        any = _try(CLIENT, abi.encodeCall(manager.requestClose, (id))) || any;
        assert(!any);
        assert(keccak256(abi.encode(_view(id))) == state);
    }

    /// @notice Must be refuted: vouchers do move money.
    function refute_nothing_is_ever_paid(uint128 deposit, uint128 amount, Signature calldata signature) public {
        bytes32 id = _open(false, deposit);
        _commit(id);
        _try(PAYEE, abi.encodeCall(manager.settle, (id, amount, _bytes(signature))));
        assert(_has(PAYEE) == 0);
    }

    function _settleSession(bytes32 id, Settlement calldata item, Signature calldata signature) private {
        Settlement memory settlement =
            Settlement(id, item.voucherAmount, item.capture, item.callCount, item.root, _bytes(signature));
        vm.prank(OPERATOR);
        manager.settleSession(settlement);
    }

    /// @dev What was settled before; nothing where the amount is zero.
    function _settle(bytes32 id, uint128 amount, Signature calldata signature) private {
        if (amount == 0) return;
        vm.prank(PAYEE);
        manager.settle(id, amount, _bytes(signature));
    }

    /// @dev Paid, refunded, held and what is still deposited are what was deposited.
    function _assertConserved(bytes32 id, uint128 deposit) private view {
        SessionView memory found = _view(id);
        assert(found.deposit == deposit);
        assert(found.settled <= deposit);
        uint256 paid = found.disputeWindow == 0 ? found.settled : 0;
        assert(_has(PAYEE) == paid);
        assert(_has(CLIENT) == FUNDS - deposit + found.refunded);
        assert(_keeps(address(manager)) == deposit - paid - found.refunded);
        assert(_keeps(address(judge)) == 0);
        if (found.finalizedAt != 0) assert(_keeps(address(manager)) == found.held);
        if (found.settled != 0) assert(found.root != 0);
    }
}
