// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {DevToken} from "../../src/DevToken.sol";
import {DisputeState, IDisputeManager, Receipt, Statement} from "../../src/interfaces/IDisputeManager.sol";
import {SessionView} from "../../src/interfaces/IPaymentManager.sol";
import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {ServiceRegistry} from "../../src/ServiceRegistry.sol";
import {TestBase} from "../base/TestBase.sol";
import {TranscriptTree} from "../base/TranscriptTree.sol";
import {Wallet} from "../mocks/Wallets.sol";

/// @notice Play money that takes authorisations, and refuses transfers to whoever is on its list.
contract ClearingToken is DevToken {
    error Denied(address account);

    mapping(address account => bool denied) public denied;

    function setDenied(address account, bool value) external {
        denied[account] = value;
    }

    function _update(address from, address to, uint256 value) internal override {
        if (denied[to]) revert Denied(to);
        super._update(from, to, value);
    }
}

/// @notice Who takes part in sessions with disputes, what each of them signs, and the books of all that happened.
/// @dev The books are kept by what an action is meant to do, never read from the contracts.
abstract contract DisputeWorld is TestBase {
    /// @notice What an operator does wrong in a session, besides keeping PROTOCOL 3.2.
    enum Fault {
        None,
        SignsReceiptTwice,
        SignsStatementTwice,
        AnchorsAnyRoot,
        AnchorsMoreCalls,
        AltersALeaf,
        OmitsTheLastCall,
        Overcharges
    }

    /// @notice How the held money left.
    enum Exit {
        None,
        Released,
        Ruled,
        Convicted
    }

    struct Service {
        bool honest;
        ClearingToken token;
        uint32 window;
        bool arbitrated;
        uint32 rulingPeriod;
        uint128 bond;
    }

    struct Book {
        uint256 serviceId;
        address payer;
        bool diligent; // its operator answers every challenge in time
        Fault fault;
        uint256 faultyCall;
        uint128 deposit;
        uint128 spent;
        uint128 settled;
        bytes32 root;
        uint64 callCount;
        uint64 closeRequestedAt;
        uint64 finalizedAt;
        bytes32 finalState;
        Exit exit;
        uint128 awarded;
        bool unanswered;
        DisputeState dispute;
        uint64 raisedAt;
        uint64 ruleBy;
        uint64 challengedAt; // zero while no challenge is pending
        bool aboutReceipt;
        uint64 position; // the challenged receipt's index, or the statement's count
        bytes32[] leaves;
        uint128[] charges;
    }

    uint64 internal constant GRACE = 900;
    uint64 internal constant ANSWER_PERIOD = 24 hours;
    uint256 internal constant MAX_CHANNELS = 20;
    uint256 internal constant MAX_CALLS = 9;
    uint256 internal constant FUNDS = type(uint128).max;
    uint256 internal constant SERVICES = 4;

    bytes32 private constant _VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 cumulativeAmount)");
    bytes32 private constant _RECEIPT_TYPEHASH =
        keccak256("CallReceipt(bytes32 channelId,uint64 index,bytes32 leaf,uint128 charge)");
    bytes32 private constant _STATEMENT_TYPEHASH =
        keccak256("Statement(bytes32 channelId,uint64 callCount,bytes32 root,uint128 spent)");
    uint256 private constant _HONEST_SIGNER_KEY = 0x40e57;
    uint256 private constant _LIAR_SIGNER_KEY = 0x11a4;
    uint256 internal constant THIEF_KEY = 0x7411ef;

    PaymentManager public immutable manager;
    IDisputeManager public immutable judge;
    ServiceRegistry public immutable registry;
    address public immutable operator = address(0x0123456789012345678901234567890123456789);
    address public immutable liar = address(0x1111111111111111111111111111111111111111);
    address public immutable arbitrator = address(0x0000000000000000000000000000000000a4b172);
    address public immutable thief = vm.addr(THIEF_KEY);

    ClearingToken[] public tokens;
    address[] public payers;
    address[] public owners; // all payers, then all payees
    mapping(address payer => uint256 key) public keys;
    mapping(uint256 serviceId => Service service) public services;
    bytes32[] public channels;

    mapping(ClearingToken token => mapping(address owner => uint256 amount)) public paidIn;
    mapping(ClearingToken token => mapping(address owner => uint256 amount)) public due;
    mapping(ClearingToken token => mapping(address owner => uint256 amount)) public claimed;
    mapping(ClearingToken token => mapping(address holder => uint256 amount)) public donated;
    mapping(ClearingToken token => uint256 amount) public pendingBonds;

    mapping(bytes32 channelId => Book book) internal _books;
    bytes32 private immutable _domainSeparator;

    constructor() {
        registry = new ServiceRegistry();
        manager = new PaymentManager(registry, GRACE);
        judge = manager.disputeManager();
        _domainSeparator = manager.domainSeparator();
        _meetPayers();
        _offer(true, tokens[0], 2 days, true, 1 days, 50);
        _offer(true, tokens[1], 6 hours, false, 0, 20);
        _offer(false, tokens[0], 3 days, true, 2 days, 70);
        _offer(true, tokens[1], 0, false, 0, 0);
        owners.push(payeeOf(1));
        owners.push(payeeOf(3));
    }

    function channelCount() external view returns (uint256) {
        return channels.length;
    }

    function ownerCount() external view returns (uint256) {
        return owners.length;
    }

    function bookOf(bytes32 id) external view returns (Book memory) {
        return _books[id];
    }

    function serviceOf(bytes32 id) external view returns (Service memory) {
        return services[_books[id].serviceId];
    }

    function payeeOf(uint256 serviceId) public pure returns (address) {
        return serviceId == 3 ? address(0x2222) : address(0x9876543210987654321098765432109876543210);
    }

    /// @notice What the books say is held for a session now.
    function heldOf(bytes32 id) public view returns (uint128) {
        Book storage book = _books[id];
        return services[book.serviceId].window == 0 || book.exit != Exit.None ? 0 : book.settled;
    }

    /// @notice All of a session that its end fixes: what a decision moves later is left out.
    function finalStateOf(bytes32 id) public view returns (bytes32) {
        SessionView memory found = manager.sessionOfChannel(id);
        (found.held, found.awarded) = (0, 0);
        return keccak256(abi.encode(found));
    }

    function _now() internal view returns (uint64) {
        return uint64(vm.getBlockTimestamp());
    }

    function _inWindow(bytes32 id) internal view returns (bool) {
        Book storage book = _books[id];
        return book.finalizedAt != 0 && _now() < book.finalizedAt + services[book.serviceId].window;
    }

    function _disputable(bytes32 id) internal view returns (bool) {
        return heldOf(id) != 0 && _inWindow(id);
    }

    function _owe(bytes32 id, address owner, uint256 amount) internal {
        due[services[_books[id].serviceId].token][owner] += amount;
    }

    /// @dev A channel that has not ended, the first from a random place on.
    function _openChannel(uint256 seed) internal view returns (bytes32 id, bool found) {
        for (uint256 i = 0; i < channels.length; ++i) {
            id = channels[(seed % channels.length + i) % channels.length];
            if (_books[id].finalizedAt == 0) return (id, true);
        }
    }

    /// @dev A channel that has ended; of those with held money, if there is one and `held` asks for it.
    function _endedChannel(uint256 seed, bool held) internal view returns (bytes32 id, bool found) {
        for (uint256 i = 0; i < channels.length; ++i) {
            bytes32 candidate = channels[(seed % channels.length + i) % channels.length];
            if (_books[candidate].finalizedAt == 0) continue;
            if (!found) (id, found) = (candidate, true);
            if (!held || heldOf(candidate) != 0) return (candidate, true);
        }
    }

    /// @dev What the operator's store says of the first `count` calls. One root and one sum per count, for ever.
    function _statement(bytes32 id, uint64 count) internal view returns (Statement memory) {
        Book storage book = _books[id];
        uint128 spent = 0;
        for (uint256 i = 0; i < count; ++i) {
            spent += book.charges[i];
        }
        return _signedStatement(id, count, TranscriptTree.rootOf(book.leaves, count), spent);
    }

    /// @dev What the operator's store says of one call. One leaf and one charge per index, for ever.
    function _receipt(bytes32 id, uint64 index) internal view returns (Receipt memory) {
        return _signedReceipt(id, index, _books[id].leaves[index], _books[id].charges[index]);
    }

    function _signedStatement(bytes32 id, uint64 count, bytes32 root, uint128 spent)
        internal
        view
        returns (Statement memory)
    {
        bytes32 structHash = keccak256(abi.encode(_STATEMENT_TYPEHASH, id, count, root, spent));
        return Statement(count, root, spent, _sign(_signerKey(id), structHash));
    }

    function _signedReceipt(bytes32 id, uint64 index, bytes32 leaf, uint128 charge)
        internal
        view
        returns (Receipt memory)
    {
        bytes32 structHash = keccak256(abi.encode(_RECEIPT_TYPEHASH, id, index, leaf, charge));
        return Receipt(index, leaf, charge, _sign(_signerKey(id), structHash));
    }

    function _voucher(bytes32 id, uint128 amount) internal view returns (bytes memory) {
        return _sign(keys[_books[id].payer], keccak256(abi.encode(_VOUCHER_TYPEHASH, id, amount)));
    }

    /// @dev The words of somebody else, about the same facts.
    function _forged(bytes32 id, Receipt memory receipt) internal view returns (Receipt memory) {
        bytes32 structHash = keccak256(abi.encode(_RECEIPT_TYPEHASH, id, receipt.index, receipt.leaf, receipt.charge));
        return Receipt(receipt.index, receipt.leaf, receipt.charge, _sign(THIEF_KEY, structHash));
    }

    function _leaf(uint256 index, bytes32 salt) internal pure returns (bytes32) {
        return TranscriptProof.leafHash(index, keccak256(abi.encode(salt, "request")), salt, keccak256("tool"));
    }

    function _sign(uint256 key, bytes32 structHash) internal view returns (bytes memory) {
        return _signIn(_domainSeparator, key, structHash);
    }

    function _signIn(bytes32 domain, uint256 key, bytes32 structHash) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, keccak256(abi.encodePacked(hex"1901", domain, structHash)));
        return abi.encodePacked(r, s, v);
    }

    function _signerKey(bytes32 id) private view returns (uint256) {
        return services[_books[id].serviceId].honest ? _HONEST_SIGNER_KEY : _LIAR_SIGNER_KEY;
    }

    function _meetPayers() private {
        uint256[3] memory seeds = [uint256(0xa11ce), 0xb0b, 0xca401];
        address[3] memory accounts = [vm.addr(seeds[0]), vm.addr(seeds[1]), address(new Wallet(vm.addr(seeds[2])))];
        for (uint256 i = 0; i < accounts.length; ++i) {
            payers.push(accounts[i]);
            owners.push(accounts[i]);
            keys[accounts[i]] = seeds[i];
        }
        for (uint256 i = 0; i < 2; ++i) {
            tokens.push(new ClearingToken());
            for (uint256 j = 0; j < payers.length; ++j) {
                tokens[i].mint(payers[j], FUNDS);
                vm.startPrank(payers[j]);
                tokens[i].approve(address(manager), type(uint256).max);
                tokens[i].approve(address(judge), type(uint256).max);
                vm.stopPrank();
            }
        }
    }

    function _offer(bool honest, ClearingToken token, uint32 window, bool arbitrated, uint32 ruling, uint128 bond)
        private
    {
        Terms memory terms;
        terms.operator = honest ? operator : liar;
        terms.token = address(token);
        terms.receiptSigner = vm.addr(honest ? _HONEST_SIGNER_KEY : _LIAR_SIGNER_KEY);
        terms.payee = payeeOf(registry.serviceCount() + 1);
        terms.arbitrator = arbitrated ? arbitrator : address(0);
        terms.commitRequired = true;
        (terms.disputeWindow, terms.rulingPeriod, terms.disputeBond) = (window, ruling, bond);
        vm.prank(terms.operator);
        uint256 serviceId = registry.register(terms, "");
        services[serviceId] = Service(honest, token, window, arbitrated, ruling, bond);
    }
}
