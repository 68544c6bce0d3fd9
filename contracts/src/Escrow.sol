// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

import {IEscrow} from "./interfaces/IEscrow.sol";
import {ChannelIds} from "./libraries/ChannelIds.sol";
import {TokenTransfer} from "./libraries/TokenTransfer.sol";
import {VoucherSignature} from "./libraries/VoucherSignature.sol";
import {Payouts} from "./Payouts.sol";

/// @title Escrow
/// @notice See IEscrow. Keeps all channels and moves all their money; knows of terms only what a channel carries.
abstract contract Escrow is IEscrow, Payouts, EIP712 {
    /// @dev Slots are laid out so that settling writes nothing that opening left zero but the root: a first write costs
    /// 17,100 gas more than a later one, and a session is opened by whoever can wait. Payee and token are copied from
    /// the terms, whose registry would cost 12,000 gas to ask; who the operator is, only an operator needs to know.
    struct Channel {
        address payer;
        uint48 sessionId;
        uint40 closeRequestedAt;
        bool commitRequired;
        // slot
        uint128 deposit;
        uint128 settled;
        // slot: written when the channel ends, together with its history
        address payee;
        uint56 callCount;
        uint40 finalizedAt;
        // slot: written again only when held money leaves
        address token;
        uint40 openedAt;
        uint32 disputeWindow;
        bool heldMoneyLeft;
        // slot
        bytes32 root;
        // slot
        bytes32 termsHash; // zero: a plain channel
        // slot
        address authorizedSigner;
    }

    /// @dev What both kinds of opening have in common; `payer` is not the caller where a relayer sends.
    struct NewChannel {
        address payer;
        address payee;
        address token;
        uint128 deposit;
        address authorizedSigner;
        bytes32 termsHash;
        bool commitRequired;
        uint32 disputeWindow;
    }

    uint64 private constant _MIN_GRACE_PERIOD = 900 seconds;
    uint64 private constant _MAX_GRACE_PERIOD = 30 days;
    bytes32 private constant _VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 cumulativeAmount)");

    /// @inheritdoc IEscrow
    uint64 public immutable override gracePeriodSeconds;

    uint256 internal _channelCount;
    // Written through storage pointers only, which slither does not follow.
    // slither-disable-next-line uninitialized-state
    mapping(bytes32 channelId => Channel channel) internal _channels;
    mapping(uint256 sessionId => bytes32 channelId) internal _channelIds;

    constructor(uint64 gracePeriodSeconds_) EIP712("EVM Payment Channel", "1") {
        if (gracePeriodSeconds_ < _MIN_GRACE_PERIOD || gracePeriodSeconds_ > _MAX_GRACE_PERIOD) {
            revert GracePeriodOutOfRange(gracePeriodSeconds_, _MIN_GRACE_PERIOD, _MAX_GRACE_PERIOD);
        }
        gracePeriodSeconds = gracePeriodSeconds_;
    }

    /// @inheritdoc IEscrow
    function open(address payee, address token, uint128 deposit, bytes32 salt, address authorizedSigner)
        external
        override
        nonReentrant
        returns (bytes32 channelId)
    {
        if (payee == address(0)) revert ZeroPayee();
        channelId = computeChannelId(msg.sender, payee, token, salt, authorizedSigner);
        uint256 sessionId = _create(
            channelId,
            NewChannel({
                payer: msg.sender,
                payee: payee,
                token: token,
                deposit: deposit,
                authorizedSigner: authorizedSigner,
                termsHash: 0,
                commitRequired: false,
                disputeWindow: 0
            })
        );
        emit ChannelOpened(sessionId, channelId, msg.sender, payee, token, deposit, salt, authorizedSigner);
        TokenTransfer.pullExactly(IERC20(token), msg.sender, deposit);
    }

    /// @inheritdoc IEscrow
    function topUp(bytes32 channelId, uint128 additionalDeposit) external override nonReentrant {
        Channel storage channel = _openChannelOfPayer(channelId);
        _addDeposit(channelId, channel, additionalDeposit);
        if (channel.closeRequestedAt != 0) {
            channel.closeRequestedAt = 0;
            emit CloseCancelled(channelId);
        }
        TokenTransfer.pullExactly(IERC20(channel.token), msg.sender, additionalDeposit);
    }

    /// @inheritdoc IEscrow
    function settle(bytes32 channelId, uint128 cumulativeAmount, bytes calldata signature)
        external
        override
        nonReentrant
    {
        Channel storage channel = _openChannelOfPayee(channelId);
        uint128 settled = channel.settled;
        if (cumulativeAmount <= settled) revert AmountNotIncreasing(channelId, settled, cumulativeAmount);
        uint128 delta = _capture(channelId, channel, settled, cumulativeAmount, cumulativeAmount, signature);
        // What is captured under a dispute window stays here until the window is over or a decision splits it.
        if (channel.disputeWindow == 0) _payOut(channelId, channel.token, channel.payee, delta);
    }

    /// @inheritdoc IEscrow
    function close(bytes32 channelId, uint128 cumulativeAmount, bytes calldata signature)
        external
        override
        nonReentrant
    {
        Channel storage channel = _openChannelOfPayee(channelId);
        uint128 settled = channel.settled;
        uint128 delta = 0;
        if (cumulativeAmount > settled) {
            delta = _capture(channelId, channel, settled, cumulativeAmount, cumulativeAmount, signature);
        }
        _finalize(channelId, channel, delta);
    }

    /// @inheritdoc IEscrow
    function requestClose(bytes32 channelId) external override nonReentrant {
        Channel storage channel = _openChannelOfPayer(channelId);
        if (channel.closeRequestedAt != 0) return;
        channel.closeRequestedAt = uint40(block.timestamp);
        emit CloseRequested(channelId, uint64(block.timestamp) + gracePeriodSeconds);
    }

    /// @inheritdoc IEscrow
    function withdraw(bytes32 channelId) external override nonReentrant {
        Channel storage channel = _openChannelOfPayer(channelId);
        uint64 requestedAt = channel.closeRequestedAt;
        if (requestedAt == 0) revert CloseNotReady(channelId, 0);
        uint64 closeableAt = requestedAt + gracePeriodSeconds;
        if (block.timestamp < closeableAt) revert CloseNotReady(channelId, closeableAt);
        _finalize(channelId, channel, 0);
    }

    /// @inheritdoc IEscrow
    function isVoucherValid(bytes32 channelId, uint128 cumulativeAmount, bytes calldata signature)
        external
        view
        override
        returns (bool)
    {
        Channel storage channel = _channels[channelId];
        if (channel.sessionId == 0) return false;
        return VoucherSignature.isValid(_voucherSigner(channel), _voucherDigest(channelId, cumulativeAmount), signature);
    }

    /// @inheritdoc IEscrow
    function domainSeparator() external view override returns (bytes32) {
        return _domainSeparatorV4();
    }

    /// @inheritdoc IEscrow
    function computeChannelId(address payer, address payee, address token, bytes32 salt, address authorizedSigner)
        public
        view
        override
        returns (bytes32)
    {
        return ChannelIds.compute(payer, payee, token, salt, authorizedSigner, address(this));
    }

    function _create(bytes32 channelId, NewChannel memory opening) internal returns (uint256 sessionId) {
        Channel storage channel = _channels[channelId];
        if (channel.sessionId != 0) revert ChannelAlreadyExists(channelId);
        if (opening.deposit == 0) revert ZeroDeposit();
        sessionId = ++_channelCount;
        _channelIds[sessionId] = channelId;
        channel.payer = opening.payer;
        // A session costs more than 100,000 gas: 48 bits of them do not happen.
        // forge-lint: disable-next-line(unsafe-typecast)
        channel.sessionId = uint48(sessionId);
        channel.commitRequired = opening.commitRequired;
        channel.deposit = opening.deposit;
        channel.payee = opening.payee;
        channel.token = opening.token;
        channel.openedAt = uint40(block.timestamp);
        channel.disputeWindow = opening.disputeWindow;
        if (opening.termsHash != 0) channel.termsHash = opening.termsHash;
        if (opening.authorizedSigner != address(0)) channel.authorizedSigner = opening.authorizedSigner;
    }

    function _addDeposit(bytes32 channelId, Channel storage channel, uint128 additionalDeposit) internal {
        if (additionalDeposit == 0) revert ZeroDeposit();
        uint128 deposit = channel.deposit;
        if (additionalDeposit > type(uint128).max - deposit) {
            revert DepositOverflow(channelId, deposit, additionalDeposit);
        }
        deposit += additionalDeposit;
        channel.deposit = deposit;
        emit ToppedUp(channelId, additionalDeposit, deposit);
    }

    /// @dev The only place where the settled amount rises: from `settled`, which it is, to `capture`, which is above it.
    function _capture(
        bytes32 channelId,
        Channel storage channel,
        uint128 settled,
        uint128 capture,
        uint128 voucherAmount,
        bytes calldata signature
    ) internal returns (uint128 delta) {
        uint128 deposit = channel.deposit;
        if (capture > voucherAmount) revert CaptureExceedsVoucher(channelId, voucherAmount, capture);
        if (voucherAmount > deposit) revert AmountExceedsDeposit(channelId, deposit, voucherAmount);
        if (channel.commitRequired && channel.root == 0) revert RootRequired(channelId);
        address signer = _voucherSigner(channel);
        if (!VoucherSignature.isValid(signer, _voucherDigest(channelId, voucherAmount), signature)) {
            revert InvalidSignature(channelId, signer);
        }
        delta = capture - settled;
        channel.settled = capture;
        emit Settled(channelId, capture, delta);
    }

    /// @dev The only place where a channel ends. Both transfers come after all state is written, and neither can make
    /// the other fail.
    function _finalize(bytes32 channelId, Channel storage channel, uint128 delta) internal {
        uint128 settled = channel.settled;
        uint128 refund = channel.deposit - settled;
        (address payer, address token) = (channel.payer, channel.token);
        channel.finalizedAt = uint40(block.timestamp);
        emit Finalized(channelId, channel.sessionId, settled, refund);
        if (channel.disputeWindow == 0) _payOut(channelId, token, channel.payee, delta);
        _payOut(channelId, token, payer, refund);
    }

    function _existing(bytes32 channelId) internal view returns (Channel storage channel) {
        channel = _channels[channelId];
        if (channel.sessionId == 0) revert ChannelNotFound(channelId);
    }

    function _openChannelOfPayer(bytes32 channelId) private view returns (Channel storage channel) {
        channel = _existing(channelId);
        if (channel.payer != msg.sender) revert NotPayer(channelId, msg.sender);
        if (channel.finalizedAt != 0) revert ChannelFinalized(channelId);
    }

    function _openChannelOfPayee(bytes32 channelId) private view returns (Channel storage channel) {
        channel = _existing(channelId);
        if (channel.payee != msg.sender) revert NotPayee(channelId, msg.sender);
        if (channel.finalizedAt != 0) revert ChannelFinalized(channelId);
    }

    function _voucherSigner(Channel storage channel) private view returns (address) {
        address signer = channel.authorizedSigner;
        return signer == address(0) ? channel.payer : signer;
    }

    function _voucherDigest(bytes32 channelId, uint128 cumulativeAmount) private view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(_VOUCHER_TYPEHASH, channelId, cumulativeAmount)));
    }
}
