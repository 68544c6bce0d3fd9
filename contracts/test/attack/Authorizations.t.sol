// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Errors} from "@openzeppelin/contracts/utils/Errors.sol";

import {DevToken} from "../../src/DevToken.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {Authorization, TokenTransfer} from "../../src/libraries/TokenTransfer.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {GaslessFixture} from "../base/GaslessFixture.sol";
import {SkewAuthorizedToken, SwallowingToken} from "../mocks/AuthorizedTokens.sol";
import {BurnerToken} from "../mocks/Tokens.sol";

/// @notice What somebody who saw, or relays, a payer's authorisation can make of it: only what the payer meant.
contract AuthorizationsTest is GaslessFixture {
    // The order of secp256k1.
    uint256 private constant _N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141;

    function test_an_opening_is_for_its_own_deposit_alone() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        uint128[3] memory others = [uint128(1), DEPOSIT - 1, DEPOSIT + 1];
        for (uint256 i = 0; i < others.length; ++i) {
            vm.expectRevert(_invalid(client));
            _sendOpening(others[i], authorization);
        }
        _sendOpening(DEPOSIT, authorization);
    }

    function test_an_opening_is_for_its_own_signer_roster_and_nonce_alone() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        _refusedOpening(client, serviceId, termsHash, NONCE, thief, bytes32(0), authorization);
        _refusedOpening(client, serviceId, termsHash, NONCE, address(0), keccak256("roster"), authorization);
        _refusedOpening(client, serviceId, termsHash, keccak256("n"), address(0), bytes32(0), authorization);
        vm.assertEq(manager.sessionCount(), 0);
        _sendOpening(DEPOSIT, authorization);
    }

    function test_an_opening_is_for_its_own_terms_alone() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        Terms memory terms = _terms(true);
        (terms.operator, terms.payee) = (thief, thief);
        (uint256 id, bytes32 hash) = _register(terms);
        _refusedOpening(client, id, hash, NONCE, address(0), bytes32(0), authorization);
        // The same operator's dearer service.
        terms = _terms(true);
        terms.descriptorHash = keccak256("a dearer card");
        (id, hash) = _register(terms);
        _refusedOpening(client, id, hash, NONCE, address(0), bytes32(0), authorization);
    }

    function test_an_opening_is_paid_by_who_signed_it() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        token.mint(thief, DEPOSIT);
        vm.prank(relayer);
        vm.expectRevert(_invalid(thief));
        manager.openSessionWithAuthorization(
            thief, serviceId, termsHash, DEPOSIT, NONCE, address(0), bytes32(0), authorization
        );
    }

    function test_an_opening_that_somebody_else_sent_first_is_the_payers_own_session() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        vm.prank(thief);
        bytes32 channel = manager.openSessionWithAuthorization(
            client, serviceId, termsHash, DEPOSIT, NONCE, address(0), bytes32(0), authorization
        );
        vm.assertEq(_view(channel).payer, client);
        vm.assertEq(_view(channel).deposit, DEPOSIT);
        vm.expectRevert();
        _sendOpening(DEPOSIT, authorization);
        vm.assertEq(manager.sessionCount(), 1);
    }

    function test_an_authorisation_cannot_be_spent_at_the_token_before() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        bytes32 tokenNonce = _openingNonce(_idOf(client, termsHash, NONCE, address(0), bytes32(0)));
        vm.prank(thief);
        vm.expectRevert(abi.encodeWithSelector(DevToken.NotReceiver.selector, address(manager), thief));
        token.receiveWithAuthorization(
            client,
            address(manager),
            DEPOSIT,
            authorization.validAfter,
            authorization.validBefore,
            tokenNonce,
            authorization.signature
        );
        _sendOpening(DEPOSIT, authorization);
    }

    function test_a_top_up_is_for_its_own_channel_amount_and_salt_alone_and_once() public {
        bytes32 channel = _openGasless();
        bytes32 other = _openAnother();
        Authorization memory authorization = _authorizeTopUp(channel, 500);
        vm.expectRevert(_invalid(client));
        _sendTopUp(other, 500, authorization);
        vm.expectRevert(_invalid(client));
        _sendTopUp(channel, 499, authorization);
        vm.prank(relayer);
        vm.expectRevert(_invalid(client));
        manager.topUpWithAuthorization(channel, 500, keccak256("another salt"), authorization);

        _sendTopUp(channel, 500, authorization);
        bytes32 tokenNonce = _topUpNonce(channel, 500, client, SALT);
        vm.expectRevert(abi.encodeWithSelector(DevToken.AuthorizationUsedAlready.selector, client, tokenNonce));
        _sendTopUp(channel, 500, authorization);
        vm.assertEq(_view(channel).deposit, DEPOSIT + 500);
        vm.assertEq(_view(other).deposit, DEPOSIT);
    }

    function test_a_top_up_does_not_open_and_an_opening_does_not_top_up() public {
        bytes32 coming = _idOf(client, termsHash, NONCE, address(0), bytes32(0));
        Authorization memory topUp = _authorizeTopUp(coming, DEPOSIT);
        vm.expectRevert(_invalid(client));
        _sendOpening(DEPOSIT, topUp);

        Authorization memory opening = _authorizeOpening(DEPOSIT);
        vm.prank(client);
        token.approve(address(manager), DEPOSIT);
        bytes32 channel = _open(NONCE);
        vm.assertEq(channel, coming);
        vm.expectRevert(_invalid(client));
        _sendTopUp(channel, DEPOSIT, opening);
        _sendTopUp(channel, DEPOSIT, topUp);
    }

    function test_an_authorisation_is_for_one_contract_and_one_chain() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        PaymentManager other = new PaymentManager(registry, GRACE);
        vm.expectRevert(_invalid(client));
        other.openSessionWithAuthorization(
            client, serviceId, termsHash, DEPOSIT, NONCE, address(0), bytes32(0), authorization
        );
        vm.chainId(1);
        vm.expectRevert(_invalid(client));
        _sendOpening(DEPOSIT, authorization);
    }

    function test_a_signature_is_65_bytes_of_low_s_or_a_contract_accounts() public {
        Authorization memory authorization = _authorizeOpening(DEPOSIT);
        bytes memory good = authorization.signature;
        bytes32 r;
        bytes32 s;
        assembly ("memory-safe") {
            r := mload(add(good, 0x20))
            s := mload(add(good, 0x40))
        }
        uint8 v = uint8(good[64]);
        bytes[7] memory bad = [
            abi.encodePacked(r, bytes32(_N - uint256(s)), v == 27 ? uint8(28) : uint8(27)),
            abi.encodePacked(r, s, v - 27),
            abi.encodePacked(r, bytes32(uint256(s) | (uint256(v - 27) << 255))),
            abi.encodePacked(good, uint8(0)),
            bytes(""),
            new bytes(65),
            abi.encodePacked(s, r, v)
        ];
        for (uint256 i = 0; i < bad.length; ++i) {
            authorization.signature = bad[i];
            vm.expectRevert(_invalid(client));
            _sendOpening(DEPOSIT, authorization);
        }
        authorization.signature = good;
        _sendOpening(DEPOSIT, authorization);
    }

    function test_a_token_that_keeps_or_adds_something_is_refused() public {
        for (uint256 i = 0; i < 2; ++i) {
            bool adds = i == 1;
            SkewAuthorizedToken skewed = new SkewAuthorizedToken(adds);
            skewed.mint(client, DEPOSIT);
            uint256 received = adds ? DEPOSIT + DEPOSIT / 100 : DEPOSIT - DEPOSIT / 100;
            bytes memory refusal = abi.encodeWithSelector(
                TokenTransfer.TransferAmountMismatch.selector, address(skewed), uint256(DEPOSIT), received
            );
            (uint256 id, bytes32 hash) = _register(_termsIn(address(skewed), true));
            _refusedBothWays(id, hash, refusal);
        }
    }

    function test_a_token_that_swallows_the_call_is_no_payment() public {
        SwallowingToken swallowing = new SwallowingToken();
        swallowing.mint(client, DEPOSIT);
        (uint256 id, bytes32 hash) = _register(_termsIn(address(swallowing), true));
        _refusedBothWays(
            id,
            hash,
            abi.encodeWithSelector(
                TokenTransfer.TransferAmountMismatch.selector, address(swallowing), uint256(DEPOSIT), uint256(0)
            )
        );
    }

    function test_a_token_without_authorisations_opens_nothing() public {
        BurnerToken without = new BurnerToken();
        without.mint(client, DEPOSIT);
        (uint256 id, bytes32 hash) = _register(_termsIn(address(without), true));
        _sendTo(id, hash, new bytes(65), abi.encodeWithSelector(Errors.FailedCall.selector));
        _sendTo(id, hash, new bytes(66), "");
        vm.assertEq(manager.sessionCount(), 0);
    }

    function test_a_token_without_code_opens_nothing() public {
        address nowhere = address(0x9999999999999999999999999999999999999999);
        (uint256 id, bytes32 hash) = _register(_termsIn(nowhere, true));
        _refusedBothWays(id, hash, abi.encodeWithSelector(TokenTransfer.TokenWithoutCode.selector, nowhere));
    }

    function _openAnother() private returns (bytes32 channel) {
        bytes32 nonce = keccak256("another");
        bytes32 tokenNonce = _openingNonce(_idOf(client, termsHash, nonce, address(0), bytes32(0)));
        Authorization memory authorization = _authorize(DEPOSIT, tokenNonce);
        return manager.openSessionWithAuthorization(
            client, serviceId, termsHash, DEPOSIT, nonce, address(0), bytes32(0), authorization
        );
    }

    function _invalid(address owner) private pure returns (bytes memory) {
        return abi.encodeWithSelector(DevToken.AuthorizationSignatureInvalid.selector, owner);
    }

    function _refusedOpening(
        address payer,
        uint256 id,
        bytes32 hash,
        bytes32 nonce,
        address signer,
        bytes32 roster,
        Authorization memory authorization
    ) private {
        vm.prank(relayer);
        vm.expectRevert(_invalid(payer));
        manager.openSessionWithAuthorization(payer, id, hash, DEPOSIT, nonce, signer, roster, authorization);
    }

    /// @dev As a key's authorisation, and as a contract account's.
    function _refusedBothWays(uint256 id, bytes32 hash, bytes memory refusal) private {
        _sendTo(id, hash, new bytes(65), refusal);
        _sendTo(id, hash, new bytes(66), refusal);
        vm.assertEq(manager.sessionCount(), 0);
    }

    function _sendTo(uint256 id, bytes32 hash, bytes memory signature, bytes memory refusal) private {
        vm.expectRevert(refusal);
        manager.openSessionWithAuthorization(
            client, id, hash, DEPOSIT, NONCE, address(0), bytes32(0), Authorization(0, type(uint256).max, signature)
        );
    }
}
