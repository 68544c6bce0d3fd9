// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Ratings, WeightedRatings} from "../../src/interfaces/IRatingRegistry.sol";
import {RatingRegistry} from "../../src/RatingRegistry.sol";
import {TestBase} from "../base/TestBase.sol";
import {RatingRegistryHandler} from "./RatingRegistryHandler.sol";

/// @notice Each session counts at most once, with the score that its payer gave it first, and nothing else counts.
contract RatingRegistryInvariantTest is TestBase {
    RatingRegistryHandler private _handler;
    RatingRegistry private _ratings;

    function setUp() public {
        vm.warp(1_800_000_000);
        _handler = new RatingRegistryHandler();
        _ratings = _handler.ratings();
        _target(address(_handler));
    }

    function invariant_exactly_the_sessions_that_their_payers_rated_are_rated() public view {
        RatingRegistryHandler.Rating[] memory sessions = _handler.sessions();
        for (uint256 i = 0; i < sessions.length; ++i) {
            vm.assertEq(_ratings.rated(sessions[i].channelId), sessions[i].rated);
        }
    }

    function invariant_sums_are_those_over_all_rated_sessions() public view {
        RatingRegistryHandler.Rating[] memory sessions = _handler.sessions();
        for (uint256 serviceId = 0; serviceId <= 3; ++serviceId) {
            (uint256 count, uint256 sum) = (0, 0);
            for (uint256 i = 0; i < sessions.length; ++i) {
                if (!sessions[i].rated || sessions[i].serviceId != serviceId) continue;
                ++count;
                sum += sessions[i].score;
            }
            Ratings memory ratings = _ratings.ratingsOf(serviceId);
            vm.assertEq(ratings.count, count);
            vm.assertEq(ratings.sum, sum);
            vm.assertLe(ratings.sum, 100 * uint256(ratings.count));
            for (uint256 i = 0; i < 2; ++i) {
                _assertWeighted(sessions, serviceId, _handler.tokenAt(i));
            }
        }
    }

    function _assertWeighted(RatingRegistryHandler.Rating[] memory sessions, uint256 serviceId, address token)
        private
        view
    {
        (uint256 amount, uint256 weightedSum) = (0, 0);
        for (uint256 i = 0; i < sessions.length; ++i) {
            if (!sessions[i].rated || sessions[i].serviceId != serviceId || sessions[i].token != token) continue;
            amount += sessions[i].captured;
            weightedSum += uint256(sessions[i].score) * sessions[i].captured;
        }
        WeightedRatings memory weighted = _ratings.weightedRatingsOf(serviceId, token);
        vm.assertEq(weighted.amount, amount);
        vm.assertEq(weighted.weightedSum, weightedSum);
    }
}
