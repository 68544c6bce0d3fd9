// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The part of EIP-3009 that takes money in
/// @notice Tokens whose owners authorise a single transfer by signature. `receiveWithAuthorization` can be sent by the
/// receiver alone, so nobody can spend an authorisation outside of the call that it was meant for.
interface IERC3009 {
    /// @notice Moves `value` from `from` to the caller, who must be `to`.
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;

    /// @notice The same for owners that are contracts: the token asks them by ERC-1271.
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;
}
