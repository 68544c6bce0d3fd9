// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Authorization} from "../libraries/TokenTransfer.sol";
import {IDisputeManager} from "./IDisputeManager.sol";
import {IEscrow} from "./IEscrow.sol";
import {IServiceRegistry} from "./IServiceRegistry.sol";

/// @notice The last word on a session, in one transaction: what its history was, and what it cost.
/// @param channelId The session's channel.
/// @param voucherAmount What `signature` is over; at most the deposit. Where `capture` is what is settled already, no
/// voucher is needed, and neither this nor the signature is looked at.
/// @param capture What the payee gets in all: at least what is settled, at most `voucherAmount`.
/// @param callCount Calls under `root`; 0 exactly where `root` is zero.
/// @param root Root of the session's transcript; zero: nothing is committed, and nothing may be committed already.
/// @param signature The client's voucher over `voucherAmount`.
struct Settlement {
    bytes32 channelId;
    uint128 voucherAmount;
    uint128 capture;
    uint64 callCount;
    bytes32 root;
    bytes signature;
}

/// @notice All there is to know about a channel. All zero where it is unknown.
/// @param sessionId Its number, from 1 per contract, in order of opening. A label: a reorg can exchange two of them.
/// @param operator May commit and settle beside the payee; zero for plain channels.
/// @param serviceId 0 for plain channels.
/// @param termsHash Zero for plain channels.
/// @param settled What was captured for the payee so far: paid, credited or held.
/// @param refunded What was never captured and went back to the payer at the end, paid or credited.
/// @param closeRequestedAt Zero while no close is pending; kept when the channel ends.
/// @param finalizedAt Zero while the channel is open.
/// @param root Zero where none is committed.
/// @param commitRequired As the session's own terms say, whatever the service's terms are today.
/// @param disputeWindow Seconds that captured money is held after `finalizedAt`; 0: it is never held.
/// @param held What of `settled` is held now.
/// @param awarded What of `settled` a decision gave back to the payer, paid or credited.
struct SessionView {
    uint256 sessionId;
    bytes32 channelId;
    address payer;
    address payee;
    address token;
    address authorizedSigner;
    address operator;
    uint256 serviceId;
    bytes32 termsHash;
    uint128 deposit;
    uint128 settled;
    uint128 refunded;
    uint64 openedAt;
    uint64 closeRequestedAt;
    uint64 finalizedAt;
    bytes32 root;
    uint64 callCount;
    bool commitRequired;
    uint32 disputeWindow;
    uint128 held;
    uint128 awarded;
}

/// @notice What a decision about held money needs to know. All zero where a channel is unknown.
/// @param held What is held now; zero also where there was never anything to hold.
/// @param finalizedAt Zero while the channel is open.
/// @param heldUntil finalizedAt + the dispute window; zero while the channel is open.
struct Hold {
    address payer;
    address payee;
    address token;
    bytes32 termsHash;
    bytes32 root;
    uint64 callCount;
    uint128 held;
    uint64 finalizedAt;
    uint64 heldUntil;
}

/// @title Sessions: channels under a service's terms, with their history anchored before money moves
/// @notice The escrow core, plus: terms named by hash at opening, a write-once root over all calls of a session, and
/// one-shot settlement. Has no owner and cannot be changed; nobody but a channel's parties can move its money.
interface IPaymentManager is IEscrow {
    /// @notice A session was opened; its channel's salt is keccak256(abi.encode(nonce, termsHash, rosterHash)).
    event SessionOpened(
        uint256 indexed sessionId,
        bytes32 indexed channelId,
        address indexed payer,
        uint256 serviceId,
        bytes32 termsHash,
        address payee,
        address token,
        uint128 deposit,
        bytes32 nonce,
        address authorizedSigner,
        bytes32 rosterHash
    );

    /// @notice The history of a session is fixed from now on.
    event ResultsCommitted(bytes32 indexed channelId, uint256 indexed sessionId, bytes32 root, uint64 callCount);

    /// @notice An item of a batch was left out for `reason`, the encoded error that it would have reverted with.
    event SettlementSkipped(bytes32 indexed channelId, bytes reason);

    /// @notice The dispute window is over, nothing was pending, and what was held went to the payee.
    event Released(bytes32 indexed channelId, uint128 amount);

    /// @notice A decision split what was held.
    event Resolved(bytes32 indexed channelId, uint128 toPayer, uint128 toPayee);

    /// @notice The terms are not (or no longer) those that the service is offered under; `current` is zero where the
    /// service is unknown or retired.
    error TermsNotCurrent(uint256 serviceId, bytes32 termsHash, bytes32 current);
    /// @notice A signature of somebody who is not the sender does not take a request to close back: only the payer's
    /// own `topUp` does.
    error ClosePending(bytes32 channelId, uint64 requestedAt);
    /// @notice Nothing is held: nothing was captured, the terms have no dispute window, or it left already.
    error NothingHeld(bytes32 channelId);
    /// @notice The dispute window runs until `heldUntil`; 0: the channel is not over.
    error StillHeld(bytes32 channelId, uint64 heldUntil);
    /// @notice A dispute or a challenge is pending.
    error DecisionPending(bytes32 channelId);
    /// @notice Only this contract's DisputeManager may do this.
    error NotDisputeManager(address caller);
    /// @notice A decision cannot give back more than is held.
    error AwardExceedsHeld(bytes32 channelId, uint128 held, uint128 award);
    /// @notice Only the payee, or the operator of the session's terms, may do this.
    error NotPayeeOrOperator(bytes32 channelId, address caller);
    /// @notice Another root, or one at all, is committed already.
    error RootAlreadyCommitted(bytes32 channelId, bytes32 root, uint64 callCount);
    /// @notice A root of no calls, or calls without a root.
    error InvalidCommitment(bytes32 root, uint64 callCount);
    /// @notice What is settled cannot be taken back.
    error CaptureBelowSettled(bytes32 channelId, uint128 settled, uint128 capture);
    /// @notice There is no contract at the registry's address.
    error RegistryWithoutCode(address registry);

    /// @notice Opens a session under a service's current terms and pulls the deposit from the caller, its payer.
    /// @param termsHash What the payer read and agrees to; the opening reverts unless it is still current.
    /// @param deposit More than zero, in the terms' token.
    /// @param nonce 32 fresh random bytes.
    /// @param authorizedSigner Signs vouchers instead of the payer; zero: the payer signs.
    /// @param rosterHash SHA-256 of the canonical roster of a session with signed submissions; else zero.
    function openSession(
        uint256 serviceId,
        bytes32 termsHash,
        uint128 deposit,
        bytes32 nonce,
        address authorizedSigner,
        bytes32 rosterHash
    ) external returns (bytes32 channelId);

    /// @notice `openSession` for a payer that signs an EIP-3009 authorisation instead of sending a transaction.
    /// @dev The authorisation is over `deposit`, this contract as the receiver, and the nonce
    /// keccak256(abi.encode(keccak256("aioum.openSession"), channelId)). The channel's id binds all of the session's
    /// parameters, so whoever sends this can change none of them.
    function openSessionWithAuthorization(
        address payer,
        uint256 serviceId,
        bytes32 termsHash,
        uint128 deposit,
        bytes32 nonce,
        address authorizedSigner,
        bytes32 rosterHash,
        Authorization calldata authorization
    ) external returns (bytes32 channelId);

    /// @notice Adds to the deposit of a channel by the payer's EIP-3009 authorisation. Reverts while a close is pending.
    /// @dev The authorisation is over `additionalDeposit`, this contract as the receiver, and the nonce
    /// keccak256(abi.encode(channelId, additionalDeposit, payer, topUpSalt)).
    function topUpWithAuthorization(
        bytes32 channelId,
        uint128 additionalDeposit,
        bytes32 topUpSalt,
        Authorization calldata authorization
    ) external;

    /// @notice Anchors the history of an open channel, once and for all. By the payee or the terms' operator; a pending
    /// close does not matter. Reverts on a second call, with whatever values.
    function commitResults(bytes32 channelId, bytes32 root, uint64 callCount) external;

    /// @notice Commits, captures, refunds and ends a session at once. By the payee or the terms' operator; the money
    /// goes to the payee in either case.
    /// @dev Safe to send again: on a channel that is over with equal capture, root and callCount it does nothing.
    /// A root that is committed already must be repeated exactly.
    function settleSession(Settlement calldata settlement) external;

    /// @notice `settleSession` for each item on its own: one that reverts is left out by a `SettlementSkipped`.
    /// @dev Reverts with `InsufficientGas` unless 750,000 gas is left before each item, so that no item is ever left
    /// out, or gets a credit instead of a transfer, for want of gas.
    function settleSessions(Settlement[] calldata settlements) external;

    /// @notice Pays what is held to the payee. By anyone, from the end of the dispute window on, while no dispute or
    /// challenge is pending.
    function release(bytes32 channelId) external;

    /// @notice Splits what is held: `award` to the payer, the rest to the payee. By the DisputeManager only.
    function resolve(bytes32 channelId, uint128 award) external;

    /// @notice What the DisputeManager needs to know of a channel, at the price of six storage reads.
    function holdOf(bytes32 channelId) external view returns (Hold memory);

    /// @notice Decides over held money; deployed by this contract, and nobody else's.
    function disputeManager() external view returns (IDisputeManager);

    /// @notice A channel by its number.
    function session(uint256 sessionId) external view returns (SessionView memory);

    /// @notice A channel by its id.
    function sessionOfChannel(bytes32 channelId) external view returns (SessionView memory);

    /// @notice The committed root; zero where there is none.
    function sessionResultsRoot(uint256 sessionId) external view returns (bytes32);

    /// @notice The committed number of calls; zero where there is none.
    function sessionCallCount(uint256 sessionId) external view returns (uint64);

    /// @notice How many channels were ever opened; the newest has this number.
    function sessionCount() external view returns (uint256);

    /// @notice Where terms are read.
    function registry() external view returns (IServiceRegistry);
}
