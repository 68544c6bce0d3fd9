// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title Sizes and roots of operators' transparency logs
/// @notice An operator anchors its log's size and root; the next anchor must prove that its log begins with all that it
/// anchored before. So nothing that was anchored can be rewound, forked or shrunk, and nobody but the operator can
/// anchor for it.
/// @dev RFC 9162 trees over SHA-256: leaf = SHA-256(00 ‖ entry), node = SHA-256(01 ‖ left ‖ right). Holds no money and
/// has no owner.
interface ILogAnchor {
    /// @notice The operator's log had `size` entries under `root` when this was mined.
    event Anchored(address indexed operator, bytes32 indexed originHash, uint64 size, bytes32 root);

    /// @notice A log of no entries has no root, and a root is never zero.
    error InvalidAnchor(uint64 size, bytes32 root);
    /// @notice The log is anchored at `anchoredSize` already, under `anchoredRoot`.
    error SizeNotGrowing(uint64 anchoredSize, bytes32 anchoredRoot, uint64 size, bytes32 root);
    /// @notice The proof does not lead from what is anchored to the new size and root.
    error InconsistentLog(uint64 anchoredSize, bytes32 anchoredRoot, uint64 size, bytes32 root);
    /// @notice There is nothing yet that a first anchor could be proven to begin with.
    error FirstAnchorTakesNoProof(uint256 proofLength);

    /// @notice Anchors the caller's log. Equal values again, with whatever proof, do nothing.
    /// @param originHash keccak256 of the log's origin line, as UTF-8.
    /// @param size Entries; more than are anchored.
    /// @param proof RFC 9162 consistency proof from the anchored size to `size`; empty for the first anchor.
    function anchor(bytes32 originHash, uint64 size, bytes32 root, bytes32[] calldata proof) external;

    /// @notice The last anchor of an operator's log; all zero where there is none.
    /// @return size Entries.
    /// @return anchoredAt When it was mined, unix seconds.
    /// @return root The log's root over them.
    function anchored(address operator, bytes32 originHash)
        external
        view
        returns (uint64 size, uint64 anchoredAt, bytes32 root);
}
