// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DevToken} from "../../src/DevToken.sol";
import {IPaymentManager, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {IRatingRegistry, Ratings, WeightedRatings} from "../../src/interfaces/IRatingRegistry.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {RatingRegistry} from "../../src/RatingRegistry.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";
import {Wallet} from "../mocks/Wallets.sol";

contract RatingRegistryTest is PaymentFixture {
    RatingRegistry private _registry;

    function setUp() public override {
        super.setUp();
        _registry = new RatingRegistry(manager);
    }

    function test_it_rates_the_sessions_of_one_payment_manager_that_exists() public {
        vm.assertEq(address(_registry.paymentManager()), address(manager));
        vm.expectRevert(abi.encodeWithSelector(RatingRegistry.PaymentManagerWithoutCode.selector, thief));
        new RatingRegistry(IPaymentManager(thief));
    }

    function test_a_rating_counts_once_plainly_and_once_by_what_the_session_cost() public {
        bytes32 channel = _paid(keccak256("a"), 700);
        vm.assertFalse(_registry.rated(channel));
        vm.expectEmit(address(_registry));
        emit IRatingRegistry.Rated(channel, serviceId, client, 80, address(token), 700, "ipfs://why");
        vm.prank(client);
        _registry.rate(channel, 80, "ipfs://why");
        vm.assertTrue(_registry.rated(channel));
        _assertRatings(serviceId, 1, 80);
        _assertWeighted(serviceId, address(token), 700, 56_000);
    }

    function test_ratings_of_several_sessions_and_payers_add_up() public {
        address other = vm.addr(DELEGATE_KEY);
        _fund(other);
        _rate(_paid(keccak256("a"), 700), 100);
        _rate(_paid(keccak256("b"), 300), 0);
        bytes32 third = _openFor(other, serviceId, termsHash, keccak256("a"), client);
        _end(third, 1);
        vm.prank(other);
        _registry.rate(third, 50, "");
        _assertRatings(serviceId, 3, 150);
        _assertWeighted(serviceId, address(token), 1001, 70_050);
    }

    function test_ratings_of_two_services_are_apart() public {
        (uint256 id, bytes32 hash) = _register(_terms(false));
        bytes32 channel = _openFor(client, id, hash, keccak256("a"), address(0));
        _end(channel, 10);
        _rate(channel, 7);
        _assertRatings(id, 1, 7);
        _assertWeighted(id, address(token), 10, 70);
        _assertRatings(serviceId, 0, 0);
        _assertWeighted(serviceId, address(token), 0, 0);
    }

    function test_amounts_of_two_tokens_do_not_mix_when_a_service_changes_its_token() public {
        _rate(_paid(keccak256("a"), 700), 100);
        address formerToken = address(token);
        token = new DevToken();
        _fund(client);
        Terms memory terms = _terms(true);
        vm.prank(operator);
        registry.update(serviceId, terms, "");
        termsHash = registry.currentTerms(serviceId);
        _rate(_paid(keccak256("b"), 5), 10);
        _assertRatings(serviceId, 2, 110);
        _assertWeighted(serviceId, formerToken, 700, 70_000);
        _assertWeighted(serviceId, address(token), 5, 50);
    }

    function test_a_session_is_rated_once_whatever_the_second_score() public {
        bytes32 channel = _paid(keccak256("a"), 700);
        _rate(channel, 80);
        vm.startPrank(client);
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.AlreadyRated.selector, channel));
        _registry.rate(channel, 80, "");
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.AlreadyRated.selector, channel));
        _registry.rate(channel, 0, "");
        vm.stopPrank();
        _assertRatings(serviceId, 1, 80);
        _assertWeighted(serviceId, address(token), 700, 56_000);
    }

    function test_nobody_but_the_payer_rates() public {
        bytes32 channel = _paid(keccak256("a"), 700);
        address[4] memory others = [thief, operator, payee, receiptSigner];
        for (uint256 i = 0; i < others.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.NotSessionPayer.selector, channel, others[i]));
            vm.prank(others[i]);
            _registry.rate(channel, 80, "");
        }
        vm.assertFalse(_registry.rated(channel));
    }

    function test_an_authorized_signer_spends_but_does_not_rate() public {
        address delegate = vm.addr(DELEGATE_KEY);
        bytes32 channel = _openFor(client, serviceId, termsHash, keccak256("a"), delegate);
        _commit(channel);
        bytes memory voucher = _sign(DELEGATE_KEY, _digest(channel, 9));
        vm.prank(payee);
        manager.close(channel, 9, voucher);
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.NotSessionPayer.selector, channel, delegate));
        vm.prank(delegate);
        _registry.rate(channel, 80, "");
        _rate(channel, 80);
    }

    function test_who_is_paid_or_operates_the_service_does_not_rate_itself() public {
        // The operator pays its own service, and then the payee does.
        address[2] memory selves = [operator, payee];
        for (uint256 i = 0; i < selves.length; ++i) {
            _fund(selves[i]);
            bytes32 channel = _openFor(selves[i], serviceId, termsHash, keccak256("a"), client);
            _end(channel, 700);
            vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.SelfRating.selector, channel, selves[i]));
            vm.prank(selves[i]);
            _registry.rate(channel, 100, "");
        }
        _assertRatings(serviceId, 0, 0);
    }

    function test_a_contract_account_rates_what_it_paid() public {
        Wallet wallet = new Wallet(client);
        token.mint(address(wallet), DEPOSIT);
        wallet.approve(token, address(manager));
        bytes32 channel = wallet.openSession(manager, serviceId, termsHash, DEPOSIT);
        _end(channel, 10);
        vm.prank(address(wallet));
        _registry.rate(channel, 33, "");
        _assertRatings(serviceId, 1, 33);
    }

    function test_neither_unknown_nor_plain_channels_are_rated() public {
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.SessionNotFound.selector, ROOT));
        vm.prank(client);
        _registry.rate(ROOT, 80, "");

        bytes32 channel = _openPlain();
        bytes memory voucher = _voucher(channel, 100);
        vm.prank(payee);
        manager.close(channel, 100, voucher);
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.SessionNotFound.selector, channel));
        vm.prank(client);
        _registry.rate(channel, 80, "");
    }

    function test_a_session_is_rated_only_when_it_is_over() public {
        bytes32 channel = _open();
        _commit(channel);
        bytes memory voucher = _voucher(channel, 100);
        vm.prank(payee);
        manager.settle(channel, 100, voucher);
        vm.startPrank(client);
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.SessionNotFinalized.selector, channel));
        _registry.rate(channel, 80, "");
        manager.requestClose(channel);
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.SessionNotFinalized.selector, channel));
        _registry.rate(channel, 80, "");
        vm.warp(vm.getBlockTimestamp() + GRACE);
        manager.withdraw(channel);
        vm.stopPrank();
        _rate(channel, 80);
        _assertWeighted(serviceId, address(token), 100, 8000);
    }

    function test_a_session_that_cost_nothing_is_not_rated_and_one_that_cost_one_unit_is() public {
        bytes32 channel = _open();
        vm.prank(payee);
        manager.close(channel, 0, "");
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.NothingCaptured.selector, channel));
        vm.prank(client);
        _registry.rate(channel, 0, "");
        _rate(_paid(keccak256("a"), 1), 0);
        _assertRatings(serviceId, 1, 0);
        _assertWeighted(serviceId, address(token), 1, 0);
    }

    function test_a_session_whose_money_is_still_held_is_rated_by_all_that_it_captured() public {
        Terms memory terms = _terms(true);
        (terms.arbitrator, terms.disputeWindow, terms.rulingPeriod, terms.disputeBond) = (thief, 1 hours, 1 days, 1);
        (uint256 id, bytes32 hash) = _register(terms);
        bytes32 channel = _openFor(client, id, hash, keccak256("a"), address(0));
        _end(channel, 700);
        vm.assertEq(_view(channel).held, 700);
        _rate(channel, 10);
        _assertWeighted(id, address(token), 700, 7000);
    }

    function testFuzz_a_score_is_0_to_100(uint8 score) public {
        bytes32 channel = _paid(keccak256("a"), 700);
        if (score > 100) vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.ScoreOutOfRange.selector, score));
        vm.prank(client);
        _registry.rate(channel, score, "");
        vm.assertEq(_registry.rated(channel), score <= 100);
    }

    function test_a_score_is_at_most_100() public {
        bytes32 channel = _paid(keccak256("a"), 700);
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.ScoreOutOfRange.selector, 101));
        vm.prank(client);
        _registry.rate(channel, 101, "");
        _rate(channel, 100);
    }

    function test_the_details_address_has_at_most_2048_bytes() public {
        bytes32 channel = _paid(keccak256("a"), 700);
        vm.expectRevert(abi.encodeWithSelector(IRatingRegistry.DetailURITooLong.selector, 2049, 2048));
        vm.prank(client);
        _registry.rate(channel, 80, string(new bytes(2049)));
        vm.prank(client);
        _registry.rate(channel, 80, string(new bytes(2048)));
        vm.assertTrue(_registry.rated(channel));
    }

    function test_the_largest_amounts_do_not_overflow() public {
        token.mint(client, type(uint128).max - token.balanceOf(client));
        uint128 all = type(uint128).max;
        for (uint256 i = 0; i < 2; ++i) {
            vm.prank(client);
            bytes32 channel =
                manager.openSession(serviceId, termsHash, all, keccak256(abi.encode(i)), address(0), bytes32(0));
            _end(channel, all);
            _rate(channel, 100);
            vm.prank(payee);
            vm.assertTrue(token.transfer(client, all));
        }
        _assertRatings(serviceId, 2, 200);
        _assertWeighted(serviceId, address(token), 2 * uint256(all), 200 * uint256(all));
    }

    function _paid(bytes32 nonce, uint128 amount) private returns (bytes32 channel) {
        channel = _open(nonce);
        _end(channel, amount);
    }

    function _end(bytes32 channel, uint128 amount) private {
        Settlement memory item = _settlement(channel, amount);
        vm.prank(operator);
        manager.settleSession(item);
    }

    function _rate(bytes32 channel, uint8 score) private {
        vm.prank(client);
        _registry.rate(channel, score, "");
    }

    function _assertRatings(uint256 id, uint256 count, uint256 sum) private view {
        Ratings memory ratings = _registry.ratingsOf(id);
        vm.assertEq(ratings.count, count);
        vm.assertEq(ratings.sum, sum);
    }

    function _assertWeighted(uint256 id, address token_, uint256 amount, uint256 weightedSum) private view {
        WeightedRatings memory weighted = _registry.weightedRatingsOf(id, token_);
        vm.assertEq(weighted.amount, amount);
        vm.assertEq(weighted.weightedSum, weightedSum);
    }
}
