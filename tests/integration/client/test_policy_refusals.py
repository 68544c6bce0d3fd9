"""What a client refuses to pay for, each refusal by its own code; the operator's node is real HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from aioum.chain import calls as contract_calls
from aioum.chain.client import Chain
from aioum.chain.deployments import Endpoint
from aioum.client import Marketplace, Policy
from aioum.core.card import MAX_CARD_BYTES
from aioum.core.errors import AioumError, ConfigError, PolicyRefused
from aioum.core.types import Address
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator, card_json, serving
from tests.integration.conftest import FundedAccount

OTHER = Address(b"\x09" * 20)
OTHER_TEXT = "0x" + "09" * 20

MakeOperator = Callable[..., AbstractAsyncContextManager[ScriptedOperator]]


@pytest.fixture
def offering(chain: Chain, devnet: RunningDevnet, operator: FundedAccount) -> MakeOperator:
    """Makes an operator whose card and terms differ from what they should be."""

    @asynccontextmanager
    async def make(card: dict[str, Any] | None = None, **terms: Any) -> AsyncIterator[ScriptedOperator]:
        offered = card_json(chain, operator.key, devnet.token, **(card or {}))
        scripted = ScriptedOperator(chain, operator.key, operator.sender, offered)
        async with serving(scripted.app()) as url:
            scripted.url = url
            await scripted.register(**terms)
            yield scripted

    return make


async def refusal(market: Marketplace, service: str | int) -> str:
    with pytest.raises(AioumError) as caught:
        await market.open(service, deposit=1_000)
    assert await market.sessions() == []
    return caught.value.code


async def test_a_service_that_may_be_paid_without_a_root_is_refused_unless_allowed(
    offering: MakeOperator, marketplace: MakeMarketplace
) -> None:
    async with offering(commit_required=False) as scripted:
        async with marketplace() as market:
            assert await refusal(market, scripted.url) == "commit-not-required"
        async with marketplace(policy=Policy(require_commit=False)) as market:
            assert (await market.service(scripted.url)).service_id == scripted.service_id


async def test_a_card_that_is_not_the_registered_one_is_refused(
    offering: MakeOperator, marketplace: MakeMarketplace
) -> None:
    async with offering() as scripted, marketplace() as market:
        scripted.card["name"] = "another"
        assert await refusal(market, scripted.url) == "descriptor-mismatch"


@pytest.mark.parametrize(
    ("card", "code"),
    [
        ({"receiptSigner": OTHER_TEXT}, "card-terms-mismatch"),
        ({"operator": OTHER_TEXT}, "card-terms-mismatch"),
        ({"tools": []}, "card-invalid"),
    ],
)
async def test_a_card_that_contradicts_the_terms_is_refused(
    card: dict[str, Any], code: str, offering: MakeOperator, marketplace: MakeMarketplace
) -> None:
    async with offering(card) as scripted, marketplace() as market:
        assert await refusal(market, scripted.url) == code


async def test_a_card_for_other_contracts_is_refused(
    offering: MakeOperator,
    marketplace: MakeMarketplace,
    chain: Chain,
    operator: FundedAccount,
    devnet: RunningDevnet,
) -> None:
    card: Any = card_json(chain, operator.key, devnet.token)
    contracts = card["contracts"] | {"paymentManager": OTHER_TEXT}
    async with offering({"contracts": contracts}) as scripted, marketplace() as market:
        assert await refusal(market, scripted.url) == "card-contracts-mismatch"


async def test_a_token_that_is_not_on_the_list_is_refused(
    offering: MakeOperator, marketplace: MakeMarketplace, devnet: RunningDevnet, chain: Chain
) -> None:
    async with offering() as scripted:
        async with marketplace(policy=Policy(tokens=frozenset({OTHER}))) as market:
            assert await refusal(market, scripted.url) == "token-not-allowed"
        addresses = Endpoint(devnet.rpc_url, chain.payment_manager)
        async with marketplace(deployment=None, contracts=addresses) as market:
            assert await refusal(market, scripted.url) == "token-not-allowed"
        policy = Policy(tokens=frozenset({devnet.token}))
        async with marketplace(deployment=None, contracts=addresses, policy=policy) as market:
            assert (await market.service(scripted.service_id)).node_url == scripted.url


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (Policy(service_registries=frozenset({OTHER})), "registry-not-allowed"),
        (Policy(payment_managers=frozenset({OTHER})), "payment-manager-not-allowed"),
    ],
)
async def test_contracts_that_are_not_on_the_list_are_refused_at_connecting(
    policy: Policy, code: str, marketplace: MakeMarketplace
) -> None:
    with pytest.raises(PolicyRefused) as caught:
        async with marketplace(policy=policy):
            pass
    assert caught.value.code == code


async def test_unknown_and_retired_services_are_refused(
    offering: MakeOperator, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with offering() as scripted, marketplace() as market:
        assert await refusal(market, 10**9) == "service-unknown"
        retire = contract_calls.retire(chain.service_registry, scripted.service_id)
        await scripted.sender.send(retire, "retire")
        assert await refusal(market, scripted.url) == "service-unknown"


async def test_a_node_that_serves_another_service_than_the_registry_says_is_refused(
    offering: MakeOperator, marketplace: MakeMarketplace
) -> None:
    async with offering() as scripted, marketplace() as market:
        registered = scripted.service_id
        scripted.service_id += 1
        assert await refusal(market, registered) == "service-mismatch"


async def test_a_node_on_another_chain_or_registry_or_that_makes_no_sense_is_refused(
    offering: MakeOperator, marketplace: MakeMarketplace
) -> None:
    from aiohttp import web

    answers: dict[str, dict[str, Any]] = {
        "wrong-chain": {"chainId": 1},
        "registry-not-allowed": {"serviceRegistry": OTHER_TEXT},
        "node-description-invalid": {"serviceId": "one"},
    }
    async with offering() as scripted, marketplace() as market:
        right: dict[str, Any] = {
            "chainId": scripted.chain.chain_id,
            "serviceRegistry": "0x" + scripted.chain.service_registry.hex(),
            "serviceId": str(scripted.service_id),
            "card": scripted.card,
        }
        for code, wrong in answers.items():
            app = web.Application()
            body = right | wrong

            async def describe(request: web.Request, body: dict[str, Any] = body) -> web.Response:
                return web.json_response(body)

            app.router.add_get("/.well-known/aioum.json", describe)
            async with serving(app) as url:
                assert await refusal(market, url) == code
        app = web.Application()
        async with serving(app) as url:
            assert await refusal(market, url) == "node-failed"


async def test_an_unconnected_marketplace_and_two_ways_to_name_contracts_are_refused(
    marketplace: MakeMarketplace, devnet: RunningDevnet, chain: Chain
) -> None:
    with pytest.raises(ConfigError) as caught:
        await marketplace().sessions()
    assert caught.value.code == "not-connected"
    with pytest.raises(ConfigError) as caught:
        async with marketplace(contracts=Endpoint(devnet.rpc_url, chain.payment_manager)):
            pass
    assert caught.value.code == "config-invalid"


async def test_a_card_that_could_not_be_read_again_is_refused_before_anything_is_deposited(
    offering: MakeOperator, marketplace: MakeMarketplace
) -> None:
    async with offering({"note": "x" * MAX_CARD_BYTES}) as scripted, marketplace() as market:
        assert await refusal(market, scripted.url) == "card-too-large"
