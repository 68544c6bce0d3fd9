// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IPaymentManager} from "./IPaymentManager.sol";

/// @notice What payers thought of a service, one rating per session.
/// @param count How many sessions were rated.
/// @param sum Their scores in all; sum / count is the plain mean, 0 to 100.
struct Ratings {
    uint64 count;
    uint128 sum;
}

/// @notice The same, weighed by what the sessions cost in one token: a service's terms may change its token, and amounts
/// of two tokens do not add up.
/// @param amount What the rated sessions captured in all, base units.
/// @param weightedSum Score times captured amount, in all; weightedSum / amount is the weighted mean, 0 to 100.
struct WeightedRatings {
    uint256 amount;
    uint256 weightedSum;
}

/// @title Ratings by those who paid
/// @notice The payer of a finalized session that captured something rates it 0 to 100, once. Ratings cost a paid session
/// each, but an operator can still pay itself: weigh them by amount, and by who the payers are.
/// @dev Holds no money and has no owner.
interface IRatingRegistry {
    /// @notice A session was rated. `amount` is what it captured, base units of `token`.
    event Rated(
        bytes32 indexed channelId,
        uint256 indexed serviceId,
        address indexed payer,
        uint8 score,
        address token,
        uint128 amount,
        string detailURI
    );

    /// @notice No session under a service's terms has this id.
    error SessionNotFound(bytes32 channelId);
    /// @notice Only the session's payer rates it.
    error NotSessionPayer(bytes32 channelId, address caller);
    /// @notice The payer is the session's payee or operator.
    error SelfRating(bytes32 channelId, address payer);
    /// @notice A session is rated when it is over.
    error SessionNotFinalized(bytes32 channelId);
    /// @notice A session that cost nothing is not rated.
    error NothingCaptured(bytes32 channelId);
    /// @notice The session was rated before.
    error AlreadyRated(bytes32 channelId);
    /// @notice A score is 0 to 100.
    error ScoreOutOfRange(uint8 score);
    /// @notice The detail URI is longer than `maximum` bytes.
    error DetailURITooLong(uint256 length, uint256 maximum);

    /// @notice Rates a session of the caller.
    /// @param score 0 (worst) to 100 (best).
    /// @param detailURI Where more is said, at most 2,048 bytes, may be empty; an event only.
    function rate(bytes32 channelId, uint8 score, string calldata detailURI) external;

    /// @notice Whether a session was rated.
    function rated(bytes32 channelId) external view returns (bool);

    /// @notice All ratings of a service.
    function ratingsOf(uint256 serviceId) external view returns (Ratings memory);

    /// @notice All ratings of a service by sessions in one token, weighed by what they captured.
    function weightedRatingsOf(uint256 serviceId, address token) external view returns (WeightedRatings memory);

    /// @notice Where sessions are read.
    function paymentManager() external view returns (IPaymentManager);
}
