// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {IPaymentManager, SessionView, Settlement} from "./interfaces/IPaymentManager.sol";
import {IServiceRegistry} from "./interfaces/IServiceRegistry.sol";
import {ChannelIds} from "./libraries/ChannelIds.sol";
import {GasFloor} from "./libraries/GasFloor.sol";
import {TokenTransfer} from "./libraries/TokenTransfer.sol";
import {Escrow} from "./Escrow.sol";

/// @title PaymentManager
/// @notice See IPaymentManager and IEscrow.
contract PaymentManager is IPaymentManager, Escrow {
    struct Opening {
        uint256 serviceId;
        bytes32 termsHash;
        uint128 deposit;
        bytes32 nonce;
        address authorizedSigner;
        bytes32 rosterHash;
    }

    /// @dev The most that one item can use: a contract account's judgement, two transfers and two credits at their
    /// caps, and storage.
    uint256 private constant _BATCH_ITEM_GAS = 750_000;

    /// @inheritdoc IPaymentManager
    IServiceRegistry public immutable override registry;

    /// @param registry_ Where sessions' terms are read.
    /// @param gracePeriodSeconds_ 900 seconds to 30 days.
    constructor(IServiceRegistry registry_, uint64 gracePeriodSeconds_) Escrow(gracePeriodSeconds_) {
        if (address(registry_).code.length == 0) revert RegistryWithoutCode(address(registry_));
        registry = registry_;
    }

    /// @inheritdoc IPaymentManager
    function openSession(
        uint256 serviceId,
        bytes32 termsHash,
        uint128 deposit,
        bytes32 nonce,
        address authorizedSigner,
        bytes32 rosterHash
    ) external override nonReentrant returns (bytes32) {
        return _openSession(Opening(serviceId, termsHash, deposit, nonce, authorizedSigner, rosterHash));
    }

    /// @inheritdoc IPaymentManager
    function commitResults(bytes32 channelId, bytes32 root, uint64 callCount) external override nonReentrant {
        Channel storage channel = _existing(channelId);
        _requirePayeeOrOperator(channelId, _partiesOf(channelId, channel));
        if (channel.finalizedAt != 0) revert ChannelFinalized(channelId);
        if (root == 0 || callCount == 0) revert InvalidCommitment(root, callCount);
        if (channel.root != 0) revert RootAlreadyCommitted(channelId, channel.root, channel.callCount);
        _commit(channelId, channel, root, callCount);
    }

    /// @inheritdoc IPaymentManager
    function settleSession(Settlement calldata settlement) external override nonReentrant {
        bytes32 channelId = settlement.channelId;
        Channel storage channel = _existing(channelId);
        Parties memory parties = _partiesOf(channelId, channel);
        _requirePayeeOrOperator(channelId, parties);

        bytes32 root = channel.root;
        uint128 settled = channel.settled;
        bool sameHistory = root == settlement.root && channel.callCount == settlement.callCount;
        if (channel.finalizedAt != 0) {
            if (sameHistory && settled == settlement.capture) return;
            revert ChannelFinalized(channelId);
        }
        if (!sameHistory) {
            if (root != 0) revert RootAlreadyCommitted(channelId, root, channel.callCount);
            if (settlement.root == 0 || settlement.callCount == 0) {
                revert InvalidCommitment(settlement.root, settlement.callCount);
            }
            _commit(channelId, channel, settlement.root, settlement.callCount);
        }
        if (settlement.capture < settled) revert CaptureBelowSettled(channelId, settled, settlement.capture);
        uint128 delta = 0;
        if (settlement.capture > settled) {
            delta = _capture(channelId, channel, settlement.capture, settlement.voucherAmount, settlement.signature);
        }
        _finalize(channelId, channel, parties, delta);
    }

    /// @inheritdoc IPaymentManager
    function settleSessions(Settlement[] calldata settlements) external override {
        for (uint256 i = 0; i < settlements.length; ++i) {
            GasFloor.require_(_BATCH_ITEM_GAS);
            // A call to itself that keeps the sender: one item's revert is its own, and each item has the guard of
            // `settleSession`. This function changes nothing itself and needs none.
            (bool done, bytes memory reason) =
                address(this).delegatecall(abi.encodeCall(this.settleSession, (settlements[i])));
            if (!done) emit SettlementSkipped(settlements[i].channelId, reason);
        }
    }

    /// @inheritdoc IPaymentManager
    function session(uint256 sessionId) external view override returns (SessionView memory) {
        return sessionOfChannel(_channelIds[sessionId]);
    }

    /// @inheritdoc IPaymentManager
    function sessionResultsRoot(uint256 sessionId) external view override returns (bytes32) {
        return _channels[_channelIds[sessionId]].root;
    }

    /// @inheritdoc IPaymentManager
    function sessionCallCount(uint256 sessionId) external view override returns (uint64) {
        return _channels[_channelIds[sessionId]].callCount;
    }

    /// @inheritdoc IPaymentManager
    function sessionCount() external view override returns (uint256) {
        return _channelCount;
    }

    /// @inheritdoc IPaymentManager
    function sessionOfChannel(bytes32 channelId) public view override returns (SessionView memory found) {
        Channel storage channel = _channels[channelId];
        if (channel.sessionId == 0) return found;
        Parties memory parties = _partiesOf(channelId, channel);
        found.sessionId = channel.sessionId;
        found.channelId = channelId;
        found.payer = channel.payer;
        found.payee = parties.payee;
        found.token = parties.token;
        found.authorizedSigner = channel.authorizedSigner;
        found.operator = parties.operator;
        found.termsHash = channel.termsHash;
        found.deposit = channel.deposit;
        found.settled = channel.settled;
        found.refunded = channel.finalizedAt == 0 ? 0 : channel.deposit - channel.settled;
        found.openedAt = channel.openedAt;
        found.closeRequestedAt = channel.closeRequestedAt;
        found.finalizedAt = channel.finalizedAt;
        found.root = channel.root;
        found.callCount = channel.callCount;
        found.commitRequired = channel.commitRequired;
        if (found.termsHash != 0) {
            (found.serviceId,) = registry.terms(found.termsHash);
            (,,,, found.disputeWindow) = registry.paymentTerms(found.termsHash);
        }
    }

    function _openSession(Opening memory opening) private returns (bytes32 channelId) {
        bytes32 termsHash = opening.termsHash;
        bytes32 current = registry.currentTerms(opening.serviceId);
        if (current != termsHash || termsHash == 0) revert TermsNotCurrent(opening.serviceId, termsHash, current);
        Parties memory parties;
        bool commitRequired;
        {
            uint32 disputeWindow;
            (parties.operator, parties.payee, parties.token, commitRequired, disputeWindow) =
                registry.paymentTerms(termsHash);
            if (disputeWindow != 0) revert DisputesNotSupported(disputeWindow);
        }
        channelId = computeChannelId(
            msg.sender,
            parties.payee,
            parties.token,
            ChannelIds.sessionSalt(opening.nonce, termsHash, opening.rosterHash),
            opening.authorizedSigner
        );
        _create(channelId, opening.deposit, opening.authorizedSigner, commitRequired);
        _channels[channelId].termsHash = termsHash;
        _announceSession(channelId, parties, opening);
        TokenTransfer.pullExactly(IERC20(parties.token), msg.sender, opening.deposit);
    }

    function _announceSession(bytes32 channelId, Parties memory parties, Opening memory opening) private {
        emit SessionOpened(
            _channelCount,
            channelId,
            msg.sender,
            opening.serviceId,
            opening.termsHash,
            parties.payee,
            parties.token,
            opening.deposit,
            opening.nonce,
            opening.authorizedSigner,
            opening.rosterHash
        );
    }

    function _commit(bytes32 channelId, Channel storage channel, bytes32 root, uint64 callCount) private {
        channel.root = root;
        channel.callCount = callCount;
        emit ResultsCommitted(channelId, channel.sessionId, root, callCount);
    }

    function _requirePayeeOrOperator(bytes32 channelId, Parties memory parties) private view {
        if (msg.sender != parties.payee && msg.sender != parties.operator) {
            revert NotPayeeOrOperator(channelId, msg.sender);
        }
    }

    /// @dev The terms behind a hash never change, so neither does the answer.
    function _partiesOf(bytes32 channelId, Channel storage channel)
        internal
        view
        override
        returns (Parties memory parties)
    {
        bytes32 termsHash = channel.termsHash;
        if (termsHash == 0) return super._partiesOf(channelId, channel);
        (parties.operator, parties.payee, parties.token,,) = registry.paymentTerms(termsHash);
    }
}
