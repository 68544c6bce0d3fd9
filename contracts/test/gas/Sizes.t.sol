// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PaymentManager} from "../../src/PaymentManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice Whether the contracts can be deployed at all. Only meaningful as they are shipped, optimized.
contract SizesTest is DisputeFixture {
    uint256 private constant _MAX_CODE_BYTES = 24_576; // EIP-170
    uint256 private constant _MAX_CREATION_BYTES = 49_152; // EIP-3860

    function test_deployed_code_is_below_the_limit() public view {
        vm.assertLt(address(manager).code.length, _MAX_CODE_BYTES);
        vm.assertLt(address(decisions).code.length, _MAX_CODE_BYTES);
        vm.assertLt(address(registry).code.length, _MAX_CODE_BYTES);
    }

    function test_the_code_that_deploys_both_managers_is_below_the_limit() public view {
        bytes memory creation = abi.encodePacked(type(PaymentManager).creationCode, abi.encode(registry, GRACE));
        vm.assertLt(creation.length, _MAX_CREATION_BYTES);
    }
}
