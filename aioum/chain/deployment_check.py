"""Whether the contracts of a deployment are ours: their code, and what their constructors were given.

The code has to be that of the artifacts in every byte but the immutables. Those are compared twice: the value
in the code, at each of its places, and what the contract's view answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioum.chain.abi import (
    DISPUTE_MANAGER,
    LOG_ANCHOR,
    PAYMENT_MANAGER,
    RATING_REGISTRY,
    SERVICE_REGISTRY,
    artifact,
)
from aioum.chain.deployments import Deployment
from aioum.chain.rpc import Rpc
from aioum.chain.runtime_code import IMMUTABLE_MISMATCH, creation_sha256, runtime_code
from aioum.core.errors import ChainError
from aioum.core.hashing import keccak256
from aioum.core.hextext import address, address_text, to_hex
from aioum.core.payment import DOMAIN_NAME, DOMAIN_VERSION, Domain
from aioum.core.types import Address

DO_NOT_PAY_HINT: Final = "do not pay into these contracts"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it should be; `code` is the reason, `text` a sentence that names the
    contract.
    """

    code: str
    text: str

    def error(self) -> ChainError:
        """The error for a caller who stops at it."""
        return ChainError(self.text, code=self.code, hint=DO_NOT_PAY_HINT)


def contracts_of(deployment: Deployment) -> dict[str, Address]:
    """Our contracts in a deployment, by name; tokens are not among them."""
    named = {
        SERVICE_REGISTRY: deployment.service_registry,
        PAYMENT_MANAGER: deployment.payment_manager,
        DISPUTE_MANAGER: deployment.dispute_manager,
        RATING_REGISTRY: deployment.rating_registry,
        LOG_ANCHOR: deployment.log_anchor,
    }
    return {name: at for name, at in named.items() if at is not None}


def other_sources(deployment: Deployment) -> list[str]:
    """The contracts that the deployments file says were compiled from other sources than those here."""
    if deployment.build is None:
        return []
    known = deployment.build.creation_sha256
    return [name for name in contracts_of(deployment) if known.get(name) not in (None, creation_sha256(name))]


async def code_differences(rpc: Rpc, contracts: Mapping[str, Address]) -> list[Difference]:
    """Hold the code of each contract against its artifact, immutables left out.

    Raises:
        ChainError: the endpoint's `rpc-…` codes.
    """
    found = []
    for name, at in contracts.items():
        code = await rpc.code(at)
        try:
            runtime_code(name).values_in(code)
        except ChainError as error:
            found.append(Difference(error.code, f"{name} at {address_text(at)}: {error}"))
    return found


async def wiring_differences(
    rpc: Rpc, deployment: Deployment, *, grace_period_seconds: int | None = None
) -> list[Difference]:
    """Hold what the contracts say of themselves, and what lies in their code, against the deployment.

    Args:
        rpc: the deployment's chain.
        deployment: what is expected.
        grace_period_seconds: what the PaymentManager's should be; None: any.

    Raises:
        ChainError: `contract-missing`, or the endpoint's `rpc-…` codes.
    """
    expected = expected_immutables(deployment, grace_period_seconds)
    contracts = contracts_of(deployment)
    found: list[Difference] = []
    for name, values in expected.items():
        at = contracts[name]
        try:
            held: Mapping[str, bytes] = runtime_code(name).values_in(await rpc.code(at))
        except ChainError:
            # Other code, which `code_differences` tells. Its views are asked all the same.
            held = {}
        for immutable, value in values.items():
            got = [held[immutable]] if immutable in held else []
            if immutable in _views(name):
                got.append(_word(await rpc.read(name, at, immutable)))
            found += [
                Difference(
                    IMMUTABLE_MISMATCH,
                    f"{name} at {address_text(at)}: {immutable} is {to_hex(other)}, expected {to_hex(value)}",
                )
                for other in dict.fromkeys(got)
                if other != value
            ]
    return found


def expected_immutables(
    deployment: Deployment, grace_period_seconds: int | None
) -> dict[str, dict[str, bytes]]:
    """What the immutables of each contract have to be, as 32 bytes, by contract and by name."""
    manager = deployment.payment_manager
    managers: dict[str, bytes] = {
        "registry": _word(deployment.service_registry),
        "_cachedChainId": _word(deployment.chain_id),
        "_cachedDomainSeparator": Domain(deployment.chain_id, manager).separator,
        "_cachedThis": _word(manager),
        "_hashedName": keccak256(DOMAIN_NAME.encode()),
        "_hashedVersion": keccak256(DOMAIN_VERSION.encode()),
        "_name": _short_string(DOMAIN_NAME),
        "_version": _short_string(DOMAIN_VERSION),
    }
    if grace_period_seconds is not None:
        managers["gracePeriodSeconds"] = _word(grace_period_seconds)
    expected = {PAYMENT_MANAGER: managers}
    if deployment.dispute_manager is not None:
        managers["disputeManager"] = _word(deployment.dispute_manager)
        expected[DISPUTE_MANAGER] = {
            "paymentManager": _word(manager),
            "registry": _word(deployment.service_registry),
        }
    if deployment.rating_registry is not None:
        expected[RATING_REGISTRY] = {"paymentManager": _word(manager)}
    return expected


def _views(contract: str) -> Iterable[str]:
    return {
        entry["name"]
        for entry in artifact(contract).abi
        if entry["type"] == "function" and entry["stateMutability"] == "view" and not entry["inputs"]
    }


def _word(value: Any) -> bytes:
    """A value as a contract's code holds it; addresses as bytes or, from a view, as text."""
    if isinstance(value, int):
        return value.to_bytes(32, "big")
    return bytes(address(value) if isinstance(value, str) else value).rjust(32, b"\0")


def _short_string(text: str) -> bytes:
    """A text as OpenZeppelin's EIP712 keeps it: its bytes, and their number in the last one."""
    data = text.encode()
    return data.ljust(31, b"\0") + bytes([len(data)])
