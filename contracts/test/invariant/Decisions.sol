// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Claim, DisputeState, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";
import {ConsistencyTree} from "../base/ConsistencyTree.sol";
import {TranscriptTree} from "../base/TranscriptTree.sol";
import {SessionSteps} from "./SessionSteps.sol";

/// @notice What is asked, ruled and answered about held money, and how it leaves.
abstract contract Decisions is SessionSteps {
    // How often each decision came about, so that a test can show that runs are not empty.
    mapping(Exit exit => uint256 times) public exits;
    mapping(Fault fault => uint256 times) public convictions;
    uint256 public lapses;
    uint256 public answers;
    uint256 public silences;

    function release(uint256 seed, bool byAnybody) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (found) _release(id, byAnybody ? thief : payeeOf(_books[id].serviceId));
    }

    function raise(uint256 seed, uint256 claimSeed) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (!found) return;
        Book storage book = _books[id];
        Service storage service = services[book.serviceId];
        bool allowed = _disputable(id) && service.arbitrated && book.dispute == DisputeState.None;
        if (!allowed) vm.expectRevert();
        vm.prank(book.payer);
        judge.raiseDispute(id, Claim(claimSeed % 3), "data:,evidence", keccak256("evidence"));
        if (!allowed) return;
        (book.dispute, book.raisedAt, book.ruleBy) = (DisputeState.Pending, _now(), _now() + service.rulingPeriod);
        _bondIn(id);
    }

    function respond(uint256 seed) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (!found) return;
        if (_books[id].dispute != DisputeState.Pending) vm.expectRevert();
        vm.prank(_operatorOf(id));
        judge.respond(id, "data:,response", keccak256("response"));
    }

    function rule(uint256 seed, uint128 award) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (!found) return;
        Book storage book = _books[id];
        uint128 held = heldOf(id);
        // Nothing at all, or more than there is, now and then.
        award = award % 4 == 0 ? 0 : _bound128(award, 0, held + held / 8 + 1);
        bool allowed = book.dispute == DisputeState.Pending && book.challengedAt == 0 && _now() < book.ruleBy;
        allowed = allowed && award <= held;
        if (!allowed) vm.expectRevert();
        vm.prank(arbitrator);
        judge.rule(id, award);
        if (!allowed) return;
        (book.dispute, book.awarded) = (DisputeState.Ruled, award);
        _moneyLeft(id, Exit.Ruled);
        _owe(id, book.payer, award);
        _owe(id, payeeOf(book.serviceId), book.settled - award);
        _bondOut(id, award == 0 ? payeeOf(book.serviceId) : book.payer);
    }

    function lapse(uint256 seed) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (found) _lapse(id);
    }

    function challenge(uint256 seed, uint64 position, bool aboutReceipt) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (!found || _books[id].leaves.length == 0 || _books[id].root == 0) return;
        Book storage book = _books[id];
        uint64 calls = uint64(book.leaves.length);
        position = uint64(aboutReceipt ? _bound(position, 0, calls - 1) : _bound(position, 1, calls));
        // Of a count that was made too large, only the last words are certain to contradict it.
        if (book.fault == Fault.AnchorsMoreCalls) position = aboutReceipt ? calls - 1 : calls;
        bool allowed = _disputable(id) && book.challengedAt == 0 && position < book.callCount;
        if (aboutReceipt) {
            Receipt memory receipt = _receipt(id, position);
            if (!allowed) vm.expectRevert();
            vm.prank(book.payer);
            judge.challengeReceipt(id, receipt);
        } else {
            Statement memory statement = _statement(id, position);
            if (!allowed) vm.expectRevert();
            vm.prank(book.payer);
            judge.challengeStatement(id, statement);
        }
        if (!allowed) return;
        (book.challengedAt, book.aboutReceipt, book.position) = (_now(), aboutReceipt, position);
        _bondIn(id);
    }

    function answer(uint256 seed) external {
        bytes32 id = _challengedChannel(seed);
        if (id != 0) _answer(id);
    }

    function claimUnanswered(uint256 seed) external {
        bytes32 id = _challengedChannel(seed);
        if (id != 0) _claimUnanswered(id);
    }

    function _release(bytes32 id, address caller) internal {
        Book storage book = _books[id];
        bool pending = book.dispute == DisputeState.Pending || book.challengedAt != 0;
        bool allowed = heldOf(id) != 0 && book.finalizedAt != 0 && !_inWindow(id) && !pending;
        if (!allowed) vm.expectRevert();
        vm.prank(caller);
        manager.release(id);
        if (!allowed) return;
        _moneyLeft(id, Exit.Released);
        _owe(id, payeeOf(book.serviceId), book.settled);
    }

    function _lapse(bytes32 id) internal {
        Book storage book = _books[id];
        bool allowed = book.dispute == DisputeState.Pending && book.challengedAt == 0 && _now() >= book.ruleBy;
        if (!allowed) vm.expectRevert();
        vm.prank(thief);
        judge.lapse(id);
        if (!allowed) return;
        book.dispute = DisputeState.Lapsed;
        ++lapses;
        _bondOut(id, payeeOf(book.serviceId));
    }

    /// @dev With the proof from what the operator anchored; where that is not what it said before, there is none.
    function _answer(bytes32 id) internal {
        Book storage book = _books[id];
        bytes memory response = _response(id);
        bool allowed = _answerable(id) && _now() < book.challengedAt + ANSWER_PERIOD;
        vm.prank(thief);
        (bool done,) = address(judge).call(response);
        vm.assertEq(done, allowed);
        if (!done) return;
        if (book.dispute == DisputeState.Pending) {
            book.ruleBy += _now() - (book.challengedAt > book.raisedAt ? book.challengedAt : book.raisedAt);
        }
        book.challengedAt = 0;
        ++answers;
        _bondOut(id, payeeOf(book.serviceId));
    }

    function _response(bytes32 id) private view returns (bytes memory) {
        Book storage book = _books[id];
        bytes32[] memory leaves = _anchoredLeaves(id);
        uint64 position = book.position;
        if (book.aboutReceipt) {
            bytes32[] memory siblings = TranscriptTree.siblingsOf(leaves, leaves.length, position);
            return abi.encodeCall(judge.answerReceipt, (id, position, book.leaves[position], siblings));
        }
        bytes32[] memory proof = ConsistencyTree.proofOf(leaves, position, leaves.length, TranscriptProof.nodeHash);
        return
            abi.encodeCall(judge.answerStatement, (id, position, TranscriptTree.rootOf(book.leaves, position), proof));
    }

    function _answerable(bytes32 id) internal view returns (bool) {
        Book storage book = _books[id];
        if (book.fault == Fault.AnchorsAnyRoot || book.fault == Fault.AnchorsMoreCalls) return false;
        if (book.fault != Fault.AltersALeaf) return true;
        return book.aboutReceipt ? book.position != book.faultyCall : book.position <= book.faultyCall;
    }

    function _claimUnanswered(bytes32 id) internal {
        Book storage book = _books[id];
        bool allowed = _now() >= book.challengedAt + ANSWER_PERIOD;
        if (!allowed) vm.expectRevert();
        vm.prank(thief);
        judge.claimUnanswered(id);
        if (!allowed) return;
        book.unanswered = true;
        if (_answerable(id)) ++silences;
        _convicted(id);
    }

    function _convicted(bytes32 id) internal {
        Book storage book = _books[id];
        book.awarded = book.settled;
        if (!book.unanswered || !_answerable(id)) ++convictions[book.fault];
        _moneyLeft(id, Exit.Convicted);
        _owe(id, book.payer, book.settled);
        if (book.challengedAt != 0) {
            book.challengedAt = 0;
            _bondOut(id, book.payer);
        }
        if (book.dispute == DisputeState.Pending) {
            book.dispute = DisputeState.Overtaken;
            _bondOut(id, book.payer);
        }
    }

    function _moneyLeft(bytes32 id, Exit exit) private {
        vm.assertTrue(_books[id].exit == Exit.None, "held money left twice");
        _books[id].exit = exit;
        ++exits[exit];
    }

    function _bondIn(bytes32 id) private {
        Service storage service = services[_books[id].serviceId];
        pendingBonds[service.token] += service.bond;
        paidIn[service.token][_books[id].payer] += service.bond;
    }

    function _bondOut(bytes32 id, address owner) private {
        Service storage service = services[_books[id].serviceId];
        pendingBonds[service.token] -= service.bond;
        _owe(id, owner, service.bond);
    }

    function _challengedChannel(uint256 seed) private view returns (bytes32) {
        for (uint256 i = 0; i < channels.length; ++i) {
            bytes32 id = channels[(seed % channels.length + i) % channels.length];
            if (_books[id].challengedAt != 0) return id;
        }
        return 0;
    }
}
