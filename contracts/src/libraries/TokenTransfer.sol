// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

import {GasFloor} from "./GasFloor.sol";

/// @title TokenTransfer
/// @notice Taking money in exactly, and sending it out without being held up by whoever receives it.
library TokenTransfer {
    using SafeERC20 for IERC20;

    /// @notice Gas that an outgoing transfer gets; one that needs more becomes a credit, and is claimed without a cap.
    uint256 internal constant TRANSFER_GAS = 200_000;

    /// @notice There is no contract at the token's address.
    error TokenWithoutCode(address token);
    /// @notice The token moved another amount than it was told to, so its accounting is not ours.
    error TransferAmountMismatch(address token, uint256 expected, uint256 received);

    /// @notice Takes `amount` from `from`, and reverts unless exactly that arrived.
    /// @dev The caller must keep this contract from being re-entered, or a nested transfer would be counted twice.
    function pullExactly(IERC20 token, address from, uint256 amount) internal {
        if (address(token).code.length == 0) revert TokenWithoutCode(address(token));
        uint256 balanceBefore = token.balanceOf(address(this));
        token.safeTransferFrom(from, address(this), amount);
        uint256 received = token.balanceOf(address(this)) - balanceBefore;
        if (received != amount) revert TransferAmountMismatch(address(token), amount, received);
    }

    /// @notice Sends `amount` to `to` with capped gas.
    /// @return sent False where the token reverted, returned anything but true or nothing, or has no code any more.
    /// @dev Reverts with `InsufficientGas` where the token could not be given its gas in full.
    function tryPush(IERC20 token, address to, uint256 amount) internal returns (bool sent) {
        bytes memory order = abi.encodeCall(IERC20.transfer, (to, amount));
        GasFloor.requireForCall(TRANSFER_GAS);
        // SafeERC20's rules, with a cap on the gas: a receiver's hook may burn its own share, never the sender's.
        assembly ("memory-safe") {
            mstore(0x00, 0)
            sent := call(TRANSFER_GAS, token, 0, add(order, 0x20), mload(order), 0x00, 0x20)
            let returnedTrue := and(gt(returndatasize(), 0x1f), eq(mload(0x00), 1))
            let returnedNothing := and(iszero(returndatasize()), gt(extcodesize(token), 0))
            sent := and(sent, or(returnedTrue, returnedNothing))
        }
    }
}
