"""Deploying: what it costs is known before, what was created is found again, and all of it is verified."""

import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.chain.abi import PAYMENT_MANAGER
from aioum.chain.attempts import fields_of
from aioum.chain.client import Chain
from aioum.chain.creations import DeploymentPlan, purpose_of
from aioum.chain.deploy import Created
from aioum.chain.deploy_folder import DeploymentJournal, claimed
from aioum.chain.deployment_check import contracts_of
from aioum.chain.deployments import Deployment
from aioum.chain.deployments_file import read_deployments
from aioum.chain.runtime_code import build_of, runtime_code
from aioum.cli.deploying import DeployRequest, Finished, Offer, estimate, run
from aioum.cli.keys import KeySource
from aioum.core.errors import AioumError
from aioum.core.hashing import keccak256
from aioum.core.hextext import to_hex
from aioum.core.signing import LocalKey
from aioum.core.types import Address
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.chain.faulty_endpoint import faulty_endpoint

CREATED = ("ServiceRegistry", "PaymentManager", "RatingRegistry", "LogAnchor")
GRACE_SECONDS = 1_234
ETHER = 10**18


class Stopped(Exception):
    """Ends a run on the way."""


class Deployer:
    """A fresh account that deploys."""

    def __init__(self, devnet: RunningDevnet, folder: Path) -> None:
        self.key = LocalKey(secrets.token_bytes(32))
        self.key_file = folder / "key"
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(to_hex(self.key.secret_bytes()))
        self.request = DeployRequest(
            rpc_url=devnet.rpc_url,
            recorded_rpc_url=None,
            key_source=KeySource(key_file=self.key_file),
            plan=DeploymentPlan(GRACE_SECONDS),
            out=folder / "deployments.json",
            folder=None,
            chain_id=None,
            tokens={},
            confirmations=1,
            max_fee_per_gas_wei=None,
            receipt_timeout_seconds=30,
        )
        self.offers: list[Offer] = []
        self.created: list[Created] = []

    @property
    def out(self) -> Path:
        return self.request.out

    async def deploy(self, stop_after: str | None = None) -> Finished:
        """Run once; a contract's name ends the run when that contract is there."""
        self.offers.clear()
        self.created.clear()

        def told(created: Created) -> None:
            self.created.append(created)
            if created.contract == stop_after:
                raise Stopped

        return await run(self.request, self.offers.append, told)

    async def stopped_after(self, contract: str) -> dict[str, Address]:
        """Run until a contract is there; returns what is."""
        with pytest.raises(Stopped):
            await self.deploy(contract)
        return {created.contract: created.address for created in self.created}

    async def refusal(self) -> AioumError:
        """What a run ends with."""
        with pytest.raises(AioumError) as caught:
            await self.deploy()
        return caught.value


@pytest.fixture
async def deployer(devnet: RunningDevnet, tmp_path: Path) -> Deployer:
    made = Deployer(devnet, tmp_path)
    await devnet.fund(made.key.address)
    return made


@pytest.fixture
def sent(chain: Chain, deployer: Deployer) -> Callable[[], Awaitable[int]]:
    """How many transactions the deployer has sent."""

    async def count() -> int:
        return await chain.rpc.transaction_count(deployer.key.address, "pending")

    return count


Sent = Callable[[], Awaitable[int]]


async def test_a_deployment_is_verified_and_described_in_the_file(
    chain: Chain, deployer: Deployer, sent: Sent
) -> None:
    finished = await deployer.deploy()
    deployment = Deployment.load(deployer.out)
    assert deployment == finished.deployment
    assert await sent() == 4
    assert tuple(created.contract for created in deployer.created) == CREATED
    assert list(contracts_of(deployment)) == [
        "ServiceRegistry",
        "PaymentManager",
        "DisputeManager",
        *CREATED[2:],
    ]
    for at in contracts_of(deployment).values():
        assert deployment.code_hashes[at] == keccak256(await chain.code(at))
    assert deployment.block_number == deployer.created[0].block_number
    assert deployment.build == build_of([*CREATED, "DisputeManager"])
    assert deployment.tokens == {}
    async with Chain.connect(deployment) as connected:
        assert await connected.grace_period_seconds() == GRACE_SECONDS


async def test_what_was_shown_before_is_what_it_costs_and_the_most_that_it_can(
    chain: Chain, deployer: Deployer
) -> None:
    before = await chain.native_balance(deployer.key.address)
    await deployer.deploy()
    (offer,) = deployer.offers
    spent = before - await chain.native_balance(deployer.key.address)
    assert offer.cost.balance_wei == before
    assert 0 < spent <= offer.cost.max_fee_wei
    for creation, created in zip(offer.cost.creations, deployer.created, strict=True):
        assert creation.contract == created.contract
        assert creation.is_estimated
        # Zeros in an address are cheaper, so the stand-ins of later contracts cost a little more.
        assert 0 <= creation.gas - created.gas_used <= 20 * 12
        signed = await chain.rpc.request("eth_getTransactionByHash", to_hex(created.transaction_hash))
        assert int(signed["gas"], 16) <= creation.gas_limit
        assert int(signed["maxFeePerGas"], 16) <= offer.cost.max_gas_price_wei


async def test_an_estimate_sends_nothing_and_leaves_nothing(deployer: Deployer, sent: Sent) -> None:
    offer = await estimate(deployer.request)
    assert [creation.contract for creation in offer.cost.creations] == list(CREATED)
    assert offer.cost.fee_wei == offer.cost.gas * offer.cost.gas_price_wei > 0
    assert await sent() == 0
    assert sorted(deployer.out.parent.iterdir()) == [deployer.key_file]


async def test_an_estimate_of_a_deployment_that_was_begun_is_of_what_is_left(
    deployer: Deployer, sent: Sent
) -> None:
    there = await deployer.stopped_after("PaymentManager")
    offer = await estimate(deployer.request)
    assert {created.contract: created.address for created in offer.created} == there
    assert [creation.contract for creation in offer.cost.creations] == list(CREATED[2:])
    assert await sent() == 2


async def test_a_finished_deployment_is_verified_again_and_nothing_is_sent_or_asked(
    deployer: Deployer, sent: Sent
) -> None:
    first = await deployer.deploy()
    content = deployer.out.read_bytes()
    deployer.out.unlink()
    again = await deployer.deploy()
    assert again == first
    assert deployer.out.read_bytes() == content
    assert deployer.offers == []
    assert await sent() == 4


async def test_without_consent_nothing_is_sent_and_another_plan_can_follow(
    deployer: Deployer, sent: Sent
) -> None:
    def refuse(_offer: Offer) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        await run(deployer.request, refuse, deployer.created.append)
    assert await sent() == 0
    assert not deployer.out.exists()
    deployer.request = replace(deployer.request, plan=DeploymentPlan(GRACE_SECONDS + 1))
    await deployer.deploy()


async def test_an_account_that_cannot_pay_the_most_that_it_can_cost_is_told_what_is_missing(
    devnet: RunningDevnet, deployer: Deployer, sent: Sent
) -> None:
    needed = (await estimate(deployer.request)).cost.max_fee_wei
    # Base fees move from block to block; half of it is too little whatever they do.
    await devnet.fund(deployer.key.address, wei=needed // 2)
    error = await deployer.refusal()
    assert error.code == "funds-insufficient"
    assert error.details["balance_wei"] == needed // 2
    assert error.details["max_fee_wei"] > needed // 2
    assert deployer.offers == []
    assert await sent() == 0


async def test_what_a_run_needs_is_checked_before_anything_is_sent(
    devnet: RunningDevnet, deployer: Deployer, sent: Sent, tmp_path: Path
) -> None:
    good = deployer.request
    cases = {
        "chain-id-mismatch": replace(good, chain_id=1),
        "grace-period-out-of-range": replace(good, plan=DeploymentPlan(10)),
        "token-mismatch": replace(good, tokens={"USDC": devnet.token}),
        "fee-cap-reached": replace(good, max_fee_per_gas_wei=1),
        "deployments-folder-unusable": replace(good, out=tmp_path / "absent" / "deployments.json"),
        "deployment-exists": replace(good, out=devnet.deployment_file),
        "key-file-unusable": replace(good, key_source=KeySource(key_file=tmp_path / "absent")),
        "rpc-unreachable": replace(good, rpc_url="http://127.0.0.1:1"),
    }
    for code, request in cases.items():
        deployer.request = replace(request, folder=tmp_path / code)
        assert (await deployer.refusal()).code == code
        with pytest.raises(AioumError) as caught:
            await estimate(deployer.request)
        assert caught.value.code == code
    assert deployer.offers == []
    assert await sent() == 0


async def test_a_folder_is_good_for_one_deployment_only(
    deployer: Deployer, devnet: RunningDevnet, sent: Sent
) -> None:
    await deployer.stopped_after("ServiceRegistry")
    good = deployer.request
    deployer.request = replace(good, plan=DeploymentPlan(GRACE_SECONDS + 1))
    error = await deployer.refusal()
    assert (error.code, error.details) == ("deploy-plan-changed", {"differs": ["gracePeriodSeconds"]})
    deployer.request = replace(good, key_source=KeySource(devnet_account=5))
    error = await deployer.refusal()
    assert (error.code, error.details) == ("deploy-plan-changed", {"differs": ["account"]})
    plan_file = good.folder_for(devnet.deployment.chain_id) / "plan.json"
    plan_file.write_text("{}")
    deployer.request = good
    assert (await deployer.refusal()).code == "deploy-plan-invalid"
    assert await sent() == 1


async def test_two_programs_do_not_deploy_the_same_at_once(
    deployer: Deployer, devnet: RunningDevnet, sent: Sent
) -> None:
    with claimed(deployer.request.folder_for(devnet.deployment.chain_id)):
        assert (await deployer.refusal()).code == "deploy-busy"
    assert await sent() == 0


async def test_other_code_in_the_place_of_a_contract_ends_the_run_before_more_is_paid_for(
    devnet: RunningDevnet, deployer: Deployer, sent: Sent
) -> None:
    there = await deployer.stopped_after("PaymentManager")
    code = bytearray(runtime_code(PAYMENT_MANAGER).code)
    code[-1] ^= 1
    await devnet.set_code(there["PaymentManager"], bytes(code))
    error = await deployer.refusal()
    assert error.code == "artifact-mismatch"
    assert "PaymentManager" in str(error)
    assert await sent() == 2
    assert not deployer.out.exists()


async def test_another_value_in_the_place_of_an_immutable_is_noticed(
    chain: Chain, devnet: RunningDevnet, deployer: Deployer
) -> None:
    there = await deployer.stopped_after("LogAnchor")
    manager = there["PaymentManager"]
    good = await chain.code(manager)
    for name, places in runtime_code(PAYMENT_MANAGER).immutables.items():
        code = bytearray(good)
        for place in places:
            code[place] = (int.from_bytes(code[place], "big") ^ 1).to_bytes(32, "big")
        await devnet.set_code(manager, bytes(code))
        error = await deployer.refusal()
        # Another DisputeManager than the right one has no code.
        expected = "artifact-mismatch" if name == "disputeManager" else "immutable-mismatch"
        assert error.code == expected, name
        assert not deployer.out.exists()
    await devnet.set_code(manager, good)
    await deployer.deploy()


async def test_an_endpoint_without_estimates_gets_by_with_an_upper_bound(
    devnet: RunningDevnet, deployer: Deployer
) -> None:
    async with faulty_endpoint(devnet.rpc_url) as endpoint:
        endpoint.errors["eth_estimateGas"] = {"code": -32602, "message": "too many arguments"}
        deployer.request = replace(deployer.request, rpc_url=endpoint.url)
        await deployer.deploy()
    (offer,) = deployer.offers
    for creation, created in zip(offer.cost.creations, deployer.created, strict=True):
        assert not creation.is_estimated
        assert created.gas_used < creation.gas == creation.gas_limit


async def test_the_file_keeps_its_other_chains_and_takes_no_secret_of_the_endpoint(
    devnet: RunningDevnet, deployer: Deployer
) -> None:
    other = replace(devnet.deployment, chain_id=8453)
    other.save(deployer.out)
    with_secrets = devnet.rpc_url.replace("http://", "http://user:secret@") + "/?key=secret"
    deployer.request = replace(deployer.request, rpc_url=with_secrets, tokens={"aUSD": devnet.token})
    finished = await deployer.deploy()
    assert read_deployments(deployer.out) == {8453: other, 31337: finished.deployment}
    assert finished.deployment.rpc_url == devnet.rpc_url
    assert finished.deployment.tokens == {"aUSD": devnet.token}
    assert "secret" not in deployer.out.read_text()
    deployer.request = replace(deployer.request, recorded_rpc_url="https://rpc.example")
    assert (await deployer.deploy()).deployment.rpc_url == "https://rpc.example"


async def test_what_is_in_no_block_yet_is_waited_for_and_never_sent_a_second_time(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_devnet(tmp_path / "devnet") as devnet:
        deployer = Deployer(devnet, tmp_path)
        await devnet.fund(deployer.key.address)
        await devnet.pause_mining()
        deployer.request = replace(deployer.request, receipt_timeout_seconds=0.2)
        for _ in range(2):
            error = await deployer.refusal()
            assert error.code == "outcome-unknown"
        # The second run found it before it had anything to ask for.
        assert deployer.offers == []
        journal = DeploymentJournal(deployer.request.folder_for(31_337) / "transactions.sqlite3")
        (pending,) = await journal.unresolved(31_337, deployer.key.address)
        assert (pending.purpose, fields_of(pending)["nonce"]) == (purpose_of("ServiceRegistry"), 0)
        await journal.close()
        async with Chain.connect(devnet.deployment) as chain:
            await chain.rpc.request("evm_setAutomine", True)
            await devnet.mine()
            deployer.request = replace(deployer.request, receipt_timeout_seconds=30)
            await deployer.deploy()
            assert await chain.rpc.transaction_count(deployer.key.address) == 4


async def test_a_chain_that_was_reset_since_is_not_deployed_to_with_the_old_state(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_devnet(tmp_path / "devnet") as devnet:
        deployer = Deployer(devnet, tmp_path)
        await devnet.fund(deployer.key.address)
        snapshot = await devnet.snapshot()
        await deployer.stopped_after("PaymentManager")
        await devnet.revert(snapshot)
        assert (await deployer.refusal()).code == "chain-history-changed"
        assert (
            json.loads((deployer.request.folder_for(31_337) / "plan.json").read_text())["chainId"] == 31_337
        )
        async with Chain.connect(devnet.deployment) as chain:
            assert await chain.rpc.transaction_count(deployer.key.address, "pending") == 0
