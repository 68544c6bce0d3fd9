// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {ServiceRegistry} from "../../src/ServiceRegistry.sol";
import {TestBase} from "../base/TestBase.sol";
import {ServiceRegistryHandler} from "./ServiceRegistryHandler.sol";

/// @notice Terms that were in force once can be read for ever as they were, and only a service's operator says which ones
/// are in force.
contract ServiceRegistryInvariantTest is TestBase {
    ServiceRegistryHandler private _handler;
    ServiceRegistry private _registry;

    function setUp() public {
        _handler = new ServiceRegistryHandler();
        _registry = _handler.registry();
        _target(address(_handler));
    }

    function invariant_a_service_has_the_terms_that_its_operator_gave_it_last_or_none() public view {
        ServiceRegistryHandler.Service[] memory services = _handler.services();
        vm.assertEq(_registry.serviceCount(), services.length);
        for (uint256 i = 0; i < services.length; ++i) {
            vm.assertEq(_registry.currentTerms(i + 1), services[i].current);
            if (services[i].current == 0) continue;
            vm.assertEq(_registry.operatorOf(services[i].current), services[i].operator);
        }
        vm.assertEq(_registry.currentTerms(0), bytes32(0));
        vm.assertEq(_registry.currentTerms(services.length + 1), bytes32(0));
    }

    function invariant_terms_that_were_in_force_never_change() public view {
        ServiceRegistryHandler.Known[] memory known = _handler.known();
        for (uint256 i = 0; i < known.length; ++i) {
            (uint256 serviceId, Terms memory terms) = _registry.terms(known[i].termsHash);
            vm.assertEq(serviceId, known[i].serviceId);
            vm.assertEq(keccak256(abi.encode(terms)), keccak256(abi.encode(known[i].terms)));
            vm.assertEq(_registry.computeTermsHash(serviceId, terms), known[i].termsHash);
        }
    }
}
