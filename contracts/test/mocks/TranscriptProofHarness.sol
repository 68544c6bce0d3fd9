// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";

/// @notice Lets tests call the library with calldata.
contract TranscriptProofHarness {
    function verify(bytes32 leaf, uint256 index, uint256 callCount, bytes32[] calldata siblings, bytes32 root)
        external
        pure
        returns (bool)
    {
        return TranscriptProof.verify(leaf, index, callCount, siblings, root);
    }
}
