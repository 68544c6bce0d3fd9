// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Claim, DisputeState, Receipt} from "../../src/interfaces/IDisputeManager.sol";
import {MoneyFixture} from "./MoneyFixture.sol";

/// @notice For every deposit, capture, award and time: held money leaves once, to whom it is due, and bonds with it.
/// @dev A call that reverts changes nothing, and ends the check: what is asserted is asserted of all that can succeed.
contract HeldMoneyChecks is MoneyFixture {
    function check_a_release_waits_for_the_window_and_pays_the_payee_all(
        uint128 deposit,
        uint128 capture,
        uint32 waited,
        Signature calldata signature,
        bool refused
    ) public {
        bytes32 id = _hold(deposit, capture, signature);
        token.refuse(PAYEE, refused);
        vm.warp(START + waited);
        vm.prank(ANYBODY);
        manager.release(id);
        assert(waited >= WINDOW);
        _assertSplit(id, capture, 0);
    }

    function check_a_resolution_splits_what_is_held(
        uint128 capture,
        uint128 award,
        Signature calldata signature,
        bool clientRefused,
        bool payeeRefused
    ) public {
        bytes32 id = _hold(type(uint128).max, capture, signature);
        token.refuse(CLIENT, clientRefused);
        token.refuse(PAYEE, payeeRefused);
        vm.prank(address(judge));
        manager.resolve(id, award);
        assert(award <= capture);
        _assertSplit(id, capture, award);
    }

    function check_nobody_but_the_judge_resolves(
        uint128 deposit,
        uint128 capture,
        uint128 award,
        address sender,
        Signature calldata signature
    ) public {
        bytes32 id = _hold(deposit, capture, signature);
        vm.assume(sender != address(judge));
        assert(!_try(sender, abi.encodeCall(manager.resolve, (id, award))));
    }

    function check_what_was_resolved_never_leaves_again(
        uint128 capture,
        uint128 award,
        uint128 again,
        uint32 waited,
        Signature calldata signature
    ) public {
        bytes32 id = _hold(type(uint128).max, capture, signature);
        vm.prank(address(judge));
        manager.resolve(id, award);
        vm.warp(START + waited);
        assert(!_try(ANYBODY, abi.encodeCall(manager.release, (id))));
        assert(!_try(address(judge), abi.encodeCall(manager.resolve, (id, again))));
        assert(!_tryJudge(CLIENT, _dispute(id)));
    }

    function check_what_was_released_never_leaves_again(
        uint128 capture,
        uint128 award,
        uint32 waited,
        uint32 later,
        Signature calldata signature
    ) public {
        bytes32 id = _hold(type(uint128).max, capture, signature);
        vm.warp(START + waited);
        manager.release(id);
        vm.assume(later >= waited);
        vm.warp(START + later);
        assert(!_try(ANYBODY, abi.encodeCall(manager.release, (id))));
        assert(!_try(address(judge), abi.encodeCall(manager.resolve, (id, award))));
        assert(!_tryJudge(CLIENT, _dispute(id)));
    }

    function check_a_ruling_follows_a_dispute_in_time_and_splits_money_and_bond(
        uint128 capture,
        uint128 award,
        uint32 raisedAfter,
        uint32 ruledAfter,
        Signature calldata signature
    ) public {
        bytes32 id = _hold(type(uint128).max, capture, signature);
        _raise(id, raisedAfter);
        assert(raisedAfter < WINDOW);
        vm.assume(ruledAfter >= raisedAfter);
        vm.warp(START + ruledAfter);
        vm.prank(ARBITRATOR);
        judge.rule(id, award);
        assert(award <= capture);
        assert(ruledAfter < uint256(raisedAfter) + RULING_PERIOD);
        assert(judge.awarded(id) == award);
        assert(_keeps(address(judge)) == 0);
        assert(_keeps(address(manager)) == 0);
        uint256 lost = award == 0 ? BOND : 0;
        assert(_has(PAYEE) == uint256(capture) - award + lost);
        assert(_has(CLIENT) == FUNDS - capture + award - lost);
    }

    function check_a_dispute_is_ruled_once(
        uint128 capture,
        uint128 award,
        uint128 again,
        uint32 later,
        Signature calldata signature
    ) public {
        bytes32 id = _hold(type(uint128).max, capture, signature);
        _raise(id, 0);
        assert(!_try(ANYBODY, abi.encodeCall(manager.release, (id))));
        assert(!_tryJudge(CLIENT, _dispute(id)));
        vm.prank(ARBITRATOR);
        judge.rule(id, award);
        vm.warp(START + later);
        assert(!_tryJudge(ARBITRATOR, abi.encodeCall(judge.rule, (id, again))));
        assert(!_tryJudge(ANYBODY, abi.encodeCall(judge.lapse, (id))));
        assert(!_tryJudge(CLIENT, _dispute(id)));
    }

    function check_a_dispute_lapses_when_nobody_rules_and_all_is_released(
        uint128 capture,
        uint32 raisedAfter,
        uint32 lapsedAfter,
        Signature calldata signature
    ) public {
        bytes32 id = _hold(type(uint128).max, capture, signature);
        _raise(id, raisedAfter);
        vm.assume(lapsedAfter >= raisedAfter);
        vm.warp(START + lapsedAfter);
        vm.prank(ANYBODY);
        judge.lapse(id);
        assert(lapsedAfter >= uint256(raisedAfter) + RULING_PERIOD);
        assert(judge.caseOf(id).dispute == DisputeState.Lapsed);
        assert(_has(PAYEE) == BOND);
        assert(_keeps(address(judge)) == 0);
        assert(manager.holdOf(id).held == capture);
        vm.prank(ANYBODY);
        manager.release(id);
        assert(_has(PAYEE) == uint256(capture) + BOND);
    }

    function check_a_challenge_that_nobody_answers_gives_all_back(
        uint128 capture,
        uint32 challengedAfter,
        uint32 waited,
        bytes32 leaf,
        Signature calldata voucher,
        Signature calldata signature
    ) public {
        bytes32 id = _hold(type(uint128).max, capture, voucher);
        vm.warp(START + challengedAfter);
        vm.prank(CLIENT);
        judge.challengeReceipt(id, Receipt(1, leaf, 0, _bytes(signature)));
        assert(challengedAfter < WINDOW);
        assert(_keeps(address(judge)) == BOND);
        vm.assume(waited >= challengedAfter);
        vm.warp(START + waited);
        assert(!_try(ANYBODY, abi.encodeCall(manager.release, (id))));
        vm.prank(ANYBODY);
        judge.claimUnanswered(id);
        assert(waited >= uint256(challengedAfter) + 24 hours);
        assert(_keeps(address(judge)) == 0);
        _assertSplit(id, capture, capture);
    }

    /// @notice Must be refuted: an arbitrator can give something back.
    function refute_no_award_is_ever_given(uint128 capture, uint128 award, Signature calldata signature) public {
        bytes32 id = _hold(type(uint128).max, capture, signature);
        _raise(id, 0);
        vm.prank(ARBITRATOR);
        judge.rule(id, award);
        assert(judge.awarded(id) == 0);
    }

    function _raise(bytes32 id, uint32 after_) private {
        vm.warp(START + after_);
        vm.prank(CLIENT);
        judge.raiseDispute(id, Claim.Quality, "data:,", keccak256(""));
    }

    function _dispute(bytes32 id) private view returns (bytes memory) {
        return abi.encodeCall(judge.raiseDispute, (id, Claim.Quality, "data:,", keccak256("")));
    }

    /// @dev All that was held has left: `award` to the client, the rest to the payee.
    function _assertSplit(bytes32 id, uint128 capture, uint128 award) private view {
        assert(_has(PAYEE) == uint256(capture) - award);
        assert(_has(CLIENT) == FUNDS - capture + award);
        assert(_keeps(address(manager)) == 0);
        assert(manager.holdOf(id).held == 0);
    }
}
