// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IEscrow} from "../../src/interfaces/IEscrow.sol";
import {Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {GasFloor} from "../../src/libraries/GasFloor.sol";
import {VoucherSignature} from "../../src/libraries/VoucherSignature.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";
import {Mute, Wallet} from "../mocks/Wallets.sol";

/// @notice Whose word a voucher is: keys, contract accounts, and what pretends to be either.
contract SignaturesTest is PaymentFixture {
    // The order of secp256k1.
    uint256 private constant _N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141;

    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _openPlain();
    }

    function test_the_payers_key_signs_where_nobody_else_is_authorized() public view {
        _accepted(_channel, _voucher(_channel, 500));
    }

    function test_another_key_does_not() public {
        _refused(_channel, _sign(THIEF_KEY, _digest(_channel, 500)));
    }

    function test_an_authorized_signer_signs_instead_of_the_payer() public {
        bytes32 channel = _openFor(client, serviceId, termsHash, keccak256("n"), vm.addr(DELEGATE_KEY));
        _commit(channel);
        _accepted(channel, _sign(DELEGATE_KEY, _digest(channel, 500)));
        _refused(channel, _voucher(channel, 500));
    }

    function test_a_voucher_over_another_amount_is_refused() public {
        _refused(_channel, _voucher(_channel, 501));
    }

    function test_a_voucher_for_another_channel_is_refused() public {
        bytes32 other = _open();
        _refused(_channel, _voucher(other, 500));
    }

    function test_a_voucher_for_another_contract_is_refused() public {
        PaymentManager other = new PaymentManager(registry, GRACE);
        bytes32 structHash = keccak256(abi.encode(VOUCHER_TYPEHASH, _channel, uint128(500)));
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", other.domainSeparator(), structHash));
        _refused(_channel, _sign(CLIENT_KEY, digest));
    }

    function test_a_voucher_for_another_chain_is_refused_also_after_a_fork() public {
        bytes memory voucher = _voucher(_channel, 500);
        bytes32 before = manager.domainSeparator();
        vm.chainId(1);
        vm.assertTrue(manager.domainSeparator() != before);
        _refused(_channel, voucher);
        _accepted(_channel, _voucher(_channel, 500));
        vm.chainId(31_337);
        _accepted(_channel, voucher);
    }

    function test_a_bare_hash_of_the_voucher_is_no_voucher() public {
        _refused(_channel, _sign(CLIENT_KEY, keccak256(abi.encode(VOUCHER_TYPEHASH, _channel, uint128(500)))));
    }

    function test_the_malleated_twin_of_a_good_signature_is_refused() public {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(CLIENT_KEY, _digest(_channel, 500));
        bytes32 highS = bytes32(_N - uint256(s));
        _refused(_channel, abi.encodePacked(r, highS, v == 27 ? uint8(28) : uint8(27)));
    }

    function test_v_is_27_or_28() public {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(CLIENT_KEY, _digest(_channel, 500));
        _refused(_channel, abi.encodePacked(r, s, v - 27));
        _refused(_channel, abi.encodePacked(r, s, v + 8));
    }

    function test_a_signature_has_exactly_65_bytes() public {
        bytes memory good = _voucher(_channel, 500);
        _refused(_channel, "");
        _refused(_channel, abi.encodePacked(good, uint8(0)));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(CLIENT_KEY, _digest(_channel, 500));
        _refused(_channel, abi.encodePacked(r, bytes32(uint256(s) | (uint256(v - 27) << 255))));
    }

    function test_the_zero_signature_is_refused() public {
        _refused(_channel, new bytes(65));
    }

    function test_a_contract_account_is_asked() public {
        (Wallet wallet, bytes32 channel) = _walletChannel();
        _accepted(channel, _voucher(channel, 500));
        _refusedFor(channel, address(wallet), _sign(THIEF_KEY, _digest(channel, 500)));
        bytes memory voucher = _voucher(channel, 500);
        vm.prank(payee);
        manager.settle(channel, 500, voucher);
        vm.assertEq(token.balanceOf(payee), 500);
    }

    function test_a_contract_account_that_says_anything_but_the_magic_word_says_no() public {
        (Wallet wallet, bytes32 channel) = _walletChannel();
        bytes memory voucher = _voucher(channel, 500);
        for (uint256 i = uint256(Wallet.Mode.Reject); i <= uint256(Wallet.Mode.BooleanAnswer); ++i) {
            wallet.setMode(Wallet.Mode(i));
            _refusedFor(channel, address(wallet), voucher);
        }
    }

    function test_a_contract_that_knows_nothing_of_signatures_says_no() public {
        bytes32 channel = _openFor(client, serviceId, termsHash, keccak256("n"), address(new Mute()));
        _commit(channel);
        _refused(channel, _sign(DELEGATE_KEY, _digest(channel, 500)));
    }

    function test_a_contract_account_never_sees_a_signature_above_4096_bytes() public {
        (Wallet wallet, bytes32 channel) = _walletChannel();
        bytes memory padded = abi.encodePacked(_voucher(channel, 500), new bytes(4096 - 65));
        _accepted(channel, padded);
        _refusedFor(channel, address(wallet), abi.encodePacked(padded, uint8(0)));
    }

    function test_one_owners_two_accounts_do_not_share_vouchers() public {
        (, bytes32 first) = _walletChannel();
        (Wallet second, bytes32 secondChannel) = _walletChannel();
        _refusedFor(secondChannel, address(second), _voucher(first, 500));
    }

    function test_a_delegation_set_after_signing_does_not_take_a_voucher_back() public {
        bytes memory voucher = _voucher(_channel, 500);
        vm.etch(client, abi.encodePacked(hex"ef0100", address(new Mute())));
        vm.assertTrue(client.code.length != 0);
        _accepted(_channel, voucher);
        vm.prank(payee);
        manager.settle(_channel, 500, voucher);
        vm.assertEq(token.balanceOf(payee), 500);
    }

    function test_code_that_is_no_delegation_does_not_take_a_voucher_back_either() public {
        bytes memory voucher = _voucher(_channel, 500);
        vm.etch(client, address(new Mute()).code);
        _accepted(_channel, voucher);
    }

    function test_a_gas_burner_in_a_batch_costs_its_cap_and_nothing_else() public {
        (Wallet wallet, bytes32 burning) = _walletChannel();
        wallet.setMode(Wallet.Mode.BurnGas);
        Settlement[] memory items = new Settlement[](3);
        items[0] = _settlement(_open(keccak256("first")), 100);
        items[1] = _settlement(burning, 101);
        items[2] = _settlement(_open(keccak256("last")), 102);
        vm.prank(operator);
        uint256 gasBefore = gasleft();
        manager.settleSessions{gas: 2_000_000}(items);
        vm.assertLt(gasBefore - gasleft(), 700_000);
        vm.assertEq(token.balanceOf(payee), 202);
        vm.assertEq(_view(burning).finalizedAt, 0);
    }

    function testFuzz_too_little_gas_is_never_an_answer(uint256 gasLimit) public {
        _assertNoFalseAnswer(_slowWalletChannel(), _bound(gasLimit, 100_000, 220_000));
    }

    /// @notice The same around the gas that has to be left, in steps smaller than the reserve.
    function test_just_too_little_gas_is_never_an_answer() public {
        bytes32 channel = _slowWalletChannel();
        for (uint256 gasLimit = 140_000; gasLimit < 180_000; gasLimit += 500) {
            _assertNoFalseAnswer(channel, gasLimit);
        }
    }

    function test_a_wallet_gets_its_gas_in_full() public {
        (Wallet wallet, bytes32 channel) = _walletChannel();
        vm.assertEq(VoucherSignature.ERC1271_GAS, 150_000);
        wallet.setMode(Wallet.Mode.BurnGas);
        uint256 gasBefore = gasleft();
        vm.assertFalse(manager.isVoucherValid(channel, 500, _voucher(channel, 500)));
        uint256 used = gasBefore - gasleft();
        vm.assertGe(used, 150_000, "less than the cap was handed on");
        vm.assertLe(used, 190_000);
    }

    function _slowWalletChannel() private returns (bytes32 channel) {
        Wallet wallet;
        (wallet, channel) = _walletChannel();
        wallet.setMode(Wallet.Mode.Slow);
    }

    /// @dev The wallet agrees, if it gets its gas.
    function _assertNoFalseAnswer(bytes32 channel, uint256 gasLimit) private view {
        bytes memory question = abi.encodeCall(manager.isVoucherValid, (channel, 500, _voucher(channel, 500)));
        (bool done, bytes memory answer) = address(manager).staticcall{gas: gasLimit}(question);
        if (done) vm.assertTrue(abi.decode(answer, (bool)));
        // forge-lint: disable-next-line(unsafe-typecast)
        else if (answer.length != 0) vm.assertTrue(bytes4(answer) == GasFloor.InsufficientGas.selector);
    }

    function _walletChannel() private returns (Wallet wallet, bytes32 channel) {
        wallet = new Wallet(client);
        token.mint(address(wallet), DEPOSIT);
        wallet.approve(token, address(manager));
        channel = wallet.openSession(manager, serviceId, termsHash, DEPOSIT);
        _commit(channel);
    }

    function _accepted(bytes32 channel, bytes memory signature) private view {
        vm.assertTrue(manager.isVoucherValid(channel, 500, signature));
    }

    function _refused(bytes32 channel, bytes memory signature) private {
        address signer = _view(channel).authorizedSigner;
        _refusedFor(channel, signer == address(0) ? client : signer, signature);
    }

    function _refusedFor(bytes32 channel, address signer, bytes memory signature) private {
        vm.assertFalse(manager.isVoucherValid(channel, 500, signature));
        bytes memory refusal = abi.encodeWithSelector(IEscrow.InvalidSignature.selector, channel, signer);
        vm.startPrank(payee);
        vm.expectRevert(refusal);
        manager.settle(channel, 500, signature);
        vm.expectRevert(refusal);
        manager.close(channel, 500, signature);
        vm.expectRevert(refusal);
        manager.settleSession(Settlement(channel, 500, 500, 3, ROOT, signature));
        vm.stopPrank();
    }
}
