// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @notice The cheat codes of forge that these tests use.
interface Vm {
    function addr(uint256 privateKey) external pure returns (address);
    function sign(uint256 privateKey, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function prank(address sender) external;
    function startPrank(address sender) external;
    function stopPrank() external;
    function warp(uint256 timestamp) external;
    function chainId(uint256 id) external;
    function etch(address where, bytes calldata code) external;
    function assume(bool condition) external pure;
    function expectRevert() external;
    function expectRevert(bytes4 selector) external;
    function expectRevert(bytes calldata revertData) external;
    function expectEmit(address emitter) external;
    function expectCall(address callee, bytes calldata data, uint64 count) external;
    function getBlockTimestamp() external view returns (uint256);
    function readFile(string calldata path) external view returns (string memory);
    function parseJsonUint(string calldata json, string calldata key) external pure returns (uint256);
    function parseJsonBool(string calldata json, string calldata key) external pure returns (bool);
    function parseJsonAddress(string calldata json, string calldata key) external pure returns (address);
    function parseJsonBytes(string calldata json, string calldata key) external pure returns (bytes memory);
    function parseJsonBytes32(string calldata json, string calldata key) external pure returns (bytes32);
    function parseJsonBytes32Array(string calldata json, string calldata key) external pure returns (bytes32[] memory);
    function parseJsonString(string calldata json, string calldata key) external pure returns (string memory);
    function parseJsonKeys(string calldata json, string calldata key) external pure returns (string[] memory);
    function keyExistsJson(string calldata json, string calldata key) external view returns (bool);
    function toString(uint256 value) external pure returns (string memory);
    function parseUint(string calldata text) external pure returns (uint256);
    function snapshotGasLastCall(string calldata group, string calldata name) external returns (uint256);
    function assertEq(uint256 left, uint256 right) external pure;
    function assertEq(uint256 left, uint256 right, string calldata message) external pure;
    function assertEq(address left, address right) external pure;
    function assertEq(bytes32 left, bytes32 right) external pure;
    function assertEq(bytes32 left, bytes32 right, string calldata message) external pure;
    function assertEq(bool left, bool right) external pure;
    function assertEq(string calldata left, string calldata right) external pure;
    function assertTrue(bool condition) external pure;
    function assertTrue(bool condition, string calldata message) external pure;
    function assertFalse(bool condition) external pure;
    function assertFalse(bool condition, string calldata message) external pure;
    function assertLe(uint256 left, uint256 right) external pure;
    function assertLe(uint256 left, uint256 right, string calldata message) external pure;
    function assertLt(uint256 left, uint256 right) external pure;
    function assertGe(uint256 left, uint256 right, string calldata message) external pure;
}

/// @notice What forge needs to see of a test contract, and nothing else.
abstract contract TestBase {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    // forge-lint: disable-next-line(screaming-snake-case-const)
    bool public constant IS_TEST = true;

    address[] private _targets;

    /// @notice The contracts that an invariant run calls.
    function targetContracts() external view returns (address[] memory) {
        return _targets;
    }

    /// @notice Who an invariant run never acts as: the test itself, which a handler lets do more than others.
    function excludeSenders() external view returns (address[] memory senders) {
        senders = new address[](1);
        senders[0] = address(this);
    }

    function _target(address handler) internal {
        _targets.push(handler);
    }

    /// @dev Maps any input into [low, high], evenly.
    function _bound(uint256 value, uint256 low, uint256 high) internal pure returns (uint256) {
        uint256 size = high - low;
        return size == type(uint256).max ? value : low + value % (size + 1);
    }

    function _bound128(uint256 value, uint128 low, uint128 high) internal pure returns (uint128) {
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint128(_bound(value, low, high));
    }
}
