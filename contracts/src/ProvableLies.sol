// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DisputeState, IDisputeManager, Lie, Receipt, Statement} from "./interfaces/IDisputeManager.sol";
import {Hold} from "./interfaces/IPaymentManager.sol";
import {Terms} from "./interfaces/IServiceRegistry.sol";
import {ConsistencyProof} from "./libraries/ConsistencyProof.sol";
import {OperatorWords} from "./libraries/OperatorWords.sol";
import {TranscriptProof} from "./libraries/TranscriptProof.sol";
import {Cases} from "./Cases.sol";

/// @title ProvableLies
/// @notice See IDisputeManager: what needs no arbitrator, since the operator's own words decide it (PROTOCOL 4.3).
abstract contract ProvableLies is Cases {
    using OperatorWords for Receipt;
    using OperatorWords for Statement;

    uint256 private constant _MAX_OVERCHARGE_RECEIPTS = 32;
    uint40 private constant _ANSWER_PERIOD = 24 hours;

    /// @dev All that judging an operator's words takes.
    struct Accused {
        bytes32 channelId;
        bytes32 domainSeparator;
        Hold hold;
        Terms terms;
    }

    /// @inheritdoc IDisputeManager
    function proveConflictingReceipts(bytes32 channelId, Receipt calldata one, Receipt calldata other)
        external
        override
        nonReentrant
    {
        Accused memory accused = _accused(channelId);
        _requireSigned(accused, one);
        _requireSigned(accused, other);
        if (one.index != other.index || (one.leaf == other.leaf && one.charge == other.charge)) {
            revert WordsDoNotConflict(channelId);
        }
        _convict(accused, Lie.DoubleSigning);
    }

    /// @inheritdoc IDisputeManager
    function proveConflictingStatements(bytes32 channelId, Statement calldata one, Statement calldata other)
        external
        override
        nonReentrant
    {
        Accused memory accused = _accused(channelId);
        _requireSigned(accused, one);
        _requireSigned(accused, other);
        if (one.callCount != other.callCount || (one.root == other.root && one.spent == other.spent)) {
            revert WordsDoNotConflict(channelId);
        }
        _convict(accused, Lie.DoubleSigning);
    }

    /// @inheritdoc IDisputeManager
    function proveStatementAgainstRoot(bytes32 channelId, Statement calldata statement) external override nonReentrant {
        Accused memory accused = _accused(channelId);
        _requireSigned(accused, statement);
        if (statement.callCount != accused.hold.callCount || statement.root == accused.hold.root) {
            revert WordsDoNotConflict(channelId);
        }
        _convict(accused, Lie.DoubleSigning);
    }

    /// @inheritdoc IDisputeManager
    function proveOmittedReceipt(bytes32 channelId, Receipt calldata receipt) external override nonReentrant {
        Accused memory accused = _accused(channelId);
        _requireSigned(accused, receipt);
        if (receipt.index < accused.hold.callCount) revert NothingOmitted(channelId, accused.hold.callCount);
        _convict(accused, Lie.Omission);
    }

    /// @inheritdoc IDisputeManager
    function proveOmittedStatement(bytes32 channelId, Statement calldata statement) external override nonReentrant {
        Accused memory accused = _accused(channelId);
        _requireSigned(accused, statement);
        if (statement.callCount <= accused.hold.callCount) revert NothingOmitted(channelId, accused.hold.callCount);
        _convict(accused, Lie.Omission);
    }

    /// @inheritdoc IDisputeManager
    function proveOvercharge(bytes32 channelId, Statement calldata statement, Receipt[] calldata receipts)
        external
        override
        nonReentrant
    {
        Accused memory accused = _accused(channelId);
        uint64 callCount = accused.hold.callCount;
        uint64 covered = statement.callCount;
        if (covered > callCount || receipts.length != callCount - covered || receipts.length > _MAX_OVERCHARGE_RECEIPTS)
        {
            revert CoverageInvalid(channelId, callCount, _MAX_OVERCHARGE_RECEIPTS);
        }

        uint256 charged = 0;
        if (covered != 0) {
            _requireSigned(accused, statement);
            charged = statement.spent;
        }
        for (uint256 i = 0; i < receipts.length; ++i) {
            if (receipts[i].index != covered + i) {
                revert CoverageInvalid(channelId, callCount, _MAX_OVERCHARGE_RECEIPTS);
            }
            _requireSigned(accused, receipts[i]);
            charged += receipts[i].charge;
        }
        if (accused.hold.held <= charged) revert NotOvercharged(channelId, charged, accused.hold.held);
        _convict(accused, Lie.Overcharge);
    }

    /// @inheritdoc IDisputeManager
    function challengeReceipt(bytes32 channelId, Receipt calldata receipt) external override nonReentrant {
        Accused memory accused = _accused(channelId);
        _requireSigned(accused, receipt);
        if (receipt.index >= accused.hold.callCount) revert NotChallengeable(channelId, accused.hold.callCount);
        uint64 answerBy = _challenge(accused, OperatorWords.receiptWord(receipt.index, receipt.leaf));
        emit ReceiptChallenged(channelId, receipt.index, receipt.leaf, answerBy, accused.terms.disputeBond);
        _pullBond(accused.hold.token, msg.sender, accused.terms.disputeBond);
    }

    /// @inheritdoc IDisputeManager
    function challengeStatement(bytes32 channelId, Statement calldata statement) external override nonReentrant {
        Accused memory accused = _accused(channelId);
        _requireSigned(accused, statement);
        // Over all calls it is either the root, or L1; over none, it says nothing.
        if (statement.callCount == 0 || statement.callCount >= accused.hold.callCount) {
            revert NotChallengeable(channelId, accused.hold.callCount);
        }
        uint64 answerBy = _challenge(accused, OperatorWords.statementWord(statement.callCount, statement.root));
        emit StatementChallenged(channelId, statement.callCount, statement.root, answerBy, accused.terms.disputeBond);
        _pullBond(accused.hold.token, msg.sender, accused.terms.disputeBond);
    }

    /// @inheritdoc IDisputeManager
    function answerReceipt(bytes32 channelId, uint64 index, bytes32 leaf, bytes32[] calldata siblings)
        external
        override
        nonReentrant
    {
        Hold memory hold = _answered(channelId, OperatorWords.receiptWord(index, leaf));
        if (!TranscriptProof.verify(leaf, index, hold.callCount, siblings, hold.root)) revert ProofInvalid(channelId);
        _payAnswerer(channelId, hold);
    }

    /// @inheritdoc IDisputeManager
    function answerStatement(bytes32 channelId, uint64 callCount, bytes32 root, bytes32[] calldata proof)
        external
        override
        nonReentrant
    {
        Hold memory hold = _answered(channelId, OperatorWords.statementWord(callCount, root));
        bool proven =
            ConsistencyProof.verify(callCount, hold.callCount, root, hold.root, proof, TranscriptProof.nodeHash);
        if (!proven) revert ProofInvalid(channelId);
        _payAnswerer(channelId, hold);
    }

    /// @inheritdoc IDisputeManager
    function claimUnanswered(bytes32 channelId) external override nonReentrant {
        uint64 answerBy = _cases[channelId].answerBy;
        if (answerBy == 0) revert NoChallengePending(channelId);
        if (block.timestamp < answerBy) revert AnswerStillDue(channelId, answerBy);
        // While a challenge is pending, nothing that is held can leave.
        Hold memory hold = _heldMoney(channelId);
        _decideForPayer(channelId, hold, _termsOf(hold), Lie.Unanswered);
    }

    /// @inheritdoc IDisputeManager
    function answerPeriodSeconds() external pure override returns (uint64) {
        return _ANSWER_PERIOD;
    }

    function _challenge(Accused memory accused, bytes32 word) private returns (uint40 answerBy) {
        _requirePayer(accused.channelId, accused.hold);
        _requireNoChallenge(accused.channelId);
        answerBy = uint40(block.timestamp) + _ANSWER_PERIOD;
        Record storage record = _cases[accused.channelId];
        record.answerBy = answerBy;
        record.challengedWord = word;
    }

    /// @dev Ends the pending challenge, which must be about `word`; what follows checks the answer, or reverts all of it.
    function _answered(bytes32 channelId, bytes32 word) private returns (Hold memory hold) {
        Record storage record = _cases[channelId];
        uint40 answerBy = record.answerBy;
        if (answerBy == 0) revert NoChallengePending(channelId);
        if (block.timestamp >= answerBy) revert AnswerTooLate(channelId, answerBy);
        if (record.challengedWord != word) revert AnswersAnotherWord(channelId, record.challengedWord, word);
        if (record.dispute == DisputeState.Pending) {
            // The arbitrator could not rule meanwhile, and gets that time back.
            uint40 challengedAt = answerBy - _ANSWER_PERIOD;
            uint40 stoodStillSince = challengedAt > record.raisedAt ? challengedAt : record.raisedAt;
            record.ruleBy += uint40(block.timestamp) - stoodStillSince;
        }
        _endChallenge(record);
        hold = _heldMoney(channelId);
    }

    function _payAnswerer(bytes32 channelId, Hold memory hold) private {
        emit ChallengeAnswered(channelId, msg.sender);
        _payBond(channelId, hold.token, hold.payee, _termsOf(hold).disputeBond);
    }

    function _convict(Accused memory accused, Lie lie) private {
        _decideForPayer(accused.channelId, accused.hold, accused.terms, lie);
    }

    function _accused(bytes32 channelId) private view returns (Accused memory accused) {
        accused.channelId = channelId;
        accused.hold = _heldInWindow(channelId);
        accused.terms = _termsOf(accused.hold);
        accused.domainSeparator = paymentManager.domainSeparator();
    }

    function _requireSigned(Accused memory accused, Receipt calldata receipt) private pure {
        _requireOperators(accused, receipt.signerOf(accused.domainSeparator, accused.channelId));
    }

    function _requireSigned(Accused memory accused, Statement calldata statement) private pure {
        _requireOperators(accused, statement.signerOf(accused.domainSeparator, accused.channelId));
    }

    function _requireOperators(Accused memory accused, address signer) private pure {
        address receiptSigner = accused.terms.receiptSigner;
        if (signer != receiptSigner) revert NotOperatorsWord(accused.channelId, receiptSigner, signer);
    }
}
