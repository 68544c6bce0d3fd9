// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {IPaymentManager, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {GasFloor} from "../../src/libraries/GasFloor.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

/// @notice Batches: every item stands for itself.
contract SettleSessionsTest is PaymentFixture {
    function test_all_good_items_are_settled() public {
        Settlement[] memory items = _items(5);
        _settleAs(operator, items);
        for (uint256 i = 0; i < items.length; ++i) {
            vm.assertEq(_view(items[i].channelId).settled, items[i].capture);
        }
        vm.assertEq(token.balanceOf(payee), 100 + 101 + 102 + 103 + 104);
    }

    function test_a_bad_item_is_skipped_with_its_reason_and_does_not_block_the_others() public {
        Settlement[] memory items = _items(3);
        items[1].signature = items[0].signature;
        vm.expectEmit(address(manager));
        emit IPaymentManager.SettlementSkipped(
            items[1].channelId, abi.encodeWithSelector(IEscrow.InvalidSignature.selector, items[1].channelId, client)
        );
        _settleAs(operator, items);
        vm.assertEq(_view(items[0].channelId).settled, 100);
        vm.assertEq(_view(items[1].channelId).settled, 0);
        vm.assertEq(_view(items[1].channelId).root, bytes32(0));
        vm.assertEq(_view(items[1].channelId).finalizedAt, 0);
        vm.assertEq(_view(items[2].channelId).settled, 102);
    }

    function test_a_skipped_item_can_be_settled_later() public {
        Settlement[] memory items = _items(1);
        bytes memory good = items[0].signature;
        items[0].signature = "";
        _settleAs(operator, items);
        items[0].signature = good;
        _settleAs(operator, items);
        vm.assertEq(token.balanceOf(payee), 100);
    }

    function test_an_item_that_was_settled_a_moment_before_does_not_block_the_others() public {
        Settlement[] memory items = _items(3);
        vm.prank(payee);
        manager.settleSession(items[0]);
        _settleAs(operator, items);
        vm.assertEq(token.balanceOf(payee), 303);
    }

    function test_the_same_session_twice_in_a_batch_is_paid_once() public {
        Settlement[] memory items = _items(2);
        items[1] = items[0];
        _settleAs(operator, items);
        vm.assertEq(token.balanceOf(payee), 100);
    }

    function test_two_captures_of_one_session_in_a_batch_pay_the_first() public {
        Settlement[] memory items = _items(2);
        items[1] = _settlement(items[0].channelId, 200);
        vm.expectEmit(address(manager));
        emit IPaymentManager.SettlementSkipped(
            items[0].channelId, abi.encodeWithSelector(IEscrow.ChannelFinalized.selector, items[0].channelId)
        );
        _settleAs(operator, items);
        vm.assertEq(token.balanceOf(payee), 100);
    }

    function test_a_strangers_batch_does_nothing() public {
        Settlement[] memory items = _items(2);
        vm.expectEmit(address(manager));
        emit IPaymentManager.SettlementSkipped(
            items[0].channelId,
            abi.encodeWithSelector(IPaymentManager.NotPayeeOrOperator.selector, items[0].channelId, thief)
        );
        _settleAs(thief, items);
        vm.assertEq(token.balanceOf(address(manager)), 2 * DEPOSIT);
    }

    function test_items_of_services_the_sender_does_not_operate_are_skipped() public {
        Settlement[] memory items = _items(2);
        address otherOperator = address(0x7777777777777777777777777777777777777777);
        Terms memory terms = _terms(true);
        terms.operator = otherOperator;
        terms.payee = otherOperator;
        (uint256 id, bytes32 hash) = _register(terms);
        items[0] = _settlement(_openFor(client, id, hash, keccak256("theirs"), address(0)), 100);
        _settleAs(operator, items);
        vm.assertEq(token.balanceOf(otherOperator), 0);
        vm.assertEq(token.balanceOf(payee), 101);
    }

    function test_an_empty_batch_is_nothing() public {
        _settleAs(operator, new Settlement[](0));
    }

    function test_too_little_gas_reverts_the_batch_instead_of_skipping_items() public {
        Settlement[] memory items = _items(2);
        vm.prank(operator);
        (bool done, bytes memory answer) =
            address(manager).call{gas: 700_000}(abi.encodeCall(manager.settleSessions, (items)));
        vm.assertFalse(done);
        // forge-lint: disable-next-line(unsafe-typecast)
        vm.assertTrue(bytes4(answer) == GasFloor.InsufficientGas.selector);
        vm.assertEq(_view(items[0].channelId).finalizedAt, 0);
    }

    function testFuzz_no_gas_limit_makes_a_batch_skip_a_good_item_or_credit_a_good_transfer(uint256 gasLimit) public {
        Settlement[] memory items = _items(3);
        gasLimit = _bound(gasLimit, 100_000, 1_500_000);
        vm.prank(operator);
        (bool done,) = address(manager).call{gas: gasLimit}(abi.encodeCall(manager.settleSessions, (items)));
        for (uint256 i = 0; i < items.length; ++i) {
            vm.assertEq(_view(items[i].channelId).finalizedAt != 0, done);
        }
        vm.assertEq(token.balanceOf(payee), done ? 303 : 0);
        vm.assertEq(manager.credits(address(token), payee), 0);
    }

    function _items(uint256 count) private returns (Settlement[] memory items) {
        items = new Settlement[](count);
        for (uint256 i = 0; i < count; ++i) {
            // forge-lint: disable-next-line(unsafe-typecast)
            items[i] = _settlement(_open(bytes32(i + 1)), uint128(100 + i));
        }
    }

    function _settleAs(address sender, Settlement[] memory items) private {
        vm.prank(sender);
        manager.settleSessions(items);
    }
}
