// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";

import {IERC3009} from "../interfaces/IERC3009.sol";
import {GasFloor} from "./GasFloor.sol";

/// @notice What a payer signed for its token: when, and that, it may be moved (EIP-3009).
/// @param validAfter Unix seconds; the transfer works only after it.
/// @param validBefore Unix seconds; the transfer works only before it.
/// @param signature 65 bytes r, s, v; of another length: what the payer's ERC-1271 contract takes.
struct Authorization {
    uint256 validAfter;
    uint256 validBefore;
    bytes signature;
}

/// @title TokenTransfer
/// @notice Taking money in exactly, and sending it out without being held up by whoever receives it.
library TokenTransfer {
    using Address for address;
    using SafeERC20 for IERC20;

    /// @notice Gas that an outgoing transfer gets; one that needs more becomes a credit, and is claimed without a cap.
    uint256 internal constant TRANSFER_GAS = 200_000;

    /// @dev IERC3009's function of this signature; called by words, as its nine arguments do not fit the stack.
    bytes4 private constant _RECEIVE_BY_ECDSA_SELECTOR = bytes4(
        keccak256("receiveWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)")
    );

    /// @notice There is no contract at the token's address.
    error TokenWithoutCode(address token);
    /// @notice The token moved another amount than it was told to, so its accounting is not ours.
    error TransferAmountMismatch(address token, uint256 expected, uint256 received);

    /// @notice Takes `amount` from `from`, and reverts unless exactly that arrived.
    /// @dev The caller must keep this contract from being re-entered, or a nested transfer would be counted twice.
    function pullExactly(IERC20 token, address from, uint256 amount) internal {
        uint256 balanceBefore = _balance(token);
        // `from` is the sender of the transaction, in all calls of this.
        // slither-disable-next-line arbitrary-send-erc20
        token.safeTransferFrom(from, address(this), amount);
        _requireReceived(token, balanceBefore, amount);
    }

    /// @notice The same by `from`'s authorisation, which must be over `nonce`.
    function pullExactlyAuthorized(
        IERC20 token,
        address from,
        uint256 amount,
        bytes32 nonce,
        Authorization calldata authorization
    ) internal {
        uint256 balanceBefore = _balance(token);
        if (authorization.signature.length == 65) {
            bytes memory order = bytes.concat(
                _RECEIVE_BY_ECDSA_SELECTOR,
                abi.encode(from, address(this), amount, authorization.validAfter, authorization.validBefore, nonce),
                _ecdsaWords(authorization.signature)
            );
            // It returns nothing; what it did is measured below.
            // slither-disable-next-line unused-return
            address(token).functionCall(order);
        } else {
            IERC3009(address(token))
                .receiveWithAuthorization(
                    from,
                    address(this),
                    amount,
                    authorization.validAfter,
                    authorization.validBefore,
                    nonce,
                    authorization.signature
                );
        }
        _requireReceived(token, balanceBefore, amount);
    }

    /// @notice Sends `amount` to `to` with capped gas.
    /// @return sent False where the token reverted, returned anything but true or nothing, or has no code any more.
    /// @dev Reverts with `InsufficientGas` where the token could not be given its gas in full.
    function tryPush(IERC20 token, address to, uint256 amount) internal returns (bool sent) {
        bytes memory order = abi.encodeCall(IERC20.transfer, (to, amount));
        GasFloor.requireForCall(TRANSFER_GAS);
        // SafeERC20's rules, with a cap on the gas: a receiver's hook may burn its own share, never the sender's.
        assembly ("memory-safe") {
            mstore(0x00, 0)
            sent := call(TRANSFER_GAS, token, 0, add(order, 0x20), mload(order), 0x00, 0x20)
            let returnedTrue := and(gt(returndatasize(), 0x1f), eq(mload(0x00), 1))
            let returnedNothing := and(iszero(returndatasize()), gt(extcodesize(token), 0))
            sent := and(sent, or(returnedTrue, returnedNothing))
        }
    }

    /// @dev The words v, r, s of a signature r, s, v.
    function _ecdsaWords(bytes calldata signature) private pure returns (bytes memory) {
        return abi.encode(uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));
    }

    function _balance(IERC20 token) private view returns (uint256) {
        if (address(token).code.length == 0) revert TokenWithoutCode(address(token));
        return token.balanceOf(address(this));
    }

    function _requireReceived(IERC20 token, uint256 balanceBefore, uint256 amount) private view {
        uint256 received = token.balanceOf(address(this)) - balanceBefore;
        if (received != amount) revert TransferAmountMismatch(address(token), amount, received);
    }
}
