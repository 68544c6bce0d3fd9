// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {ServiceRegistry} from "../../src/ServiceRegistry.sol";
import {TestBase} from "../base/TestBase.sol";

/// @notice Operators who register services, change their terms, also back to former ones, and retire them, and a thief who
/// tries the same with what is not its own.
contract ServiceRegistryHandler is TestBase {
    /// @notice A service as the books have it; `current` is zero once it is retired.
    struct Service {
        address operator;
        bytes32 current;
    }

    /// @notice Terms that were in force once.
    struct Known {
        bytes32 termsHash;
        uint256 serviceId;
        Terms terms;
    }

    uint256 private constant _MAX_SERVICES = 12;
    uint256 private constant _CARDS = 4;

    ServiceRegistry public immutable registry = new ServiceRegistry();

    address[3] private _operators = [address(0xa11ce), address(0xb0b), address(0xca401)];
    address private _thief = address(0x6666666666666666666666666666666666666666);
    Service[] private _services;
    Known[] private _known;
    mapping(bytes32 termsHash => bool isKnown) private _isKnown;

    function register(uint256 who, uint256 card) external {
        if (_services.length == _MAX_SERVICES) return;
        Terms memory terms = _terms(_operators[who % _operators.length], card);
        vm.prank(terms.operator);
        uint256 serviceId = registry.register(terms, "");
        _services.push(Service(terms.operator, bytes32(0)));
        vm.assertEq(serviceId, _services.length);
        _enter(serviceId, terms);
    }

    /// @notice Few cards, so that former terms come back. A service that is retired, stays so.
    function update(uint256 which, uint256 card) external {
        if (_services.length == 0) return;
        uint256 serviceId = 1 + which % _services.length;
        Service storage service = _services[serviceId - 1];
        Terms memory terms = _terms(service.operator, card);
        bool counts = service.current != 0;
        if (!counts) vm.expectRevert();
        vm.prank(service.operator);
        registry.update(serviceId, terms, "");
        if (counts) _enter(serviceId, terms);
    }

    function retire(uint256 which) external {
        if (_services.length == 0) return;
        uint256 serviceId = 1 + which % _services.length;
        Service storage service = _services[serviceId - 1];
        if (service.current == 0) vm.expectRevert();
        vm.prank(service.operator);
        registry.retire(serviceId);
        service.current = 0;
    }

    /// @notice Another's service, in the thief's own name and in the operator's.
    function steal(uint256 which, uint256 card, bool inItsName) external {
        if (_services.length == 0) return;
        uint256 serviceId = 1 + which % _services.length;
        address named = inItsName ? _thief : _services[serviceId - 1].operator;
        vm.startPrank(_thief);
        vm.expectRevert();
        registry.update(serviceId, _terms(named, card), "");
        vm.expectRevert();
        registry.retire(serviceId);
        vm.stopPrank();
    }

    function services() external view returns (Service[] memory) {
        return _services;
    }

    function known() external view returns (Known[] memory) {
        return _known;
    }

    function _enter(uint256 serviceId, Terms memory terms) private {
        bytes32 termsHash = registry.computeTermsHash(serviceId, terms);
        _services[serviceId - 1].current = termsHash;
        if (_isKnown[termsHash]) return;
        _isKnown[termsHash] = true;
        _known.push(Known(termsHash, serviceId, terms));
    }

    function _terms(address operator, uint256 card) private pure returns (Terms memory terms) {
        (terms.operator, terms.payee, terms.receiptSigner) = (operator, operator, operator);
        (terms.token, terms.descriptorHash) = (address(0x70ce17), bytes32(1 + card % _CARDS));
    }
}
