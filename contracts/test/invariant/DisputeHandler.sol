// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Claim, DisputeState, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Authorization} from "../../src/libraries/TokenTransfer.sol";
import {Decisions} from "./Decisions.sol";
import {ClearingToken} from "./DisputeWorld.sol";

/// @notice Everybody who can touch held money: clients, an operator that keeps PROTOCOL 3.2, one that does not, the
/// arbitrator, a thief and the clock.
contract DisputeHandler is Decisions {
    uint256 public thefts;
    uint256 public wrongConvictions;
    address private immutable _test = msg.sender;

    /// @dev The end of a run is no random action.
    modifier onlyTest() {
        if (msg.sender == _test) _;
    }

    /// @notice What a lying operator said is held against it: inside the window that decides at once.
    function accuse(uint256 seed) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (!found || _books[id].fault == Fault.None || _books[id].root == 0) return;
        bytes memory accusation = _accusation(id);
        if (accusation.length == 0) return;
        bool allowed =
            _disputable(id) && (_books[id].fault != Fault.Overcharges || _books[id].settled > _books[id].spent);
        vm.prank(thief);
        (bool done,) = address(judge).call(accusation);
        vm.assertEq(done, allowed);
        if (done) _convicted(id);
    }

    /// @notice All that an honest operator ever said, held against it in every way.
    function accuseHonest(uint256 seed, uint64 one, uint64 other, uint64 covered) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (!found || _books[id].fault != Fault.None || _books[id].leaves.length == 0) return;
        uint64 calls = uint64(_books[id].leaves.length);
        (one, other) = (one % calls, other % calls);
        bytes[6] memory accusations = [
            abi.encodeCall(judge.proveConflictingReceipts, (id, _receipt(id, one), _receipt(id, other))),
            abi.encodeCall(judge.proveConflictingStatements, (id, _statement(id, one + 1), _statement(id, other + 1))),
            abi.encodeCall(judge.proveStatementAgainstRoot, (id, _statement(id, one + 1))),
            abi.encodeCall(judge.proveOmittedReceipt, (id, _receipt(id, one))),
            abi.encodeCall(judge.proveOmittedStatement, (id, _statement(id, one + 1))),
            _overcharge(id, covered % (calls + 1))
        ];
        _allMustFail(accusations, _books[id].payer);
    }

    /// @notice Words that the operator never said.
    function accuseWithForgeries(uint256 seed, uint64 index) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (!found || _books[id].leaves.length == 0) return;
        Receipt memory forged = _forged(id, _receipt(id, uint64(index % _books[id].leaves.length)));
        Receipt memory other = _forged(id, Receipt(forged.index, keccak256("other"), 0, ""));
        Receipt memory beyond = _forged(id, Receipt(_books[id].callCount, forged.leaf, 0, ""));
        Receipt[] memory free = new Receipt[](_books[id].callCount);
        for (uint64 i = 0; i < free.length; ++i) {
            free[i] = _forged(id, Receipt(i, forged.leaf, 0, ""));
        }
        Statement memory nothing = Statement(_books[id].callCount, keccak256("other"), 0, forged.signature);
        bytes[6] memory accusations = [
            abi.encodeCall(judge.proveConflictingReceipts, (id, forged, other)),
            abi.encodeCall(judge.proveStatementAgainstRoot, (id, nothing)),
            abi.encodeCall(judge.proveOmittedReceipt, (id, beyond)),
            abi.encodeCall(judge.proveOvercharge, (id, nothing, new Receipt[](0))),
            abi.encodeCall(judge.proveOvercharge, (id, Statement(0, 0, 0, ""), free)),
            abi.encodeCall(judge.challengeReceipt, (id, forged))
        ];
        _allMustFail(accusations, _books[id].payer);
    }

    /// @notice The thief tries every door that is somebody else's.
    function steal(uint256 seed, uint128 amount) external {
        if (channels.length == 0) return;
        bytes32 id = channels[seed % channels.length];
        address token = address(services[_books[id].serviceId].token);
        bytes[8] memory attempts = [
            abi.encodeCall(manager.resolve, (id, amount)),
            abi.encodeCall(manager.claimCredit, (token, thief)),
            abi.encodeCall(
                manager.settleSession, (Settlement(id, amount, amount, 1, bytes32(uint256(1)), _voucher(id, amount)))
            ),
            abi.encodeCall(manager.commitResults, (id, bytes32(uint256(1)), 1)),
            abi.encodeCall(manager.requestClose, (id)),
            abi.encodeCall(manager.withdraw, (id)),
            abi.encodeCall(
                manager.topUpWithAuthorization, (id, 1, 0, Authorization(0, type(uint256).max, _voucher(id, 1)))
            ),
            abi.encodeCall(manager.settle, (id, amount, _voucher(id, amount)))
        ];
        for (uint256 i = 0; i < attempts.length; ++i) {
            _attempt(address(manager), attempts[i]);
        }
        _attempt(address(judge), abi.encodeCall(judge.rule, (id, amount)));
        _attempt(address(judge), abi.encodeCall(judge.respond, (id, "data:,", keccak256(""))));
        _attempt(address(judge), abi.encodeCall(judge.raiseDispute, (id, Claim.Quality, "data:,", keccak256(""))));
        _attempt(address(judge), abi.encodeCall(judge.claimCredit, (token, thief)));
        if (_books[id].leaves.length == 0) return;
        _attempt(address(judge), abi.encodeCall(judge.challengeReceipt, (id, _receipt(id, 0))));
        _attempt(address(judge), abi.encodeCall(judge.challengeStatement, (id, _statement(id, 1))));
    }

    function deny(uint256 who, uint256 tokenSeed, bool denied) external {
        tokens[tokenSeed % 2].setDenied(owners[who % owners.length], denied);
    }

    function claim(uint256 who, uint256 tokenSeed) external {
        _claim(tokens[tokenSeed % 2], owners[who % owners.length]);
    }

    function donate(uint256 tokenSeed, uint128 amount, bool toJudge) external {
        ClearingToken token = tokens[tokenSeed % 2];
        address holder = toJudge ? address(judge) : address(manager);
        amount = _bound128(amount, 0, 1e12);
        token.mint(holder, amount);
        donated[token][holder] += amount;
    }

    /// @notice Time goes on by minutes, hours or days.
    function pass(uint256 elapsed, uint256 unit) external {
        uint64[3] memory units = [uint64(60), 3600, 86_400];
        _passTo(_now() + uint64(_bound(elapsed, 1, 20)) * units[unit % 3]);
    }

    /// @notice Time goes on to one of a session's last seconds, or to the second before or after it.
    function passToAnEdge(uint256 seed, uint256 which, uint256 offset) external {
        (bytes32 id, bool found) = _endedChannel(seed, true);
        if (!found) return;
        Book storage book = _books[id];
        uint64[3] memory edges = [
            book.finalizedAt + services[book.serviceId].window,
            book.challengedAt == 0 ? 0 : book.challengedAt + ANSWER_PERIOD,
            book.ruleBy
        ];
        uint64 moment = edges[which % 3] + uint64(offset % 3);
        if (moment > _now() + 1) _passTo(moment - 1);
    }

    /// @notice At the end of a run: everybody's money out of a session, each by its owner alone.
    function empty(uint256 index) external onlyTest {
        bytes32 id = channels[index];
        Book storage book = _books[id];
        if (book.finalizedAt == 0) {
            vm.prank(book.payer);
            manager.requestClose(id);
            if (book.closeRequestedAt == 0) book.closeRequestedAt = _now();
            vm.warp(_now() + GRACE);
            _withdraw(id);
        }
        if (heldOf(id) == 0) return;
        // The longest window, and then whatever was still pending at its end.
        vm.warp(_now() + 3 days);
        if (book.challengedAt != 0) _claimUnanswered(id);
        if (heldOf(id) == 0) return;
        if (book.dispute == DisputeState.Pending) {
            if (_now() < book.ruleBy) vm.warp(book.ruleBy);
            _lapse(id);
        }
        _release(id, payeeOf(book.serviceId));
    }

    /// @notice At the end of a run: an owner takes its credits.
    function claimFor(ClearingToken token, address owner) external onlyTest {
        _claim(token, owner);
    }

    /// @dev What proves the operator's fault at once; empty where only a challenge does.
    function _accusation(bytes32 id) private view returns (bytes memory) {
        Book storage book = _books[id];
        uint64 last = uint64(book.leaves.length - 1);
        if (book.fault == Fault.SignsReceiptTwice) {
            Receipt memory told = _receipt(id, last);
            Receipt memory untold = _signedReceipt(id, last, told.leaf, told.charge + 1);
            return abi.encodeCall(judge.proveConflictingReceipts, (id, told, untold));
        }
        if (book.fault == Fault.SignsStatementTwice) {
            Statement memory told = _statement(id, last + 1);
            Statement memory untold = _signedStatement(id, last + 1, keccak256("another root"), told.spent);
            return abi.encodeCall(judge.proveConflictingStatements, (id, told, untold));
        }
        if (book.fault == Fault.AnchorsAnyRoot || book.fault == Fault.AltersALeaf) {
            return abi.encodeCall(judge.proveStatementAgainstRoot, (id, _statement(id, last + 1)));
        }
        if (book.fault == Fault.OmitsTheLastCall) {
            if (book.faultyCall % 2 == 0) return abi.encodeCall(judge.proveOmittedReceipt, (id, _receipt(id, last)));
            return abi.encodeCall(judge.proveOmittedStatement, (id, _statement(id, last + 1)));
        }
        if (book.fault == Fault.Overcharges) return _overcharge(id, uint64(book.faultyCall));
        return "";
    }

    /// @dev A statement over the first `covered` calls (none for zero) and the receipts of all later ones.
    function _overcharge(bytes32 id, uint64 covered) private view returns (bytes memory) {
        Receipt[] memory receipts = new Receipt[](_books[id].leaves.length - covered);
        for (uint64 i = 0; i < receipts.length; ++i) {
            receipts[i] = _receipt(id, covered + i);
        }
        Statement memory statement = covered == 0 ? Statement(0, 0, 0, "") : _statement(id, covered);
        return abi.encodeCall(judge.proveOvercharge, (id, statement, receipts));
    }

    /// @dev A diligent operator answers before it is too late.
    function _passTo(uint64 moment) private {
        for (uint256 i = 0; i < channels.length; ++i) {
            Book storage book = _books[channels[i]];
            uint64 answerBy = book.challengedAt + ANSWER_PERIOD;
            bool due = book.challengedAt != 0 && _now() < answerBy && moment >= answerBy;
            if (due && book.diligent) _answer(channels[i]);
        }
        vm.warp(moment);
    }

    function _allMustFail(bytes[6] memory accusations, address accuser) private {
        for (uint256 i = 0; i < accusations.length; ++i) {
            vm.prank(accuser);
            (bool done,) = address(judge).call(accusations[i]);
            if (done) ++wrongConvictions;
        }
    }

    function _attempt(address target, bytes memory act) private {
        vm.prank(thief);
        (bool done,) = target.call(act);
        if (done) ++thefts;
    }

    function _claim(ClearingToken token, address owner) private {
        uint256 atManager = manager.credits(address(token), owner);
        uint256 atJudge = judge.credits(address(token), owner);
        vm.startPrank(owner);
        if (atManager != 0) manager.claimCredit(address(token), address(0xc1a1));
        if (atJudge != 0) judge.claimCredit(address(token), address(0xc1a1));
        vm.stopPrank();
        claimed[token][owner] += atManager + atJudge;
    }
}
