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
    /// @dev What a session's terms say (payee, token, operator) is read from the registry by their hash, which can never
    /// mean anything else, and is not stored again. Room for a dispute hold: what is held will be `settled`, its clock
    /// starts at `finalizedAt`, its length is the terms', so that its state fits the 112 bits free beside that.
    struct Channel {
        address payer;
        uint48 sessionId;
        uint40 openedAt;
        bool commitRequired;
        // slot
        uint128 deposit;
        uint128 settled;
        // slot
        bytes32 termsHash; // zero: a plain channel, whose parties are in `_plainParties`
        // slot
        bytes32 root;
        // slot
        uint64 callCount;
        uint40 closeRequestedAt;
        uint40 finalizedAt;
        // slot
        address authorizedSigner;
    }

    struct PlainParties {
        address payee;
        address token;
    }

    struct Parties {
        address operator;
        address payee;
        address token;
    }

    uint64 private constant _MIN_GRACE_PERIOD = 900 seconds;
    uint64 private constant _MAX_GRACE_PERIOD = 30 days;
    bytes32 private constant _VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 cumulativeAmount)");

    /// @inheritdoc IEscrow
    uint64 public immutable override gracePeriodSeconds;

    uint256 internal _channelCount;
    mapping(bytes32 channelId => Channel channel) internal _channels;
    mapping(uint256 sessionId => bytes32 channelId) internal _channelIds;
    mapping(bytes32 channelId => PlainParties parties) private _plainParties;

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
        uint256 sessionId = _create(channelId, deposit, authorizedSigner, false);
        _plainParties[channelId] = PlainParties({payee: payee, token: token});
        emit ChannelOpened(sessionId, channelId, msg.sender, payee, token, deposit, salt, authorizedSigner);
        TokenTransfer.pullExactly(IERC20(token), msg.sender, deposit);
    }

    /// @inheritdoc IEscrow
    function topUp(bytes32 channelId, uint128 additionalDeposit) external override nonReentrant {
        Channel storage channel = _openChannelOfPayer(channelId);
        if (additionalDeposit == 0) revert ZeroDeposit();
        uint128 deposit = channel.deposit;
        if (additionalDeposit > type(uint128).max - deposit) {
            revert DepositOverflow(channelId, deposit, additionalDeposit);
        }
        deposit += additionalDeposit;
        channel.deposit = deposit;
        emit ToppedUp(channelId, additionalDeposit, deposit);
        if (channel.closeRequestedAt != 0) {
            channel.closeRequestedAt = 0;
            emit CloseCancelled(channelId);
        }
        TokenTransfer.pullExactly(IERC20(_partiesOf(channelId, channel).token), msg.sender, additionalDeposit);
    }

    /// @inheritdoc IEscrow
    function settle(bytes32 channelId, uint128 cumulativeAmount, bytes calldata signature)
        external
        override
        nonReentrant
    {
        (Channel storage channel, Parties memory parties) = _openChannelOfPayee(channelId);
        uint128 settled = channel.settled;
        if (cumulativeAmount <= settled) revert AmountNotIncreasing(channelId, settled, cumulativeAmount);
        uint128 delta = _capture(channelId, channel, cumulativeAmount, cumulativeAmount, signature);
        _payOut(channelId, parties.token, parties.payee, delta);
    }

    /// @inheritdoc IEscrow
    function close(bytes32 channelId, uint128 cumulativeAmount, bytes calldata signature)
        external
        override
        nonReentrant
    {
        (Channel storage channel, Parties memory parties) = _openChannelOfPayee(channelId);
        uint128 delta = 0;
        if (cumulativeAmount > channel.settled) {
            delta = _capture(channelId, channel, cumulativeAmount, cumulativeAmount, signature);
        }
        _finalize(channelId, channel, parties, delta);
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
        _finalize(channelId, channel, _partiesOf(channelId, channel), 0);
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

    function _create(bytes32 channelId, uint128 deposit, address authorizedSigner, bool commitRequired)
        internal
        returns (uint256 sessionId)
    {
        Channel storage channel = _channels[channelId];
        if (channel.sessionId != 0) revert ChannelAlreadyExists(channelId);
        if (deposit == 0) revert ZeroDeposit();
        sessionId = ++_channelCount;
        _channelIds[sessionId] = channelId;
        channel.payer = msg.sender;
        // A session costs more than 100,000 gas: 48 bits of them do not happen.
        // forge-lint: disable-next-line(unsafe-typecast)
        channel.sessionId = uint48(sessionId);
        channel.openedAt = uint40(block.timestamp);
        channel.commitRequired = commitRequired;
        channel.deposit = deposit;
        if (authorizedSigner != address(0)) channel.authorizedSigner = authorizedSigner;
    }

    /// @dev The only place where the settled amount rises. `capture` is above what is settled.
    function _capture(
        bytes32 channelId,
        Channel storage channel,
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
        delta = capture - channel.settled;
        channel.settled = capture;
        emit Settled(channelId, capture, delta);
    }

    /// @dev The only place where a channel ends. Both transfers come after all state is written, and neither can make
    /// the other fail.
    function _finalize(bytes32 channelId, Channel storage channel, Parties memory parties, uint128 delta) internal {
        uint128 settled = channel.settled;
        uint128 refund = channel.deposit - settled;
        channel.finalizedAt = uint40(block.timestamp);
        emit Finalized(channelId, channel.sessionId, settled, refund);
        _payOut(channelId, parties.token, parties.payee, delta);
        _payOut(channelId, parties.token, channel.payer, refund);
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

    function _openChannelOfPayee(bytes32 channelId)
        private
        view
        returns (Channel storage channel, Parties memory parties)
    {
        channel = _existing(channelId);
        parties = _partiesOf(channelId, channel);
        if (parties.payee != msg.sender) revert NotPayee(channelId, msg.sender);
        if (channel.finalizedAt != 0) revert ChannelFinalized(channelId);
    }

    /// @dev Who a channel's money is for. Overridden for channels that have terms.
    function _partiesOf(bytes32 channelId, Channel storage) internal view virtual returns (Parties memory) {
        PlainParties storage plain = _plainParties[channelId];
        return Parties({operator: address(0), payee: plain.payee, token: plain.token});
    }

    function _voucherSigner(Channel storage channel) private view returns (address) {
        address signer = channel.authorizedSigner;
        return signer == address(0) ? channel.payer : signer;
    }

    function _voucherDigest(bytes32 channelId, uint128 cumulativeAmount) private view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(_VOUCHER_TYPEHASH, channelId, cumulativeAmount)));
    }
}
