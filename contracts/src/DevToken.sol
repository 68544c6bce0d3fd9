// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";

import {IERC3009} from "./interfaces/IERC3009.sol";

/// @title DevToken
/// @notice Play money for local development chains, with six decimals and EIP-3009's `receiveWithAuthorization`. ANYONE
/// CAN MINT ANY AMOUNT: IT IS WORTH NOTHING, AND MUST NEVER BE DEPLOYED ON, OR ACCEPTED AS PAYMENT ON, A CHAIN THAT
/// OTHERS CAN REACH.
contract DevToken is ERC20, EIP712, IERC3009 {
    bytes32 private constant _RECEIVE_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );

    /// @notice Whether an owner's authorisation of this nonce was used (EIP-3009).
    mapping(address owner => mapping(bytes32 nonce => bool used)) public authorizationState;

    /// @notice An authorisation was used.
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);

    error NotReceiver(address to, address caller);
    error AuthorizationNotValidNow(uint256 validAfter, uint256 validBefore);
    error AuthorizationUsedAlready(address owner, bytes32 nonce);
    error AuthorizationSignatureInvalid(address owner);

    constructor() ERC20("aioum devnet dollar", "aUSD") EIP712("aioum devnet dollar", "1") {}

    /// @notice Creates `amount` base units (10^-6 aUSD) for `to`. Open to everybody: devnets only.
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    /// @inheritdoc IERC3009
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external override {
        _receive(from, to, value, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
    }

    /// @inheritdoc IERC3009
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external override {
        _receive(from, to, value, validAfter, validBefore, nonce, signature);
    }

    /// @notice The EIP-712 domain separator of authorisations.
    // The name is EIP-3009's.
    // forge-lint: disable-next-line(mixed-case-function)
    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    /// @notice Base units are millionths.
    function decimals() public pure override returns (uint8) {
        return 6;
    }

    function _receive(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) private {
        if (to != msg.sender) revert NotReceiver(to, msg.sender);
        if (block.timestamp <= validAfter || block.timestamp >= validBefore) {
            revert AuthorizationNotValidNow(validAfter, validBefore);
        }
        if (authorizationState[from][nonce]) revert AuthorizationUsedAlready(from, nonce);
        bytes32 structHash = keccak256(abi.encode(_RECEIVE_TYPEHASH, from, to, value, validAfter, validBefore, nonce));
        if (!SignatureChecker.isValidSignatureNow(from, _hashTypedDataV4(structHash), signature)) {
            revert AuthorizationSignatureInvalid(from);
        }
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        _transfer(from, to, value);
    }
}
