// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice What an operator offers, as one immutable value. A session names the hash of the terms it was opened under.
/// @param operator Registered the service, and alone may change or retire it.
/// @param payee Receives what sessions capture.
/// @param token ERC-20 token that sessions are paid in.
/// @param receiptSigner Signs call receipts and statements, by ECDSA only.
/// @param arbitrator Rules on disputes; zero where nobody does.
/// @param descriptorHash keccak256 of the canonical service card.
/// @param commitRequired Whether money moves only once a root of the session's calls is anchored.
/// @param disputeWindow Seconds that captured money is held after finalization; 0: it is paid at once.
/// @param rulingPeriod Seconds that the arbitrator has to rule.
/// @param disputeBond Base units that a dispute or a challenge costs until it is decided.
struct Terms {
    address operator;
    address payee;
    address token;
    address receiptSigner;
    address arbitrator;
    bytes32 descriptorHash;
    bool commitRequired;
    uint32 disputeWindow;
    uint32 rulingPeriod;
    uint128 disputeBond;
}

/// @title Services and the terms they were ever offered under
/// @notice Terms are content-addressed: once registered they stay readable under their hash for ever, whatever the
/// operator does later, so that nothing a session relies on can change under it. The registry holds no money and has
/// no owner.
interface IServiceRegistry {
    /// @notice A service came into being.
    event ServiceRegistered(
        uint256 indexed serviceId,
        bytes32 indexed termsHash,
        address indexed operator,
        bytes32 descriptorHash,
        string descriptorURI
    );

    /// @notice A service is offered under other terms, or its card lies elsewhere; `previousTermsHash` stays readable.
    event ServiceUpdated(
        uint256 indexed serviceId,
        bytes32 indexed termsHash,
        address indexed operator,
        bytes32 previousTermsHash,
        bytes32 descriptorHash,
        string descriptorURI
    );

    /// @notice A service takes no new sessions any more; `termsHash` was its last.
    event ServiceRetired(uint256 indexed serviceId, bytes32 indexed termsHash, address indexed operator);

    /// @notice The service was never registered, or is retired.
    error ServiceNotActive(uint256 serviceId);
    /// @notice Only the operator named in the (new and current) terms may do this.
    error NotOperator(address operator, address caller);
    /// @notice `payee`, `token` and `receiptSigner` must be given.
    error ZeroAddress(string field);
    /// @notice disputeWindow must be 0 or lie in the range, in seconds.
    error DisputeWindowOutOfRange(uint32 given, uint32 minimum, uint32 maximum);
    /// @notice A dispute is about a committed root: a window without commitRequired would have nothing to be about.
    error DisputeWindowNeedsCommit();
    /// @notice A window without a bond would make disputes free.
    error DisputeWindowNeedsBond();
    /// @notice Where there is an arbitrator, rulingPeriod must lie in the range, in seconds.
    error RulingPeriodOutOfRange(uint32 given, uint32 minimum, uint32 maximum);
    /// @notice The descriptor URI is longer than `maximum` bytes.
    error DescriptorURITooLong(uint256 length, uint256 maximum);

    /// @notice Registers a service of the caller.
    /// @param terms `operator` must be the caller.
    /// @param descriptorURI Where the card lies, at most 2,048 bytes, may be empty. It is an event only: the card is
    /// identified by `terms.descriptorHash`.
    /// @return serviceId From 1, in order of registration.
    // slither-disable-next-line shadowing-local
    function register(Terms calldata terms, string calldata descriptorURI) external returns (uint256 serviceId);

    /// @notice Offers a service under other terms from now on. Sessions that are open keep theirs.
    /// @dev The operator of a service never changes: both the current and the new terms must name the caller.
    // slither-disable-next-line shadowing-local
    function update(uint256 serviceId, Terms calldata terms, string calldata descriptorURI) external;

    /// @notice Ends a service for good: nothing can be opened under it any more, open sessions go on.
    function retire(uint256 serviceId) external;

    /// @notice The terms under a hash, for ever.
    /// @return serviceId The service they were registered for; 0 where the hash is unknown (then all else is zero too).
    /// @return registered The terms.
    function terms(bytes32 termsHash) external view returns (uint256 serviceId, Terms memory registered);

    /// @notice The part of `terms` that moving a session's money depends on, at the price of four storage reads.
    /// All zero where the hash is unknown.
    function paymentTerms(bytes32 termsHash)
        external
        view
        returns (address operator, address payee, address token, bool commitRequired, uint32 disputeWindow);

    /// @notice The operator in the terms under a hash; zero where it is unknown.
    function operatorOf(bytes32 termsHash) external view returns (address operator);

    /// @notice The hash of the terms that a service is offered under now; zero where it is unknown or retired.
    function currentTerms(uint256 serviceId) external view returns (bytes32 termsHash);

    /// @notice How many services were ever registered; the newest has this id.
    function serviceCount() external view returns (uint256);

    /// @notice keccak256(abi.encode(chainId, registry, serviceId, the members of `Terms` in order)).
    // slither-disable-next-line shadowing-local
    function computeTermsHash(uint256 serviceId, Terms calldata terms) external view returns (bytes32 termsHash);
}
