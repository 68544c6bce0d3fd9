// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";

contract RegistryFuzzTest is PaymentFixture {
    function testFuzz_terms_are_taken_exactly_where_the_protocol_allows_them(
        uint8 missing,
        bool ruled,
        uint32 rulingPeriod,
        bool windowed
    ) public {
        Terms memory terms = _terms(true);
        missing %= 8;
        if (missing == 0) terms.operator = address(0);
        if (missing == 1) terms.payee = address(0);
        if (missing == 2) terms.token = address(0);
        if (missing == 3) terms.receiptSigner = address(0);
        if (ruled) terms.arbitrator = thief;
        terms.rulingPeriod = uint32(_bound(rulingPeriod, 0, 40 days));
        terms.disputeWindow = windowed ? 1 days : 0;
        terms.disputeBond = 1;
        bool periodAllowed = terms.rulingPeriod >= 1 days && terms.rulingPeriod <= 30 days;
        bool allowed = missing > 3 && (!ruled || periodAllowed);
        vm.prank(operator);
        if (!allowed) vm.expectRevert();
        registry.register(terms, "");
        vm.assertEq(registry.serviceCount(), allowed ? 2 : 1);
    }

    function testFuzz_every_terms_ever_registered_stay_readable_whatever_comes_after(
        bytes32[8] calldata cards,
        bool retire
    ) public {
        bytes32[8] memory hashes;
        vm.startPrank(operator);
        for (uint256 i = 0; i < cards.length; ++i) {
            registry.update(serviceId, _with(cards[i]), "");
            hashes[i] = registry.currentTerms(serviceId);
        }
        if (retire) registry.retire(serviceId);
        vm.stopPrank();
        for (uint256 i = 0; i < cards.length; ++i) {
            (uint256 id, Terms memory found) = registry.terms(hashes[i]);
            vm.assertEq(id, serviceId);
            vm.assertEq(keccak256(abi.encode(found)), keccak256(abi.encode(_with(cards[i]))));
            vm.assertEq(registry.computeTermsHash(id, found), hashes[i]);
        }
    }

    function testFuzz_each_member_of_the_terms_changes_their_hash(uint8 member, uint128 change) public view {
        Terms memory terms = _terms(true);
        bytes32 before = registry.computeTermsHash(1, terms);
        change = _bound128(change, 1, 1e9);
        address other = address(uint160(change));
        member %= 11;
        uint256 id = 1;
        if (member == 0) terms.operator = other;
        if (member == 1) terms.payee = other;
        if (member == 2) terms.token = other;
        if (member == 3) terms.receiptSigner = other;
        if (member == 4) terms.arbitrator = other;
        if (member == 5) terms.descriptorHash = bytes32(uint256(change));
        if (member == 6) terms.commitRequired = false;
        // forge-lint: disable-next-line(unsafe-typecast)
        if (member == 7) terms.disputeWindow = uint32(change);
        // forge-lint: disable-next-line(unsafe-typecast)
        if (member == 8) terms.rulingPeriod = uint32(change);
        if (member == 9) terms.disputeBond = change;
        if (member == 10) id = 1 + uint256(change);
        vm.assertTrue(registry.computeTermsHash(id, terms) != before);
    }

    function _with(bytes32 card) private view returns (Terms memory terms) {
        terms = _terms(true);
        terms.descriptorHash = card;
    }
}
