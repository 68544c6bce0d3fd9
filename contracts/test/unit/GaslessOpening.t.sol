// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DevToken} from "../../src/DevToken.sol";
import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {IPaymentManager, SessionView} from "../../src/interfaces/IPaymentManager.sol";
import {Authorization} from "../../src/libraries/TokenTransfer.sol";
import {GaslessFixture} from "../base/GaslessFixture.sol";
import {Wallet} from "../mocks/Wallets.sol";

/// @notice Sessions opened and topped up by a payer's signature alone, sent by whoever likes.
contract GaslessOpeningTest is GaslessFixture {
    function test_a_payer_that_sends_nothing_opens_a_session() public {
        uint256 before = token.balanceOf(client);
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        bytes32 expected = _idOf(client, termsHash, NONCE, address(0), bytes32(0));
        vm.expectEmit(address(manager));
        emit IPaymentManager.SessionOpened(
            1, expected, client, serviceId, termsHash, payee, address(token), DEPOSIT, NONCE, address(0), bytes32(0)
        );
        bytes32 channel = _sendOpening(DEPOSIT, authorization);
        vm.assertEq(channel, expected);
        vm.assertEq(before - token.balanceOf(client), DEPOSIT);
        vm.assertEq(token.balanceOf(address(manager)), DEPOSIT);
        vm.assertTrue(token.authorizationState(client, _openingNonce(channel)));

        SessionView memory found = _view(channel);
        vm.assertEq(found.payer, client);
        vm.assertEq(found.deposit, DEPOSIT);
        vm.assertEq(found.termsHash, termsHash);
        vm.assertEq(found.openedAt, vm.getBlockTimestamp());
        vm.assertTrue(found.commitRequired);
    }

    function test_such_a_session_is_one_like_any_other() public {
        bytes32 channel = _openGasless();
        _commit(channel);
        bytes memory voucher = _voucher(channel, 700);
        vm.prank(payee);
        manager.close(channel, 700, voucher);
        vm.assertEq(token.balanceOf(payee), 700);
        vm.assertEq(token.balanceOf(address(manager)), 0);
        vm.assertEq(token.balanceOf(relayer), 0);
    }

    function test_its_id_is_the_one_that_opening_it_oneself_would_give() public {
        bytes32 channel = _openGasless();
        vm.startPrank(client);
        token.approve(address(manager), DEPOSIT);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ChannelAlreadyExists.selector, channel));
        manager.openSession(serviceId, termsHash, DEPOSIT, NONCE, address(0), bytes32(0));
        vm.stopPrank();
    }

    function test_signer_and_roster_are_what_the_payer_chose() public {
        address signer = vm.addr(DELEGATE_KEY);
        bytes32 roster = keccak256("roster");
        bytes32 expected = _idOf(client, termsHash, NONCE, signer, roster);
        Authorization memory authorization = _authorize(DEPOSIT, _openingNonce(expected));
        vm.prank(relayer);
        bytes32 channel = manager.openSessionWithAuthorization(
            client, serviceId, termsHash, DEPOSIT, NONCE, signer, roster, authorization
        );
        vm.assertEq(channel, expected);
        vm.assertEq(_view(channel).authorizedSigner, signer);
    }

    function test_terms_must_be_current() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        vm.prank(operator);
        registry.retire(serviceId);
        vm.expectRevert(
            abi.encodeWithSelector(IPaymentManager.TermsNotCurrent.selector, serviceId, termsHash, bytes32(0))
        );
        _sendOpening(DEPOSIT, authorization);
    }

    function test_a_deposit_of_nothing_is_refused() public {
        Authorization memory authorization = _authorizeOpening(0);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ZeroDeposit.selector));
        _sendOpening(0, authorization);
    }

    function test_the_largest_deposit_is_taken_in_full() public {
        token.mint(client, type(uint128).max);
        Authorization memory authorization = _authorizeOpening(type(uint128).max);
        bytes32 channel = _sendOpening(type(uint128).max, authorization);
        vm.assertEq(_view(channel).deposit, type(uint128).max);
    }

    function test_an_authorisation_works_strictly_between_its_two_times() public {
        uint256 start = vm.getBlockTimestamp();
        bytes32 tokenNonce = _openingNonce(_idOf(client, termsHash, NONCE, address(0), bytes32(0)));
        Authorization memory authorization = _authorizeBetween(DEPOSIT, tokenNonce, start + 100, start + 102);
        bytes memory refusal =
            abi.encodeWithSelector(DevToken.AuthorizationNotValidNow.selector, start + 100, start + 102);
        uint256[2] memory outside = [start + 100, start + 102];
        for (uint256 i = 0; i < outside.length; ++i) {
            vm.warp(outside[i]);
            vm.expectRevert(refusal);
            _sendOpening(DEPOSIT, authorization);
        }
        vm.warp(start + 101);
        _sendOpening(DEPOSIT, authorization);
    }

    function test_a_contract_account_opens_by_the_signature_that_it_takes() public {
        (Wallet wallet, bytes32 tokenNonce) = _wallet();
        Authorization memory authorization = _walletAuthorization(wallet, DEPOSIT, tokenNonce);
        // Not 65 bytes, so the token is asked with the signature as it is.
        authorization.signature = abi.encodePacked(authorization.signature, uint8(1));
        bytes32 channel = _sendWalletOpening(wallet, authorization);
        vm.assertEq(_view(channel).payer, address(wallet));
        vm.assertEq(token.balanceOf(address(manager)), DEPOSIT);
    }

    function test_a_contract_account_with_a_signature_of_65_bytes_opens_too() public {
        (Wallet wallet, bytes32 tokenNonce) = _wallet();
        _sendWalletOpening(wallet, _walletAuthorization(wallet, DEPOSIT, tokenNonce));
        vm.assertEq(token.balanceOf(address(manager)), DEPOSIT);
    }

    function test_a_contract_account_that_refuses_is_not_charged() public {
        (Wallet wallet, bytes32 tokenNonce) = _wallet();
        Authorization memory authorization = _walletAuthorization(wallet, DEPOSIT, tokenNonce);
        wallet.setMode(Wallet.Mode.Reject);
        bytes memory refusal = abi.encodeWithSelector(DevToken.AuthorizationSignatureInvalid.selector, address(wallet));
        vm.expectRevert(refusal);
        _sendWalletOpening(wallet, authorization);
        authorization.signature = abi.encodePacked(authorization.signature, uint8(1));
        vm.expectRevert(refusal);
        _sendWalletOpening(wallet, authorization);
    }

    function test_a_payer_that_sends_nothing_tops_up() public {
        bytes32 channel = _openGasless();
        Authorization memory authorization = _authorizeTopUp(channel, 500);
        vm.expectEmit(address(manager));
        emit IEscrow.ToppedUp(channel, 500, DEPOSIT + 500);
        _sendTopUp(channel, 500, authorization);
        vm.assertEq(_view(channel).deposit, DEPOSIT + 500);
        vm.assertEq(token.balanceOf(address(manager)), DEPOSIT + 500);
    }

    function test_two_equal_top_ups_differ_by_their_salt() public {
        bytes32 channel = _openGasless();
        _sendTopUp(channel, 500, _authorizeTopUp(channel, 500));
        bytes32 salt = keccak256("another salt");
        Authorization memory second = _authorize(500, _topUpNonce(channel, 500, client, salt));
        vm.prank(relayer);
        manager.topUpWithAuthorization(channel, 500, salt, second);
        vm.assertEq(_view(channel).deposit, DEPOSIT + 1000);
    }

    function test_a_plain_channel_is_topped_up_so_too() public {
        vm.prank(client);
        token.approve(address(manager), DEPOSIT);
        bytes32 plain = _openPlain();
        _sendTopUp(plain, 500, _authorizeTopUp(plain, 500));
        vm.assertEq(_view(plain).deposit, DEPOSIT + 500);
    }

    function test_a_relayed_top_up_never_takes_a_request_to_close_back() public {
        bytes32 channel = _openGasless();
        Authorization memory authorization = _authorizeTopUp(channel, 500);
        vm.prank(client);
        manager.requestClose(channel);
        uint64 requestedAt = uint64(vm.getBlockTimestamp());
        vm.warp(requestedAt + 10);
        vm.expectRevert(abi.encodeWithSelector(IPaymentManager.ClosePending.selector, channel, requestedAt));
        _sendTopUp(channel, 500, authorization);
        vm.assertEq(_view(channel).closeRequestedAt, requestedAt);
        vm.assertFalse(token.authorizationState(client, _topUpNonce(channel, 500, client, SALT)));
        vm.warp(requestedAt + GRACE);
        vm.prank(client);
        manager.withdraw(channel);
        vm.assertEq(token.balanceOf(address(manager)), 0);
    }

    function test_after_the_payer_took_its_request_back_itself_a_relayed_top_up_works_again() public {
        bytes32 channel = _openGasless();
        Authorization memory authorization = _authorizeTopUp(channel, 500);
        vm.startPrank(client);
        manager.requestClose(channel);
        token.approve(address(manager), 1);
        manager.topUp(channel, 1);
        vm.stopPrank();
        _sendTopUp(channel, 500, authorization);
        vm.assertEq(_view(channel).deposit, DEPOSIT + 501);
    }

    function test_what_is_over_or_never_was_is_not_topped_up() public {
        bytes32 channel = _openGasless();
        Authorization memory authorization = _authorizeTopUp(channel, 500);
        vm.prank(payee);
        manager.close(channel, 0, "");
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ChannelFinalized.selector, channel));
        _sendTopUp(channel, 500, authorization);
        bytes32 unknown = keccak256("unknown");
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ChannelNotFound.selector, unknown));
        _sendTopUp(unknown, 500, authorization);
    }

    function test_a_top_up_of_nothing_or_beyond_128_bits_is_refused() public {
        token.mint(client, type(uint128).max);
        bytes32 channel = _openGasless();
        Authorization memory nothing = _authorizeTopUp(channel, 0);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.ZeroDeposit.selector));
        _sendTopUp(channel, 0, nothing);

        uint128 most = type(uint128).max - DEPOSIT;
        Authorization memory tooMuch = _authorizeTopUp(channel, most + 1);
        vm.expectRevert(abi.encodeWithSelector(IEscrow.DepositOverflow.selector, channel, DEPOSIT, most + 1));
        _sendTopUp(channel, most + 1, tooMuch);
        _sendTopUp(channel, most, _authorizeTopUp(channel, most));
        vm.assertEq(_view(channel).deposit, type(uint128).max);
    }

    function _wallet() private returns (Wallet wallet, bytes32 tokenNonce) {
        wallet = new Wallet(client);
        token.mint(address(wallet), DEPOSIT);
        tokenNonce = _openingNonce(_idOf(address(wallet), termsHash, NONCE, address(0), bytes32(0)));
    }

    function _walletAuthorization(Wallet wallet, uint128 value, bytes32 tokenNonce)
        private
        view
        returns (Authorization memory)
    {
        bytes32 digest = _receiveDigest(address(wallet), value, 0, type(uint256).max, tokenNonce);
        return Authorization(0, type(uint256).max, _sign(CLIENT_KEY, digest));
    }

    function _sendWalletOpening(Wallet wallet, Authorization memory authorization) private returns (bytes32) {
        vm.prank(relayer);
        return manager.openSessionWithAuthorization(
            address(wallet), serviceId, termsHash, DEPOSIT, NONCE, address(0), bytes32(0), authorization
        );
    }
}
