// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ConsistencyProof} from "../../src/libraries/ConsistencyProof.sol";
import {TranscriptProof} from "../../src/libraries/TranscriptProof.sol";

/// @notice Lets tests call the library with calldata, over a transcript's nodes.
contract ConsistencyProofHarness {
    function verify(uint256 first, uint256 second, bytes32 firstRoot, bytes32 secondRoot, bytes32[] calldata proof)
        external
        view
        returns (bool)
    {
        return ConsistencyProof.verify(first, second, firstRoot, secondRoot, proof, TranscriptProof.nodeHash);
    }
}
