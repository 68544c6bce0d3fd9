// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IPaymentManager, SessionView} from "./interfaces/IPaymentManager.sol";
import {IRatingRegistry, Ratings, WeightedRatings} from "./interfaces/IRatingRegistry.sol";

/// @title RatingRegistry
/// @notice See IRatingRegistry.
contract RatingRegistry is IRatingRegistry {
    /// @notice Longest detail URI, in bytes.
    uint256 public constant MAX_DETAIL_URI_BYTES = 2048;

    uint8 private constant _MAX_SCORE = 100;

    /// @inheritdoc IRatingRegistry
    IPaymentManager public immutable override paymentManager;
    /// @inheritdoc IRatingRegistry
    mapping(bytes32 channelId => bool) public override rated;

    mapping(uint256 serviceId => Ratings) private _ratings;
    mapping(uint256 serviceId => mapping(address token => WeightedRatings)) private _weightedRatings;

    /// @notice There is no contract at the payment manager's address.
    error PaymentManagerWithoutCode(address paymentManager);

    /// @param paymentManager_ Whose sessions are rated.
    constructor(IPaymentManager paymentManager_) {
        if (address(paymentManager_).code.length == 0) revert PaymentManagerWithoutCode(address(paymentManager_));
        paymentManager = paymentManager_;
    }

    /// @inheritdoc IRatingRegistry
    function rate(bytes32 channelId, uint8 score, string calldata detailURI) external override {
        if (score > _MAX_SCORE) revert ScoreOutOfRange(score);
        if (bytes(detailURI).length > MAX_DETAIL_URI_BYTES) {
            revert DetailURITooLong(bytes(detailURI).length, MAX_DETAIL_URI_BYTES);
        }
        SessionView memory session = paymentManager.sessionOfChannel(channelId);
        if (session.serviceId == 0) revert SessionNotFound(channelId);
        if (msg.sender != session.payer) revert NotSessionPayer(channelId, msg.sender);
        if (msg.sender == session.payee || msg.sender == session.operator) revert SelfRating(channelId, msg.sender);
        if (session.finalizedAt == 0) revert SessionNotFinalized(channelId);
        if (session.settled == 0) revert NothingCaptured(channelId);
        if (rated[channelId]) revert AlreadyRated(channelId);

        rated[channelId] = true;
        Ratings storage ratings = _ratings[session.serviceId];
        ++ratings.count;
        ratings.sum += score;
        WeightedRatings storage weighted = _weightedRatings[session.serviceId][session.token];
        weighted.amount += session.settled;
        weighted.weightedSum += uint256(score) * session.settled;
        emit Rated(channelId, session.serviceId, msg.sender, score, session.token, session.settled, detailURI);
    }

    /// @inheritdoc IRatingRegistry
    function ratingsOf(uint256 serviceId) external view override returns (Ratings memory) {
        return _ratings[serviceId];
    }

    /// @inheritdoc IRatingRegistry
    function weightedRatingsOf(uint256 serviceId, address token)
        external
        view
        override
        returns (WeightedRatings memory)
    {
        return _weightedRatings[serviceId][token];
    }
}
