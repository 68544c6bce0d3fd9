// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Authorization} from "../../src/libraries/TokenTransfer.sol";
import {GaslessFixture} from "../base/GaslessFixture.sol";

/// @notice What opening and topping up by authorisation costs whoever sends it. Only meaningful with --isolate.
contract GaslessGasTest is GaslessFixture {
    function setUp() public override {
        super.setUp();
        // Neither a first session nor an empty contract.
        vm.prank(client);
        token.approve(address(manager), type(uint256).max);
        _open(keccak256("earlier"));
    }

    function test_opening_and_topping_up() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        bytes32 channel = _sendOpening(DEPOSIT, authorization);
        vm.snapshotGasLastCall("PaymentManager", "openSessionWithAuthorization");
        authorization = _authorizeTopUp(channel, 500);
        _sendTopUp(channel, 500, authorization);
        vm.snapshotGasLastCall("PaymentManager", "topUpWithAuthorization");
    }
}
