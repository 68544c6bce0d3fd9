// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {PaymentFixture} from "../base/PaymentFixture.sol";

contract DevTokenTest is PaymentFixture {
    function test_it_is_called_what_devnet_money_should_be_called() public view {
        vm.assertEq(token.name(), "aioum devnet dollar");
        vm.assertEq(token.symbol(), "aUSD");
        vm.assertEq(token.decimals(), 6);
    }

    function test_anybody_can_mint() public {
        vm.prank(thief);
        token.mint(thief, 123);
        vm.assertEq(token.balanceOf(thief), 123);
    }
}
