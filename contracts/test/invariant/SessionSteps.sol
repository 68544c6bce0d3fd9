// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {SessionView, Settlement} from "../../src/interfaces/IPaymentManager.sol";
import {Authorization} from "../../src/libraries/TokenTransfer.sol";
import {TranscriptTree} from "../base/TranscriptTree.sol";
import {ClearingToken, DisputeWorld} from "./DisputeWorld.sol";

/// @notice What clients and operators do with sessions until, and at, their end.
/// @dev An action that must succeed is called directly, so that a revert fails the run; one that must not is expected
/// to fail. What is left out by the random choice does nothing.
abstract contract SessionSteps is DisputeWorld {
    bytes32 private constant _RECEIVE_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );

    uint256 private _nonce;

    function open(uint256 who, uint256 serviceSeed, uint128 deposit, bool relayed) external {
        _open(who, serviceSeed, deposit, relayed);
    }

    /// @notice A whole session at once, so that a run gets to what happens after one.
    function sell(uint256 who, uint256 serviceSeed, uint256 calls, bytes32 salt) external {
        (bytes32 id, bool opened) = _open(who, serviceSeed, uint128(uint256(salt)), false);
        if (!opened) return;
        calls = _bound(calls, 1, MAX_CALLS);
        for (uint256 i = 0; i < calls; ++i) {
            bytes32 word = keccak256(abi.encode(salt, i));
            _call(id, word, _bound128(uint256(word), 0, uint128((_books[id].deposit - _books[id].spent) / 2)));
        }
        _settleSession(id, type(uint128).max, uint128(uint256(salt)));
    }

    function call(uint256 seed, bytes32 salt, uint128 charge) external {
        (bytes32 id, bool found) = _openChannel(seed);
        // Sealed before anything is anchored; nothing is admitted while a close is pending.
        if (!found || _books[id].root != 0 || _books[id].closeRequestedAt != 0) return;
        if (_books[id].leaves.length == MAX_CALLS) return;
        _call(id, salt, _bound128(charge, 0, _books[id].deposit - _books[id].spent));
    }

    function topUp(uint256 seed, uint128 amount, bool relayed) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found) return;
        amount = _bound128(amount, 1, 1e12);
        Book storage book = _books[id];
        if (relayed && book.payer.code.length == 0) {
            bytes32 salt = bytes32(++_nonce);
            bytes32 tokenNonce = keccak256(abi.encode(id, amount, book.payer, salt));
            Authorization memory authorization =
                _authorization(services[book.serviceId].token, book.payer, amount, tokenNonce);
            // A signature that somebody else sends never takes the payer's exit back.
            if (book.closeRequestedAt != 0) vm.expectRevert();
            vm.prank(thief);
            manager.topUpWithAuthorization(id, amount, salt, authorization);
            if (book.closeRequestedAt != 0) return;
        } else {
            vm.prank(book.payer);
            manager.topUp(id, amount);
            book.closeRequestedAt = 0;
        }
        book.deposit += amount;
        paidIn[services[book.serviceId].token][book.payer] += amount;
    }

    function requestClose(uint256 seed) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found) return;
        vm.prank(_books[id].payer);
        manager.requestClose(id);
        if (_books[id].closeRequestedAt == 0) _books[id].closeRequestedAt = _now();
    }

    function withdraw(uint256 seed) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (found) _withdraw(id);
    }

    function anchor(uint256 seed) external {
        (bytes32 id, bool found) = _openChannel(seed);
        Book storage book = _books[id];
        if (!found || book.leaves.length == 0) return;
        (bytes32 root, uint64 callCount) = _history(id);
        if (book.root != 0) {
            // Not even the same again, and certainly no other.
            vm.expectRevert();
            vm.prank(_operatorOf(id));
            manager.commitResults(id, keccak256(abi.encode(root)), callCount);
            return;
        }
        vm.prank(_operatorOf(id));
        manager.commitResults(id, root, callCount);
        (book.root, book.callCount) = (root, callCount);
    }

    function settle(uint256 seed, uint128 amount) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (!found || _captureLimit(id) <= _books[id].settled) return;
        Book storage book = _books[id];
        amount = _bound128(amount, book.settled + 1, _captureLimit(id));
        bytes memory voucher = _voucher(id, amount);
        bool allowed = book.root != 0;
        if (!allowed) vm.expectRevert();
        vm.prank(payeeOf(book.serviceId));
        manager.settle(id, amount, voucher);
        if (!allowed) return;
        if (services[book.serviceId].window == 0) _owe(id, payeeOf(book.serviceId), amount - book.settled);
        book.settled = amount;
    }

    function settleSession(uint256 seed, uint128 capture, uint128 voucherAmount) external {
        (bytes32 id, bool found) = _openChannel(seed);
        if (found) _settleSession(id, capture, voucherAmount);
    }

    function settleBatch(uint256 firstSeed, uint256 secondSeed, uint128 capture, bool spoilFirst) external {
        (bytes32 first, bool found) = _openChannel(firstSeed);
        (bytes32 second,) = _openChannel(secondSeed);
        if (!found || first == second || _operatorOf(first) != _operatorOf(second)) return;
        Settlement[] memory items = new Settlement[](2);
        items[0] = _item(first, capture, capture);
        items[1] = _item(second, capture, capture);
        if (spoilFirst) items[0].capture = _books[first].deposit + 1;
        vm.prank(_operatorOf(first));
        manager.settleSessions(items);
        if (!spoilFirst) _settledBy(items[0]);
        _settledBy(items[1]);
    }

    function settleAgain(uint256 seed) external {
        (bytes32 id, bool found) = _endedChannel(seed, false);
        if (!found) return;
        Book storage book = _books[id];
        vm.prank(_operatorOf(id));
        manager.settleSession(Settlement(id, 0, book.settled, book.callCount, book.root, ""));
    }

    /// @dev Most that the operator captures: an honest one what was spent.
    function _captureLimit(bytes32 id) internal view returns (uint128) {
        return _books[id].fault == Fault.Overcharges ? _books[id].deposit : _books[id].spent;
    }

    function _operatorOf(bytes32 id) internal view returns (address) {
        return services[_books[id].serviceId].honest ? operator : liar;
    }

    function _withdraw(bytes32 id) internal {
        uint64 requestedAt = _books[id].closeRequestedAt;
        bool ready = requestedAt != 0 && _now() >= requestedAt + GRACE;
        if (!ready) vm.expectRevert();
        vm.prank(_books[id].payer);
        manager.withdraw(id);
        if (ready) _ended(id);
    }

    /// @dev The leaves that the operator anchors.
    function _anchoredLeaves(bytes32 id) internal view returns (bytes32[] memory leaves) {
        Book storage book = _books[id];
        uint256 count = book.fault == Fault.OmitsTheLastCall ? book.leaves.length - 1 : book.leaves.length;
        leaves = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) {
            leaves[i] = book.leaves[i];
        }
        if (book.fault == Fault.AltersALeaf) leaves[book.faultyCall] = keccak256(abi.encode(leaves[book.faultyCall]));
    }

    /// @dev What the operator anchors. A fault that these calls leave no room for does not happen.
    function _history(bytes32 id) private returns (bytes32 root, uint64 callCount) {
        Book storage book = _books[id];
        if (book.root != 0) return (book.root, book.callCount);
        uint256 calls = book.leaves.length;
        if (calls == 0) return (0, 0);
        if (book.fault == Fault.OmitsTheLastCall && calls == 1) book.fault = Fault.None;
        book.faultyCall %= calls;
        bytes32[] memory leaves = _anchoredLeaves(id);
        callCount = uint64(leaves.length);
        root = TranscriptTree.rootOf(leaves, callCount);
        if (book.fault == Fault.AnchorsAnyRoot) root = keccak256(abi.encode("any", root));
        if (book.fault == Fault.AnchorsMoreCalls) callCount += 1 + uint64(book.faultyCall);
    }

    function _open(uint256 who, uint256 serviceSeed, uint128 deposit, bool relayed)
        private
        returns (bytes32 id, bool opened)
    {
        if (channels.length == MAX_CHANNELS) return (0, false);
        address payer = payers[who % payers.length];
        uint256 serviceId = 1 + serviceSeed % SERVICES;
        deposit = _bound128(deposit, 100, 1e12);
        bytes32 nonce = bytes32(++_nonce);
        bytes32 termsHash = registry.currentTerms(serviceId);
        if (relayed && payer.code.length == 0) {
            id = _openRelayed(payer, serviceId, termsHash, deposit, nonce);
        } else {
            vm.prank(payer);
            id = manager.openSession(serviceId, termsHash, deposit, nonce, address(0), bytes32(0));
        }
        channels.push(id);
        Book storage book = _books[id];
        (book.serviceId, book.payer, book.deposit) = (serviceId, payer, deposit);
        // Decided by what no later choice depends on.
        uint256 character = uint256(keccak256(abi.encode(nonce, who)));
        book.diligent = character % 2 == 0;
        book.faultyCall = character >> 8;
        if (!services[serviceId].honest) book.fault = Fault((character >> 1) % 8);
        paidIn[services[serviceId].token][payer] += deposit;
        return (id, true);
    }

    function _openRelayed(address payer, uint256 serviceId, bytes32 termsHash, uint128 deposit, bytes32 nonce)
        private
        returns (bytes32)
    {
        ClearingToken token = services[serviceId].token;
        bytes32 salt = keccak256(abi.encode(nonce, termsHash, bytes32(0)));
        bytes32 id = manager.computeChannelId(payer, payeeOf(serviceId), address(token), salt, address(0));
        bytes32 tokenNonce = keccak256(abi.encode(keccak256("aioum.openSession"), id));
        Authorization memory authorization = _authorization(token, payer, deposit, tokenNonce);
        vm.prank(thief);
        return manager.openSessionWithAuthorization(
            payer, serviceId, termsHash, deposit, nonce, address(0), bytes32(0), authorization
        );
    }

    function _authorization(ClearingToken token, address payer, uint128 amount, bytes32 tokenNonce)
        private
        view
        returns (Authorization memory)
    {
        uint256 validBefore = type(uint256).max;
        bytes32 structHash =
            keccak256(abi.encode(_RECEIVE_TYPEHASH, payer, address(manager), amount, 0, validBefore, tokenNonce));
        return Authorization(0, validBefore, _signIn(token.DOMAIN_SEPARATOR(), keys[payer], structHash));
    }

    function _call(bytes32 id, bytes32 salt, uint128 charge) private {
        Book storage book = _books[id];
        book.leaves.push(_leaf(book.leaves.length, salt));
        book.charges.push(charge);
        book.spent += charge;
    }

    function _settleSession(bytes32 id, uint128 capture, uint128 voucherAmount) private {
        Settlement memory item = _item(id, capture, voucherAmount);
        vm.prank(_operatorOf(id));
        manager.settleSession(item);
        _settledBy(item);
    }

    function _item(bytes32 id, uint128 capture, uint128 voucherAmount) private returns (Settlement memory item) {
        Book storage book = _books[id];
        (item.root, item.callCount) = _history(id);
        item.channelId = id;
        item.capture = book.settled;
        if (item.root != 0 && _captureLimit(id) > book.settled) {
            // The whole is the usual case.
            uint128 limit = _captureLimit(id);
            item.capture = capture == type(uint128).max ? limit : _bound128(capture, book.settled, limit);
        }
        item.voucherAmount = _bound128(voucherAmount, item.capture, book.deposit);
        if (item.capture > book.settled) item.signature = _voucher(id, item.voucherAmount);
    }

    function _settledBy(Settlement memory item) private {
        Book storage book = _books[item.channelId];
        (book.root, book.callCount) = (item.root, item.callCount);
        if (services[book.serviceId].window == 0) {
            _owe(item.channelId, payeeOf(book.serviceId), item.capture - book.settled);
        }
        book.settled = item.capture;
        _ended(item.channelId);
    }

    function _ended(bytes32 id) private {
        Book storage book = _books[id];
        book.finalizedAt = _now();
        _owe(id, book.payer, book.deposit - book.settled);
        SessionView memory found = manager.sessionOfChannel(id);
        vm.assertEq(found.finalizedAt, book.finalizedAt, "an action that ends a channel did not end it");
        book.finalState = finalStateOf(id);
    }
}
