"""Code on a chain, held against the artifacts."""

import hashlib

import pytest

from aioum.chain.abi import CONTRACTS, artifact
from aioum.chain.creations import DeploymentPlan
from aioum.chain.deployment_check import contracts_of, expected_immutables, other_sources
from aioum.chain.runtime_code import build_of, runtime_code
from aioum.core.errors import AioumError
from aioum.core.types import Address, Bytes32
from tests.unit.chain.test_deployments import DEPLOYMENT, OLD

MANAGER = runtime_code("PaymentManager")


def created_code() -> bytearray:
    """Code of a PaymentManager with another number in each of its immutables."""
    code = bytearray(MANAGER.code)
    for number, places in enumerate(MANAGER.immutables.values(), start=1):
        for place in places:
            code[place] = number.to_bytes(32, "big")
    return code


def code_of(deployed: bytes) -> str:
    with pytest.raises(AioumError) as caught:
        MANAGER.values_in(deployed)
    return caught.value.code


def test_the_immutables_are_read_from_code_that_is_otherwise_the_artifacts() -> None:
    assert MANAGER.values_in(bytes(created_code())) == {
        name: number.to_bytes(32, "big") for number, name in enumerate(MANAGER.immutables, start=1)
    }


def test_one_other_byte_outside_of_the_immutables_is_other_code() -> None:
    inside = {
        i for places in MANAGER.immutables.values() for place in places for i in range(*place.indices(10**6))
    }
    outside = [i for i in (0, len(MANAGER.code) // 2, len(MANAGER.code) - 1) if i not in inside]
    assert outside
    for position in outside:
        code = created_code()
        code[position] ^= 1
        assert code_of(bytes(code)) == "artifact-mismatch"


def test_no_code_and_code_of_another_length_is_other_code() -> None:
    code = bytes(created_code())
    for wrong in (b"", code[:-1], code + b"\0"):
        assert code_of(wrong) == "artifact-mismatch"


def test_an_immutable_that_differs_from_place_to_place_is_noticed() -> None:
    code = created_code()
    (first, *_) = MANAGER.immutables["registry"]
    code[first] = bytes(32)
    assert code_of(bytes(code)) == "immutable-mismatch"


def test_every_immutable_of_what_is_deployed_is_compared_with_something() -> None:
    expected = expected_immutables(DEPLOYMENT, 900)
    for name in contracts_of(DEPLOYMENT):
        assert set(runtime_code(name).immutables) == set(expected.get(name, {})), name


def test_contracts_of_before_disputes_are_held_against_what_they_had() -> None:
    assert list(contracts_of(OLD)) == ["ServiceRegistry", "PaymentManager"]
    assert "disputeManager" not in expected_immutables(OLD, None)["PaymentManager"]


def test_a_build_names_the_compiler_and_the_sha_256_of_each_creation_code() -> None:
    build = build_of(["LogAnchor", "DevToken"])
    assert build.compiler == "0.8.37"
    assert build.creation_sha256 == {
        name: hashlib.sha256(artifact(name).bytecode).digest() for name in ("LogAnchor", "DevToken")
    }
    assert other_sources(DEPLOYMENT) == ["PaymentManager"]
    assert other_sources(OLD) == []


def test_a_plan_creates_every_contract_but_the_one_that_another_creates() -> None:
    plan = DeploymentPlan(900, "aUSD")
    assert {*plan.contracts, "DisputeManager"} == set(CONTRACTS)
    addresses = {name: Address(bytes([n]) * 20) for n, name in enumerate(plan.contracts, start=1)}
    for name in plan.contracts:
        assert plan.creation(name, addresses).data.startswith(artifact(name).bytecode)


def test_constructor_arguments_are_the_contracts_before_and_the_grace_period() -> None:
    plan = DeploymentPlan(900, salt=b"salt")
    addresses = {"ServiceRegistry": Address(b"\1" * 20), "PaymentManager": Address(b"\2" * 20)}
    tails = {
        name: plan.creation(name, addresses).data.removeprefix(artifact(name).bytecode)
        for name in plan.contracts
    }
    assert tails == {
        "ServiceRegistry": b"salt",
        "PaymentManager": Bytes32(bytes(12) + b"\1" * 20) + (900).to_bytes(32, "big"),
        "RatingRegistry": Bytes32(bytes(12) + b"\2" * 20),
        "LogAnchor": b"",
    }
