// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ILogAnchor} from "./interfaces/ILogAnchor.sol";
import {ConsistencyProof} from "./libraries/ConsistencyProof.sol";

/// @title LogAnchor
/// @notice See ILogAnchor.
contract LogAnchor is ILogAnchor {
    struct Anchor {
        uint64 size;
        uint64 anchoredAt;
        // slot
        bytes32 root;
    }

    /// @inheritdoc ILogAnchor
    mapping(address operator => mapping(bytes32 originHash => Anchor last)) public override anchored;

    /// @inheritdoc ILogAnchor
    function anchor(bytes32 originHash, uint64 size, bytes32 root, bytes32[] calldata proof) external override {
        if (size == 0 || root == 0) revert InvalidAnchor(size, root);
        Anchor storage last = anchored[msg.sender][originHash];
        (uint64 lastSize, bytes32 lastRoot) = (last.size, last.root);
        if (size == lastSize && root == lastRoot) return;
        if (size <= lastSize) revert SizeNotGrowing(lastSize, lastRoot, size, root);
        if (lastSize == 0) {
            if (proof.length != 0) revert FirstAnchorTakesNoProof(proof.length);
        } else if (!ConsistencyProof.verify(lastSize, size, lastRoot, root, proof, _node)) {
            revert InconsistentLog(lastSize, lastRoot, size, root);
        }
        (last.size, last.anchoredAt, last.root) = (size, uint64(block.timestamp), root);
        emit Anchored(msg.sender, originHash, size, root);
    }

    /// @dev An inner node of RFC 9162, hashed where it lies: Solidity's own `sha256` copies what it hashes, which costs
    /// more than the hashing. Should the precompile give no hash (it can fail for want of gas only), then there are no
    /// 32 bytes to copy, and the transaction ends.
    // slither-disable-next-line dead-code
    function _node(bytes32 left, bytes32 right) private view returns (bytes32 node) {
        assembly ("memory-safe") {
            let preimage := mload(0x40)
            mstore8(preimage, 0x01)
            mstore(add(preimage, 0x01), left)
            mstore(add(preimage, 0x21), right)
            pop(staticcall(gas(), 0x02, preimage, 0x41, 0x00, 0x00))
            returndatacopy(0x00, 0x00, 0x20)
            node := mload(0x00)
        }
    }
}
