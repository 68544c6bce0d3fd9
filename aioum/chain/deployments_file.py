"""The deployments file as JSON: one set of contracts for each chain, by the chain's CAIP-2 name.

Version 1 held one set, without disputes, ratings and anchors; it is still read, and never written.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from aioum.chain.deployments import Build, Deployment, caip2, chain_id_of
from aioum.core.errors import AioumError, ChainError
from aioum.core.hextext import address, address_text, bytes32, to_hex
from aioum.core.types import Address, Bytes32

MAX_DEPLOYMENT_SIZE_BYTES: Final = 65_536
FORMAT_VERSION: Final = 2
_START_HINT: Final = "start a devnet with `aioum devnet up`, or name a deployments file"


def read_deployments(path: Path) -> dict[int, Deployment]:
    """Everything that a deployments file names, by chain id; at least one.

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
        return {found.chain_id: found for found in _FILE.validate_json(content).values()}
    except (ValidationError, ValueError) as error:
        raise ChainError(
            f"{path} is no deployments file: {error}", code="deployment-invalid", hint=_START_HINT
        ) from error


def write_deployments(path: Path, deployments: Iterable[Deployment]) -> None:
    """Write a deployments file, replacing an older one at once. Folders must exist.

    Args:
        path: where.
        deployments: at most one for each chain.

    Raises:
        OSError: the file cannot be written; an older one is unchanged.
    """
    chains = sorted(deployments, key=lambda deployment: deployment.chain_id)
    content = {
        "formatVersion": FORMAT_VERSION,
        "deployments": {caip2(deployment.chain_id): _to_json(deployment) for deployment in chains},
    }
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        try:
            file.write(json.dumps(content, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _to_json(deployment: Deployment) -> dict[str, Any]:
    contracts = {
        "paymentManager": deployment.payment_manager,
        "serviceRegistry": deployment.service_registry,
        "disputeManager": deployment.dispute_manager,
        "ratingRegistry": deployment.rating_registry,
        "logAnchor": deployment.log_anchor,
    }
    content: dict[str, Any] = {
        "rpcUrl": deployment.rpc_url,
        "blockNumber": deployment.block_number,
        "blockHash": to_hex(deployment.block_hash),
        **{name: address_text(at) for name, at in contracts.items() if at is not None},
        "tokens": {symbol: address_text(token) for symbol, token in deployment.tokens.items()},
        "codeHashes": {address_text(at): to_hex(value) for at, value in deployment.code_hashes.items()},
    }
    if deployment.build is not None:
        hashes = deployment.build.creation_sha256
        content["build"] = {
            "compiler": deployment.build.compiler,
            "creationSha256": {name: to_hex(value) for name, value in hashes.items()},
        }
    return content


def _refusal_as_value_error(parse: Any) -> BeforeValidator:
    def convert(text: object) -> Any:
        try:
            return parse(text)
        except AioumError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(convert)


_AddressText = Annotated[Address, _refusal_as_value_error(address)]
_HashText = Annotated[Bytes32, _refusal_as_value_error(bytes32)]
_ChainName = Annotated[int, _refusal_as_value_error(chain_id_of)]


class _Model(BaseModel):
    # JSON has no bytes: the validators above make them from hex text before the strict check.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, val_json_bytes="utf8")


class _Contracts(_Model):
    """What both versions say of a set of contracts."""

    rpc_url: str = Field(alias="rpcUrl", pattern=r"^https?://")
    block_number: int = Field(alias="blockNumber", ge=0)
    block_hash: _HashText = Field(alias="blockHash")
    payment_manager: _AddressText = Field(alias="paymentManager")
    service_registry: _AddressText = Field(alias="serviceRegistry")
    tokens: dict[str, _AddressText]
    code_hashes: dict[_AddressText, _HashText] = Field(alias="codeHashes")

    def facts(self) -> Mapping[str, Any]:
        """The members by their names in `Deployment`."""
        return {name: getattr(self, name) for name in type(self).model_fields}


class _BuildMember(_Model):
    compiler: str
    creation_sha256: dict[str, _HashText] = Field(alias="creationSha256")


class _DeploymentMember(_Contracts):
    dispute_manager: _AddressText | None = Field(alias="disputeManager", default=None)
    rating_registry: _AddressText | None = Field(alias="ratingRegistry", default=None)
    log_anchor: _AddressText | None = Field(alias="logAnchor", default=None)
    build: _BuildMember | None = None

    def value(self, chain_id: int) -> Deployment:
        """The deployment on a chain."""
        build = None if self.build is None else Build(self.build.compiler, self.build.creation_sha256)
        return Deployment(**{**self.facts(), "chain_id": chain_id, "build": build})


class _Version1(_Contracts):
    format_version: Literal[1] = Field(alias="formatVersion")
    chain_id: int = Field(alias="chainId", gt=0)

    def values(self) -> list[Deployment]:
        """The one deployment."""
        return [
            Deployment(**{name: value for name, value in self.facts().items() if name != "format_version"})
        ]


class _Version2(_Model):
    format_version: Literal[2] = Field(alias="formatVersion")
    deployments: dict[_ChainName, _DeploymentMember] = Field(min_length=1)

    def values(self) -> list[Deployment]:
        """The deployments, one for each chain."""
        return [member.value(chain_id) for chain_id, member in self.deployments.items()]


_FILE: Final[TypeAdapter[_Version1 | _Version2]] = TypeAdapter(
    Annotated[_Version1 | _Version2, Field(discriminator="format_version")]
)
