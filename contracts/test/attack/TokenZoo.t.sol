// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ICredits} from "../../src/interfaces/ICredits.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {GasFloor} from "../../src/libraries/GasFloor.sol";
import {TokenTransfer} from "../../src/libraries/TokenTransfer.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";
import {BurnerToken, DenylistToken, FalseToken, MintableToken, SilentToken, SkewToken} from "../mocks/Tokens.sol";

/// @notice Tokens that refuse, lie, keep, add, burn or say nothing: who they can hurt, and who not.
contract TokenZooTest is PaymentFixture {
    function test_a_denied_payer_does_not_hold_up_the_payee() public {
        DenylistToken denying = new DenylistToken();
        bytes32 channel = _openIn(denying);
        denying.setDenied(client, true);
        vm.expectEmit(address(manager));
        emit ICredits.Credited(address(denying), client, channel, DEPOSIT - 700);
        _settle(channel, 700);
        vm.assertEq(denying.balanceOf(payee), 700);
        vm.assertEq(manager.credits(address(denying), client), DEPOSIT - 700);
    }

    function test_a_denied_payee_does_not_hold_up_the_payer() public {
        DenylistToken denying = new DenylistToken();
        bytes32 channel = _openIn(denying);
        uint256 before = denying.balanceOf(client);
        denying.setDenied(payee, true);
        _settle(channel, 700);
        vm.assertEq(denying.balanceOf(client) - before, DEPOSIT - 700);
        vm.assertEq(manager.credits(address(denying), payee), 700);
    }

    function test_a_credit_is_claimed_by_its_owner_alone_once_and_to_where_it_says() public {
        DenylistToken denying = new DenylistToken();
        bytes32 channel = _openIn(denying);
        denying.setDenied(payee, true);
        _settle(channel, 700);

        vm.prank(thief);
        vm.expectRevert(abi.encodeWithSelector(ICredits.NoCredit.selector, address(denying), thief));
        manager.claimCredit(address(denying), thief);

        vm.startPrank(payee);
        vm.expectRevert(abi.encodeWithSelector(ICredits.InvalidRecipient.selector, address(0)));
        manager.claimCredit(address(denying), address(0));
        vm.expectRevert(abi.encodeWithSelector(ICredits.InvalidRecipient.selector, address(manager)));
        manager.claimCredit(address(denying), address(manager));
        vm.expectRevert(abi.encodeWithSelector(DenylistToken.Denied.selector, payee));
        manager.claimCredit(address(denying), payee);
        vm.assertEq(manager.credits(address(denying), payee), 700);

        vm.expectEmit(address(manager));
        emit ICredits.CreditClaimed(address(denying), payee, operator, 700);
        manager.claimCredit(address(denying), operator);
        vm.expectRevert(abi.encodeWithSelector(ICredits.NoCredit.selector, address(denying), payee));
        manager.claimCredit(address(denying), operator);
        vm.stopPrank();
        vm.assertEq(denying.balanceOf(operator), 700);
        vm.assertEq(denying.balanceOf(address(manager)), 0);
    }

    function test_credits_of_several_sessions_add_up() public {
        DenylistToken denying = new DenylistToken();
        bytes32 first = _openIn(denying);
        bytes32 second = _openAgainIn(denying, keccak256("second"));
        denying.setDenied(payee, true);
        _settle(first, 700);
        _settle(second, 11);
        vm.assertEq(manager.credits(address(denying), payee), 711);
    }

    function test_a_withdrawal_to_a_denied_payer_ends_the_channel_and_leaves_a_credit() public {
        DenylistToken denying = new DenylistToken();
        bytes32 channel = _openIn(denying);
        vm.startPrank(client);
        manager.requestClose(channel);
        vm.warp(block.timestamp + GRACE);
        denying.setDenied(client, true);
        manager.withdraw(channel);
        vm.assertTrue(_view(channel).finalizedAt != 0);
        manager.claimCredit(address(denying), operator);
        vm.stopPrank();
        vm.assertEq(denying.balanceOf(operator), DEPOSIT);
    }

    function test_a_token_that_says_false_leaves_credits_too() public {
        FalseToken lying = new FalseToken();
        bytes32 channel = _openIn(lying);
        lying.setRefusing(true);
        _settle(channel, 700);
        vm.assertEq(manager.credits(address(lying), payee), 700);
        vm.assertEq(manager.credits(address(lying), client), DEPOSIT - 700);

        vm.startPrank(payee);
        vm.expectRevert(abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, address(lying)));
        manager.claimCredit(address(lying), payee);
        lying.setRefusing(false);
        manager.claimCredit(address(lying), payee);
        vm.stopPrank();
        vm.assertEq(lying.balanceOf(payee), 700);
    }

    function test_a_token_that_returns_nothing_works() public {
        SilentToken silent = new SilentToken();
        silent.mint(client, DEPOSIT);
        (uint256 id, bytes32 hash) = _register(_termsIn(address(silent), true));
        bytes32 channel = _openFor(client, id, hash, keccak256("nonce"), address(0));
        _settle(channel, 700);
        vm.assertEq(silent.balanceOf(payee), 700);
        vm.assertEq(silent.balanceOf(client), DEPOSIT - 700);
        // Paid once, and not owed once more.
        vm.assertEq(manager.credits(address(silent), payee), 0);
        vm.assertEq(manager.credits(address(silent), client), 0);
    }

    function test_a_token_whose_code_is_gone_leaves_credits_and_not_a_loss() public {
        bytes32 channel = _open();
        bytes memory code = address(token).code;
        vm.etch(address(token), "");
        _settle(channel, 700);
        vm.assertEq(manager.credits(address(token), payee), 700);
        vm.etch(address(token), code);
        vm.prank(payee);
        manager.claimCredit(address(token), payee);
        vm.assertEq(token.balanceOf(payee), 700);
    }

    function test_a_token_that_keeps_a_fee_is_refused_at_opening() public {
        SkewToken taking = new SkewToken(false);
        _refusedAtOpening(taking, DEPOSIT - DEPOSIT / 100);
    }

    function test_a_token_that_adds_is_refused_too() public {
        SkewToken adding = new SkewToken(true);
        _refusedAtOpening(adding, DEPOSIT + DEPOSIT / 100);
    }

    function test_a_token_that_burns_gas_costs_two_caps_and_ends_in_credits() public {
        BurnerToken burning = new BurnerToken();
        bytes32 channel = _openIn(burning);
        burning.setMode(BurnerToken.Mode.BurnGas);
        Settlement memory item = _settlement(channel, 700);
        vm.prank(operator);
        uint256 gasBefore = gasleft();
        manager.settleSession(item);
        vm.assertLe(gasBefore - gasleft(), 2 * TokenTransfer.TRANSFER_GAS + 250_000);
        vm.assertEq(manager.credits(address(burning), payee), 700);
        vm.assertEq(manager.credits(address(burning), client), DEPOSIT - 700);
    }

    function test_bad_tokens_in_a_batch_do_not_block_good_ones_nor_eat_their_gas() public {
        BurnerToken burning = new BurnerToken();
        BurnerToken shouting = new BurnerToken();
        FalseToken lying = new FalseToken();
        Settlement[] memory items = new Settlement[](5);
        items[0] = _settlement(_openIn(burning), 100);
        items[1] = _settlement(_openIn(shouting), 101);
        items[2] = _settlement(_open(), 102);
        items[3] = _settlement(_openIn(lying), 103);
        items[4] = _settlement(_open(keccak256("last")), 104);
        burning.setMode(BurnerToken.Mode.BurnGas);
        shouting.setMode(BurnerToken.Mode.LongRevert);
        lying.setRefusing(true);
        vm.prank(operator);
        manager.settleSessions{gas: 2_500_000}(items);
        for (uint256 i = 0; i < items.length; ++i) {
            vm.assertEq(_view(items[i].channelId).settled, 100 + i);
        }
        vm.assertEq(token.balanceOf(payee), 206);
        vm.assertEq(manager.credits(address(burning), payee), 100);
        vm.assertEq(manager.credits(address(shouting), payee), 101);
        vm.assertEq(manager.credits(address(lying), payee), 103);
    }

    function testFuzz_no_gas_limit_turns_a_good_transfer_into_a_credit(uint256 gasLimit) public {
        bytes32 channel = _open();
        Settlement memory item = _settlement(channel, 700);
        vm.prank(operator);
        (bool done,) =
            address(manager).call{gas: _bound(gasLimit, 50_000, 600_000)}(abi.encodeCall(manager.settleSession, (item)));
        vm.assertEq(manager.credits(address(token), payee) + manager.credits(address(token), client), 0);
        vm.assertEq(token.balanceOf(payee), done ? 700 : 0);
    }

    function test_a_settlement_with_too_little_gas_for_its_transfers_says_so() public {
        Settlement memory item = _settlement(_open(), 700);
        vm.prank(operator);
        (bool done, bytes memory answer) =
            address(manager).call{gas: 250_000}(abi.encodeCall(manager.settleSession, (item)));
        vm.assertFalse(done);
        // forge-lint: disable-next-line(unsafe-typecast)
        vm.assertTrue(bytes4(answer) == GasFloor.InsufficientGas.selector);
        (uint256 required, uint256 available) = (0, 0);
        assembly ("memory-safe") {
            required := mload(add(answer, 0x24))
            available := mload(add(answer, 0x44))
        }
        vm.assertTrue(available < required && required < 250_000);
    }

    function _openIn(MintableToken other) private returns (bytes32 channel) {
        other.mint(client, 10 * uint256(DEPOSIT));
        vm.prank(client);
        other.approve(address(manager), type(uint256).max);
        return _openAgainIn(other, keccak256("nonce"));
    }

    function _openAgainIn(MintableToken other, bytes32 nonce) private returns (bytes32 channel) {
        (uint256 id, bytes32 hash) = _register(_termsIn(address(other), true));
        return _openFor(client, id, hash, nonce, address(0));
    }

    function _settle(bytes32 channel, uint128 capture) private {
        Settlement memory item = _settlement(channel, capture);
        vm.prank(operator);
        manager.settleSession(item);
    }

    function _refusedAtOpening(MintableToken other, uint256 received) private {
        other.mint(client, 10 * uint256(DEPOSIT));
        (uint256 id, bytes32 hash) = _register(_termsIn(address(other), true));
        vm.startPrank(client);
        other.approve(address(manager), type(uint256).max);
        bytes memory refusal = abi.encodeWithSelector(
            TokenTransfer.TransferAmountMismatch.selector, address(other), uint256(DEPOSIT), received
        );
        vm.expectRevert(refusal);
        manager.openSession(id, hash, DEPOSIT, keccak256("nonce"), address(0), bytes32(0));
        vm.expectRevert(refusal);
        manager.open(payee, address(other), DEPOSIT, keccak256("salt"), address(0));
        vm.stopPrank();
        vm.assertEq(manager.sessionCount(), 0);
    }
}
