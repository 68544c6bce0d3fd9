// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IDisputeManager, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";
import {Wallet} from "../mocks/Wallets.sol";

/// @notice Whose word a receipt or a statement is: nothing but the session's own receiptSigner's, about this session.
contract OperatorWordsTest is DisputeFixture {
    // The order of secp256k1.
    uint256 private constant _N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141;
    bytes32 private constant _LEAF = keccak256("a call that was left out");

    bytes32 private _channel;

    function setUp() public override {
        super.setUp();
        _channel = _held();
    }

    function test_words_about_another_session_say_nothing_about_this_one() public {
        bytes32 other = _held(keccak256("other"));
        _refused(_receipt(other, CALLS, _LEAF, 0).signature, _statement(other, CALLS + 1, _LEAF, 0).signature);
    }

    function test_words_for_another_contract_say_nothing_here() public {
        PaymentManager other = new PaymentManager(registry, GRACE);
        (bytes32 receipt, bytes32 statement) = _digests(other.domainSeparator());
        _refused(_sign(SIGNER_KEY, receipt), _sign(SIGNER_KEY, statement));
    }

    function test_words_for_the_dispute_manager_itself_say_nothing() public {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("EVM Payment Channel"),
                keccak256("1"),
                block.chainid,
                address(decisions)
            )
        );
        (bytes32 receipt, bytes32 statement) = _digests(domain);
        _refused(_sign(SIGNER_KEY, receipt), _sign(SIGNER_KEY, statement));
    }

    function test_words_for_another_chain_say_nothing_also_after_a_fork() public {
        Receipt memory receipt = _receipt(_channel, CALLS, _LEAF, 0);
        Statement memory statement = _statement(_channel, CALLS + 1, _LEAF, 0);
        vm.chainId(1);
        _refused(receipt.signature, statement.signature);
        vm.chainId(31_337);
        decisions.proveOmittedReceipt(_channel, receipt);
    }

    function test_a_bare_hash_is_no_word() public {
        bytes32 receipt = keccak256(abi.encode(RECEIPT_TYPEHASH, _channel, CALLS, _LEAF, uint128(0)));
        bytes32 statement = keccak256(abi.encode(STATEMENT_TYPEHASH, _channel, CALLS + 1, _LEAF, uint128(0)));
        _refused(_sign(SIGNER_KEY, receipt), _sign(SIGNER_KEY, statement));
    }

    function test_one_kind_of_word_is_not_taken_for_the_other() public {
        bytes memory receipt = _receipt(_channel, CALLS + 1, _LEAF, 0).signature;
        bytes memory statement = _statement(_channel, CALLS, _LEAF, 0).signature;
        _refused(statement, receipt);
    }

    function test_every_member_of_a_receipt_is_signed() public {
        Receipt memory receipt = _receipt(_channel, CALLS, _LEAF, 7);
        receipt.index = CALLS + 1;
        _refusedReceipt(receipt);
        receipt = _receipt(_channel, CALLS, _LEAF, 7);
        receipt.leaf = keccak256("another leaf");
        _refusedReceipt(receipt);
        receipt = _receipt(_channel, CALLS, _LEAF, 7);
        receipt.charge = 8;
        _refusedReceipt(receipt);
    }

    function test_every_member_of_a_statement_is_signed() public {
        Statement memory statement = _statement(_channel, CALLS + 1, _LEAF, 7);
        statement.callCount = CALLS + 2;
        _refusedStatement(statement);
        statement = _statement(_channel, CALLS + 1, _LEAF, 7);
        statement.root = keccak256("another root");
        _refusedStatement(statement);
        statement = _statement(_channel, CALLS + 1, _LEAF, 7);
        statement.spent = 8;
        _refusedStatement(statement);
    }

    function test_the_operator_the_payee_and_the_client_have_no_word() public {
        (bytes32 receipt, bytes32 statement) = _digests(manager.domainSeparator());
        uint256[3] memory keys = [CLIENT_KEY, DELEGATE_KEY, THIEF_KEY];
        for (uint256 i = 0; i < keys.length; ++i) {
            _refused(_sign(keys[i], receipt), _sign(keys[i], statement));
        }
    }

    function test_a_signature_is_65_bytes_of_low_s_with_v_27_or_28() public {
        (bytes32 receipt, bytes32 statement) = _digests(manager.domainSeparator());
        bytes[7] memory first = _spoiled(receipt);
        bytes[7] memory second = _spoiled(statement);
        for (uint256 i = 0; i < first.length; ++i) {
            // Nobody's at all.
            _refusedReceipt(Receipt(CALLS, _LEAF, 0, first[i]), address(0));
            _refusedStatement(Statement(CALLS + 1, _LEAF, 0, second[i]), address(0));
        }
        decisions.proveOmittedReceipt(_channel, _receipt(_channel, CALLS, _LEAF, 0));
    }

    function test_a_contract_as_receipt_signer_is_never_asked() public {
        Terms memory terms = _disputeTerms();
        terms.receiptSigner = address(new Wallet(client));
        (serviceId, termsHash) = _register(terms);
        bytes32 channel = _held(keccak256("contract signer"));
        Receipt memory receipt = _receipt(channel, CALLS, _LEAF, 0);
        receipt.signature = _sign(CLIENT_KEY, _receiptDigest(channel, CALLS, _LEAF, 0));
        vm.expectRevert(
            abi.encodeWithSelector(IDisputeManager.NotOperatorsWord.selector, channel, terms.receiptSigner, client)
        );
        decisions.proveOmittedReceipt(channel, receipt);
    }

    function test_code_at_the_receipt_signer_does_not_take_its_words_back() public {
        vm.etch(receiptSigner, abi.encodePacked(hex"ef0100", address(token)));
        decisions.proveOmittedReceipt(_channel, _receipt(_channel, CALLS, _LEAF, 0));
    }

    function test_a_key_that_the_service_uses_later_does_not_speak_for_an_earlier_session() public {
        Terms memory terms = _disputeTerms();
        terms.receiptSigner = vm.addr(DELEGATE_KEY);
        vm.prank(operator);
        registry.update(serviceId, terms, "");
        (bytes32 receipt, bytes32 statement) = _digests(manager.domainSeparator());
        _refused(_sign(DELEGATE_KEY, receipt), _sign(DELEGATE_KEY, statement));
        decisions.proveOmittedReceipt(_channel, _receipt(_channel, CALLS, _LEAF, 0));
    }

    function test_every_function_that_takes_a_word_checks_whose_it_is() public {
        Receipt memory receipt = Receipt(2, leaves[2], CHARGE, "");
        Statement memory statement = Statement(3, _rootOver(3), CHARGE * 3, "");
        Receipt[] memory receipts = new Receipt[](2);
        (receipts[0], receipts[1]) = (_receipt(_channel, 3), _receipt(_channel, 4));
        bytes[9] memory orders = [
            abi.encodeCall(decisions.proveConflictingReceipts, (_channel, receipt, _receipt(_channel, 2, _LEAF, 0))),
            abi.encodeCall(decisions.proveConflictingReceipts, (_channel, _receipt(_channel, 2, _LEAF, 0), receipt)),
            abi.encodeCall(
                decisions.proveConflictingStatements, (_channel, statement, _statement(_channel, 3, _LEAF, 0))
            ),
            abi.encodeCall(
                decisions.proveConflictingStatements, (_channel, _statement(_channel, 3, _LEAF, 0), statement)
            ),
            abi.encodeCall(decisions.proveStatementAgainstRoot, (_channel, Statement(CALLS, _LEAF, 0, ""))),
            abi.encodeCall(decisions.proveOmittedReceipt, (_channel, Receipt(CALLS, _LEAF, 0, ""))),
            abi.encodeCall(decisions.proveOvercharge, (_channel, statement, receipts)),
            abi.encodeCall(decisions.challengeReceipt, (_channel, receipt)),
            abi.encodeCall(decisions.challengeStatement, (_channel, statement))
        ];
        for (uint256 i = 0; i < orders.length; ++i) {
            vm.prank(client);
            (bool done, bytes memory answer) = address(decisions).call(orders[i]);
            vm.assertFalse(done);
            vm.assertEq(keccak256(answer), keccak256(_notOperators(address(0))));
        }
    }

    /// @dev The digests of the two omissions that this test is about, in some domain.
    function _digests(bytes32 domain) private view returns (bytes32 receipt, bytes32 statement) {
        receipt = keccak256(abi.encode(RECEIPT_TYPEHASH, _channel, CALLS, _LEAF, uint128(0)));
        statement = keccak256(abi.encode(STATEMENT_TYPEHASH, _channel, CALLS + 1, _LEAF, uint128(0)));
        receipt = keccak256(abi.encodePacked(hex"1901", domain, receipt));
        statement = keccak256(abi.encodePacked(hex"1901", domain, statement));
    }

    function _spoiled(bytes32 digest) private pure returns (bytes[7] memory bad) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(SIGNER_KEY, digest);
        bad = [
            abi.encodePacked(r, bytes32(_N - uint256(s)), v == 27 ? uint8(28) : uint8(27)),
            abi.encodePacked(r, s, v - 27),
            abi.encodePacked(r, s, v + 8),
            abi.encodePacked(r, bytes32(uint256(s) | (uint256(v - 27) << 255))),
            abi.encodePacked(r, s, v, uint8(0)),
            bytes(""),
            new bytes(65)
        ];
    }

    function _notOperators(address signer) private view returns (bytes memory) {
        return abi.encodeWithSelector(IDisputeManager.NotOperatorsWord.selector, _channel, receiptSigner, signer);
    }

    function _refused(bytes memory receiptSignature, bytes memory statementSignature) private {
        _refusedReceipt(Receipt(CALLS, _LEAF, 0, receiptSignature));
        _refusedStatement(Statement(CALLS + 1, _LEAF, 0, statementSignature));
        _assertMoney(_channel, CAPTURED, CAPTURED, 0, DEPOSIT - CAPTURED);
    }

    function _refusedReceipt(Receipt memory receipt) private {
        bytes32 digest = _receiptDigest(_channel, receipt.index, receipt.leaf, receipt.charge);
        _refusedReceipt(receipt, _signerOf(digest, receipt.signature));
    }

    function _refusedStatement(Statement memory statement) private {
        bytes32 digest = _statementDigest(_channel, statement.callCount, statement.root, statement.spent);
        _refusedStatement(statement, _signerOf(digest, statement.signature));
    }

    function _refusedReceipt(Receipt memory receipt, address signer) private {
        vm.expectRevert(_notOperators(signer));
        decisions.proveOmittedReceipt(_channel, receipt);
    }

    function _refusedStatement(Statement memory statement, address signer) private {
        vm.expectRevert(_notOperators(signer));
        decisions.proveOmittedStatement(_channel, statement);
    }

    function _signerOf(bytes32 digest, bytes memory signature) private pure returns (address) {
        bytes32 r;
        bytes32 s;
        assembly ("memory-safe") {
            r := mload(add(signature, 0x20))
            s := mload(add(signature, 0x40))
        }
        return ecrecover(digest, uint8(signature[64]), r, s);
    }
}
