// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IServiceRegistry, Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

contract ServiceRegistryTest is PaymentFixture {
    string private constant _URI = "https://service.example/card.json";

    function test_services_are_numbered_from_one_in_order_of_registration() public {
        vm.assertEq(serviceId, 1);
        (uint256 second,) = _register(_terms(false));
        vm.assertEq(second, 2);
        vm.assertEq(registry.serviceCount(), 2);
    }

    function test_registration_says_what_was_registered() public {
        Terms memory terms = _terms(true);
        bytes32 hash = registry.computeTermsHash(2, terms);
        vm.expectEmit(address(registry));
        emit IServiceRegistry.ServiceRegistered(2, hash, operator, terms.descriptorHash, _URI);
        _register(terms);
    }

    function test_terms_can_be_read_back_whole_under_their_hash() public {
        Terms memory terms = _terms(true);
        terms.arbitrator = thief;
        terms.rulingPeriod = 7 days;
        terms.disputeBond = 5_000_000;
        (uint256 id, bytes32 hash) = _register(terms);
        (uint256 foundId, Terms memory found) = registry.terms(hash);
        vm.assertEq(foundId, id);
        vm.assertEq(keccak256(abi.encode(found)), keccak256(abi.encode(terms)));
        vm.assertEq(keccak256(abi.encode(block.chainid, address(registry), id, terms)), hash);
        (address foundOperator, address foundPayee, address foundToken, bool commitRequired, uint32 disputeWindow) =
            registry.paymentTerms(hash);
        vm.assertEq(foundOperator, terms.operator);
        vm.assertEq(foundPayee, terms.payee);
        vm.assertEq(foundToken, terms.token);
        vm.assertEq(commitRequired, true);
        vm.assertEq(disputeWindow, 0);
    }

    function test_an_unknown_hash_reads_as_nothing() public view {
        (uint256 id, Terms memory found) = registry.terms(keccak256("nothing"));
        vm.assertEq(id, 0);
        vm.assertEq(found.operator, address(0));
    }

    function test_an_update_changes_what_is_current_and_keeps_the_old_terms_readable() public {
        Terms memory changed = _terms(false);
        bytes32 expected = registry.computeTermsHash(serviceId, changed);
        vm.expectEmit(address(registry));
        emit IServiceRegistry.ServiceUpdated(serviceId, expected, operator, termsHash, changed.descriptorHash, _URI);
        vm.prank(operator);
        registry.update(serviceId, changed, _URI);

        vm.assertEq(registry.currentTerms(serviceId), expected);
        (uint256 id, Terms memory old) = registry.terms(termsHash);
        vm.assertEq(id, serviceId);
        vm.assertTrue(old.commitRequired);
    }

    function test_a_service_can_go_back_to_terms_it_had_before() public {
        vm.startPrank(operator);
        registry.update(serviceId, _terms(false), _URI);
        registry.update(serviceId, _terms(true), _URI);
        vm.stopPrank();
        vm.assertEq(registry.currentTerms(serviceId), termsHash);
    }

    function test_a_retired_service_stays_retired_and_its_terms_readable() public {
        vm.expectEmit(address(registry));
        emit IServiceRegistry.ServiceRetired(serviceId, termsHash, operator);
        vm.startPrank(operator);
        registry.retire(serviceId);
        vm.assertEq(registry.currentTerms(serviceId), bytes32(0));
        (uint256 id,) = registry.terms(termsHash);
        vm.assertEq(id, serviceId);

        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.ServiceNotActive.selector, serviceId));
        registry.update(serviceId, _terms(true), _URI);
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.ServiceNotActive.selector, serviceId));
        registry.retire(serviceId);
        vm.stopPrank();
    }

    function test_an_unknown_service_cannot_be_updated() public {
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.ServiceNotActive.selector, 99));
        registry.update(99, _terms(true), _URI);
    }

    function test_nobody_registers_in_anothers_name() public {
        vm.prank(thief);
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.NotOperator.selector, operator, thief));
        registry.register(_terms(true), _URI);
    }

    function test_only_the_operator_updates_and_retires() public {
        Terms memory stolen = _terms(true);
        stolen.operator = thief;
        vm.startPrank(thief);
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.NotOperator.selector, operator, thief));
        registry.update(serviceId, stolen, _URI);
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.NotOperator.selector, operator, thief));
        registry.retire(serviceId);
        vm.stopPrank();
    }

    function test_an_update_cannot_give_the_service_to_another_operator() public {
        Terms memory given = _terms(true);
        given.operator = thief;
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.NotOperator.selector, thief, operator));
        registry.update(serviceId, given, _URI);
    }

    function test_payee_token_and_receipt_signer_must_be_given() public {
        Terms memory terms = _terms(true);
        terms.payee = address(0);
        _refused(terms, abi.encodeWithSelector(IServiceRegistry.ZeroAddress.selector, "payee"));
        terms = _terms(true);
        terms.token = address(0);
        _refused(terms, abi.encodeWithSelector(IServiceRegistry.ZeroAddress.selector, "token"));
        terms = _terms(true);
        terms.receiptSigner = address(0);
        _refused(terms, abi.encodeWithSelector(IServiceRegistry.ZeroAddress.selector, "receiptSigner"));
    }

    function test_a_dispute_window_lies_between_an_hour_and_thirty_days() public {
        Terms memory terms = _terms(true);
        terms.disputeBond = 1;
        terms.disputeWindow = 1 hours - 1;
        _refused(terms, _windowOutOfRange(terms.disputeWindow));
        terms.disputeWindow = 30 days + 1;
        _refused(terms, _windowOutOfRange(terms.disputeWindow));
    }

    function test_a_dispute_window_needs_commit_required_and_a_bond() public {
        Terms memory terms = _terms(false);
        terms.disputeWindow = 1 days;
        terms.disputeBond = 1;
        _refused(terms, abi.encodeWithSelector(IServiceRegistry.DisputeWindowNeedsCommit.selector));
        terms = _terms(true);
        terms.disputeWindow = 1 days;
        _refused(terms, abi.encodeWithSelector(IServiceRegistry.DisputeWindowNeedsBond.selector));
    }

    function test_a_dispute_window_lies_between_one_hour_and_thirty_days() public {
        Terms memory terms = _terms(true);
        terms.disputeBond = 1;
        terms.disputeWindow = 1 hours;
        (, bytes32 hash) = _register(terms);
        (,,,, uint32 window) = registry.paymentTerms(hash);
        vm.assertEq(window, 1 hours);
        terms.disputeWindow = 30 days;
        (, hash) = _register(terms);
        (,,,, window) = registry.paymentTerms(hash);
        vm.assertEq(window, 30 days);
    }

    function test_a_ruling_period_lies_between_one_and_thirty_days_where_somebody_rules() public {
        Terms memory terms = _terms(true);
        terms.arbitrator = thief;
        terms.rulingPeriod = 1 days - 1;
        _refused(terms, _rulingPeriodOutOfRange(terms.rulingPeriod));
        terms.rulingPeriod = 30 days + 1;
        _refused(terms, _rulingPeriodOutOfRange(terms.rulingPeriod));
        terms.rulingPeriod = 1 days;
        _register(terms);
        terms.rulingPeriod = 30 days;
        _register(terms);
    }

    function test_a_descriptor_uri_has_at_most_2048_bytes() public {
        vm.startPrank(operator);
        registry.register(_terms(true), string(new bytes(2048)));
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.DescriptorURITooLong.selector, 2049, 2048));
        registry.register(_terms(true), string(new bytes(2049)));
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.DescriptorURITooLong.selector, 2049, 2048));
        registry.update(serviceId, _terms(true), string(new bytes(2049)));
        vm.stopPrank();
    }

    function test_updates_are_validated_like_registrations() public {
        Terms memory terms = _terms(true);
        terms.payee = address(0);
        vm.prank(operator);
        vm.expectRevert(abi.encodeWithSelector(IServiceRegistry.ZeroAddress.selector, "payee"));
        registry.update(serviceId, terms, _URI);
    }

    function _refused(Terms memory terms, bytes memory refusal) private {
        vm.prank(operator);
        vm.expectRevert(refusal);
        registry.register(terms, _URI);
    }

    function _windowOutOfRange(uint32 given) private pure returns (bytes memory) {
        return abi.encodeWithSelector(
            IServiceRegistry.DisputeWindowOutOfRange.selector, given, uint32(1 hours), uint32(30 days)
        );
    }

    function _rulingPeriodOutOfRange(uint32 given) private pure returns (bytes memory) {
        return abi.encodeWithSelector(
            IServiceRegistry.RulingPeriodOutOfRange.selector, given, uint32(1 days), uint32(30 days)
        );
    }
}
