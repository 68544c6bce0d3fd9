// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

import {Terms} from "../../src/interfaces/IServiceRegistry.sol";
import {ChannelIds} from "../../src/libraries/ChannelIds.sol";
import {PaymentManager} from "../../src/PaymentManager.sol";
import {ServiceRegistry} from "../../src/ServiceRegistry.sol";
import {DevToken} from "../../src/DevToken.sol";
import {TestBase} from "../base/TestBase.sol";

/// @notice tests/vectors/eip712.json, computed by Solidity, with the contracts at the vectors' own addresses.
contract TypedDataVectorTest is TestBase {
    string private _json;
    PaymentManager private _manager;
    ServiceRegistry private _registry;
    DevToken private _token;
    address private _client;
    address private _operator;

    function setUp() public {
        _json = vm.readFile("../tests/vectors/eip712.json");
        vm.assertEq(block.chainid, vm.parseJsonUint(_json, ".domain.chainId"));
        _registry = ServiceRegistry(_place(address(new ServiceRegistry()), ".sessions[0].registry"));
        // The signing domain follows the address that the code runs at.
        _manager = PaymentManager(_place(address(new PaymentManager(_registry, 900)), ".domain.verifyingContract"));
        _token = DevToken(_place(address(new DevToken()), ".channels[0].token"));
        _client = vm.parseJsonAddress(_json, ".client.address");
        _operator = vm.parseJsonAddress(_json, ".operator.address");
    }

    function test_domain_separator() public view {
        vm.assertEq(_manager.domainSeparator(), vm.parseJsonBytes32(_json, ".domainSeparator"));
    }

    function test_channel_ids() public view {
        uint256 count = 0;
        for (; vm.keyExistsJson(_json, _at("channels", count, "")); ++count) {
            bytes32 id = _manager.computeChannelId(
                _address("channels", count, ".payer"),
                _address("channels", count, ".payee"),
                _address("channels", count, ".token"),
                _word("channels", count, ".salt"),
                _address("channels", count, ".authorizedSigner")
            );
            vm.assertEq(id, _word("channels", count, ".channelId"));
        }
        vm.assertEq(count, 3);
    }

    function test_terms_hashes_salts_channel_ids_and_authorization_nonces_of_sessions() public view {
        uint256 count = 0;
        for (; vm.keyExistsJson(_json, _at("sessions", count, "")); ++count) {
            (uint256 serviceId, Terms memory terms) = _termsOf(count);
            bytes32 termsHash = _registry.computeTermsHash(serviceId, terms);
            vm.assertEq(termsHash, _word("sessions", count, ".termsHash"));
            bytes32 salt = ChannelIds.sessionSalt(
                _word("sessions", count, ".nonce"), termsHash, _word("sessions", count, ".rosterHash")
            );
            vm.assertEq(salt, _word("sessions", count, ".salt"));
            bytes32 channelId = _manager.computeChannelId(
                _address("sessions", count, ".payer"),
                terms.payee,
                terms.token,
                salt,
                _address("sessions", count, ".authorizedSigner")
            );
            vm.assertEq(channelId, _word("sessions", count, ".channelId"));
            bytes32 nonce = keccak256(abi.encode(keccak256("aioum.openSession"), channelId));
            vm.assertEq(nonce, _word("sessions", count, ".authorizationNonce"));
        }
        vm.assertEq(count, 2);
    }

    function test_the_vectors_session_opens_under_the_vectors_id() public {
        (uint256 serviceId, Terms memory terms) = _termsOf(0);
        vm.prank(_operator);
        vm.assertEq(_registry.register(terms, ""), serviceId);
        _token.mint(_client, 1);
        vm.startPrank(_client);
        _token.approve(address(_manager), 1);
        bytes32 channelId = _manager.openSession(
            serviceId,
            _word("sessions", 0, ".termsHash"),
            1,
            _word("sessions", 0, ".nonce"),
            _address("sessions", 0, ".authorizedSigner"),
            _word("sessions", 0, ".rosterHash")
        );
        vm.stopPrank();
        vm.assertEq(channelId, _word("sessions", 0, ".channelId"));
    }

    function test_vouchers_are_valid_for_the_contract() public {
        _token.mint(_client, 10);
        vm.startPrank(_client);
        _token.approve(address(_manager), 10);
        for (uint256 i = 0; vm.keyExistsJson(_json, _at("channels", i, "")); ++i) {
            if (_address("channels", i, ".payer") != _client) continue;
            _manager.open(
                _address("channels", i, ".payee"),
                address(_token),
                1,
                _word("channels", i, ".salt"),
                _address("channels", i, ".authorizedSigner")
            );
        }
        vm.stopPrank();

        uint256 valid = 0;
        uint256 count = 0;
        for (; vm.keyExistsJson(_json, _at("vouchers", count, "")); ++count) {
            bytes32 channelId = _word("vouchers", count, ".channelId");
            // forge-lint: disable-next-line(unsafe-typecast)
            uint128 amount = uint128(_uint("vouchers", count, ".cumulativeAmount"));
            bytes memory signature = vm.parseJsonBytes(_json, _at("vouchers", count, ".signature"));
            bytes32 structHash = keccak256(
                abi.encode(keccak256("Voucher(bytes32 channelId,uint128 cumulativeAmount)"), channelId, amount)
            );
            address signer = _signedBy("vouchers", count, structHash);
            address authorized = _manager.sessionOfChannel(channelId).authorizedSigner;
            bool byTheRightOne = signer == (authorized == address(0) ? _client : authorized);
            vm.assertEq(_manager.isVoucherValid(channelId, amount, signature), byTheRightOne);
            if (byTheRightOne) ++valid;
        }
        vm.assertEq(count, 15);
        // The third channel has an authorized signer, and its five vouchers are the payer's.
        vm.assertEq(valid, 10);
    }

    function test_call_receipts() public view {
        bytes32 typehash = keccak256("CallReceipt(bytes32 channelId,uint64 index,bytes32 leaf,uint128 charge)");
        uint256 count = 0;
        for (; vm.keyExistsJson(_json, _at("receipts", count, "")); ++count) {
            bytes32 structHash = keccak256(
                abi.encode(
                    typehash,
                    _word("receipts", count, ".channelId"),
                    _uint("receipts", count, ".index"),
                    _word("receipts", count, ".leaf"),
                    _uint("receipts", count, ".charge")
                )
            );
            vm.assertEq(_signedBy("receipts", count, structHash), _operator);
        }
        vm.assertEq(count, 3);
    }

    function test_statements() public view {
        bytes32 typehash = keccak256("Statement(bytes32 channelId,uint64 callCount,bytes32 root,uint128 spent)");
        uint256 count = 0;
        for (; vm.keyExistsJson(_json, _at("statements", count, "")); ++count) {
            bytes32 structHash = keccak256(
                abi.encode(
                    typehash,
                    _word("statements", count, ".channelId"),
                    _uint("statements", count, ".callCount"),
                    _word("statements", count, ".root"),
                    _uint("statements", count, ".spent")
                )
            );
            vm.assertEq(_signedBy("statements", count, structHash), _operator);
        }
        vm.assertEq(count, 4);
    }

    function test_read_accesses_and_close_requests() public view {
        bytes32 structHash = keccak256(
            abi.encode(
                keccak256("ReadAccess(bytes32 channelId,uint64 expiresAt)"),
                _word("reads", 0, ".channelId"),
                _uint("reads", 0, ".expiresAt")
            )
        );
        vm.assertEq(_signedBy("reads", 0, structHash), _client);
        structHash = keccak256(
            abi.encode(
                keccak256("CloseRequest(bytes32 channelId,uint64 callCount)"),
                _word("closes", 0, ".channelId"),
                _uint("closes", 0, ".callCount")
            )
        );
        vm.assertEq(_signedBy("closes", 0, structHash), _client);
    }

    function _termsOf(uint256 index) private view returns (uint256 serviceId, Terms memory terms) {
        serviceId = _uint("sessions", index, ".terms.serviceId");
        terms.operator = _address("sessions", index, ".terms.operator");
        terms.payee = _address("sessions", index, ".terms.payee");
        terms.token = _address("sessions", index, ".terms.token");
        terms.receiptSigner = _address("sessions", index, ".terms.receiptSigner");
        terms.arbitrator = _address("sessions", index, ".terms.arbitrator");
        terms.descriptorHash = _word("sessions", index, ".terms.descriptorHash");
        terms.commitRequired = vm.parseJsonBool(_json, _at("sessions", index, ".terms.commitRequired"));
        // forge-lint: disable-start(unsafe-typecast)
        terms.disputeWindow = uint32(_uint("sessions", index, ".terms.disputeWindow"));
        terms.rulingPeriod = uint32(_uint("sessions", index, ".terms.rulingPeriod"));
        terms.disputeBond = uint128(_uint("sessions", index, ".terms.disputeBond"));
        // forge-lint: disable-end(unsafe-typecast)
    }

    /// @dev Checks the digest, and answers whose signature the vector carries.
    function _signedBy(string memory list, uint256 index, bytes32 structHash) private view returns (address) {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", _manager.domainSeparator(), structHash));
        vm.assertEq(digest, _word(list, index, ".digest"), _at(list, index, ".digest"));
        return ECDSA.recover(digest, vm.parseJsonBytes(_json, _at(list, index, ".signature")));
    }

    function _place(address deployed, string memory key) private returns (address where) {
        where = vm.parseJsonAddress(_json, key);
        vm.etch(where, deployed.code);
    }

    function _at(string memory list, uint256 index, string memory member) private pure returns (string memory) {
        return string.concat(".", list, "[", vm.toString(index), "]", member);
    }

    function _word(string memory list, uint256 index, string memory member) private view returns (bytes32) {
        return vm.parseJsonBytes32(_json, _at(list, index, member));
    }

    function _address(string memory list, uint256 index, string memory member) private view returns (address) {
        return vm.parseJsonAddress(_json, _at(list, index, member));
    }

    function _uint(string memory list, uint256 index, string memory member) private view returns (uint256) {
        return vm.parseJsonUint(_json, _at(list, index, member));
    }
}
