// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IServiceRegistry, Terms} from "./interfaces/IServiceRegistry.sol";

/// @title ServiceRegistry
/// @notice See IServiceRegistry.
contract ServiceRegistry is IServiceRegistry {
    struct Record {
        uint256 serviceId;
        Terms terms;
    }

    /// @notice Longest descriptor URI, in bytes.
    uint256 public constant MAX_DESCRIPTOR_URI_BYTES = 2048;

    uint32 private constant _MIN_DISPUTE_WINDOW = 1 hours;
    uint32 private constant _MAX_DISPUTE_WINDOW = 30 days;
    uint32 private constant _MIN_RULING_PERIOD = 1 days;
    uint32 private constant _MAX_RULING_PERIOD = 30 days;

    /// @inheritdoc IServiceRegistry
    uint256 public override serviceCount;
    /// @inheritdoc IServiceRegistry
    mapping(uint256 serviceId => bytes32 termsHash) public override currentTerms;
    mapping(bytes32 termsHash => Record record) private _records;

    /// @inheritdoc IServiceRegistry
    function register(Terms calldata terms_, string calldata descriptorURI)
        external
        override
        returns (uint256 serviceId)
    {
        _validate(terms_, descriptorURI);
        serviceId = ++serviceCount;
        bytes32 termsHash = _store(serviceId, terms_);
        emit ServiceRegistered(serviceId, termsHash, msg.sender, terms_.descriptorHash, descriptorURI);
    }

    /// @inheritdoc IServiceRegistry
    function update(uint256 serviceId, Terms calldata terms_, string calldata descriptorURI) external override {
        bytes32 previousTermsHash = _currentTermsOfCaller(serviceId);
        _validate(terms_, descriptorURI);
        bytes32 termsHash = _store(serviceId, terms_);
        emit ServiceUpdated(serviceId, termsHash, msg.sender, previousTermsHash, terms_.descriptorHash, descriptorURI);
    }

    /// @inheritdoc IServiceRegistry
    function retire(uint256 serviceId) external override {
        bytes32 termsHash = _currentTermsOfCaller(serviceId);
        delete currentTerms[serviceId];
        emit ServiceRetired(serviceId, termsHash, msg.sender);
    }

    /// @inheritdoc IServiceRegistry
    function terms(bytes32 termsHash) external view override returns (uint256 serviceId, Terms memory registered) {
        Record storage record = _records[termsHash];
        return (record.serviceId, record.terms);
    }

    /// @inheritdoc IServiceRegistry
    function paymentTerms(bytes32 termsHash)
        external
        view
        override
        returns (address operator, address payee, address token, bool commitRequired, uint32 disputeWindow)
    {
        Terms storage found = _records[termsHash].terms;
        return (found.operator, found.payee, found.token, found.commitRequired, found.disputeWindow);
    }

    /// @inheritdoc IServiceRegistry
    function operatorOf(bytes32 termsHash) external view override returns (address operator) {
        return _records[termsHash].terms.operator;
    }

    /// @inheritdoc IServiceRegistry
    function computeTermsHash(uint256 serviceId, Terms calldata terms_) public view override returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), serviceId, terms_));
    }

    function _store(uint256 serviceId, Terms calldata terms_) private returns (bytes32 termsHash) {
        termsHash = computeTermsHash(serviceId, terms_);
        currentTerms[serviceId] = termsHash;
        // Content-addressed: a known hash already holds exactly these terms.
        Record storage record = _records[termsHash];
        if (record.serviceId == 0) {
            record.serviceId = serviceId;
            record.terms = terms_;
        }
    }

    function _currentTermsOfCaller(uint256 serviceId) private view returns (bytes32 termsHash) {
        termsHash = currentTerms[serviceId];
        if (termsHash == 0) revert ServiceNotActive(serviceId);
        address operator = _records[termsHash].terms.operator;
        if (operator != msg.sender) revert NotOperator(operator, msg.sender);
    }

    function _validate(Terms calldata terms_, string calldata descriptorURI) private view {
        if (terms_.operator != msg.sender) revert NotOperator(terms_.operator, msg.sender);
        if (terms_.payee == address(0)) revert ZeroAddress("payee");
        if (terms_.token == address(0)) revert ZeroAddress("token");
        if (terms_.receiptSigner == address(0)) revert ZeroAddress("receiptSigner");

        uint32 window = terms_.disputeWindow;
        if (window != 0) {
            if (window < _MIN_DISPUTE_WINDOW || window > _MAX_DISPUTE_WINDOW) {
                revert DisputeWindowOutOfRange(window, _MIN_DISPUTE_WINDOW, _MAX_DISPUTE_WINDOW);
            }
            if (!terms_.commitRequired) revert DisputeWindowNeedsCommit();
            if (terms_.disputeBond == 0) revert DisputeWindowNeedsBond();
        }
        uint32 period = terms_.rulingPeriod;
        if (terms_.arbitrator != address(0) && (period < _MIN_RULING_PERIOD || period > _MAX_RULING_PERIOD)) {
            revert RulingPeriodOutOfRange(period, _MIN_RULING_PERIOD, _MAX_RULING_PERIOD);
        }
        if (bytes(descriptorURI).length > MAX_DESCRIPTOR_URI_BYTES) {
            revert DescriptorURITooLong(bytes(descriptorURI).length, MAX_DESCRIPTOR_URI_BYTES);
        }
    }
}
