// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";

import {Receipt, Statement} from "../interfaces/IDisputeManager.sol";

/// @title OperatorWords
/// @notice Who signed a receipt or a statement (PROTOCOL 3), and how a word is named on-chain without its signature.
library OperatorWords {
    bytes32 private constant _RECEIPT_TYPEHASH =
        keccak256("CallReceipt(bytes32 channelId,uint64 index,bytes32 leaf,uint128 charge)");
    bytes32 private constant _STATEMENT_TYPEHASH =
        keccak256("Statement(bytes32 channelId,uint64 callCount,bytes32 root,uint128 spent)");
    uint256 private constant _RECEIPT_KIND = 1;
    uint256 private constant _STATEMENT_KIND = 2;

    /// @notice Who signed the receipt; zero where nobody can have.
    function signerOf(Receipt calldata receipt, bytes32 domainSeparator, bytes32 channelId)
        internal
        pure
        returns (address)
    {
        bytes32 structHash =
            keccak256(abi.encode(_RECEIPT_TYPEHASH, channelId, receipt.index, receipt.leaf, receipt.charge));
        return _signer(domainSeparator, structHash, receipt.signature);
    }

    /// @notice Who signed the statement; zero where nobody can have.
    function signerOf(Statement calldata statement, bytes32 domainSeparator, bytes32 channelId)
        internal
        pure
        returns (address)
    {
        bytes32 structHash = keccak256(
            abi.encode(_STATEMENT_TYPEHASH, channelId, statement.callCount, statement.root, statement.spent)
        );
        return _signer(domainSeparator, structHash, statement.signature);
    }

    /// @notice The name of "call `index` has this leaf".
    function receiptWord(uint64 index, bytes32 leaf) internal pure returns (bytes32) {
        return keccak256(abi.encode(_RECEIPT_KIND, index, leaf));
    }

    /// @notice The name of "the first `callCount` calls have this root".
    function statementWord(uint64 callCount, bytes32 root) internal pure returns (bytes32) {
        return keccak256(abi.encode(_STATEMENT_KIND, callCount, root));
    }

    function _signer(bytes32 domainSeparator, bytes32 structHash, bytes calldata signature)
        private
        pure
        returns (address signer)
    {
        // Zero on every failure; receiptSigner is never zero.
        // slither-disable-next-line unused-return
        (signer,,) = ECDSA.tryRecoverCalldata(MessageHashUtils.toTypedDataHash(domainSeparator, structHash), signature);
    }
}
