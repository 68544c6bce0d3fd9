// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title ChannelIds
/// @notice How channels are named (PROTOCOL 3). Both hashes are over words of fixed size, so no two inputs meet.
library ChannelIds {
    /// @notice The id of a channel of `escrow` on this chain.
    /// @dev The escrow and the chain are part of the id, so an id means one channel in the whole world.
    function compute(
        address payer,
        address payee,
        address token,
        bytes32 salt,
        address authorizedSigner,
        address escrow
    ) internal view returns (bytes32 channelId) {
        return keccak256(abi.encode(payer, payee, token, salt, authorizedSigner, escrow, block.chainid));
    }

    /// @notice The salt of a session's channel: binds the terms and the roster into the id, and so into every voucher.
    /// @param nonce 32 fresh random bytes of the payer.
    function sessionSalt(bytes32 nonce, bytes32 termsHash, bytes32 rosterHash) internal pure returns (bytes32 salt) {
        return keccak256(abi.encode(nonce, termsHash, rosterHash));
    }
}
