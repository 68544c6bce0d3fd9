// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DevToken} from "../../src/DevToken.sol";
import {SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {ServiceRegistry} from "../../src/ServiceRegistry.sol";
import {TestBase} from "./TestBase.sol";

/// @notice A registry, a payment manager, a token, and the people who use them.
abstract contract PaymentFixture is TestBase {
    uint64 internal constant GRACE = 900;
    uint128 internal constant DEPOSIT = 1_000_000;
    bytes32 internal constant ROOT = keccak256("a root over three calls");
    bytes32 internal constant VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 cumulativeAmount)");

    // Throw-away keys.
    uint256 internal constant CLIENT_KEY = 0x1111111111111111111111111111111111111111111111111111111111111111;
    uint256 internal constant DELEGATE_KEY = 0x3333333333333333333333333333333333333333333333333333333333333333;
    uint256 internal constant THIEF_KEY = 0x4444444444444444444444444444444444444444444444444444444444444444;

    address internal client = vm.addr(CLIENT_KEY);
    address internal thief = vm.addr(THIEF_KEY);
    address internal operator = address(0x0123456789012345678901234567890123456789);
    address internal payee = address(0x9876543210987654321098765432109876543210);
    address internal receiptSigner = address(0x5555555555555555555555555555555555555555);

    ServiceRegistry internal registry;
    PaymentManager internal manager;
    DevToken internal token;
    uint256 internal serviceId;
    bytes32 internal termsHash;

    function setUp() public virtual {
        vm.warp(1_800_000_000);
        registry = new ServiceRegistry();
        manager = new PaymentManager(registry, GRACE);
        token = new DevToken();
        _fund(client);
        (serviceId, termsHash) = _register(_terms(true));
    }

    function _fund(address owner) internal {
        token.mint(owner, 1000 * uint256(DEPOSIT));
        vm.prank(owner);
        token.approve(address(manager), type(uint256).max);
    }

    function _terms(bool commitRequired) internal view returns (Terms memory terms) {
        return _termsIn(address(token), commitRequired);
    }

    function _termsIn(address token_, bool commitRequired) internal view returns (Terms memory terms) {
        terms.operator = operator;
        terms.payee = payee;
        terms.token = token_;
        terms.receiptSigner = receiptSigner;
        terms.descriptorHash = keccak256("a service card");
        terms.commitRequired = commitRequired;
    }

    function _register(Terms memory terms) internal returns (uint256 id, bytes32 hash) {
        vm.prank(terms.operator);
        id = registry.register(terms, "https://service.example/card.json");
        hash = registry.currentTerms(id);
    }

    function _open() internal returns (bytes32 channelId) {
        return _open(keccak256("nonce"));
    }

    function _open(bytes32 nonce) internal returns (bytes32 channelId) {
        return _openFor(client, serviceId, termsHash, nonce, address(0));
    }

    function _openFor(address payer, uint256 id, bytes32 hash, bytes32 nonce, address authorizedSigner)
        internal
        returns (bytes32 channelId)
    {
        vm.prank(payer);
        return manager.openSession(id, hash, DEPOSIT, nonce, authorizedSigner, bytes32(0));
    }

    /// @dev A session of somebody new, who keeps `left` in the token.
    function _openForNewPayer(uint256 key, uint256 left) internal returns (bytes32 channelId) {
        address payer = vm.addr(key);
        token.mint(payer, DEPOSIT + left);
        vm.prank(payer);
        token.approve(address(manager), type(uint256).max);
        return _openFor(payer, serviceId, termsHash, keccak256("nonce"), address(0));
    }

    function _openPlain() internal returns (bytes32 channelId) {
        vm.prank(client);
        return manager.open(payee, address(token), DEPOSIT, keccak256("salt"), address(0));
    }

    function _openWithoutCommit() internal returns (bytes32 channelId) {
        (uint256 id, bytes32 hash) = _register(_terms(false));
        return _openFor(client, id, hash, keccak256("nonce"), address(0));
    }

    function _commit(bytes32 channelId) internal {
        vm.prank(operator);
        manager.commitResults(channelId, ROOT, 3);
    }

    function _digest(bytes32 channelId, uint128 amount) internal view returns (bytes32) {
        bytes32 structHash = keccak256(abi.encode(VOUCHER_TYPEHASH, channelId, amount));
        return keccak256(abi.encodePacked(hex"1901", manager.domainSeparator(), structHash));
    }

    function _sign(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function _voucher(bytes32 channelId, uint128 amount) internal view returns (bytes memory) {
        return _sign(CLIENT_KEY, _digest(channelId, amount));
    }

    function _settlement(bytes32 channelId, uint128 capture) internal view returns (Settlement memory) {
        return Settlement({
            channelId: channelId,
            voucherAmount: capture,
            capture: capture,
            callCount: 3,
            root: ROOT,
            signature: _voucher(channelId, capture)
        });
    }

    function _view(bytes32 channelId) internal view returns (SessionView memory) {
        return manager.sessionOfChannel(channelId);
    }
}
