"""Where contracts lie: the deployments file, and how a stale one is noticed instead of being used."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from aioum.core.errors import ChainError, InvalidInput
from aioum.core.hextext import address, address_text, bytes32, to_hex
from aioum.core.types import Address, Bytes32

DEPLOYMENT_FILE_NAME: Final = "deployment.json"
DEPLOYMENT_VARIABLE: Final = "AIOUM_DEPLOYMENT"
DEVNET_DIR_VARIABLE: Final = "AIOUM_DEVNET_DIR"
MAX_DEPLOYMENT_SIZE_BYTES: Final = 65_536
_START_HINT: Final = "start a devnet with `aioum devnet up`, or name a deployments file"


@dataclass(frozen=True, slots=True)
class Deployment:
    """One set of our contracts on one chain.

    Attributes:
        rpc_url: the endpoint it was made through, without a password.
        block_number, block_hash: the block of the first creation: no event is older, and another hash at that
            number means another history (a reset devnet).
        tokens: symbol to address.
        code_hashes: address to keccak256 of the code there.
    """

    chain_id: int
    rpc_url: str
    block_number: int
    block_hash: Bytes32
    payment_manager: Address
    service_registry: Address
    tokens: Mapping[str, Address]
    code_hashes: Mapping[Address, Bytes32]

    def save(self, path: Path) -> None:
        """Write the file, replacing an older one at once. Folders must exist. Raises OSError."""
        content = {
            "formatVersion": 1,
            "chainId": self.chain_id,
            "rpcUrl": self.rpc_url,
            "blockNumber": self.block_number,
            "blockHash": to_hex(self.block_hash),
            "paymentManager": address_text(self.payment_manager),
            "serviceRegistry": address_text(self.service_registry),
            "tokens": {symbol: address_text(token) for symbol, token in self.tokens.items()},
            "codeHashes": {address_text(at): to_hex(value) for at, value in self.code_hashes.items()},
        }
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write(json.dumps(content, indent=2) + "\n")
        os.replace(file.name, path)

    @classmethod
    def load(cls, path: Path) -> Deployment:
        """Read the file.

        Raises:
            ChainError: `deployment-missing` or `deployment-invalid`.
        """
        try:
            with path.open("rb") as file:
                content = file.read(MAX_DEPLOYMENT_SIZE_BYTES + 1)
        except OSError as error:
            raise ChainError(
                f"there is no deployments file at {path}: {error.strerror}",
                code="deployment-missing",
                hint=_START_HINT,
            ) from error
        try:
            if len(content) > MAX_DEPLOYMENT_SIZE_BYTES:
                raise ValueError(f"longer than {MAX_DEPLOYMENT_SIZE_BYTES} bytes")
            return _DeploymentFile.model_validate_json(content).value()
        except (ValidationError, ValueError) as error:
            raise ChainError(
                f"{path} is no deployments file: {error}", code="deployment-invalid", hint=_START_HINT
            ) from error


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Contracts named one by one instead of by a deployments file.

    Attributes:
        service_registry: None: the one that the PaymentManager names.
        first_block: no event of these contracts is older; searches begin here.
    """

    rpc_url: str
    payment_manager: Address
    service_registry: Address | None = None
    first_block: int = 0


def find_deployment(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Deployment:
    """Load the deployment that is meant: `path`, else AIOUM_DEPLOYMENT, else the local devnet's.

    Raises:
        ChainError: `deployment-missing` or `deployment-invalid`.
    """
    if path is not None:
        return Deployment.load(path)
    if named := environ.get(DEPLOYMENT_VARIABLE):
        return Deployment.load(Path(named))
    return Deployment.load(default_devnet_dir(environ) / DEPLOYMENT_FILE_NAME)


def default_devnet_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Folder of the local devnet's state: AIOUM_DEVNET_DIR, else ~/.aioum/devnet."""
    named = environ.get(DEVNET_DIR_VARIABLE)
    return Path(named) if named else Path.home() / ".aioum" / "devnet"


def stale(reason: str, details: Mapping[str, Any]) -> ChainError:
    """The error for a deployments file that does not describe the chain behind its endpoint."""
    return ChainError(
        f"the deployments file is stale: {reason}",
        code="deployment-stale",
        hint="the chain was reset or is another one: run `aioum devnet reset`, or name the right file",
        details=details,
    )


def _refusal_as_value_error(parse: Any) -> BeforeValidator:
    def convert(text: object) -> Any:
        try:
            return parse(text)
        except InvalidInput as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(convert)


_AddressText = Annotated[Address, _refusal_as_value_error(address)]
_HashText = Annotated[Bytes32, _refusal_as_value_error(bytes32)]


class _DeploymentFile(BaseModel):
    # JSON has no bytes: the validators above make them from hex text before the strict check.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, val_json_bytes="utf8")

    format_version: Literal[1] = Field(alias="formatVersion")
    chain_id: int = Field(alias="chainId", gt=0)
    rpc_url: str = Field(alias="rpcUrl", pattern=r"^https?://")
    block_number: int = Field(alias="blockNumber", ge=0)
    block_hash: _HashText = Field(alias="blockHash")
    payment_manager: _AddressText = Field(alias="paymentManager")
    service_registry: _AddressText = Field(alias="serviceRegistry")
    tokens: dict[str, _AddressText]
    code_hashes: dict[_AddressText, _HashText] = Field(alias="codeHashes")

    def value(self) -> Deployment:
        return Deployment(
            chain_id=self.chain_id,
            rpc_url=self.rpc_url,
            block_number=self.block_number,
            block_hash=self.block_hash,
            payment_manager=self.payment_manager,
            service_registry=self.service_registry,
            tokens=self.tokens,
            code_hashes=self.code_hashes,
        )
