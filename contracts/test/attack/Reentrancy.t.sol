// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Authorization} from "../../src/libraries/TokenTransfer.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";
import {HookToken} from "../mocks/Tokens.sol";

/// @notice A token with hooks that comes back in the middle of every transfer, in or out, as payer, payee or operator,
/// into every function that changes state. Held money and bonds: DisputeReentrancy.
contract ReentrancyTest is PaymentFixture {
    HookToken private _hooked;
    bytes32 private _channel;
    bytes[] private _payloads;

    function setUp() public override {
        super.setUp();
        _hooked = new HookToken();
        // The token itself is payee and operator, so that what it calls back is not refused for who it is.
        operator = address(_hooked);
        payee = address(_hooked);
        _hooked.mint(client, 100 * uint256(DEPOSIT));
        vm.prank(client);
        _hooked.approve(address(manager), type(uint256).max);
        (serviceId, termsHash) = _register(_termsIn(address(_hooked), true));
        _channel = _open();

        Settlement memory item = _settlement(_channel, 700);
        _payloads.push(
            abi.encodeCall(manager.openSession, (serviceId, termsHash, 1, keccak256("again"), address(0), bytes32(0)))
        );
        _payloads.push(abi.encodeCall(manager.open, (payee, address(_hooked), 1, keccak256("again"), address(0))));
        _payloads.push(abi.encodeCall(manager.topUp, (_channel, 1)));
        _payloads.push(abi.encodeCall(manager.settle, (_channel, 700, _voucher(_channel, 700))));
        _payloads.push(abi.encodeCall(manager.close, (_channel, 700, _voucher(_channel, 700))));
        _payloads.push(abi.encodeCall(manager.commitResults, (_channel, ROOT, 3)));
        _payloads.push(abi.encodeCall(manager.settleSession, (item)));
        _payloads.push(abi.encodeCall(manager.requestClose, (_channel)));
        _payloads.push(abi.encodeCall(manager.withdraw, (_channel)));
        _payloads.push(abi.encodeCall(manager.claimCredit, (address(_hooked), payee)));
        _payloads.push(abi.encodeCall(manager.release, (_channel)));
        _payloads.push(abi.encodeCall(manager.resolve, (_channel, 1)));
        Authorization memory any = Authorization(0, type(uint256).max, new bytes(65));
        _payloads.push(
            abi.encodeCall(
                manager.openSessionWithAuthorization,
                (client, serviceId, termsHash, 1, keccak256("again"), address(0), bytes32(0), any)
            )
        );
        _payloads.push(abi.encodeCall(manager.topUpWithAuthorization, (_channel, 1, bytes32(0), any)));
    }

    function test_nothing_can_be_entered_while_a_deposit_comes_in() public {
        for (uint256 i = 0; i < _payloads.length; ++i) {
            _hooked.arm(address(manager), _payloads[i]);
            _open(bytes32(i));
            _wasRefused(i + 1);
            vm.prank(client);
            manager.topUp(_channel, 1);
            _wasRefused(i + 1);
        }
        vm.assertEq(_view(_channel).deposit, DEPOSIT + _payloads.length);
        vm.assertEq(_hooked.balanceOf(address(manager)), (DEPOSIT + 1) * _payloads.length + DEPOSIT);
    }

    function test_nothing_can_be_entered_while_money_goes_out() public {
        for (uint256 i = 0; i < _payloads.length; ++i) {
            bytes32 channel = _open(bytes32(i));
            Settlement memory item = _settlement(channel, 700);
            _hooked.arm(address(manager), _payloads[i]);
            vm.prank(operator);
            manager.settleSession(item);
            _wasRefused(i + 1);
            _hooked.arm(address(0), "");
            vm.assertEq(_hooked.balanceOf(payee), 700 * (i + 1));
        }
        vm.assertEq(_hooked.balanceOf(address(manager)), DEPOSIT);
    }

    function test_a_batch_inside_a_transfer_settles_nothing() public {
        Settlement[] memory nested = new Settlement[](1);
        nested[0] = _settlement(_channel, 700);
        bytes32 outer = _open(keccak256("outer"));
        Settlement memory item = _settlement(outer, 5);
        _hooked.arm(address(manager), abi.encodeCall(manager.settleSessions, (nested)));
        vm.prank(operator);
        manager.settleSession(item);
        vm.assertEq(_view(_channel).finalizedAt, 0);
        vm.assertEq(_hooked.balanceOf(payee), 5);
        vm.assertEq(_hooked.balanceOf(address(manager)), DEPOSIT);
    }

    function test_a_batch_that_is_re_entered_pays_each_item_once() public {
        Settlement[] memory items = new Settlement[](2);
        items[0] = _settlement(_channel, 700);
        items[1] = _settlement(_open(keccak256("other")), 800);
        _hooked.arm(address(manager), abi.encodeCall(manager.settleSession, (items[1])));
        vm.prank(operator);
        manager.settleSessions(items);
        vm.assertEq(_hooked.balanceOf(payee), 1500);
        vm.assertEq(_hooked.balanceOf(address(manager)), 0);
    }

    function test_nothing_can_be_entered_while_a_credit_is_claimed() public {
        _hooked.arm(address(_hooked), abi.encodeWithSignature("missing()"));
        bytes32 channel = _open(keccak256("credit"));
        Settlement memory item = _settlement(channel, 700);
        bytes memory code = address(_hooked).code;
        vm.etch(address(_hooked), hex"fe");
        vm.prank(operator);
        manager.settleSession(item);
        vm.etch(address(_hooked), code);
        vm.assertEq(manager.credits(address(_hooked), client), DEPOSIT - 700);

        uint256 calls = _hooked.calls();
        _hooked.arm(address(manager), abi.encodeCall(manager.claimCredit, (address(_hooked), payee)));
        vm.prank(payee);
        manager.claimCredit(address(_hooked), thief);
        vm.assertEq(_hooked.calls(), calls + 1);
        _guarded();
        vm.assertEq(_hooked.balanceOf(thief), 700);
    }

    function _wasRefused(uint256 round) private view {
        vm.assertTrue(_hooked.calls() >= round, "the token never called back");
        _guarded();
    }

    function _guarded() private view {
        vm.assertFalse(_hooked.lastSucceeded(), "the call back went through");
        vm.assertEq(
            keccak256(_hooked.lastAnswer()),
            keccak256(abi.encodeWithSelector(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector))
        );
    }
}
