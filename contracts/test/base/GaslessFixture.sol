// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Authorization} from "../../src/libraries/TokenTransfer.sol";
import {ChannelIds} from "../../src/libraries/ChannelIds.sol";
import {PaymentFixture} from "./PaymentFixture.sol";

/// @notice A payer that signs for its token and sends nothing itself, and a relayer that sends.
abstract contract GaslessFixture is PaymentFixture {
    bytes32 internal constant NONCE = keccak256("nonce");
    bytes32 internal constant SALT = keccak256("top-up salt");
    bytes32 private constant _RECEIVE_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );

    address internal relayer = address(0x1234567890123456789012345678901234567890);

    function setUp() public virtual override {
        super.setUp();
        // Whatever moves, moves by an authorisation.
        vm.prank(client);
        token.approve(address(manager), 0);
    }

    /// @dev The id of a session that is yet to be opened.
    function _idOf(address payer, bytes32 hash, bytes32 nonce, address signer, bytes32 roster)
        internal
        view
        returns (bytes32)
    {
        bytes32 salt = ChannelIds.sessionSalt(nonce, hash, roster);
        return manager.computeChannelId(payer, payee, address(token), salt, signer);
    }

    function _openingNonce(bytes32 channel) internal pure returns (bytes32) {
        return keccak256(abi.encode(keccak256("aioum.openSession"), channel));
    }

    function _topUpNonce(bytes32 channel, uint128 amount, address payer, bytes32 salt) internal pure returns (bytes32) {
        return keccak256(abi.encode(channel, amount, payer, salt));
    }

    /// @dev The client's authorisation to take `value` now or within the hour.
    function _authorize(uint256 value, bytes32 tokenNonce) internal view returns (Authorization memory) {
        return _authorizeBetween(value, tokenNonce, vm.getBlockTimestamp() - 1, vm.getBlockTimestamp() + 1 hours);
    }

    function _authorizeBetween(uint256 value, bytes32 tokenNonce, uint256 validAfter, uint256 validBefore)
        internal
        view
        returns (Authorization memory)
    {
        bytes32 digest = _receiveDigest(client, value, validAfter, validBefore, tokenNonce);
        return Authorization(validAfter, validBefore, _sign(CLIENT_KEY, digest));
    }

    function _receiveDigest(address from, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 tokenNonce)
        internal
        view
        returns (bytes32)
    {
        bytes32 structHash = keccak256(
            abi.encode(_RECEIVE_TYPEHASH, from, address(manager), value, validAfter, validBefore, tokenNonce)
        );
        return keccak256(abi.encodePacked(hex"1901", token.DOMAIN_SEPARATOR(), structHash));
    }

    /// @dev The client's authorisation to open the session of NONCE.
    function _authorizeOpening(uint128 deposit) internal view returns (Authorization memory) {
        return _authorize(deposit, _openingNonce(_idOf(client, termsHash, NONCE, address(0), bytes32(0))));
    }

    function _authorizeTopUp(bytes32 channel, uint128 amount) internal view returns (Authorization memory) {
        return _authorize(amount, _topUpNonce(channel, amount, client, SALT));
    }

    /// @dev Opens the client's session of NONCE by an authorisation.
    function _openGasless() internal returns (bytes32 channel) {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        return _sendOpening(DEPOSIT, authorization);
    }

    function _sendOpening(uint128 deposit, Authorization memory authorization) internal returns (bytes32 channel) {
        vm.prank(relayer);
        return manager.openSessionWithAuthorization(
            client, serviceId, termsHash, deposit, NONCE, address(0), bytes32(0), authorization
        );
    }

    function _sendTopUp(bytes32 channel, uint128 amount, Authorization memory authorization) internal {
        vm.prank(relayer);
        manager.topUpWithAuthorization(channel, amount, SALT, authorization);
    }
}
