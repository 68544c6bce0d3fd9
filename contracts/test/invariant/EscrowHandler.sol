// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {ServiceRegistry} from "../../src/ServiceRegistry.sol";
import {TestBase} from "../base/TestBase.sol";
import {DenylistToken} from "../mocks/Tokens.sol";
import {Mute, Wallet} from "../mocks/Wallets.sol";

/// @notice Everybody who can touch a payment manager: payers with a key, with a delegation and with a contract account,
/// the operator, its payee, a thief and the clock. Keeps its own books of what happened.
/// @dev An action that must succeed is called directly, so that a revert fails the run; one that must not is expected
/// to fail. What is left out by the random choice does nothing.
contract EscrowHandler is TestBase {
    /// @notice What the books say of a channel.
    struct Book {
        address payer;
        DenylistToken token;
        uint128 deposit;
        uint128 settled;
        bytes32 root;
        uint64 callCount;
        bool commitRequired;
        bool plain;
        uint64 closeRequestedAt;
        bytes32 finalState;
    }

    bytes32 private constant _VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 cumulativeAmount)");
    uint64 private constant _GRACE = 900;
    uint256 private constant _MAX_CHANNELS = 24;

    PaymentManager public immutable manager;
    ServiceRegistry public immutable registry;
    address public immutable operator = address(0x0123456789012345678901234567890123456789);
    address public immutable payee = address(0x9876543210987654321098765432109876543210);
    address public immutable thief = address(0x6666666666666666666666666666666666666666);

    DenylistToken[] public tokens;
    address[] public payers;
    bytes32[] public channels;
    mapping(address payer => uint256 key) public keys;
    mapping(bytes32 channelId => Book book) public books;
    mapping(DenylistToken token => uint256 amount) public donated;
    mapping(DenylistToken token => mapping(address owner => uint256 amount)) public claimed;
    uint256 public thefts;

    uint256 private _nonce;
    address private immutable _test = msg.sender;

    /// @dev The end of a run is no random action.
    modifier onlyTest() {
        if (msg.sender == _test) _;
    }

    constructor() {
        registry = new ServiceRegistry();
        manager = new PaymentManager(registry, _GRACE);
        uint256[3] memory seeds = [uint256(0xa11ce), 0xb0b, 0xca401];
        address[3] memory accounts = [vm.addr(seeds[0]), vm.addr(seeds[1]), address(new Wallet(vm.addr(seeds[2])))];
        vm.etch(accounts[1], abi.encodePacked(hex"ef0100", address(new Mute())));
        for (uint256 i = 0; i < accounts.length; ++i) {
            payers.push(accounts[i]);
            keys[accounts[i]] = seeds[i];
        }
        for (uint256 i = 0; i < 2; ++i) {
            tokens.push(new DenylistToken());
            for (uint256 j = 0; j < payers.length; ++j) {
                tokens[i].mint(payers[j], type(uint128).max);
                vm.prank(payers[j]);
                tokens[i].approve(address(manager), type(uint256).max);
            }
            _register(i, true);
            _register(i, false);
        }
    }

    function openSession(uint256 who, uint256 serviceSeed, uint128 deposit) external {
        if (channels.length == _MAX_CHANNELS) return;
        address payer = payers[who % payers.length];
        uint256 serviceId = 1 + serviceSeed % 4;
        bytes32 termsHash = registry.currentTerms(serviceId);
        (,, address token, bool commitRequired,) = registry.paymentTerms(termsHash);
        deposit = _bound128(deposit, 1, 1e12);
        vm.prank(payer);
        bytes32 id = manager.openSession(serviceId, termsHash, deposit, bytes32(++_nonce), address(0), bytes32(0));
        _book(id, payer, DenylistToken(token), deposit, commitRequired, false);
    }

    function openPlain(uint256 who, uint256 tokenSeed, uint128 deposit) external {
        if (channels.length == _MAX_CHANNELS) return;
        address payer = payers[who % payers.length];
        DenylistToken token = tokens[tokenSeed % 2];
        deposit = _bound128(deposit, 1, 1e12);
        vm.prank(payer);
        bytes32 id = manager.open(payee, address(token), deposit, bytes32(++_nonce), address(0));
        _book(id, payer, token, deposit, false, true);
    }

    function topUp(uint256 seed, uint128 amount) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found) return;
        amount = _bound128(amount, 1, 1e12);
        vm.prank(books[id].payer);
        manager.topUp(id, amount);
        books[id].deposit += amount;
        books[id].closeRequestedAt = 0;
    }

    function commit(uint256 seed, bytes32 root, uint64 callCount) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found || root == 0) return;
        callCount = uint64(_bound(callCount, 1, type(uint56).max));
        if (books[id].root != 0) {
            vm.expectRevert();
        } else {
            books[id].root = root;
            books[id].callCount = callCount;
        }
        vm.prank(books[id].plain ? payee : operator);
        manager.commitResults(id, root, callCount);
    }

    function settle(uint256 seed, uint128 amount) external {
        (bytes32 id, bool found) = _openChannel(seed);
        Book storage book = books[id];
        if (!found || book.settled == book.deposit) return;
        amount = _bound128(amount, book.settled + 1, book.deposit);
        bytes memory voucher = _voucher(id, amount);
        if (book.commitRequired && book.root == 0) vm.expectRevert();
        else book.settled = amount;
        vm.prank(payee);
        manager.settle(id, amount, voucher);
    }

    function close(uint256 seed, uint128 amount) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found) return;
        Book storage book = books[id];
        amount = _bound128(amount, 0, book.deposit);
        bool raises = amount > book.settled;
        if (raises && book.commitRequired && book.root == 0) return;
        bytes memory voucher = raises ? _voucher(id, amount) : bytes("");
        vm.prank(payee);
        manager.close(id, amount, voucher);
        if (raises) book.settled = amount;
        _ended(id);
    }

    function settleSession(uint256 seed, uint128 voucherAmount, uint128 capture, bytes32 root) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found) return;
        Settlement memory item = _item(id, voucherAmount, capture, root);
        vm.prank(books[id].plain ? payee : operator);
        manager.settleSession(item);
        _settledBy(item);
    }

    function settleBatch(uint256 firstSeed, uint256 secondSeed, uint128 capture, bytes32 root, bool spoilFirst)
        external
    {
        (bytes32 first, bool found) = _openChannel(firstSeed);
        (bytes32 second, bool foundSecond) = _openChannel(secondSeed);
        if (!found || !foundSecond || first == second) return;
        Settlement[] memory items = new Settlement[](2);
        items[0] = _item(first, capture, capture, root);
        items[1] = _item(second, capture, capture, root);
        if (spoilFirst) items[0].capture = books[first].deposit + 1;
        vm.prank(payee);
        manager.settleSessions(items);
        if (!spoilFirst) _settledBy(items[0]);
        _settledBy(items[1]);
    }

    function settleAgain(uint256 seed) external {
        if (channels.length == 0) return;
        bytes32 id = channels[seed % channels.length];
        Book storage book = books[id];
        if (book.finalState == 0) return;
        vm.prank(payee);
        manager.settleSession(Settlement(id, 0, book.settled, book.callCount, book.root, ""));
    }

    function requestClose(uint256 seed) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found) return;
        vm.prank(books[id].payer);
        manager.requestClose(id);
        if (books[id].closeRequestedAt == 0) books[id].closeRequestedAt = uint64(vm.getBlockTimestamp());
    }

    function withdraw(uint256 seed) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found) return;
        uint64 requestedAt = books[id].closeRequestedAt;
        bool ready = requestedAt != 0 && vm.getBlockTimestamp() >= requestedAt + _GRACE;
        if (!ready) vm.expectRevert();
        vm.prank(books[id].payer);
        manager.withdraw(id);
        if (ready) _ended(id);
    }

    function claim(uint256 who, uint256 tokenSeed) external {
        DenylistToken token = tokens[tokenSeed % 2];
        address owner = who % 4 == 3 ? payee : payers[who % 4];
        _claim(token, owner);
    }

    /// @notice At the end of a run: an owner takes its credit.
    function claimFor(DenylistToken token, address owner) external onlyTest {
        _claim(token, owner);
    }

    /// @notice At the end of a run: the payer's way out, with nobody's help.
    function exit(uint256 index) external onlyTest {
        bytes32 id = channels[index];
        if (books[id].finalState != 0) return;
        vm.prank(books[id].payer);
        manager.requestClose(id);
        vm.warp(vm.getBlockTimestamp() + _GRACE);
        vm.prank(books[id].payer);
        manager.withdraw(id);
        _ended(id);
    }

    function deny(uint256 who, uint256 tokenSeed, bool denied) external {
        tokens[tokenSeed % 2].setDenied(who % 4 == 3 ? payee : payers[who % 4], denied);
    }

    function donate(uint256 tokenSeed, uint128 amount) external {
        DenylistToken token = tokens[tokenSeed % 2];
        amount = _bound128(amount, 0, 1e12);
        token.mint(address(manager), amount);
        donated[token] += amount;
    }

    function changeTerms(uint256 serviceSeed, bool commitRequired) external {
        uint256 serviceId = 1 + serviceSeed % 4;
        Terms memory changed = _terms((serviceId - 1) / 2, commitRequired);
        vm.prank(operator);
        registry.update(serviceId, changed, "");
    }

    function pass(uint256 elapsed) external {
        vm.warp(vm.getBlockTimestamp() + _bound(elapsed, 1, 600));
    }

    /// @notice The thief tries every door with a good voucher that it overheard.
    function steal(uint256 seed, uint128 amount) external {
        if (channels.length == 0) return;
        bytes32 id = channels[seed % channels.length];
        bytes memory voucher = _voucher(id, _bound128(amount, 1, books[id].deposit));
        bytes[9] memory attempts = [
            abi.encodeCall(manager.settle, (id, amount, voucher)),
            abi.encodeCall(manager.close, (id, amount, voucher)),
            abi.encodeCall(manager.close, (id, 0, "")),
            abi.encodeCall(manager.commitResults, (id, bytes32(uint256(1)), 1)),
            abi.encodeCall(manager.settleSession, (Settlement(id, amount, amount, 1, bytes32(uint256(1)), voucher))),
            abi.encodeCall(manager.requestClose, (id)),
            abi.encodeCall(manager.withdraw, (id)),
            abi.encodeCall(manager.topUp, (id, 1)),
            abi.encodeCall(manager.claimCredit, (address(books[id].token), thief))
        ];
        for (uint256 i = 0; i < attempts.length; ++i) {
            vm.prank(thief);
            (bool done,) = address(manager).call(attempts[i]);
            if (done) ++thefts;
        }
    }

    function channelCount() external view returns (uint256) {
        return channels.length;
    }

    function bookOf(bytes32 id) external view returns (Book memory) {
        return books[id];
    }

    function stateOf(bytes32 id) public view returns (bytes32) {
        return keccak256(abi.encode(manager.sessionOfChannel(id)));
    }

    function _claim(DenylistToken token, address owner) private {
        uint256 amount = manager.credits(address(token), owner);
        if (amount == 0) return;
        vm.prank(owner);
        manager.claimCredit(address(token), address(0xc1a1));
        claimed[token][owner] += amount;
    }

    function _item(bytes32 id, uint128 voucherAmount, uint128 capture, bytes32 root)
        private
        view
        returns (Settlement memory item)
    {
        Book storage book = books[id];
        item.channelId = id;
        item.root = book.root;
        item.callCount = book.callCount;
        if (book.root == 0 && root != 0) (item.root, item.callCount) = (root, 7);
        bool mayPay = !book.commitRequired || item.root != 0;
        item.voucherAmount = _bound128(voucherAmount, book.settled, book.deposit);
        item.capture = mayPay ? _bound128(capture, book.settled, item.voucherAmount) : book.settled;
        if (item.capture > book.settled) item.signature = _voucher(id, item.voucherAmount);
    }

    function _settledBy(Settlement memory item) private {
        Book storage book = books[item.channelId];
        (book.root, book.callCount, book.settled) = (item.root, item.callCount, item.capture);
        _ended(item.channelId);
    }

    function _ended(bytes32 id) private {
        SessionView memory found = manager.sessionOfChannel(id);
        vm.assertTrue(found.finalizedAt != 0, "an action that ends a channel did not end it");
        books[id].finalState = stateOf(id);
    }

    function _openChannel(uint256 seed) private view returns (bytes32 id, bool found) {
        for (uint256 i = 0; i < channels.length; ++i) {
            id = channels[(seed % channels.length + i) % channels.length];
            if (books[id].finalState == 0) return (id, true);
        }
    }

    function _book(bytes32 id, address payer, DenylistToken token, uint128 deposit, bool commitRequired, bool plain)
        private
    {
        channels.push(id);
        Book storage book = books[id];
        (book.payer, book.token, book.deposit) = (payer, token, deposit);
        (book.commitRequired, book.plain) = (commitRequired, plain);
    }

    function _register(uint256 tokenIndex, bool commitRequired) private {
        Terms memory terms = _terms(tokenIndex, commitRequired);
        vm.prank(operator);
        registry.register(terms, "");
    }

    function _terms(uint256 tokenIndex, bool commitRequired) private view returns (Terms memory terms) {
        (terms.operator, terms.payee, terms.receiptSigner) = (operator, payee, operator);
        (terms.token, terms.commitRequired) = (address(tokens[tokenIndex]), commitRequired);
    }

    function _voucher(bytes32 id, uint128 amount) private view returns (bytes memory) {
        bytes32 structHash = keccak256(abi.encode(_VOUCHER_TYPEHASH, id, amount));
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", manager.domainSeparator(), structHash));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(keys[books[id].payer], digest);
        return abi.encodePacked(r, s, v);
    }
}
