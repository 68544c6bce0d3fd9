// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

abstract contract MintableToken is ERC20("test", "TEST") {
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }
}

/// @notice Refuses transfers to whoever is on its list, as regulated stablecoins do.
contract DenylistToken is MintableToken {
    error Denied(address account);

    mapping(address account => bool denied) public denied;

    function setDenied(address account, bool value) external {
        denied[account] = value;
    }

    function _update(address from, address to, uint256 value) internal override {
        if (denied[to]) revert Denied(to);
        super._update(from, to, value);
    }
}

/// @notice Keeps one percent of what moves, or adds as much.
contract SkewToken is MintableToken {
    bool public adds;

    constructor(bool adds_) {
        adds = adds_;
    }

    function _update(address from, address to, uint256 value) internal override {
        if (from == address(0) || to == address(0)) return super._update(from, to, value);
        super._update(from, to, adds ? value : value - value / 100);
        if (adds) super._update(address(0), to, value / 100);
    }
}

/// @notice Says false and moves nothing, once told to.
contract FalseToken is MintableToken {
    bool public refusing;

    function setRefusing(bool value) external {
        refusing = value;
    }

    function transfer(address to, uint256 value) public override returns (bool) {
        return refusing ? false : super.transfer(to, value);
    }
}

/// @notice Returns nothing at all from its transfers, as the oldest stablecoins do.
contract SilentToken {
    mapping(address owner => uint256 amount) public balanceOf;

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
    }

    function transfer(address to, uint256 amount) external {
        balanceOf[msg.sender] -= amount;
        balanceOf[to] += amount;
    }

    function transferFrom(address from, address to, uint256 amount) external {
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
    }
}

/// @notice Answers a transfer with gas fire or with a very long revert, once told to.
contract BurnerToken is MintableToken {
    enum Mode {
        Honest,
        BurnGas,
        LongRevert
    }

    Mode public mode;

    function setMode(Mode value) external {
        mode = value;
    }

    function transfer(address to, uint256 value) public override returns (bool) {
        if (mode == Mode.BurnGas) {
            assembly {
                invalid()
            }
        }
        if (mode == Mode.LongRevert) {
            assembly {
                revert(0, 50000)
            }
        }
        return super.transfer(to, value);
    }
}

/// @notice Calls back into a target in the middle of a transfer, with whatever it was told, like a token with hooks.
contract HookToken is MintableToken {
    address public target;
    bytes public payload;
    bool public lastSucceeded;
    bytes public lastAnswer;
    uint256 public calls;

    function arm(address target_, bytes calldata payload_) external {
        target = target_;
        payload = payload_;
    }

    function _update(address from, address to, uint256 value) internal override {
        super._update(from, to, value);
        if (target == address(0) || from == address(0)) return;
        ++calls;
        (lastSucceeded, lastAnswer) = target.call(payload);
    }
}
