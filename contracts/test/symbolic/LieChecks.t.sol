// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DisputeManager} from "../../src/DisputeManager.sol";
import {IDisputeManager, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {Hold, IPaymentManager} from "../../src/interfaces/IPaymentManager.sol";
import {IServiceRegistry, Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {TestBase} from "../base/TestBase.sol";
import {TranscriptTree} from "../base/TranscriptTree.sol";

/// @notice Stands for the contract that holds the money, of which the judge asks three things. It says of a session
/// whatever a check wants it to.
contract HoldStub {
    bytes32 public constant domainSeparator = keccak256("a domain");

    Hold private _hold;

    function set(Hold calldata hold) external {
        _hold = hold;
    }

    function holdOf(bytes32) external view returns (Hold memory) {
        return _hold;
    }

    function resolve(bytes32, uint128) external {}
}

/// @notice Terms with a signer, and all else zero.
contract TermsStub {
    address private immutable _receiptSigner;

    constructor(address receiptSigner) {
        _receiptSigner = receiptSigner;
    }

    function terms(bytes32) external view returns (uint256, Terms memory found) {
        found.receiptSigner = _receiptSigner;
        return (1, found);
    }
}

/// @notice An operator that keeps PROTOCOL 3.2 cannot be convicted by L1, L2 or L3: for all histories of up to four
/// calls, all charges, all captures of at most what was spent, and whatever anybody submits.
/// @dev That a signature cannot be forged is an assumption about each word that is submitted: either the operator's
/// store says the same, or somebody else signed it. Who signed is an uninterpreted function of digest and signature.
contract LieChecks is TestBase {
    struct Call {
        bytes32 leaf;
        uint128 charge;
    }

    /// @dev A receipt (index, leaf, charge) or a statement (callCount, root, spent).
    struct Word {
        uint64 position;
        bytes32 hash;
        uint128 amount;
        bytes32 r;
        bytes32 s;
        uint8 v;
    }

    /// @dev What the operator recorded, sealed and anchored. Roots and sums are over the first n calls.
    struct Store {
        uint64 count;
        bytes32[] leaves;
        uint128[] charges;
        bytes32[] roots;
        uint128[] sums;
    }

    uint256 private constant _MOST_CALLS = 4;
    bytes32 private constant _ID = keccak256("a channel");
    address private constant _SIGNER = address(0x5555555555555555555555555555555555555555);
    bytes32 private constant _RECEIPT_TYPEHASH =
        keccak256("CallReceipt(bytes32 channelId,uint64 index,bytes32 leaf,uint128 charge)");
    bytes32 private constant _STATEMENT_TYPEHASH =
        keccak256("Statement(bytes32 channelId,uint64 callCount,bytes32 root,uint128 spent)");

    HoldStub private _manager;
    IDisputeManager private _judge;

    function setUp() public {
        vm.warp(1_800_000_000);
        _manager = new HoldStub();
        IServiceRegistry registry = IServiceRegistry(address(new TermsStub(_SIGNER)));
        _judge = new DisputeManager(IPaymentManager(address(_manager)), registry);
    }

    function check_honest_receipts_never_conflict(
        Call[4] calldata calls,
        uint64 count,
        uint128 captured,
        Word calldata one,
        Word calldata other
    ) public {
        Store memory store = _anchored(calls, count, captured);
        _assumeUnforgedReceipt(store, one);
        _assumeUnforgedReceipt(store, other);
        _mustFail(abi.encodeCall(_judge.proveConflictingReceipts, (_ID, _receipt(one), _receipt(other))));
    }

    function check_honest_statements_never_conflict(
        Call[4] calldata calls,
        uint64 count,
        uint128 captured,
        Word calldata one,
        Word calldata other
    ) public {
        Store memory store = _anchored(calls, count, captured);
        _assumeUnforgedStatement(store, one);
        _assumeUnforgedStatement(store, other);
        _mustFail(abi.encodeCall(_judge.proveConflictingStatements, (_ID, _statement(one), _statement(other))));
    }

    function check_an_honest_statement_never_contradicts_the_root(
        Call[4] calldata calls,
        uint64 count,
        uint128 captured,
        Word calldata word
    ) public {
        _assumeUnforgedStatement(_anchored(calls, count, captured), word);
        _mustFail(abi.encodeCall(_judge.proveStatementAgainstRoot, (_ID, _statement(word))));
    }

    function check_nothing_is_omitted_from_an_honest_history(
        Call[4] calldata calls,
        uint64 count,
        uint128 captured,
        Word calldata receipt,
        Word calldata statement
    ) public {
        Store memory store = _anchored(calls, count, captured);
        _assumeUnforgedReceipt(store, receipt);
        _assumeUnforgedStatement(store, statement);
        _mustFail(abi.encodeCall(_judge.proveOmittedReceipt, (_ID, _receipt(receipt))));
        _mustFail(abi.encodeCall(_judge.proveOmittedStatement, (_ID, _statement(statement))));
    }

    function check_an_honest_capture_is_never_an_overcharge(
        Call[4] calldata calls,
        uint64 count,
        uint128 captured,
        uint256 length,
        Word calldata statement,
        Word[4] calldata words
    ) public {
        Store memory store = _anchored(calls, count, captured);
        _assumeUnforgedStatement(store, statement);
        for (uint256 n = 0; n <= _MOST_CALLS; ++n) {
            if (n != length) continue;
            Receipt[] memory receipts = new Receipt[](n);
            for (uint256 i = 0; i < n; ++i) {
                _assumeUnforgedReceipt(store, words[i]);
                receipts[i] = _receipt(words[i]);
            }
            _mustFail(abi.encodeCall(_judge.proveOvercharge, (_ID, _statement(statement), receipts)));
        }
    }

    /// @notice Must be refuted: an operator that captures one unit more is convicted.
    function refute_no_capture_is_an_overcharge(
        Call[4] calldata calls,
        uint64 count,
        uint128 captured,
        Word calldata word
    ) public {
        Store memory store = _anchored(calls, count, captured);
        _assumeUnforgedStatement(store, word);
        Hold memory hold = _manager.holdOf(_ID);
        vm.assume(hold.held < type(uint128).max);
        ++hold.held;
        _manager.set(hold);
        _mustFail(abi.encodeCall(_judge.proveOvercharge, (_ID, _statement(word), new Receipt[](0))));
    }

    /// @notice Must be refuted: words that nobody checked the signature of convict.
    function refute_no_receipts_conflict(
        Call[4] calldata calls,
        uint64 count,
        uint128 captured,
        Word calldata one,
        Word calldata other
    ) public {
        _anchored(calls, count, captured);
        _mustFail(abi.encodeCall(_judge.proveConflictingReceipts, (_ID, _receipt(one), _receipt(other))));
    }

    function _anchored(Call[4] calldata calls, uint64 count, uint128 captured) private returns (Store memory store) {
        vm.assume(count > 0 && count <= _MOST_CALLS);
        for (uint64 n = 1; n <= _MOST_CALLS; ++n) {
            if (n != count) continue;
            store = _recorded(calls, n);
            vm.assume(captured > 0 && captured <= store.sums[n]);
            Hold memory hold;
            (hold.root, hold.callCount, hold.held) = (store.roots[n], n, captured);
            (hold.finalizedAt, hold.heldUntil) = (1_800_000_000, 1_800_000_001);
            _manager.set(hold);
            return store;
        }
    }

    function _recorded(Call[4] calldata calls, uint64 count) private pure returns (Store memory store) {
        store = Store(
            count, new bytes32[](count), new uint128[](count), new bytes32[](count + 1), new uint128[](count + 1)
        );
        uint256 spent = 0;
        for (uint256 i = 0; i < count; ++i) {
            (store.leaves[i], store.charges[i]) = (calls[i].leaf, calls[i].charge);
            spent += calls[i].charge;
            // A voucher covers all of it, and has 128 bits.
            vm.assume(spent <= type(uint128).max);
            store.sums[i + 1] = uint128(spent);
            store.roots[i + 1] = TranscriptTree.rootOf(store.leaves, i + 1);
        }
    }

    function _assumeUnforgedReceipt(Store memory store, Word calldata word) private view {
        uint256 said = 0;
        for (uint256 i = 0; i < store.count; ++i) {
            said |= _same(word.position, i) & _same(uint256(word.hash), uint256(store.leaves[i]))
            & _same(word.amount, store.charges[i]);
        }
        _assumeUnforged(
            said, word, keccak256(abi.encode(_RECEIPT_TYPEHASH, _ID, word.position, word.hash, word.amount))
        );
    }

    function _assumeUnforgedStatement(Store memory store, Word calldata word) private view {
        uint256 said = 0;
        for (uint256 n = 0; n <= store.count; ++n) {
            said |= _same(word.position, n) & _same(uint256(word.hash), uint256(store.roots[n]))
            & _same(word.amount, store.sums[n]);
        }
        _assumeUnforged(
            said, word, keccak256(abi.encode(_STATEMENT_TYPEHASH, _ID, word.position, word.hash, word.amount))
        );
    }

    function _assumeUnforged(uint256 said, Word calldata word, bytes32 structHash) private view {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", _manager.domainSeparator(), structHash));
        address signer = ecrecover(digest, word.v, word.r, word.s);
        vm.assume((said | (1 - _same(uint160(signer), uint160(_SIGNER)))) == 1);
    }

    /// @dev 1 or 0 without a branch, which would double the paths.
    function _same(uint256 one, uint256 other) private pure returns (uint256 same) {
        assembly {
            same := eq(one, other)
        }
    }

    function _receipt(Word calldata word) private pure returns (Receipt memory) {
        return Receipt(word.position, word.hash, word.amount, abi.encodePacked(word.r, word.s, word.v));
    }

    function _statement(Word calldata word) private pure returns (Statement memory) {
        return Statement(word.position, word.hash, word.amount, abi.encodePacked(word.r, word.s, word.v));
    }

    function _mustFail(bytes memory accusation) private {
        (bool convicted,) = address(_judge).call(accusation);
        assert(!convicted);
    }
}
