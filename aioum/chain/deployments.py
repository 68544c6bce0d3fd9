"""Where contracts lie: the deployments file, and how a stale one is noticed instead of being used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioum.core.errors import ChainError, ConfigError
from aioum.core.types import Address, Bytes32

DEPLOYMENT_FILE_NAME: Final = "deployment.json"
DEPLOYMENT_VARIABLE: Final = "AIOUM_DEPLOYMENT"
CHAIN_VARIABLE: Final = "AIOUM_CHAIN"
DEVNET_DIR_VARIABLE: Final = "AIOUM_DEVNET_DIR"
_CAIP2_PREFIX: Final = "eip155:"
_MAX_CHAIN_ID_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class Build:
    """What contracts were compiled from and by.

    Attributes:
        compiler: version of solc.
        creation_sha256: name of a contract to the SHA-256 of its creation code, without arguments.
    """

    compiler: str
    creation_sha256: Mapping[str, Bytes32]


@dataclass(frozen=True, slots=True)
class Deployment:
    """One set of our contracts on one chain.

    Attributes:
        rpc_url: the endpoint it was made through, without a password.
        block_number, block_hash: the block of the first creation: no event is older, and another hash at that
            number means another history (a reset devnet).
        tokens: symbol to address.
        code_hashes: address to keccak256 of the code there.
        dispute_manager, rating_registry, log_anchor: None where the set has none: it is older than they are.
        build: what was deployed; None in files that are older than this member.
    """

    chain_id: int
    rpc_url: str
    block_number: int
    block_hash: Bytes32
    payment_manager: Address
    service_registry: Address
    tokens: Mapping[str, Address]
    code_hashes: Mapping[Address, Bytes32]
    dispute_manager: Address | None = None
    rating_registry: Address | None = None
    log_anchor: Address | None = None
    build: Build | None = None

    def save(self, path: Path) -> None:
        """Write a file that names this deployment alone, replacing an older one at once. Folders must exist.

        Raises:
            OSError: the file cannot be written; an older one is unchanged.
        """
        from aioum.chain.deployments_file import write_deployments

        write_deployments(path, [self])

    @classmethod
    def load(cls, path: Path, chain_id: int | None = None) -> Deployment:
        """Read one deployment of a file.

        Args:
            path: the file.
            chain_id: which one; None: the only one.

        Raises:
            ChainError: `deployment-missing`, `deployment-invalid`, `deployment-ambiguous` (several, and
                nothing says which), or `deployment-chain-missing` (none for this chain).
        """
        from aioum.chain.deployments_file import read_deployments

        found = read_deployments(path)
        names = ", ".join(map(caip2, sorted(found)))
        if chain_id is not None:
            if chain_id in found:
                return found[chain_id]
            raise ChainError(
                f"{path} names no contracts on {caip2(chain_id)}, but on {names}",
                code="deployment-chain-missing",
                hint="name the right file, or another chain",
            )
        if len(found) == 1:
            return next(iter(found.values()))
        raise ChainError(
            f"{path} names contracts on several chains: {names}",
            code="deployment-ambiguous",
            hint=f"say which one is meant: {CHAIN_VARIABLE}={caip2(min(found))}",
        )


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


def caip2(chain_id: int) -> str:
    """The chain's name by CAIP-2, such as `eip155:8453`."""
    return f"{_CAIP2_PREFIX}{chain_id}"


def chain_id_of(name: str) -> int:
    """The chain id in a name by CAIP-2.

    Raises:
        ConfigError: `chain-name-invalid`: it is no `eip155:` and a positive number of at most 19 digits.
    """
    digits = name.removeprefix(_CAIP2_PREFIX)
    is_number = digits.isascii() and digits.isdigit() and not digits.startswith("0")
    if digits == name or not is_number or len(digits) > _MAX_CHAIN_ID_DIGITS:
        raise ConfigError(
            f"not the name of a chain: {name!r:.80}",
            code="chain-name-invalid",
            hint=f"chains are named by CAIP-2, such as {caip2(8453)}",
        )
    return int(digits)


def find_deployment(
    path: Path | None = None, environ: Mapping[str, str] = os.environ, *, chain_id: int | None = None
) -> Deployment:
    """Load the deployment that is meant.

    Args:
        path: the file; None: AIOUM_DEPLOYMENT, else the local devnet's.
        environ: variables of the environment.
        chain_id: which deployment of the file; None: AIOUM_CHAIN (by CAIP-2), else the only one.

    Raises:
        ChainError: as `Deployment.load`.
        ConfigError: `chain-name-invalid`.
    """
    if chain_id is None and (name := environ.get(CHAIN_VARIABLE)):
        chain_id = chain_id_of(name)
    if path is None:
        named = environ.get(DEPLOYMENT_VARIABLE)
        path = Path(named) if named else default_devnet_dir(environ) / DEPLOYMENT_FILE_NAME
    return Deployment.load(path, chain_id)


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
