// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Claim, DisputeState, IDisputeManager} from "./interfaces/IDisputeManager.sol";
import {Hold, IPaymentManager} from "./interfaces/IPaymentManager.sol";
import {IServiceRegistry, Terms} from "./interfaces/IServiceRegistry.sol";
import {Cases} from "./Cases.sol";
import {ProvableLies} from "./ProvableLies.sol";

/// @title DisputeManager
/// @notice See IDisputeManager: what an arbitrator decides.
contract DisputeManager is ProvableLies {
    /// @notice Longest evidence or response URI, in bytes.
    uint256 public constant MAX_URI_BYTES = 8192;

    uint256 private constant _META_EVIDENCE_ID = 0;

    /// @dev Deployed by the PaymentManager it decides for.
    constructor(IPaymentManager paymentManager_, IServiceRegistry registry_) Cases(paymentManager_, registry_) {
        emit MetaEvidence(
            _META_EVIDENCE_ID,
            "data:application/json,{\"title\":\"Dispute over a session of paid tool calls\","
            "\"category\":\"aioum session\",\"question\":\"How much of the held money goes back to the payer?\","
            "\"description\":\"The evidence is an aioum evidence package. verify-evidence checks it against the "
            "session that the dispute's id names.\"}"
        );
    }

    /// @inheritdoc IDisputeManager
    function raiseDispute(bytes32 channelId, Claim claim, string calldata evidenceURI, bytes32 evidenceHash)
        external
        override
        nonReentrant
    {
        _requireURI(evidenceURI);
        if (evidenceHash == 0) revert EvidenceHashMissing(channelId);
        Hold memory hold = _heldInWindow(channelId);
        _requirePayer(channelId, hold);
        Terms memory terms = _termsOf(hold);
        if (terms.arbitrator == address(0)) revert NoArbitrator(channelId);
        Record storage record = _cases[channelId];
        if (record.dispute != DisputeState.None) revert AlreadyDisputed(channelId);

        uint40 ruleBy = uint40(block.timestamp) + terms.rulingPeriod;
        record.dispute = DisputeState.Pending;
        record.raisedAt = uint40(block.timestamp);
        record.ruleBy = ruleBy;
        _announce(channelId, terms, claim, evidenceURI, evidenceHash, ruleBy);
        _pullBond(hold.token, msg.sender, terms.disputeBond);
    }

    /// @inheritdoc IDisputeManager
    function respond(bytes32 channelId, string calldata responseURI, bytes32 responseHash) external override {
        _requireURI(responseURI);
        if (responseHash == 0) revert EvidenceHashMissing(channelId);
        (, Terms memory terms) = _pendingDispute(channelId);
        if (msg.sender != terms.operator) revert NotSessionOperator(channelId, msg.sender);
        emit Responded(channelId, msg.sender, responseURI, responseHash);
        emit Evidence(terms.arbitrator, uint256(channelId), msg.sender, responseURI);
    }

    /// @inheritdoc IDisputeManager
    function rule(bytes32 channelId, uint128 award) external override nonReentrant {
        (Hold memory hold, Terms memory terms) = _pendingDispute(channelId);
        if (msg.sender != terms.arbitrator) revert NotArbitrator(channelId, msg.sender);
        _requireNoChallenge(channelId);
        Record storage record = _cases[channelId];
        if (block.timestamp >= record.ruleBy) revert RulingTooLate(channelId, record.ruleBy);
        if (award > hold.held) revert AwardAboveHeld(channelId, hold.held, award);

        record.dispute = DisputeState.Ruled;
        record.awarded = award;
        emit Ruled(channelId, msg.sender, award);
        paymentManager.resolve(channelId, award);
        _payBond(channelId, hold.token, award == 0 ? hold.payee : hold.payer, terms.disputeBond);
    }

    /// @inheritdoc IDisputeManager
    function lapse(bytes32 channelId) external override nonReentrant {
        (Hold memory hold, Terms memory terms) = _pendingDispute(channelId);
        _requireNoChallenge(channelId);
        Record storage record = _cases[channelId];
        if (block.timestamp < record.ruleBy) revert RulingStillDue(channelId, record.ruleBy);

        record.dispute = DisputeState.Lapsed;
        emit Lapsed(channelId);
        _payBond(channelId, hold.token, hold.payee, terms.disputeBond);
    }

    function _announce(
        bytes32 channelId,
        Terms memory terms,
        Claim claim,
        string calldata evidenceURI,
        bytes32 evidenceHash,
        uint64 ruleBy
    ) private {
        uint256 id = uint256(channelId);
        emit DisputeRaised(
            channelId, msg.sender, terms.arbitrator, claim, evidenceURI, evidenceHash, ruleBy, terms.disputeBond
        );
        emit Dispute(terms.arbitrator, id, _META_EVIDENCE_ID, id);
        emit Evidence(terms.arbitrator, id, msg.sender, evidenceURI);
    }

    function _pendingDispute(bytes32 channelId) private view returns (Hold memory hold, Terms memory terms) {
        if (_cases[channelId].dispute != DisputeState.Pending) revert NoDisputePending(channelId);
        hold = paymentManager.holdOf(channelId);
        terms = _termsOf(hold);
    }

    function _requireURI(string calldata uri) private pure {
        uint256 length = bytes(uri).length;
        if (length == 0 || length > MAX_URI_BYTES) revert URILengthInvalid(length, MAX_URI_BYTES);
    }
}
