// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {IPaymentManager, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

/// @notice Answers whatever it is asked with as much as its gas buys, as an answer or as a reason.
contract ReturnBomb {
    bool private immutable _reverts;

    constructor(bool reverts) {
        _reverts = reverts;
    }

    fallback() external {
        bool reverts = _reverts;
        assembly {
            mstore(0x00, shl(224, 0x1626ba7e))
            if reverts {
                revert(0x00, 250000)
            }
            return(0x00, 250000)
        }
    }
}

/// @notice Who copies the whole of a stranger's answer pays for it. Here the stranger does, out of what it was given.
contract ReturnBombsTest is PaymentFixture {
    // What a contract account gets for its judgement, and all else that a refusal takes.
    uint256 private constant _MOST_GAS = 150_000 + 60_000;

    function test_an_account_that_answers_with_a_quarter_of_a_megabyte_says_no_at_its_own_expense() public {
        for (uint256 i = 0; i < 2; ++i) {
            bytes32 channel = _openForBomb(i == 1);
            Settlement memory settlement = _settlement(channel, 700);
            address signer = _view(channel).payer;
            uint256 gasBefore = gasleft();
            vm.prank(payee);
            vm.expectRevert(abi.encodeWithSelector(IEscrow.InvalidSignature.selector, channel, signer));
            manager.settleSession(settlement);
            vm.assertLt(gasBefore - gasleft(), _MOST_GAS);
        }
    }

    function test_in_a_batch_such_accounts_cost_their_cap_and_the_others_are_paid() public {
        Settlement[] memory batch = new Settlement[](3);
        batch[0] = _settlement(_openForBomb(false), 700);
        batch[1] = _settlement(_openForBomb(true), 700);
        batch[2] = _settlement(_open(), 700);
        uint256 gasBefore = gasleft();
        vm.prank(payee);
        manager.settleSessions(batch);
        vm.assertLt(gasBefore - gasleft(), 3 * _MOST_GAS);
        vm.assertEq(token.balanceOf(payee), 700);
        vm.assertEq(_view(batch[0].channelId).finalizedAt, 0);
        vm.assertEq(_view(batch[1].channelId).finalizedAt, 0);
    }

    function test_the_reason_of_a_skipped_item_is_this_contracts_and_short() public {
        Settlement[] memory batch = new Settlement[](1);
        batch[0] = _settlement(_openForBomb(true), 700);
        bytes32 channel = batch[0].channelId;
        bytes memory reason = abi.encodeWithSelector(IEscrow.InvalidSignature.selector, channel, _view(channel).payer);
        vm.expectEmit(address(manager));
        emit IPaymentManager.SettlementSkipped(channel, reason);
        vm.prank(payee);
        manager.settleSessions(batch);
    }

    function _openForBomb(bool reverts) private returns (bytes32) {
        address bomb = address(new ReturnBomb(reverts));
        _fund(bomb);
        return _openFor(bomb, serviceId, termsHash, keccak256(abi.encode(bomb)), address(0));
    }
}
