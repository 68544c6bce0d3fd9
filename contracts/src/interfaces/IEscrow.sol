// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ICredits} from "./ICredits.sol";

/// @title The payment scheme's escrow core
/// @notice Names, parameters and rules of the `session` intent of the HTTP `Payment` scheme on EVM chains (SCHEME).
/// A channel is a deposit of a payer for one payee, drawn by cumulative vouchers that the payer signs off-chain.
/// @dev Amounts are token base units, times unix seconds. Every function that changes state reverts when re-entered.
/// A finalized channel is never deleted, so its id can never be opened again.
interface IEscrow is ICredits {
    /// @notice A plain channel was opened (one without terms). `sessionId` is its number, from 1 per contract.
    event ChannelOpened(
        uint256 indexed sessionId,
        bytes32 indexed channelId,
        address indexed payer,
        address payee,
        address token,
        uint128 deposit,
        bytes32 salt,
        address authorizedSigner
    );

    /// @notice The payer added to its deposit, which is now `deposit` in all.
    event ToppedUp(bytes32 indexed channelId, uint128 added, uint128 deposit);

    /// @notice The payer wants out; from `closeableAt` on it may withdraw.
    event CloseRequested(bytes32 indexed channelId, uint64 closeableAt);

    /// @notice The payer's top-up took its request to close back.
    event CloseCancelled(bytes32 indexed channelId);

    /// @notice The settled amount rose by `delta` to `settled`; `delta` was paid or credited to the payee, or is held
    /// where the session's terms have a dispute window.
    event Settled(bytes32 indexed channelId, uint128 settled, uint128 delta);

    /// @notice The channel is over: `settled` went to the payee in all, or is held for it under a dispute window;
    /// `refunded` went to the payer.
    event Finalized(bytes32 indexed channelId, uint256 indexed sessionId, uint128 settled, uint128 refunded);

    /// @notice A channel of this id exists, open or finalized.
    error ChannelAlreadyExists(bytes32 channelId);
    /// @notice No channel of this id was ever opened here.
    error ChannelNotFound(bytes32 channelId);
    /// @notice The channel is over.
    error ChannelFinalized(bytes32 channelId);
    /// @notice Only the channel's payee may do this.
    error NotPayee(bytes32 channelId, address caller);
    /// @notice Only the channel's payer may do this.
    error NotPayer(bytes32 channelId, address caller);
    /// @notice The payee must be given.
    error ZeroPayee();
    /// @notice The deposit, or what is added to it, must not be zero.
    error ZeroDeposit();
    /// @notice The deposit would not fit 128 bits.
    error DepositOverflow(bytes32 channelId, uint128 deposit, uint128 added);
    /// @notice A voucher must be above what is settled already.
    error AmountNotIncreasing(bytes32 channelId, uint128 settled, uint128 amount);
    /// @notice A voucher must not be above the deposit. It stays good, and can be used after a top-up.
    error AmountExceedsDeposit(bytes32 channelId, uint128 deposit, uint128 amount);
    /// @notice The signature is not `signer`'s over this voucher.
    error InvalidSignature(bytes32 channelId, address signer);
    /// @notice The payer may withdraw from `closeableAt` on; 0: it did not request a close.
    error CloseNotReady(bytes32 channelId, uint64 closeableAt);
    /// @notice The client signed less than is to be captured.
    error CaptureExceedsVoucher(bytes32 channelId, uint128 voucherAmount, uint128 capture);
    /// @notice The channel's terms want a root committed before money moves.
    error RootRequired(bytes32 channelId);
    /// @notice The grace period must lie in the range, in seconds.
    error GracePeriodOutOfRange(uint64 given, uint64 minimum, uint64 maximum);
    /// @notice Opens a plain channel and pulls the deposit from the caller, who becomes its payer.
    /// @param payee Receives what is settled, and alone can settle and close.
    /// @param token ERC-20 that moves exactly the amount it is told to; any other is refused.
    /// @param deposit More than zero.
    /// @param salt Makes the id unique among the payer's channels.
    /// @param authorizedSigner Signs vouchers instead of the payer; zero: the payer signs.
    /// @return channelId See `computeChannelId`.
    function open(address payee, address token, uint128 deposit, bytes32 salt, address authorizedSigner)
        external
        returns (bytes32 channelId);

    /// @notice Pays the payee up to a voucher, and keeps the channel open. By the payee only.
    /// @param cumulativeAmount What the voucher is over: more than is settled, at most the deposit.
    /// @param signature 65 bytes r, s, v with low s and v 27 or 28, or whatever the signer's ERC-1271 contract takes.
    function settle(bytes32 channelId, uint128 cumulativeAmount, bytes calldata signature) external;

    /// @notice Adds to the deposit. By the payer only; a pending close is taken back.
    function topUp(bytes32 channelId, uint128 additionalDeposit) external;

    /// @notice Pays the payee up to a voucher, refunds the rest to the payer and ends the channel. By the payee only.
    /// @param cumulativeAmount At most what is settled already: nothing more is paid, and `signature` is not looked at
    /// and may be empty. Above that: as in `settle`.
    function close(bytes32 channelId, uint128 cumulativeAmount, bytes calldata signature) external;

    /// @notice Starts the payer's way out. By the payer only. Does nothing while a request is pending: the clock of the
    /// first one goes on. The payee can settle and close until the payer has withdrawn.
    function requestClose(bytes32 channelId) external;

    /// @notice Refunds what is not settled and ends the channel. By the payer only, from the end of the grace period on.
    function withdraw(bytes32 channelId) external;

    /// @notice keccak256(abi.encode(payer, payee, token, salt, authorizedSigner, this contract, chainId)).
    function computeChannelId(address payer, address payee, address token, bytes32 salt, address authorizedSigner)
        external
        view
        returns (bytes32 channelId);

    /// @notice Whether the signature is that of the channel's voucher signer over this amount, now. False for unknown
    /// channels; says nothing about the deposit, and goes on working after the channel is over.
    function isVoucherValid(bytes32 channelId, uint128 cumulativeAmount, bytes calldata signature)
        external
        view
        returns (bool);

    /// @notice The EIP-712 domain separator of all signatures: name "EVM Payment Channel", version "1".
    function domainSeparator() external view returns (bytes32);

    /// @notice Seconds between `requestClose` and the first second in which `withdraw` works.
    function gracePeriodSeconds() external view returns (uint64);
}
