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

    /// @dev An inner node of RFC 9162. The precompile cannot fail but for want of gas, which ends the transaction too.
    function _node(bytes32 left, bytes32 right) private pure returns (bytes32) {
        return sha256(bytes.concat(hex"01", left, right));
    }
}
