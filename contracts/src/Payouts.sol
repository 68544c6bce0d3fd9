// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {ICredits} from "./interfaces/ICredits.sol";
import {TokenTransfer} from "./libraries/TokenTransfer.sol";

/// @title Payouts
/// @notice Money out of a contract: pushed, and where the push fails, kept as a credit that its owner pulls. So one
/// party's refused, frozen or hooked transfer never holds up another's.
abstract contract Payouts is ICredits, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    /// @inheritdoc ICredits
    mapping(address token => mapping(address owner => uint256 amount)) public override credits;

    /// @inheritdoc ICredits
    function claimCredit(address token, address to) external override nonReentrant {
        if (to == address(0) || to == address(this)) revert InvalidRecipient(to);
        uint256 amount = credits[token][msg.sender];
        if (amount == 0) revert NoCredit(token, msg.sender);
        delete credits[token][msg.sender];
        emit CreditClaimed(token, msg.sender, to, amount);
        IERC20(token).safeTransfer(to, amount);
    }

    /// @dev Only after all of the channel's own state is written.
    function _payOut(bytes32 channelId, address token, address owner, uint128 amount) internal {
        if (amount == 0 || TokenTransfer.tryPush(IERC20(token), owner, amount)) return;
        credits[token][owner] += amount;
        emit Credited(token, owner, channelId, amount);
    }
}
