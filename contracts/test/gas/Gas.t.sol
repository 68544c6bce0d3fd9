// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {PaymentFixture} from "../base/PaymentFixture.sol";
import {Wallet} from "../mocks/Wallets.sol";

/// @notice What transactions cost, recorded in contracts/snapshots. Only meaningful with --isolate, where no slot is
/// warm from an earlier call of the test.
contract GasTest is PaymentFixture {
    function setUp() public override {
        super.setUp();
        // Neither a first nonce, nor an empty balance, nor an empty contract: the everyday case.
        bytes32 channel = _open(keccak256("earlier"));
        Settlement memory item = _settlement(channel, 1);
        vm.prank(operator);
        manager.settleSession(item);
        _open(keccak256("still open"));
    }

    function test_registry() public {
        vm.startPrank(operator);
        registry.register(_terms(true), "https://service.example/.well-known/aioum.json");
        vm.snapshotGasLastCall("ServiceRegistry", "register");
        registry.update(serviceId, _terms(false), "https://service.example/.well-known/aioum.json");
        vm.snapshotGasLastCall("ServiceRegistry", "update");
        registry.retire(serviceId);
        vm.snapshotGasLastCall("ServiceRegistry", "retire");
        vm.stopPrank();
    }

    function test_opening() public {
        bytes32 channel = _open(keccak256("n"));
        vm.snapshotGasLastCall("PaymentManager", "openSession");
        _openFor(client, serviceId, termsHash, keccak256("n"), vm.addr(DELEGATE_KEY));
        vm.snapshotGasLastCall("PaymentManager", "openSession, with an authorizedSigner");
        _openPlain();
        vm.snapshotGasLastCall("PaymentManager", "open");
        vm.prank(client);
        manager.topUp(channel, 1);
        vm.snapshotGasLastCall("PaymentManager", "topUp");
    }

    function test_settling_step_by_step() public {
        bytes32 channel = _open(keccak256("n"));
        bytes memory first = _voucher(channel, 100);
        bytes memory second = _voucher(channel, 200);
        _commit(channel);
        vm.snapshotGasLastCall("PaymentManager", "commitResults");
        vm.startPrank(payee);
        manager.settle(channel, 100, first);
        vm.snapshotGasLastCall("PaymentManager", "settle");
        manager.close(channel, 200, second);
        vm.snapshotGasLastCall("PaymentManager", "close, with a voucher");
        vm.stopPrank();
    }

    function test_the_payers_exit() public {
        bytes32 channel = _open(keccak256("n"));
        vm.startPrank(client);
        manager.requestClose(channel);
        vm.snapshotGasLastCall("PaymentManager", "requestClose");
        vm.warp(vm.getBlockTimestamp() + GRACE);
        manager.withdraw(channel);
        vm.snapshotGasLastCall("PaymentManager", "withdraw");
        vm.stopPrank();
    }

    function test_settling_at_once() public {
        Settlement memory item = _settlement(_open(keccak256("n")), 100);
        vm.prank(operator);
        manager.settleSession(item);
        vm.snapshotGasLastCall("PaymentManager", "settleSession");
        vm.prank(operator);
        manager.settleSession(item);
        vm.snapshotGasLastCall("PaymentManager", "settleSession, again");

        Wallet wallet = new Wallet(client);
        token.mint(address(wallet), DEPOSIT);
        wallet.approve(token, address(manager));
        item = _settlement(wallet.openSession(manager, serviceId, termsHash, DEPOSIT), 100);
        vm.prank(operator);
        manager.settleSession(item);
        vm.snapshotGasLastCall("PaymentManager", "settleSession, ERC-1271");
    }

    function test_settling_in_batches() public {
        uint256[4] memory sizes = [uint256(1), 5, 25, 100];
        for (uint256 i = 0; i < sizes.length; ++i) {
            Settlement[] memory items = new Settlement[](sizes[i]);
            for (uint256 j = 0; j < sizes[i]; ++j) {
                items[j] = _settlement(_open(keccak256(abi.encode(i, j))), 100);
            }
            vm.prank(operator);
            manager.settleSessions(items);
            vm.snapshotGasLastCall(
                "PaymentManager", string.concat("settleSessions, ", vm.toString(sizes[i]), " of one payer")
            );
        }
    }

    function test_settling_in_batches_of_as_many_payers() public {
        for (uint256 i = 0; i < 2; ++i) {
            Settlement[] memory items = new Settlement[](25);
            for (uint256 j = 0; j < items.length; ++j) {
                uint256 key = 1 + i * items.length + j;
                items[j] = _settlement(_openForNewPayer(key, i == 0 ? DEPOSIT : 0), 100);
                items[j].signature = _sign(key, _digest(items[j].channelId, 100));
            }
            vm.prank(operator);
            manager.settleSessions(items);
            vm.snapshotGasLastCall(
                "PaymentManager",
                string.concat("settleSessions, 25 of as many payers", i == 0 ? "" : " who have nothing left")
            );
        }
    }
}
