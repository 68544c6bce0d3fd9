// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title GasFloor
/// @notice Guards for calls whose gas is capped and whose failure means something. EIP-150 hands on at most 63/64 of
/// the gas that is left: without a guard, a sender could choose a gas limit under which an honest callee runs dry and
/// its failure is taken for an answer.
library GasFloor {
    /// @dev The call itself (cold account, calldata, memory), above what the callee gets.
    uint256 private constant _CALL_OVERHEAD = 5000;

    /// @notice The transaction came with too little gas to tell a failing callee from a starved one.
    error InsufficientGas(uint256 required, uint256 available);

    /// @notice Reverts unless a call made now can be given `gasCap` in full.
    function requireForCall(uint256 gasCap) internal view {
        require_((gasCap * 64) / 63 + _CALL_OVERHEAD);
    }

    /// @notice Reverts unless `required` gas is left.
    function require_(uint256 required) internal view {
        uint256 available = gasleft();
        if (available < required) revert InsufficientGas(required, available);
    }
}
