// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Case, Claim, IDisputeManager, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";
import {ConsistencyTree} from "./ConsistencyTree.sol";
import {PaymentFixture} from "./PaymentFixture.sol";
import {TranscriptTree} from "./TranscriptTree.sol";

/// @notice A service whose captured money is held, an arbitrator, an operator that signs words, and a session of five
/// calls at 100 each.
abstract contract DisputeFixture is PaymentFixture {
    uint32 internal constant WINDOW = 3 days;
    uint32 internal constant RULING = 7 days;
    uint64 internal constant ANSWER = 24 hours;
    uint128 internal constant BOND = 5000;
    uint64 internal constant CALLS = 5;
    uint128 internal constant CHARGE = 100;
    uint128 internal constant CAPTURED = 500;
    string internal constant URI = "https://evidence.example/package.json";
    bytes32 internal constant HASH = keccak256("the evidence package");

    bytes32 internal constant RECEIPT_TYPEHASH =
        keccak256("CallReceipt(bytes32 channelId,uint64 index,bytes32 leaf,uint128 charge)");
    bytes32 internal constant STATEMENT_TYPEHASH =
        keccak256("Statement(bytes32 channelId,uint64 callCount,bytes32 root,uint128 spent)");

    // A throw-away key.
    uint256 internal constant SIGNER_KEY = 0x5555555555555555555555555555555555555555555555555555555555555555;

    address internal arbitrator = address(0xABcdEFABcdEFabcdEfAbCdefabcdeFABcDEFabCD);
    address internal stranger = address(0x7777777777777777777777777777777777777777);

    IDisputeManager internal decisions;
    bytes32[] internal leaves;

    uint256 private _clientStart;

    function setUp() public virtual override {
        receiptSigner = vm.addr(SIGNER_KEY);
        super.setUp();
        decisions = manager.disputeManager();
        vm.prank(client);
        token.approve(address(decisions), type(uint256).max);
        leaves = _transcript(CALLS);
        (serviceId, termsHash) = _register(_disputeTerms());
        _clientStart = token.balanceOf(client);
    }

    function _disputeTerms() internal view returns (Terms memory) {
        return _disputeTermsIn(address(token));
    }

    function _disputeTermsIn(address token_) internal view returns (Terms memory terms) {
        terms = _termsIn(token_, true);
        terms.arbitrator = arbitrator;
        terms.disputeWindow = WINDOW;
        terms.rulingPeriod = RULING;
        terms.disputeBond = BOND;
    }

    function _ruledWithin(uint32 rulingPeriod) internal view returns (Terms memory terms) {
        terms = _disputeTerms();
        terms.rulingPeriod = rulingPeriod;
    }

    /// @dev The leaves of a session of `count` calls.
    function _transcript(uint256 count) internal pure returns (bytes32[] memory found) {
        found = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            found[i] = TranscriptProof.leafHash(
                i, keccak256(abi.encode("request", i)), keccak256(abi.encode("response", i)), keccak256("tool")
            );
        }
    }

    function _rootOver(uint256 count) internal view returns (bytes32) {
        return TranscriptTree.rootOf(leaves, count);
    }

    /// @dev A session that is over: five calls anchored, 500 held, the rest refunded.
    function _held() internal returns (bytes32 channel) {
        return _held(keccak256("held"));
    }

    function _held(bytes32 nonce) internal returns (bytes32 channel) {
        channel = _open(nonce);
        _settle(_honest(channel, CAPTURED));
    }

    function _honest(bytes32 channel, uint128 capture) internal view returns (Settlement memory) {
        return Settlement({
            channelId: channel,
            voucherAmount: capture,
            capture: capture,
            callCount: uint64(leaves.length),
            root: _rootOver(leaves.length),
            signature: _voucher(channel, capture)
        });
    }

    function _settle(Settlement memory item) internal {
        vm.prank(operator);
        manager.settleSession(item);
    }

    /// @dev What the operator signed for a call while it kept the rules.
    function _receipt(bytes32 channel, uint64 index) internal view returns (Receipt memory) {
        return _receipt(channel, index, leaves[index], CHARGE);
    }

    function _receipt(bytes32 channel, uint64 index, bytes32 leaf, uint128 charge)
        internal
        view
        returns (Receipt memory)
    {
        return Receipt(index, leaf, charge, _sign(SIGNER_KEY, _receiptDigest(channel, index, leaf, charge)));
    }

    /// @dev What the operator signed over the first calls while it kept the rules.
    function _statement(bytes32 channel, uint64 callCount) internal view returns (Statement memory) {
        return _statement(channel, callCount, _rootOver(callCount), CHARGE * callCount);
    }

    function _statement(bytes32 channel, uint64 callCount, bytes32 root, uint128 spent)
        internal
        view
        returns (Statement memory)
    {
        return Statement(callCount, root, spent, _sign(SIGNER_KEY, _statementDigest(channel, callCount, root, spent)));
    }

    function _receiptDigest(bytes32 channel, uint64 index, bytes32 leaf, uint128 charge)
        internal
        view
        returns (bytes32)
    {
        return _typed(keccak256(abi.encode(RECEIPT_TYPEHASH, channel, index, leaf, charge)));
    }

    function _statementDigest(bytes32 channel, uint64 callCount, bytes32 root, uint128 spent)
        internal
        view
        returns (bytes32)
    {
        return _typed(keccak256(abi.encode(STATEMENT_TYPEHASH, channel, callCount, root, spent)));
    }

    function _typed(bytes32 structHash) internal view returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", manager.domainSeparator(), structHash));
    }

    function _siblings(uint256 index) internal view returns (bytes32[] memory) {
        return TranscriptTree.siblingsOf(leaves, leaves.length, index);
    }

    /// @dev The proof that all calls begin with the first `callCount`.
    function _consistency(uint256 callCount) internal view returns (bytes32[] memory) {
        return ConsistencyTree.proofOf(leaves, callCount, leaves.length, TranscriptProof.nodeHash);
    }

    function _raise(bytes32 channel) internal {
        vm.prank(client);
        decisions.raiseDispute(channel, Claim.Quality, URI, HASH);
    }

    function _rule(bytes32 channel, uint128 award) internal {
        vm.prank(arbitrator);
        decisions.rule(channel, award);
    }

    function _challenge(bytes32 channel, Receipt memory receipt) internal {
        vm.prank(client);
        decisions.challengeReceipt(channel, receipt);
    }

    function _challenge(bytes32 channel, Statement memory statement) internal {
        vm.prank(client);
        decisions.challengeStatement(channel, statement);
    }

    /// @dev Answers a challenge of that call as an honest operator does.
    function _answer(bytes32 channel, uint64 index) internal {
        vm.prank(operator);
        decisions.answerReceipt(channel, index, leaves[index], _siblings(index));
    }

    function _elapse(uint256 duration) internal {
        vm.warp(vm.getBlockTimestamp() + duration);
    }

    function _now() internal view returns (uint64) {
        return uint64(vm.getBlockTimestamp());
    }

    /// @dev What the client has less than at the beginning.
    function _spentByClient() internal view returns (uint256) {
        return _clientStart - token.balanceOf(client);
    }

    function _assertMoney(bytes32 channel, uint128 settled, uint128 held, uint128 awarded, uint128 refunded)
        internal
        view
    {
        SessionView memory found = _view(channel);
        vm.assertEq(found.settled, settled, "settled");
        vm.assertEq(found.held, held, "held");
        vm.assertEq(found.awarded, awarded, "awarded");
        vm.assertEq(found.refunded, refunded, "refunded");
        vm.assertEq(manager.holdOf(channel).held, held, "holdOf");
        vm.assertEq(decisions.awarded(channel), awarded, "awarded by the DisputeManager");
    }

    /// @dev Everything left both contracts.
    function _assertEmpty() internal view {
        vm.assertEq(token.balanceOf(address(manager)), 0, "the PaymentManager keeps something");
        vm.assertEq(token.balanceOf(address(decisions)), 0, "the DisputeManager keeps something");
    }

    function _case(bytes32 channel) internal view returns (Case memory) {
        return decisions.caseOf(channel);
    }

    function _refusal(bytes4 selector, bytes32 channel) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, channel);
    }

    function _refusal(bytes4 selector, bytes32 channel, address who) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, channel, who);
    }

    function _refusal(bytes4 selector, bytes32 channel, uint256 value) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(selector, channel, value);
    }
}
