// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title DevToken
/// @notice Play money for local development chains, with six decimals. ANYONE CAN MINT ANY AMOUNT: IT IS WORTH
/// NOTHING, AND MUST NEVER BE DEPLOYED ON, OR ACCEPTED AS PAYMENT ON, A CHAIN THAT OTHERS CAN REACH.
contract DevToken is ERC20 {
    constructor() ERC20("aioum devnet dollar", "aUSD") {}

    /// @notice Creates `amount` base units (10^-6 aUSD) for `to`. Open to everybody: devnets only.
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    /// @notice Base units are millionths.
    function decimals() public pure override returns (uint8) {
        return 6;
    }
}
