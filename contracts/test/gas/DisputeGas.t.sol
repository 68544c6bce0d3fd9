// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {DevToken} from "../../src/DevToken.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {DisputeFixture} from "../base/DisputeFixture.sol";

/// @notice What held money and the decisions over it cost, recorded in contracts/snapshots. Only meaningful with
/// --isolate, where no slot is warm from an earlier call of the test.
contract DisputeGasTest is DisputeFixture {
    bytes32 private constant _OTHER = keccak256("another history");

    function setUp() public override {
        super.setUp();
        // No balance is a first one, and neither contract is empty: the everyday case.
        token.mint(payee, 1);
        _raise(_held(keccak256("disputed")));
        _open(keccak256("still open"));
    }

    function test_a_tokens_first_session() public {
        DevToken fresh = new DevToken();
        fresh.mint(client, DEPOSIT);
        vm.prank(client);
        fresh.approve(address(manager), DEPOSIT);
        (uint256 id, bytes32 hash) = _register(_disputeTermsIn(address(fresh)));
        _openFor(client, id, hash, keccak256("first"), address(0));
        vm.snapshotGasLastCall("PaymentManager", "openSession, a token's first");
    }

    function test_a_contracts_first_session() public {
        manager = new PaymentManager(registry, GRACE);
        vm.prank(client);
        token.approve(address(manager), DEPOSIT);
        _open();
        vm.snapshotGasLastCall("PaymentManager", "openSession, a contract's first");
    }

    function test_settling_what_is_held() public {
        Settlement memory item = _honest(_open(), CAPTURED);
        _settle(item);
        vm.snapshotGasLastCall("PaymentManager", "settleSession, held");
    }

    function test_settling_what_is_held_in_batches() public {
        uint256[2] memory sizes = [uint256(1), 25];
        for (uint256 i = 0; i < sizes.length; ++i) {
            Settlement[] memory items = new Settlement[](sizes[i]);
            for (uint256 j = 0; j < sizes[i]; ++j) {
                items[j] = _honest(_open(keccak256(abi.encode(i, j))), CAPTURED);
            }
            vm.prank(operator);
            manager.settleSessions(items);
            vm.snapshotGasLastCall("PaymentManager", string.concat("settleSessions, ", vm.toString(sizes[i]), " held"));
        }
    }

    function test_settling_what_is_held_in_batches_of_as_many_payers() public {
        for (uint256 i = 0; i < 2; ++i) {
            Settlement[] memory items = new Settlement[](25);
            for (uint256 j = 0; j < items.length; ++j) {
                uint256 key = 1 + i * items.length + j;
                items[j] = _honest(_openForNewPayer(key, i == 0 ? DEPOSIT : 0), CAPTURED);
                items[j].signature = _sign(key, _digest(items[j].channelId, CAPTURED));
            }
            vm.prank(operator);
            manager.settleSessions(items);
            vm.snapshotGasLastCall(
                "PaymentManager",
                string.concat("settleSessions, 25 held of as many payers", i == 0 ? "" : " who have nothing left")
            );
        }
    }

    function test_releasing() public {
        bytes32 channel = _held();
        _elapse(WINDOW);
        vm.prank(stranger);
        manager.release(channel);
        vm.snapshotGasLastCall("PaymentManager", "release");
    }

    function test_a_dispute() public {
        bytes32 channel = _held();
        _raise(channel);
        vm.snapshotGasLastCall("DisputeManager", "raiseDispute");
        vm.prank(operator);
        decisions.respond(channel, URI, HASH);
        vm.snapshotGasLastCall("DisputeManager", "respond");
        _rule(channel, 250);
        vm.snapshotGasLastCall("DisputeManager", "rule");
    }

    function test_a_lapse() public {
        bytes32 channel = _held();
        _raise(channel);
        _elapse(RULING);
        vm.prank(stranger);
        decisions.lapse(channel);
        vm.snapshotGasLastCall("DisputeManager", "lapse");
    }

    function test_double_signing() public {
        bytes32 channel = _held(keccak256("receipts"));
        Receipt memory receipt = _receipt(channel, 2);
        Receipt memory otherReceipt = _receipt(channel, 2, _OTHER, CHARGE);
        vm.prank(stranger);
        decisions.proveConflictingReceipts(channel, receipt, otherReceipt);
        vm.snapshotGasLastCall("DisputeManager", "proveConflictingReceipts");

        channel = _held(keccak256("statements"));
        Statement memory statement = _statement(channel, 3);
        Statement memory otherStatement = _statement(channel, 3, _OTHER, 1);
        vm.prank(stranger);
        decisions.proveConflictingStatements(channel, statement, otherStatement);
        vm.snapshotGasLastCall("DisputeManager", "proveConflictingStatements");

        channel = _held(keccak256("root"));
        statement = _statement(channel, CALLS, _OTHER, 1);
        vm.prank(stranger);
        decisions.proveStatementAgainstRoot(channel, statement);
        vm.snapshotGasLastCall("DisputeManager", "proveStatementAgainstRoot");
    }

    function test_omission() public {
        bytes32 channel = _held(keccak256("receipt"));
        Receipt memory receipt = _receipt(channel, CALLS, _OTHER, 1);
        vm.prank(stranger);
        decisions.proveOmittedReceipt(channel, receipt);
        vm.snapshotGasLastCall("DisputeManager", "proveOmittedReceipt");

        channel = _held(keccak256("statement"));
        Statement memory statement = _statement(channel, CALLS + 1, _OTHER, 1);
        vm.prank(stranger);
        decisions.proveOmittedStatement(channel, statement);
        vm.snapshotGasLastCall("DisputeManager", "proveOmittedStatement");
    }

    function test_a_lie_while_a_dispute_and_a_challenge_are_pending() public {
        bytes32 channel = _held();
        _raise(channel);
        _challenge(channel, _receipt(channel, 2));
        Receipt memory receipt = _receipt(channel, 2);
        Receipt memory other = _receipt(channel, 2, _OTHER, CHARGE);
        vm.prank(stranger);
        decisions.proveConflictingReceipts(channel, receipt, other);
        vm.snapshotGasLastCall("DisputeManager", "proveConflictingReceipts, two bonds pending");
    }

    function test_overcharge() public {
        leaves = _transcript(33);
        uint64[2] memory covered = [uint64(33), 1];
        for (uint256 i = 0; i < covered.length; ++i) {
            bytes32 channel = _open(bytes32(i));
            _settle(_honest(channel, 33 * CHARGE + 1));
            Statement memory statement = _statement(channel, covered[i]);
            Receipt[] memory receipts = new Receipt[](33 - covered[i]);
            for (uint256 j = 0; j < receipts.length; ++j) {
                // forge-lint: disable-next-line(unsafe-typecast)
                receipts[j] = _receipt(channel, uint64(covered[i] + j));
            }
            vm.prank(stranger);
            decisions.proveOvercharge(channel, statement, receipts);
            vm.snapshotGasLastCall(
                "DisputeManager",
                string.concat("proveOvercharge, a statement and ", vm.toString(receipts.length), " receipts")
            );
        }
    }

    function test_challenges_at_1000_calls() public {
        leaves = _transcript(1000);
        bytes32 channel = _held();
        // The longest way up, and the longest proof that 1,000 calls have.
        bytes32[] memory siblings = _siblings(0);
        bytes32[] memory consistency = _consistency(1 + 512);
        vm.assertEq(siblings.length, 10);
        vm.assertEq(consistency.length, 11);
        bytes32 root = _rootOver(1 + 512);
        _challenge(channel, _receipt(channel, 0));
        vm.snapshotGasLastCall("DisputeManager", "challengeReceipt");
        vm.prank(operator);
        decisions.answerReceipt(channel, 0, leaves[0], siblings);
        vm.snapshotGasLastCall("DisputeManager", "answerReceipt, 1,000 calls");
        _challenge(channel, _statement(channel, 1 + 512));
        vm.snapshotGasLastCall("DisputeManager", "challengeStatement");
        vm.prank(operator);
        decisions.answerStatement(channel, 1 + 512, root, consistency);
        vm.snapshotGasLastCall("DisputeManager", "answerStatement, 1,000 calls");
    }

    function test_a_tokens_first_bond() public {
        DevToken fresh = new DevToken();
        fresh.mint(client, 10 * uint256(DEPOSIT));
        vm.startPrank(client);
        fresh.approve(address(manager), DEPOSIT);
        fresh.approve(address(decisions), type(uint256).max);
        vm.stopPrank();
        (serviceId, termsHash) = _register(_disputeTermsIn(address(fresh)));
        bytes32 channel = _held();
        _challenge(channel, _receipt(channel, 2));
        vm.snapshotGasLastCall("DisputeManager", "challengeReceipt, a token's first bond");
        // To a payee that never had any of the token.
        bytes32[] memory siblings = _siblings(2);
        vm.prank(operator);
        decisions.answerReceipt(channel, 2, leaves[2], siblings);
        vm.snapshotGasLastCall("DisputeManager", "answerReceipt, to a payee without a balance");
    }

    function test_silence() public {
        bytes32 channel = _held();
        _challenge(channel, _receipt(channel, 2));
        _elapse(ANSWER);
        vm.prank(stranger);
        decisions.claimUnanswered(channel);
        vm.snapshotGasLastCall("DisputeManager", "claimUnanswered");
    }
}
