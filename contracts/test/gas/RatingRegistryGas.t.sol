// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {RatingRegistry} from "../../src/RatingRegistry.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

/// @notice What rating costs the first payer of a service, and every later one.
contract RatingRegistryGasTest is PaymentFixture {
    function test_rating() public {
        RatingRegistry ratings = new RatingRegistry(manager);
        for (uint256 i = 0; i < 2; ++i) {
            bytes32 channel = _open(keccak256(abi.encode(i)));
            Settlement memory item = _settlement(channel, 100);
            vm.prank(operator);
            manager.settleSession(item);
            vm.prank(client);
            ratings.rate(channel, 80, "https://client.example/why.json");
            vm.snapshotGasLastCall("RatingRegistry", i == 0 ? "rate, the first of a service" : "rate");
        }
    }
}
