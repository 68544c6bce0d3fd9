// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Money that could not be pushed to its owner
/// @notice Whatever a contract owes is transferred at once; where the token refuses, it waits here for its owner.
/// @dev Amounts are token base units.
interface ICredits {
    /// @notice A transfer to `owner` failed and waits for it instead; it is paid out by `claimCredit`.
    event Credited(address indexed token, address indexed owner, bytes32 indexed channelId, uint128 amount);

    /// @notice An owner took its credit.
    event CreditClaimed(address indexed token, address indexed owner, address to, uint256 amount);

    /// @notice `owner` has no credit in `token`.
    error NoCredit(address token, address owner);
    /// @notice A credit cannot be sent there.
    error InvalidRecipient(address to);

    /// @notice Sends the whole of the caller's credit in `token` to `to`.
    /// @dev Reverts, and keeps the credit, where the token still refuses.
    function claimCredit(address token, address to) external;

    /// @notice What `owner` can claim in `token`.
    function credits(address token, address owner) external view returns (uint256 amount);
}
