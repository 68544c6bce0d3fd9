// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {PaymentManager} from "../../src/PaymentManager.sol";

/// @notice A contract account that can use the payment manager and judges signatures in a chosen way.
contract Wallet {
    enum Mode {
        Owner,
        Slow,
        Reject,
        Revert,
        BurnGas,
        DirtyMagic,
        ShortAnswer,
        LongAnswer,
        BooleanAnswer
    }

    // A little less than the payment manager grants.
    uint256 private constant _SLOW_GAS = 144_000;
    bytes4 private constant _MAGIC = 0x1626ba7e;

    address public immutable owner;
    Mode public mode;

    constructor(address owner_) {
        owner = owner_;
    }

    function setMode(Mode value) external {
        mode = value;
    }

    function approve(IERC20 token, address spender) external {
        token.approve(spender, type(uint256).max);
    }

    function openSession(PaymentManager manager, uint256 serviceId, bytes32 termsHash, uint128 deposit)
        external
        returns (bytes32)
    {
        return manager.openSession(serviceId, termsHash, deposit, keccak256("wallet"), address(0), bytes32(0));
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (mode == Mode.Slow) {
            uint256 start = gasleft();
            while (start - gasleft() < _SLOW_GAS) {}
        }
        if (mode == Mode.Reject) return bytes4(0xffffffff);
        if (mode == Mode.Revert) revert("no");
        if (mode == Mode.BurnGas) {
            assembly {
                invalid()
            }
        }
        if (mode == Mode.DirtyMagic) {
            assembly {
                mstore(0x00, or(shl(224, 0x1626ba7e), 1))
                return(0x00, 0x20)
            }
        }
        if (mode == Mode.ShortAnswer) {
            assembly {
                mstore(0x00, shl(224, 0x1626ba7e))
                return(0x00, 0x04)
            }
        }
        if (mode == Mode.LongAnswer) {
            assembly {
                mstore(0x00, shl(224, 0x1626ba7e))
                return(0x00, 0x40)
            }
        }
        if (mode == Mode.BooleanAnswer) {
            assembly {
                mstore(0x00, 1)
                return(0x00, 0x20)
            }
        }
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        return ecrecover(digest, uint8(signature[64]), r, s) == owner ? _MAGIC : bytes4(0xffffffff);
    }
}

/// @notice Has code, answers nothing that makes sense.
contract Mute {
    fallback() external {}
}
