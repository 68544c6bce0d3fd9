// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {Case, DisputeState, IDisputeManager, Lie} from "./interfaces/IDisputeManager.sol";
import {Hold, IPaymentManager} from "./interfaces/IPaymentManager.sol";
import {IServiceRegistry, Terms} from "./interfaces/IServiceRegistry.sol";
import {TokenTransfer} from "./libraries/TokenTransfer.sol";
import {Payouts} from "./Payouts.sol";

/// @title Cases
/// @notice See IDisputeManager. What is stored of a session's decisions, and the one way in which a proven lie ends them.
abstract contract Cases is IDisputeManager, Payouts {
    struct Record {
        uint40 raisedAt;
        uint40 ruleBy;
        uint40 answerBy;
        DisputeState dispute;
        uint128 awarded;
        // slot
        bytes32 challengedWord;
    }

    /// @inheritdoc IDisputeManager
    IPaymentManager public immutable override paymentManager;
    /// @inheritdoc IDisputeManager
    IServiceRegistry public immutable override registry;

    mapping(bytes32 channelId => Record record) internal _cases;

    constructor(IPaymentManager paymentManager_, IServiceRegistry registry_) {
        paymentManager = paymentManager_;
        registry = registry_;
    }

    /// @inheritdoc IDisputeManager
    function isPending(bytes32 channelId) external view override returns (bool) {
        Record storage record = _cases[channelId];
        return record.dispute == DisputeState.Pending || record.answerBy != 0;
    }

    /// @inheritdoc IDisputeManager
    function awarded(bytes32 channelId) external view override returns (uint128) {
        return _cases[channelId].awarded;
    }

    /// @inheritdoc IDisputeManager
    function caseOf(bytes32 channelId) external view override returns (Case memory found) {
        Record storage record = _cases[channelId];
        found.dispute = record.dispute;
        found.raisedAt = record.raisedAt;
        found.ruleBy = record.ruleBy;
        found.answerBy = record.answerBy;
        found.challengedWord = record.challengedWord;
        found.awarded = record.awarded;
    }

    /// @dev Gives all that is held back to the payer, and every pending bond with it: whoever asked was right.
    function _decideForPayer(bytes32 channelId, Hold memory hold, Terms memory terms, Lie lie) internal {
        Record storage record = _cases[channelId];
        bool disputed = record.dispute == DisputeState.Pending;
        bool challenged = record.answerBy != 0;
        if (disputed) record.dispute = DisputeState.Overtaken;
        if (challenged) _endChallenge(record);
        record.awarded = hold.held;
        emit LieProven(channelId, lie, msg.sender, hold.held);
        paymentManager.resolve(channelId, hold.held);
        if (disputed) _payBond(channelId, hold.token, hold.payer, terms.disputeBond);
        if (challenged) _payBond(channelId, hold.token, hold.payer, terms.disputeBond);
    }

    function _endChallenge(Record storage record) internal {
        record.answerBy = 0;
        record.challengedWord = 0;
    }

    function _pullBond(address token, address payer, uint128 bond) internal {
        TokenTransfer.pullExactly(IERC20(token), payer, bond);
    }

    function _payBond(bytes32 channelId, address token, address to, uint128 bond) internal {
        emit BondPaid(channelId, to, bond);
        _payOut(channelId, token, to, bond);
    }

    function _heldMoney(bytes32 channelId) internal view returns (Hold memory hold) {
        hold = paymentManager.holdOf(channelId);
        if (hold.held == 0) revert NoMoneyHeld(channelId);
    }

    /// @dev What may only be asked for inside the dispute window.
    function _heldInWindow(bytes32 channelId) internal view returns (Hold memory hold) {
        hold = _heldMoney(channelId);
        if (hold.finalizedAt == 0) revert WindowNotOpen(channelId);
        if (block.timestamp >= hold.heldUntil) revert WindowClosed(channelId, hold.heldUntil);
    }

    function _termsOf(Hold memory hold) internal view returns (Terms memory terms) {
        // slither-disable-next-line unused-return
        (, terms) = registry.terms(hold.termsHash);
    }

    function _requirePayer(bytes32 channelId, Hold memory hold) internal view {
        if (msg.sender != hold.payer) revert NotSessionPayer(channelId, msg.sender);
    }

    function _requireNoChallenge(bytes32 channelId) internal view {
        uint64 answerBy = _cases[channelId].answerBy;
        if (answerBy != 0) revert ChallengePending(channelId, answerBy);
    }
}
