// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DevToken} from "../../src/DevToken.sol";
import {Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {RatingRegistry} from "../../src/RatingRegistry.sol";
import {ServiceRegistry} from "../../src/ServiceRegistry.sol";
import {TestBase} from "../base/TestBase.sol";

/// @notice Payers who open, end and rate sessions of two services in two tokens, an operator that also pays itself and
/// now and then changes its token, and a thief who rates what is not its own.
contract RatingRegistryHandler is TestBase {
    /// @notice A session, and what was thought of it.
    struct Rating {
        bytes32 channelId;
        uint256 serviceId;
        address payer;
        address token;
        uint128 captured;
        bool ended;
        bool rated;
        uint8 score;
    }

    bytes32 private constant _VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 cumulativeAmount)");
    uint128 private constant _DEPOSIT = 1e12;
    uint256 private constant _SERVICE_COUNT = 2;
    uint256 private constant _MAX_SESSIONS = 40;
    /// @dev One key signs for all payers.
    uint256 private constant _KEY = 0xa11ce;

    RatingRegistry public immutable ratings;
    PaymentManager public immutable manager;

    DevToken[2] private _tokens = [new DevToken(), new DevToken()];
    ServiceRegistry private _registry = new ServiceRegistry();
    address private _operator = address(0x0123456789012345678901234567890123456789);
    address private _thief = address(0x6666666666666666666666666666666666666666);
    address[3] private _payers = [vm.addr(_KEY), address(0xb0b), _operator];
    Rating[] private _sessions;

    constructor() {
        manager = new PaymentManager(_registry, 900);
        ratings = new RatingRegistry(manager);
        for (uint256 i = 0; i < _payers.length; ++i) {
            for (uint256 j = 0; j < _tokens.length; ++j) {
                _tokens[j].mint(_payers[i], type(uint96).max);
                vm.prank(_payers[i]);
                _tokens[j].approve(address(manager), type(uint256).max);
            }
        }
        for (uint256 i = 0; i < _SERVICE_COUNT; ++i) {
            vm.prank(_operator);
            _registry.register(_terms(i), "");
        }
    }

    function open(uint256 who, uint256 serviceSeed) external {
        if (_sessions.length == _MAX_SESSIONS) return;
        uint256 serviceId = 1 + serviceSeed % _SERVICE_COUNT;
        bytes32 termsHash = _registry.currentTerms(serviceId);
        (,, address token,,) = _registry.paymentTerms(termsHash);
        address payer = _payers[who % _payers.length];
        bytes32 nonce = bytes32(_sessions.length);
        vm.prank(payer);
        bytes32 id = manager.openSession(serviceId, termsHash, _DEPOSIT, nonce, _payers[0], bytes32(0));
        _sessions.push(Rating(id, serviceId, payer, token, 0, false, false, 0));
    }

    function end(uint256 which, uint128 capture) external {
        if (_sessions.length == 0) return;
        Rating storage session = _sessions[which % _sessions.length];
        if (session.ended) return;
        // A quarter of them costs nothing.
        capture = capture % 4 == 0 ? 0 : _bound128(capture, 1, _DEPOSIT);
        bytes memory voucher = _voucher(session.channelId, capture);
        vm.prank(_operator);
        manager.settleSession(Settlement(session.channelId, capture, capture, 0, bytes32(0), voucher));
        (session.captured, session.ended) = (capture, true);
    }

    /// @notice The payer rates; all that must not count is expected to fail, a second rating too.
    function rate(uint256 which, uint8 score) external {
        if (_sessions.length == 0) return;
        Rating storage session = _sessions[which % _sessions.length];
        bool counts = session.ended && !session.rated && session.captured != 0 && session.payer != _operator;
        counts = counts && score <= 100;
        if (!counts) vm.expectRevert();
        vm.prank(session.payer);
        ratings.rate(session.channelId, score, "");
        if (counts) (session.rated, session.score) = (true, score);
    }

    /// @notice `rate` by a score in the range, so that most of them count.
    function rateWithinRange(uint256 which, uint8 score) external {
        this.rate(which, score % 101);
    }

    function rateAnothers(uint256 which, uint8 score) external {
        if (_sessions.length == 0) return;
        Rating storage session = _sessions[which % _sessions.length];
        vm.expectRevert();
        vm.prank(_thief);
        ratings.rate(session.channelId, score % 101, "");
    }

    function changeToken(uint256 serviceSeed, uint256 tokenSeed) external {
        vm.prank(_operator);
        _registry.update(1 + serviceSeed % _SERVICE_COUNT, _terms(tokenSeed % 2), "");
    }

    function sessions() external view returns (Rating[] memory) {
        return _sessions;
    }

    function tokenAt(uint256 index) external view returns (address) {
        return address(_tokens[index]);
    }

    function _terms(uint256 tokenIndex) private view returns (Terms memory terms) {
        (terms.operator, terms.payee, terms.receiptSigner) = (_operator, _operator, _operator);
        terms.token = address(_tokens[tokenIndex]);
    }

    function _voucher(bytes32 id, uint128 amount) private view returns (bytes memory) {
        bytes32 structHash = keccak256(abi.encode(_VOUCHER_TYPEHASH, id, amount));
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", manager.domainSeparator(), structHash));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(_KEY, digest);
        return abi.encodePacked(r, s, v);
    }
}
