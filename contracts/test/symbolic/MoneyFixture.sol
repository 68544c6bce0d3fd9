// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IDisputeManager} from "../../src/interfaces/IDisputeManager.sol";
import {SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {ServiceRegistry} from "../../src/ServiceRegistry.sol";
import {TestBase} from "../base/TestBase.sol";

/// @notice The least that moves exactly what it is told, and refuses to pay whoever it was told to refuse.
contract PlainToken {
    mapping(address owner => uint256 amount) public balanceOf;
    mapping(address owner => bool refused) public refused;

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
    }

    function refuse(address owner, bool value) external {
        refused[owner] = value;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        if (refused[to]) return false;
        balanceOf[msg.sender] -= amount;
        balanceOf[to] += amount;
        return true;
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
        return true;
    }
}

/// @notice The real contracts, one client, one service without and one with a dispute window, and other people's money.
abstract contract MoneyFixture is TestBase {
    /// @dev A voucher's signature. Who signed it is an uninterpreted function of digest and signature, so a check goes
    /// through both: it is the client's, and it is somebody else's.
    struct Signature {
        bytes32 r;
        bytes32 s;
        uint8 v;
    }

    uint256 internal constant FUNDS = 1 << 130;
    bytes32 internal constant ROOT = keccak256("a root over three calls");
    uint128 internal constant BOND = 50;
    uint32 internal constant WINDOW = 1 days;
    uint32 internal constant RULING_PERIOD = 1 days;
    uint64 internal constant GRACE = 900;
    uint256 internal constant START = 1_800_000_000;

    address internal constant CLIENT = address(0xc11e);
    address internal constant OPERATOR = address(0x09e4);
    address internal constant PAYEE = address(0xbabe);
    address internal constant ARBITRATOR = address(0xa4b1);
    address internal constant ANYBODY = address(0xa117);

    PaymentManager internal manager;
    IDisputeManager internal judge;
    PlainToken internal token;
    bytes32 internal plainTerms;
    bytes32 internal windowTerms;

    function setUp() public {
        vm.warp(START);
        ServiceRegistry registry = new ServiceRegistry();
        manager = new PaymentManager(registry, GRACE);
        judge = manager.disputeManager();
        token = new PlainToken();
        token.mint(CLIENT, FUNDS);
        // Other people's money.
        token.mint(address(manager), FUNDS);
        token.mint(address(judge), FUNDS);

        Terms memory terms;
        (terms.operator, terms.payee, terms.token, terms.receiptSigner) = (OPERATOR, PAYEE, address(token), OPERATOR);
        terms.commitRequired = true;
        vm.prank(OPERATOR);
        plainTerms = registry.currentTerms(registry.register(terms, ""));
        (terms.arbitrator, terms.rulingPeriod) = (ARBITRATOR, RULING_PERIOD);
        (terms.disputeWindow, terms.disputeBond) = (WINDOW, BOND);
        vm.prank(OPERATOR);
        windowTerms = registry.currentTerms(registry.register(terms, ""));
    }

    function _open(bool window, uint128 deposit) internal returns (bytes32) {
        vm.assume(deposit != 0);
        vm.prank(CLIENT);
        return manager.openSession(
            window ? 2 : 1, window ? windowTerms : plainTerms, deposit, bytes32(0), address(0), bytes32(0)
        );
    }

    function _commit(bytes32 id) internal {
        vm.prank(OPERATOR);
        manager.commitResults(id, ROOT, 3);
    }

    /// @dev A session that ended with `capture` held.
    function _hold(uint128 deposit, uint128 capture, Signature calldata signature) internal returns (bytes32 id) {
        id = _open(true, deposit);
        vm.assume(capture != 0);
        vm.prank(OPERATOR);
        manager.settleSession(Settlement(id, capture, capture, 3, ROOT, _bytes(signature)));
    }

    function _try(address sender, bytes memory act) internal returns (bool done) {
        vm.prank(sender);
        (done,) = address(manager).call(act);
    }

    function _tryJudge(address sender, bytes memory act) internal returns (bool done) {
        vm.prank(sender);
        (done,) = address(judge).call(act);
    }

    function _bytes(Signature calldata signature) internal pure returns (bytes memory) {
        return abi.encodePacked(signature.r, signature.s, signature.v);
    }

    function _view(bytes32 id) internal view returns (SessionView memory) {
        return manager.sessionOfChannel(id);
    }

    /// @dev What an owner has, in its pocket or as a credit. All sums are far below 2^256; a check for that would only
    /// make paths.
    function _has(address owner) internal view returns (uint256) {
        unchecked {
            return
                token.balanceOf(owner) + manager.credits(address(token), owner) + judge.credits(address(token), owner);
        }
    }

    /// @dev What a contract has beside other people's money and credits; more than there is where it has less.
    function _keeps(address holder) internal view returns (uint256) {
        unchecked {
            uint256 credits = holder == address(manager)
                ? manager.credits(address(token), CLIENT) + manager.credits(address(token), PAYEE)
                : judge.credits(address(token), CLIENT) + judge.credits(address(token), PAYEE);
            return token.balanceOf(holder) - FUNDS - credits;
        }
    }
}
