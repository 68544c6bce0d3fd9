// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {Case, Claim, DisputeState, IDisputeManager, Receipt} from "../../src/interfaces/IDisputeManager.sol";
import {IPaymentManager, SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Authorization} from "../../src/libraries/TokenTransfer.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";
import {ReentrantToken} from "../mocks/AuthorizedTokens.sol";

interface StateVm {
    function snapshotState() external returns (uint256 id);
    function revertToState(uint256 id) external returns (bool done);
}

/// @notice A token with hooks that is payer, payee, operator and arbitrator at once comes back in the middle of every
/// transfer of held money and of bonds, into the contract that moves it and into the other one.
contract DisputeReentrancyTest is DisputeFixture {
    /// @dev What moves money in or out of the DisputeManager, or makes the PaymentManager split what it holds.
    enum Decision {
        Raise,
        ChallengeReceipt,
        ChallengeStatement,
        AnswerReceipt,
        AnswerStatement,
        Rule,
        Lapse,
        ClaimUnanswered,
        ConflictingReceipts,
        ConflictingStatements,
        AgainstRoot,
        OmittedReceipt,
        OmittedStatement,
        Overcharge,
        ClaimCredit
    }

    /// @dev What moves money in or out of the PaymentManager and is not part of the older Reentrancy test.
    enum Movement {
        OpenAuthorized,
        TopUpAuthorized,
        SettleHeld,
        Release,
        Resolve
    }

    bytes32 private constant _OTHER = keccak256("another history");
    StateVm private constant _STATE = StateVm(address(vm));

    ReentrantToken private _hooked;
    // Held: the one that the outer call is about, and one that is disputed and challenged all the time.
    bytes32 private _main;
    bytes32 private _busy;
    bytes32 private _running;

    function setUp() public override {
        _hooked = new ReentrantToken();
        operator = address(_hooked);
        payee = address(_hooked);
        arbitrator = address(_hooked);
        super.setUp();
        (serviceId, termsHash) = _register(_disputeTermsIn(address(_hooked)));
        _hooked.mint(address(_hooked), 1000 * uint256(DEPOSIT));
        vm.startPrank(address(_hooked));
        _hooked.approve(address(manager), type(uint256).max);
        _hooked.approve(address(decisions), type(uint256).max);
        vm.stopPrank();
        _main = _heldByToken(keccak256("main"));
        _busy = _heldByToken(keccak256("busy"));
        _running = _openByToken(keccak256("running"));
        bytes32 root = _rootOver(CALLS);
        Receipt memory receipt = _receipt(_busy, 2);
        vm.startPrank(address(_hooked));
        manager.commitResults(_running, root, CALLS);
        decisions.raiseDispute(_busy, Claim.Quality, URI, HASH);
        decisions.challengeReceipt(_busy, receipt);
        vm.stopPrank();
    }

    function test_no_decision_can_be_entered_while_another_one_moves_money() public {
        for (uint256 i = 0; i <= uint256(type(Decision).max); ++i) {
            bytes[] memory payloads = _decisions(i % 2 == 0 ? _main : _busy);
            for (uint256 j = 0; j < payloads.length; ++j) {
                uint256 state = _STATE.snapshotState();
                _decideWith(Decision(i), address(decisions), payloads[j]);
                _wasGuarded();
                _assertBooks();
                _STATE.revertToState(state);
            }
        }
    }

    function test_no_function_of_the_payment_manager_can_be_entered_while_it_moves_money() public {
        bytes[] memory payloads = _movements();
        for (uint256 i = 0; i <= uint256(type(Movement).max); ++i) {
            for (uint256 j = 0; j < payloads.length; ++j) {
                uint256 state = _STATE.snapshotState();
                _moveWith(Movement(i), address(manager), payloads[j]);
                _wasGuarded();
                _assertBooks();
                _STATE.revertToState(state);
            }
        }
    }

    function test_whatever_is_decided_in_the_middle_of_a_payment_both_contracts_hold_what_they_owe() public {
        bytes32[3] memory channels = [_main, _busy, _running];
        uint256 succeeded = 0;
        for (uint256 c = 0; c < channels.length; ++c) {
            bytes[] memory payloads = _decisions(channels[c]);
            for (uint256 i = 0; i <= uint256(type(Movement).max); ++i) {
                for (uint256 j = 0; j < payloads.length; ++j) {
                    uint256 state = _STATE.snapshotState();
                    _moveWith(Movement(i), address(decisions), payloads[j]);
                    _wasEntered();
                    succeeded += _hooked.succeeded();
                    _assertBooks();
                    _STATE.revertToState(state);
                }
            }
        }
        // So that this is not about calls that fail anyway.
        vm.assertTrue(succeeded != 0, "nothing was decided in the middle of a payment");
    }

    function test_whatever_is_paid_in_the_middle_of_a_decision_both_contracts_hold_what_they_owe() public {
        bytes[] memory payloads = _movements();
        uint256 succeeded = 0;
        for (uint256 i = 0; i <= uint256(type(Decision).max); ++i) {
            for (uint256 j = 0; j < payloads.length; ++j) {
                uint256 state = _STATE.snapshotState();
                _decideWith(Decision(i), address(manager), payloads[j]);
                _wasEntered();
                succeeded += _hooked.succeeded();
                _assertBooks();
                _STATE.revertToState(state);
            }
        }
        vm.assertTrue(succeeded != 0, "nothing was paid in the middle of a decision");
    }

    function test_a_lie_cannot_be_proven_in_the_middle_of_a_payment_only_after_it() public {
        bytes[] memory payloads = _decisions(_main);
        for (uint256 i = uint256(Decision.ConflictingReceipts); i <= uint256(Decision.Overcharge); ++i) {
            uint256 state = _STATE.snapshotState();
            _moveWith(Movement.OpenAuthorized, address(decisions), payloads[i]);
            _wasGuarded();
            vm.assertEq(manager.holdOf(_main).held, CAPTURED + 1);
            (bool done,) = address(decisions).call(payloads[i]);
            vm.assertTrue(done, "it is not proven afterwards either");
            _STATE.revertToState(state);
        }
    }

    function test_what_is_released_cannot_be_disputed_challenged_or_proven_in_the_middle_of_it() public {
        bytes[] memory payloads = _decisions(_main);
        for (uint256 i = 0; i < payloads.length; ++i) {
            uint256 state = _STATE.snapshotState();
            _moveWith(Movement.Release, address(decisions), payloads[i]);
            vm.assertEq(_hooked.succeeded(), 0);
            vm.assertFalse(decisions.isPending(_main));
            _STATE.revertToState(state);
        }
    }

    function test_a_response_in_the_middle_of_a_decision_is_an_event_and_nothing_else() public {
        bytes memory response = abi.encodeCall(decisions.respond, (_busy, URI, HASH));
        bytes32 before = keccak256(abi.encode(_case(_busy)));
        _decideWith(Decision.Raise, address(decisions), response);
        vm.assertEq(_hooked.succeeded(), 1);
        vm.assertEq(keccak256(abi.encode(_case(_busy))), before);
        _assertBooks();
    }

    /// @dev Everything of the DisputeManager that changes state, in the order of `Decision`.
    function _decisions(bytes32 channel) private view returns (bytes[] memory payloads) {
        Receipt memory receipt = _receipt(channel, 2);
        payloads = new bytes[](uint256(type(Decision).max) + 1);
        payloads[0] = abi.encodeCall(decisions.raiseDispute, (channel, Claim.Quality, URI, HASH));
        payloads[1] = abi.encodeCall(decisions.challengeReceipt, (channel, receipt));
        payloads[2] = abi.encodeCall(decisions.challengeStatement, (channel, _statement(channel, 3)));
        payloads[3] = abi.encodeCall(decisions.answerReceipt, (channel, 2, leaves[2], _siblings(2)));
        payloads[4] = abi.encodeCall(decisions.answerStatement, (channel, 3, _rootOver(3), _consistency(3)));
        payloads[5] = abi.encodeCall(decisions.rule, (channel, 250));
        payloads[6] = abi.encodeCall(decisions.lapse, (channel));
        payloads[7] = abi.encodeCall(decisions.claimUnanswered, (channel));
        payloads[8] = abi.encodeCall(
            decisions.proveConflictingReceipts, (channel, receipt, _receipt(channel, 2, _OTHER, CHARGE))
        );
        payloads[9] = abi.encodeCall(
            decisions.proveConflictingStatements,
            (channel, _statement(channel, 3), _statement(channel, 3, _OTHER, CHARGE))
        );
        payloads[10] =
            abi.encodeCall(decisions.proveStatementAgainstRoot, (channel, _statement(channel, CALLS, _OTHER, CHARGE)));
        payloads[11] = abi.encodeCall(decisions.proveOmittedReceipt, (channel, _receipt(channel, CALLS, _OTHER, 0)));
        payloads[12] =
            abi.encodeCall(decisions.proveOmittedStatement, (channel, _statement(channel, CALLS + 1, _OTHER, 0)));
        payloads[13] =
            abi.encodeCall(decisions.proveOvercharge, (channel, _statement(channel, CALLS), new Receipt[](0)));
        payloads[14] = abi.encodeCall(decisions.claimCredit, (address(_hooked), thief));
    }

    /// @dev Everything of the PaymentManager that changes state, but for the batch, which is `settleSession` in a loop.
    function _movements() private view returns (bytes[] memory payloads) {
        Authorization memory authorization = Authorization(0, type(uint256).max, new bytes(65));
        payloads = new bytes[](14);
        payloads[0] = abi.encodeCall(
            manager.openSession, (serviceId, termsHash, DEPOSIT, keccak256("again"), address(0), bytes32(0))
        );
        payloads[1] = abi.encodeCall(manager.open, (payee, address(_hooked), DEPOSIT, keccak256("again"), address(0)));
        payloads[2] = abi.encodeCall(
            manager.openSessionWithAuthorization,
            (payee, serviceId, termsHash, DEPOSIT, keccak256("again"), client, bytes32(0), authorization)
        );
        payloads[3] = abi.encodeCall(manager.topUp, (_running, 77));
        payloads[4] = abi.encodeCall(manager.topUpWithAuthorization, (_running, 77, bytes32(0), authorization));
        payloads[5] = abi.encodeCall(manager.settle, (_running, 300, _voucher(_running, 300)));
        payloads[6] = abi.encodeCall(manager.close, (_running, 300, _voucher(_running, 300)));
        payloads[7] = abi.encodeCall(manager.commitResults, (_running, ROOT, 3));
        payloads[8] = abi.encodeCall(manager.settleSession, (_honest(_running, 300)));
        payloads[9] = abi.encodeCall(manager.requestClose, (_running));
        payloads[10] = abi.encodeCall(manager.withdraw, (_running));
        payloads[11] = abi.encodeCall(manager.claimCredit, (address(_hooked), thief));
        payloads[12] = abi.encodeCall(manager.release, (_main));
        payloads[13] = abi.encodeCall(manager.resolve, (_main, 250));
    }

    function _decideWith(Decision decision, address target, bytes memory payload) private {
        bytes memory order = _decisions(_main)[uint256(decision)];
        _prepare(decision);
        _hooked.arm(target, payload);
        vm.prank(address(_hooked));
        (bool done, bytes memory answer) = address(decisions).call(order);
        _hooked.disarm();
        vm.assertTrue(done, string(answer));
    }

    function _prepare(Decision decision) private {
        Receipt memory receipt = _receipt(_main, 2);
        bytes memory statement = _decisions(_main)[uint256(Decision.ChallengeStatement)];
        vm.startPrank(address(_hooked));
        bool needsDispute = decision == Decision.Rule || decision == Decision.Lapse || decision == Decision.ClaimCredit;
        if (needsDispute) decisions.raiseDispute(_main, Claim.Quality, URI, HASH);
        bool needsReceipt = decision == Decision.AnswerReceipt || decision == Decision.ClaimUnanswered;
        if (needsReceipt) decisions.challengeReceipt(_main, receipt);
        if (decision == Decision.AnswerStatement) {
            (bool done,) = address(decisions).call(statement);
            vm.assertTrue(done);
        }
        vm.stopPrank();
        if (decision == Decision.ClaimUnanswered) _elapse(ANSWER);
        if (decision == Decision.Lapse || decision == Decision.ClaimCredit) _elapse(RULING);
        if (decision != Decision.ClaimCredit) return;
        // A bond that could not be pushed.
        bytes memory code = address(_hooked).code;
        vm.etch(address(_hooked), hex"fe");
        decisions.lapse(_main);
        vm.etch(address(_hooked), code);
        vm.assertEq(decisions.credits(address(_hooked), address(_hooked)), BOND);
    }

    function _moveWith(Movement movement, address target, bytes memory payload) private {
        Authorization memory authorization = Authorization(0, type(uint256).max, new bytes(65));
        Settlement memory item = _honest(_running, CAPTURED);
        if (movement == Movement.Release) _elapse(WINDOW);
        _hooked.arm(target, payload);
        if (movement == Movement.OpenAuthorized) {
            manager.openSessionWithAuthorization(
                payee, serviceId, termsHash, DEPOSIT, keccak256("outer"), client, bytes32(0), authorization
            );
        }
        if (movement == Movement.TopUpAuthorized) {
            manager.topUpWithAuthorization(_running, 33, bytes32(0), authorization);
        }
        if (movement == Movement.SettleHeld) {
            vm.prank(operator);
            manager.settleSession(item);
        }
        if (movement == Movement.Release) manager.release(_main);
        if (movement == Movement.Resolve) {
            vm.prank(address(decisions));
            manager.resolve(_main, 250);
        }
        _hooked.disarm();
    }

    function _openByToken(bytes32 nonce) private returns (bytes32) {
        return _openFor(address(_hooked), serviceId, termsHash, nonce, client);
    }

    /// @dev One unit dearer than its calls, so that every lie can be told about it.
    function _heldByToken(bytes32 nonce) private returns (bytes32 channel) {
        channel = _openByToken(nonce);
        _settle(_honest(channel, CAPTURED + 1));
    }

    /// @dev A call back that wants more than the gas of a push takes its transfer down with it: a credit is left.
    function _wasEntered() private view {
        uint256 credits =
            manager.credits(address(_hooked), address(_hooked)) + decisions.credits(address(_hooked), address(_hooked));
        vm.assertTrue(_hooked.entered() != 0 || credits != 0, "the token never called back");
    }

    function _wasGuarded() private view {
        vm.assertTrue(_hooked.entered() != 0, "the token never called back");
        vm.assertEq(_hooked.succeeded(), 0, "the call back went through");
        vm.assertEq(
            keccak256(_hooked.lastAnswer()),
            keccak256(abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector))
        );
    }

    /// @dev Each contract's balance is what it owes: open deposits, held money, pending bonds and credits.
    function _assertBooks() private view {
        uint256 held = manager.credits(address(_hooked), address(_hooked));
        uint256 bonds = decisions.credits(address(_hooked), address(_hooked));
        for (uint256 i = 1; i <= manager.sessionCount(); ++i) {
            SessionView memory found = manager.session(i);
            held += found.finalizedAt == 0 ? found.deposit : found.held;
            Case memory case_ = decisions.caseOf(found.channelId);
            if (case_.dispute == DisputeState.Pending) bonds += BOND;
            if (case_.answerBy != 0) bonds += BOND;
        }
        vm.assertEq(_hooked.balanceOf(address(manager)), held, "the PaymentManager");
        vm.assertEq(_hooked.balanceOf(address(decisions)), bonds, "the DisputeManager");
    }
}
