// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

contract GracePeriodFuzzTest is PaymentFixture {
    function testFuzz_a_payer_gets_out_from_the_last_second_of_its_grace_on_and_never_before(
        uint64 grace,
        uint256 elapsed
    ) public {
        grace = uint64(_bound(grace, 900, 30 days));
        elapsed = _bound(elapsed, 0, 2 * uint256(grace));
        bytes32 channel = _openWithGrace(grace);
        vm.startPrank(client);
        manager.requestClose(channel);
        uint64 closeableAt = uint64(block.timestamp) + grace;
        vm.warp(block.timestamp + elapsed);
        if (elapsed < grace) {
            vm.expectRevert(abi.encodeWithSelector(IEscrow.CloseNotReady.selector, channel, closeableAt));
        }
        manager.withdraw(channel);
        vm.stopPrank();
        vm.assertEq(_view(channel).finalizedAt, elapsed < grace ? 0 : block.timestamp);
    }

    function testFuzz_the_last_second_before_the_end_of_the_grace_is_the_payees_alone(uint64 grace) public {
        grace = uint64(_bound(grace, 900, 30 days));
        bytes32 channel = _openWithGrace(grace);
        vm.prank(client);
        manager.requestClose(channel);
        vm.warp(block.timestamp + grace - 1);
        vm.prank(client);
        vm.expectRevert();
        manager.withdraw(channel);
        bytes memory voucher = _voucher(channel, DEPOSIT);
        vm.prank(payee);
        manager.close(channel, DEPOSIT, voucher);
        vm.assertEq(token.balanceOf(payee), DEPOSIT);
    }

    function testFuzz_a_top_up_starts_the_way_out_anew(uint256 before, uint256 afterwards) public {
        bytes32 channel = _openWithGrace(GRACE);
        before = _bound(before, 0, 10 * GRACE);
        afterwards = _bound(afterwards, 0, GRACE - 1);
        vm.startPrank(client);
        manager.requestClose(channel);
        vm.warp(block.timestamp + before);
        manager.topUp(channel, 1);
        manager.requestClose(channel);
        uint64 closeableAt = uint64(vm.getBlockTimestamp()) + GRACE;
        vm.warp(vm.getBlockTimestamp() + afterwards);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.CloseNotReady.selector, channel, closeableAt));
        manager.withdraw(channel);
        vm.stopPrank();
    }

    function _openWithGrace(uint64 grace) private returns (bytes32 channel) {
        manager = new PaymentManager(registry, grace);
        vm.prank(client);
        token.approve(address(manager), type(uint256).max);
        return _openPlain();
    }
}
