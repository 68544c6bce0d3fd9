// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {IDisputeManager} from "./interfaces/IDisputeManager.sol";
import {Hold, IPaymentManager, SessionView, Settlement} from "./interfaces/IPaymentManager.sol";
import {IServiceRegistry} from "./interfaces/IServiceRegistry.sol";
import {ChannelIds} from "./libraries/ChannelIds.sol";
import {GasFloor} from "./libraries/GasFloor.sol";
import {Authorization, TokenTransfer} from "./libraries/TokenTransfer.sol";
import {DisputeManager} from "./DisputeManager.sol";
import {Escrow} from "./Escrow.sol";

/// @title PaymentManager
/// @notice See IPaymentManager and IEscrow.
contract PaymentManager is IPaymentManager, Escrow {
    struct Opening {
        address payer;
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
    bytes32 private constant _OPEN_SESSION_DOMAIN = keccak256("aioum.openSession");

    /// @inheritdoc IPaymentManager
    IServiceRegistry public immutable override registry;
    /// @inheritdoc IPaymentManager
    IDisputeManager public immutable override disputeManager;

    /// @param registry_ Where sessions' terms are read.
    /// @param gracePeriodSeconds_ 900 seconds to 30 days.
    constructor(IServiceRegistry registry_, uint64 gracePeriodSeconds_) Escrow(gracePeriodSeconds_) {
        if (address(registry_).code.length == 0) revert RegistryWithoutCode(address(registry_));
        registry = registry_;
        // Each needs the other's address for ever; made here, neither can be given a wrong one.
        disputeManager = new DisputeManager(this, registry_);
    }

    /// @inheritdoc IPaymentManager
    function openSession(
        uint256 serviceId,
        bytes32 termsHash,
        uint128 deposit,
        bytes32 nonce,
        address authorizedSigner,
        bytes32 rosterHash
    ) external override nonReentrant returns (bytes32 channelId) {
        channelId = _openSession(
            Opening(msg.sender, serviceId, termsHash, deposit, nonce, authorizedSigner, rosterHash)
        );
        TokenTransfer.pullExactly(IERC20(_channels[channelId].token), msg.sender, deposit);
    }

    /// @inheritdoc IPaymentManager
    function openSessionWithAuthorization(
        address payer,
        uint256 serviceId,
        bytes32 termsHash,
        uint128 deposit,
        bytes32 nonce,
        address authorizedSigner,
        bytes32 rosterHash,
        Authorization calldata authorization
    ) external override nonReentrant returns (bytes32 channelId) {
        channelId = _openSession(Opening(payer, serviceId, termsHash, deposit, nonce, authorizedSigner, rosterHash));
        bytes32 tokenNonce = keccak256(abi.encode(_OPEN_SESSION_DOMAIN, channelId));
        TokenTransfer.pullExactlyAuthorized(
            IERC20(_channels[channelId].token), payer, deposit, tokenNonce, authorization
        );
    }

    /// @inheritdoc IPaymentManager
    function topUpWithAuthorization(
        bytes32 channelId,
        uint128 additionalDeposit,
        bytes32 topUpSalt,
        Authorization calldata authorization
    ) external override nonReentrant {
        Channel storage channel = _existing(channelId);
        if (channel.finalizedAt != 0) revert ChannelFinalized(channelId);
        if (channel.closeRequestedAt != 0) revert ClosePending(channelId, channel.closeRequestedAt);
        _addDeposit(channelId, channel, additionalDeposit);
        address payer = channel.payer;
        bytes32 tokenNonce = keccak256(abi.encode(channelId, additionalDeposit, payer, topUpSalt));
        TokenTransfer.pullExactlyAuthorized(IERC20(channel.token), payer, additionalDeposit, tokenNonce, authorization);
    }

    /// @inheritdoc IPaymentManager
    function commitResults(bytes32 channelId, bytes32 root, uint64 callCount) external override nonReentrant {
        Channel storage channel = _existing(channelId);
        _requirePayeeOrOperator(channelId, channel);
        if (channel.finalizedAt != 0) revert ChannelFinalized(channelId);
        if (channel.root != 0) revert RootAlreadyCommitted(channelId, channel.root, channel.callCount);
        _commit(channelId, channel, root, callCount);
    }

    /// @inheritdoc IPaymentManager
    function settleSession(Settlement calldata settlement) external override nonReentrant {
        bytes32 channelId = settlement.channelId;
        Channel storage channel = _existing(channelId);
        _requirePayeeOrOperator(channelId, channel);

        bytes32 root = channel.root;
        uint128 settled = channel.settled;
        bool sameHistory = root == settlement.root && channel.callCount == settlement.callCount;
        if (channel.finalizedAt != 0) {
            if (sameHistory && settled == settlement.capture) return;
            revert ChannelFinalized(channelId);
        }
        if (!sameHistory) {
            if (root != 0) revert RootAlreadyCommitted(channelId, root, channel.callCount);
            _commit(channelId, channel, settlement.root, settlement.callCount);
        }
        if (settlement.capture < settled) revert CaptureBelowSettled(channelId, settled, settlement.capture);
        uint128 delta = 0;
        if (settlement.capture > settled) {
            delta = _capture(
                channelId, channel, settled, settlement.capture, settlement.voucherAmount, settlement.signature
            );
        }
        _finalize(channelId, channel, delta);
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
    function release(bytes32 channelId) external override nonReentrant {
        Channel storage channel = _existing(channelId);
        uint128 amount = _takeHeld(channelId, channel);
        uint64 heldUntil = _heldUntil(channel);
        if (heldUntil == 0 || block.timestamp < heldUntil) revert StillHeld(channelId, heldUntil);
        if (disputeManager.isPending(channelId)) revert DecisionPending(channelId);
        emit Released(channelId, amount);
        _payOut(channelId, channel.token, channel.payee, amount);
    }

    /// @inheritdoc IPaymentManager
    function resolve(bytes32 channelId, uint128 award) external override nonReentrant {
        if (msg.sender != address(disputeManager)) revert NotDisputeManager(msg.sender);
        Channel storage channel = _existing(channelId);
        // What is captured after held money left would never be held: no decision comes before the end.
        if (channel.finalizedAt == 0) revert StillHeld(channelId, 0);
        uint128 amount = _takeHeld(channelId, channel);
        if (award > amount) revert AwardExceedsHeld(channelId, amount, award);
        emit Resolved(channelId, award, amount - award);
        address token = channel.token;
        _payOut(channelId, token, channel.payer, award);
        _payOut(channelId, token, channel.payee, amount - award);
    }

    /// @inheritdoc IPaymentManager
    function holdOf(bytes32 channelId) external view override returns (Hold memory hold) {
        Channel storage channel = _channels[channelId];
        hold.payer = channel.payer;
        hold.payee = channel.payee;
        hold.token = channel.token;
        hold.termsHash = channel.termsHash;
        hold.root = channel.root;
        hold.callCount = channel.callCount;
        hold.held = _held(channel);
        hold.finalizedAt = channel.finalizedAt;
        hold.heldUntil = _heldUntil(channel);
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
        found.sessionId = channel.sessionId;
        found.channelId = channelId;
        found.payer = channel.payer;
        found.payee = channel.payee;
        found.token = channel.token;
        found.authorizedSigner = channel.authorizedSigner;
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
        found.disputeWindow = channel.disputeWindow;
        found.held = _held(channel);
        found.awarded = disputeManager.awarded(channelId);
        if (found.termsHash != 0) {
            // slither-disable-next-line unused-return
            (found.serviceId,) = registry.terms(found.termsHash);
            found.operator = registry.operatorOf(found.termsHash);
        }
    }

    function _openSession(Opening memory opening) private returns (bytes32 channelId) {
        bytes32 termsHash = opening.termsHash;
        bytes32 current = registry.currentTerms(opening.serviceId);
        if (current != termsHash || termsHash == 0) revert TermsNotCurrent(opening.serviceId, termsHash, current);
        // Every member is set below.
        // slither-disable-next-line uninitialized-local
        NewChannel memory channel;
        // slither-disable-next-line unused-return
        (, channel.payee, channel.token, channel.commitRequired, channel.disputeWindow) =
            registry.paymentTerms(termsHash);
        channel.payer = opening.payer;
        channel.deposit = opening.deposit;
        channel.authorizedSigner = opening.authorizedSigner;
        channel.termsHash = termsHash;
        channelId = computeChannelId(
            channel.payer,
            channel.payee,
            channel.token,
            ChannelIds.sessionSalt(opening.nonce, termsHash, opening.rosterHash),
            channel.authorizedSigner
        );
        _announceSession(_create(channelId, channel), channelId, channel, opening);
    }

    function _announceSession(uint256 sessionId, bytes32 channelId, NewChannel memory channel, Opening memory opening)
        private
    {
        emit SessionOpened(
            sessionId,
            channelId,
            opening.payer,
            opening.serviceId,
            opening.termsHash,
            channel.payee,
            channel.token,
            opening.deposit,
            opening.nonce,
            opening.authorizedSigner,
            opening.rosterHash
        );
    }

    function _commit(bytes32 channelId, Channel storage channel, bytes32 root, uint64 callCount) private {
        // Indexes are at most 2^53 - 1 (PROTOCOL 5), so no honest session is that long.
        if (root == 0 || callCount == 0 || callCount > type(uint56).max) revert InvalidCommitment(root, callCount);
        channel.root = root;
        // forge-lint: disable-next-line(unsafe-typecast)
        channel.callCount = uint56(callCount);
        emit ResultsCommitted(channelId, channel.sessionId, root, callCount);
    }

    /// @dev Where held money leaves, once: what follows pays it out, or reverts all of this.
    function _takeHeld(bytes32 channelId, Channel storage channel) private returns (uint128 amount) {
        amount = _held(channel);
        if (amount == 0) revert NothingHeld(channelId);
        channel.heldMoneyLeft = true;
    }

    function _held(Channel storage channel) private view returns (uint128) {
        return channel.disputeWindow == 0 || channel.heldMoneyLeft ? 0 : channel.settled;
    }

    function _heldUntil(Channel storage channel) private view returns (uint64) {
        uint64 finalizedAt = channel.finalizedAt;
        return finalizedAt == 0 ? 0 : finalizedAt + channel.disputeWindow;
    }

    /// @dev Terms behind a hash never change, so neither does the answer.
    function _requirePayeeOrOperator(bytes32 channelId, Channel storage channel) private view {
        if (msg.sender == channel.payee) return;
        bytes32 termsHash = channel.termsHash;
        if (termsHash == 0 || msg.sender != registry.operatorOf(termsHash)) {
            revert NotPayeeOrOperator(channelId, msg.sender);
        }
    }
}
