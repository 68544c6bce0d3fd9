// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC3009} from "../../src/interfaces/IERC3009.sol";
import {MintableToken, SkewToken} from "./Tokens.sol";

/// @notice Takes anybody's word for an authorisation, so that tests reach what comes after it.
abstract contract GullibleToken is IERC3009 {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256,
        uint256,
        bytes32,
        uint8,
        bytes32,
        bytes32
    ) external override {
        _take(from, to, value);
    }

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256,
        uint256,
        bytes32,
        bytes calldata
    ) external override {
        _take(from, to, value);
    }

    function _take(address from, address to, uint256 value) internal virtual;
}

/// @notice Keeps one percent of what moves by authorisation too, or adds as much.
contract SkewAuthorizedToken is SkewToken, GullibleToken {
    constructor(bool adds_) SkewToken(adds_) {}

    function _take(address from, address to, uint256 value) internal override {
        _transfer(from, to, value);
    }
}

/// @notice Has no authorisations, but a fallback that takes every call for something else, as wrapped ether does.
contract SwallowingToken is MintableToken {
    fallback() external {}
}

/// @notice Comes back into its target at every transfer, in or out, like a token with hooks; remembers every answer.
/// @dev It can play every part of a session itself, so that what it calls is not refused for who it is.
contract ReentrantToken is MintableToken, GullibleToken {
    address public target;
    bytes public payload;
    uint256 public entered;
    uint256 public succeeded;
    bytes public lastAnswer;

    function arm(address target_, bytes calldata payload_) external {
        target = target_;
        payload = payload_;
        (entered, succeeded) = (0, 0);
    }

    function disarm() external {
        target = address(0);
    }

    function _take(address from, address to, uint256 value) internal override {
        _transfer(from, to, value);
    }

    function _update(address from, address to, uint256 value) internal override {
        super._update(from, to, value);
        if (target == address(0) || from == address(0)) return;
        // Its own payload may move money again; one level is enough.
        address callee = target;
        target = address(0);
        bool done;
        (done, lastAnswer) = callee.call(payload);
        target = callee;
        ++entered;
        if (done) ++succeeded;
    }
}

/// @notice Starts to keep one percent of what moves, or to keep everything, once told to.
contract TurningToken is MintableToken {
    uint256 public keptPercent;

    function setKeptPercent(uint256 value) external {
        keptPercent = value;
    }

    function _update(address from, address to, uint256 value) internal override {
        if (from == address(0)) return super._update(from, to, value);
        super._update(from, to, value - (value * keptPercent) / 100);
    }
}
