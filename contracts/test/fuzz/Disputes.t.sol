// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Claim, IDisputeManager, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice Decisions over the whole width of amounts, times, counts and trees.
contract DisputesFuzzTest is DisputeFixture {
    uint256 private constant _MAX_CALLS = 300;

    function testFuzz_an_award_splits_what_is_held_exactly(uint128 captured, uint128 award, uint128 bond) public {
        captured = _bound128(captured, 1, type(uint128).max);
        bond = _bound128(bond, 1, type(uint128).max);
        bytes32 channel = _heldWith(captured, bond, WINDOW);
        uint256 before = token.balanceOf(client);
        _raise(channel);
        vm.assertEq(before - token.balanceOf(client), bond);
        if (award > captured) {
            vm.prank(arbitrator);
            vm.expectRevert(abi.encodeWithSelector(IDisputeManager.AwardAboveHeld.selector, channel, captured, award));
            decisions.rule(channel, award);
            award = _bound128(award, 0, captured);
        }
        _rule(channel, award);
        vm.assertEq(token.balanceOf(payee), uint256(captured) - award + (award == 0 ? bond : 0));
        vm.assertEq(before + award, token.balanceOf(client) + (award == 0 ? bond : 0));
        vm.assertEq(_view(channel).awarded, award);
        _assertEmpty();
    }

    function testFuzz_disputes_end_where_releases_begin(uint32 window, uint256 elapsed) public {
        window = uint32(_bound(window, 1 hours, 30 days));
        bytes32 channel = _heldWith(CAPTURED, BOND, window);
        uint64 heldUntil = _now() + window;
        elapsed = elapsed % 4 == 0 ? uint256(window) - 1 + elapsed % 3 : _bound(elapsed, 0, 2 * uint256(window));
        _elapse(elapsed);
        bool open = elapsed < window;
        Receipt memory receipt = _receipt(channel, CALLS, keccak256("left out"), 0);
        if (open) {
            vm.expectRevert();
            manager.release(channel);
            decisions.proveOmittedReceipt(channel, receipt);
            vm.assertEq(_view(channel).awarded, CAPTURED);
        } else {
            bytes memory closed = _refusal(IDisputeManager.WindowClosed.selector, channel, heldUntil);
            vm.expectRevert(closed);
            decisions.proveOmittedReceipt(channel, receipt);
            vm.prank(client);
            vm.expectRevert(closed);
            decisions.raiseDispute(channel, Claim.Quality, URI, HASH);
            manager.release(channel);
            vm.assertEq(token.balanceOf(payee), CAPTURED);
        }
    }

    function testFuzz_rulings_end_where_lapses_begin_whatever_was_challenged_meanwhile(
        uint32 period,
        uint256 challengedAfter,
        uint256 answeredAfter,
        uint256 elapsed
    ) public {
        period = uint32(_bound(period, 1 days, 30 days));
        (serviceId, termsHash) = _register(_ruledWithin(period));
        bytes32 channel = _held();
        _raise(channel);
        uint64 ruleBy = _now() + period;
        challengedAfter = _bound(challengedAfter, 0, WINDOW - 1);
        answeredAfter = _bound(answeredAfter, 0, ANSWER - 1);
        _elapse(challengedAfter);
        _challenge(channel, _receipt(channel, 2));
        _elapse(answeredAfter);
        _answer(channel, 2);
        ruleBy += uint64(answeredAfter);
        vm.assertEq(_case(channel).ruleBy, ruleBy);
        elapsed = elapsed % 4 == 0 ? uint256(period) - 1 + elapsed % 3 : _bound(elapsed, 0, 2 * uint256(period));
        vm.warp(ruleBy - period + elapsed > _now() ? ruleBy - period + elapsed : _now());
        if (_now() < ruleBy) {
            vm.expectRevert(_refusal(IDisputeManager.RulingStillDue.selector, channel, ruleBy));
            decisions.lapse(channel);
            _rule(channel, 1);
        } else {
            vm.prank(arbitrator);
            vm.expectRevert(_refusal(IDisputeManager.RulingTooLate.selector, channel, ruleBy));
            decisions.rule(channel, 1);
            decisions.lapse(channel);
        }
    }

    function testFuzz_an_overcharge_is_proven_exactly_where_there_is_one(
        uint128 captured,
        uint128 spent,
        uint128[4] memory charges,
        uint256 covered
    ) public {
        captured = _bound128(captured, 1, type(uint128).max);
        covered = _bound(covered, 1, CALLS);
        bytes32 channel = _heldWith(captured, BOND, WINDOW);
        // Near to what was captured in half of the runs, else anything.
        if (spent % 2 == 0 && captured > 2) spent = captured - spent % 3;
        uint256 charged = spent;
        Receipt[] memory receipts = new Receipt[](CALLS - covered);
        for (uint256 i = 0; i < receipts.length; ++i) {
            uint128 charge = spent % 2 == 0 ? charges[i] % 2 : charges[i];
            charged += charge;
            receipts[i] = _receipt(channel, uint64(covered + i), leaves[covered + i], charge);
        }
        Statement memory statement = _statement(channel, uint64(covered), _rootOver(covered), spent);
        if (captured <= charged) {
            vm.expectRevert(abi.encodeWithSelector(IDisputeManager.NotOvercharged.selector, channel, charged, captured));
        }
        decisions.proveOvercharge(channel, statement, receipts);
        vm.assertEq(_view(channel).awarded, captured > charged ? captured : 0);
    }

    function testFuzz_words_that_cover_a_history_with_a_gap_or_an_overlap_prove_nothing(
        uint256 calls,
        uint256 covered,
        uint256 count,
        uint256 first
    ) public {
        covered = _bound(covered, 0, 8);
        count = _bound(count, covered == 0 ? 1 : 0, 34);
        // Exact in about a third of the runs.
        calls = calls % 3 == 0 ? _bound(calls, 1, 40) : covered + count;
        first = covered + (first % 2) * (first % 3);
        leaves = _transcript(calls);
        bytes32 channel = _held();
        Receipt[] memory receipts = new Receipt[](count);
        for (uint256 i = 0; i < count; ++i) {
            receipts[i] = _receipt(channel, uint64(first + i), keccak256("leaf"), 0);
        }
        bytes32 root = keccak256("whatever");
        Statement memory statement = _statement(channel, uint64(covered), root, 0);
        bool exact = covered + count == calls && count <= 32 && (first == covered || count == 0);
        if (!exact) {
            vm.expectRevert(
                abi.encodeWithSelector(IDisputeManager.CoverageInvalid.selector, channel, calls, uint256(32))
            );
        }
        decisions.proveOvercharge(channel, statement, receipts);
        vm.assertEq(_view(channel).awarded, exact ? CAPTURED : 0);
    }

    function testFuzz_every_call_of_an_honest_history_is_shown(uint256 calls, uint256 index, uint256 elapsed) public {
        bytes32 channel = _heldOver(calls);
        uint64 chosen = uint64(index % leaves.length);
        _challenge(channel, _receipt(channel, chosen));
        _elapse(_bound(elapsed, 0, ANSWER - 1));
        _answer(channel, chosen);
        vm.assertEq(token.balanceOf(payee), BOND);
    }

    function testFuzz_every_beginning_of_an_honest_history_is_shown(uint256 calls, uint256 count, uint256 elapsed)
        public
    {
        bytes32 channel = _heldOver(_bound(calls, 1, _MAX_CALLS - 1));
        uint64 chosen = uint64(_bound(count, 1, leaves.length - 1));
        _challenge(channel, _statement(channel, chosen));
        _elapse(_bound(elapsed, 0, ANSWER - 1));
        decisions.answerStatement(channel, chosen, _rootOver(chosen), _consistency(chosen));
        vm.assertEq(token.balanceOf(payee), BOND);
    }

    function testFuzz_a_call_that_was_altered_is_never_shown(uint256 calls, uint256 index, uint256 tamper) public {
        bytes32 channel = _heldOver(calls);
        uint256 chosen = index % leaves.length;
        bytes32 signed = keccak256(abi.encode("another response", tamper));
        _challenge(channel, _receipt(channel, uint64(chosen), signed, CHARGE));
        bytes memory refusal = _refusal(IDisputeManager.ProofInvalid.selector, channel);
        bytes32[] memory proof = _siblings(chosen);
        vm.expectRevert(refusal);
        decisions.answerReceipt(channel, uint64(chosen), signed, proof);
        proof = _tampered(proof, tamper);
        vm.expectRevert(refusal);
        decisions.answerReceipt(channel, uint64(chosen), signed, proof);
        _elapse(ANSWER);
        decisions.claimUnanswered(channel);
        vm.assertEq(_view(channel).awarded, CAPTURED);
    }

    function testFuzz_a_beginning_that_was_altered_is_never_shown(uint256 calls, uint256 count, uint256 tamper) public {
        bytes32 channel = _heldOver(_bound(calls, 1, _MAX_CALLS - 1));
        uint64 chosen = uint64(_bound(count, 1, leaves.length - 1));
        bytes32[] memory proof = _consistency(chosen);
        // The operator signed a root over other calls than it anchored.
        leaves[tamper % chosen] = keccak256("another response");
        bytes32 signed = _rootOver(chosen);
        bytes32[] memory others = _consistency(chosen);
        _challenge(channel, _statement(channel, chosen, signed, 0));
        bytes memory refusal = _refusal(IDisputeManager.ProofInvalid.selector, channel);
        bytes32[][4] memory proofs = [proof, others, _tampered(proof, tamper), _tampered(others, tamper)];
        for (uint256 i = 0; i < proofs.length; ++i) {
            vm.expectRevert(refusal);
            decisions.answerStatement(channel, chosen, signed, proofs[i]);
        }
    }

    function testFuzz_a_good_answer_with_anything_changed_is_refused(uint256 calls, uint256 chosen, uint256 tamper)
        public
    {
        bytes32 channel = _heldOver(_bound(calls, 1, _MAX_CALLS - 1));
        bytes memory refusal = _refusal(IDisputeManager.ProofInvalid.selector, channel);
        uint64 index = uint64(chosen % leaves.length);
        bytes32[] memory proof = _siblings(index);
        _challenge(channel, _receipt(channel, index));
        bytes32[] memory bad = _tampered(proof, tamper);
        vm.expectRevert(refusal);
        decisions.answerReceipt(channel, index, leaves[index], bad);
        _answer(channel, index);

        uint64 count = uint64(_bound(chosen, 1, leaves.length - 1));
        bytes32 root = _rootOver(count);
        proof = _consistency(count);
        _challenge(channel, _statement(channel, count));
        bad = _tampered(proof, tamper);
        vm.expectRevert(refusal);
        decisions.answerStatement(channel, count, root, bad);
        decisions.answerStatement(channel, count, root, proof);
    }

    function testFuzz_an_honest_session_is_never_decided_against_its_operator(
        uint256 calls,
        uint256 one,
        uint256 other,
        uint128 lessThanSpent
    ) public {
        calls = _bound(calls, 1, 33);
        leaves = _transcript(calls);
        bytes32 channel = _open(keccak256("held"));
        // Never more than what the calls cost.
        uint128 spent = uint128(CHARGE * calls);
        _settle(_honest(channel, spent - lessThanSpent % spent));
        Receipt memory first = _receipt(channel, uint64(one % calls));
        Receipt memory second = _receipt(channel, uint64(other % calls));
        Statement memory early = _statement(channel, uint64(_bound(one, 1, calls)));
        Statement memory late = _statement(channel, uint64(_bound(other, 1, calls)));
        Receipt[] memory rest = new Receipt[](calls - early.callCount);
        for (uint256 i = 0; i < rest.length; ++i) {
            rest[i] = _receipt(channel, uint64(early.callCount + i));
        }
        bytes memory noConflict = _refusal(IDisputeManager.WordsDoNotConflict.selector, channel);
        bytes memory nothingOmitted = _refusal(IDisputeManager.NothingOmitted.selector, channel, calls);
        vm.expectRevert(noConflict);
        decisions.proveConflictingReceipts(channel, first, second);
        vm.expectRevert(noConflict);
        decisions.proveConflictingStatements(channel, early, late);
        vm.expectRevert(noConflict);
        decisions.proveStatementAgainstRoot(channel, late);
        vm.expectRevert(nothingOmitted);
        decisions.proveOmittedReceipt(channel, first);
        vm.expectRevert(nothingOmitted);
        decisions.proveOmittedStatement(channel, late);
        vm.expectRevert();
        decisions.proveOvercharge(channel, early, rest);
        vm.assertEq(_view(channel).awarded, 0);
    }

    /// @dev A session of five calls that captured `captured`, under terms of its own.
    function _heldWith(uint128 captured, uint128 bond, uint32 window) private returns (bytes32 channel) {
        Terms memory terms = _disputeTerms();
        (terms.disputeBond, terms.disputeWindow) = (bond, window);
        (serviceId, termsHash) = _register(terms);
        token.mint(client, uint256(captured) + bond);
        vm.prank(client);
        channel = manager.openSession(serviceId, termsHash, captured, keccak256("n"), address(0), bytes32(0));
        _settle(_honest(channel, captured));
    }

    /// @dev A session of up to 300 calls; at least two where `calls` is.
    function _heldOver(uint256 calls) private returns (bytes32) {
        leaves = _transcript(1 + calls % _MAX_CALLS);
        return _held();
    }

    /// @dev One hash changed, left out, added, or two exchanged.
    function _tampered(bytes32[] memory proof, uint256 how) private pure returns (bytes32[] memory bad) {
        uint256 length = proof.length;
        uint256 kind = length == 0 ? 0 : how % 4;
        bad = new bytes32[](kind == 0 ? length + 1 : (kind == 1 ? length - 1 : length));
        for (uint256 i = 0; i < length && i < bad.length; ++i) {
            bad[i] = proof[i];
        }
        if (kind == 2) bad[how % length] ^= bytes32(uint256(1) << (how % 256));
        if (kind == 3) {
            // Swapped neighbours; a single hash is inverted instead.
            if (length == 1) bad[0] = ~bad[0];
            else (bad[0], bad[length - 1]) = (bad[length - 1], bad[0]);
        }
    }
}
