"""Every function and every event of our contracts has a typed binding; what each asks is seen on the wire."""

import keyword
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from aioum.chain import payment_reads, ratings, registry_reads, token_domains, tokens
from aioum.chain.abi import (
    CONTRACTS,
    DEV_TOKEN,
    DISPUTE_MANAGER,
    LOG_ANCHOR,
    PAYMENT_MANAGER,
    RATING_REGISTRY,
    SERVICE_REGISTRY,
    artifact,
    canonical_type,
)
from aioum.chain.anchors import anchored
from aioum.chain.client import Chain
from aioum.chain.decisions import Decisions
from aioum.chain.events import EVENTS
from aioum.chain.rpc import Rpc
from aioum.core.authorization import ReceiveWithAuthorization
from aioum.core.errors import AioumError
from aioum.core.hashing import keccak256
from aioum.core.types import Address, Bytes32, ChannelId
from tests.unit.chain.scripted_endpoint import scripted_endpoint
from tests.unit.chain.test_calls import CALLS, CHANNEL, ROOT, TERMS, A, B, C

AUTHORIZED = ReceiveWithAuthorization(A, B, 7, 1, 2, ROOT)
MORE_CALLS = [
    tokens.receive_with_authorization(A, AUTHORIZED, b"s" * 65),
    tokens.receive_with_authorization(A, AUTHORIZED, b"s" * 66),
]

Ask = Callable[[Chain], Awaitable[Any]]
READS: dict[str, tuple[Ask, ...]] = {
    PAYMENT_MANAGER: (
        lambda chain: chain.session(CHANNEL),
        lambda chain: chain.session_by_id(1),
        lambda chain: chain.is_voucher_valid(CHANNEL, 1, b""),
        lambda chain: chain.credit(A, B),
        Chain.grace_period_seconds,
        Chain.domain_separator,
        lambda chain: payment_reads.session_count(chain.rpc, A),
        lambda chain: payment_reads.session_results_root(chain.rpc, A, 1),
        lambda chain: payment_reads.session_call_count(chain.rpc, A, 1),
        lambda chain: payment_reads.hold_of(chain.rpc, A, CHANNEL),
        lambda chain: payment_reads.computed_channel_id(chain.rpc, A, payer=A, payee=B, token=C, salt=ROOT),
        lambda chain: payment_reads.dispute_manager_of(chain.rpc, A),
        lambda chain: payment_reads.service_registry_of(chain.rpc, A),
        lambda chain: payment_reads.signing_domain(chain.rpc, A),
    ),
    DISPUTE_MANAGER: (
        lambda chain: Decisions(chain, A).case(CHANNEL),
        lambda chain: Decisions(chain, A).is_pending(CHANNEL),
        lambda chain: Decisions(chain, A).awarded(CHANNEL),
        lambda chain: Decisions(chain, A).credit(A, B),
        lambda chain: Decisions(chain, A).answer_period_seconds(),
        lambda chain: Decisions(chain, A).max_uri_bytes(),
        lambda chain: Decisions(chain, A).payment_manager(),
        lambda chain: Decisions(chain, A).service_registry(),
    ),
    SERVICE_REGISTRY: (
        lambda chain: chain.terms(ROOT),
        lambda chain: chain.service(1),
        lambda chain: registry_reads.service_count(chain.rpc, A),
        lambda chain: registry_reads.operator_of(chain.rpc, A, ROOT),
        lambda chain: registry_reads.payment_terms(chain.rpc, A, ROOT),
        lambda chain: registry_reads.computed_terms_hash(chain.rpc, A, 1, TERMS),
        lambda chain: registry_reads.max_descriptor_uri_bytes(chain.rpc, A),
    ),
    RATING_REGISTRY: (
        lambda chain: ratings.service_ratings(chain.rpc, A, 1, B),
        lambda chain: ratings.is_rated(chain.rpc, A, CHANNEL),
        lambda chain: ratings.rated_payment_manager(chain.rpc, A),
        lambda chain: ratings.max_detail_uri_bytes(chain.rpc, A),
    ),
    LOG_ANCHOR: (lambda chain: anchored(chain.rpc, A, B, "log.test"),),
    DEV_TOKEN: (
        lambda chain: chain.token_balance(A, B),
        lambda chain: chain.token_allowance(A, B, C),
        lambda chain: chain.token_decimals(A),
        lambda chain: chain.token_symbol(A),
        lambda chain: token_domains.token_domain(chain.rpc, A, 1),
        lambda chain: token_domains.is_authorization_used(chain.rpc, A, B, ROOT),
        lambda chain: tokens.token_name(chain.rpc, A),
        lambda chain: tokens.total_supply(chain.rpc, A),
    ),
}


def declared(contract: str, kind: str) -> dict[str, Any]:
    """The ABI's entries of a kind, by signature."""
    return {
        f"{entry['name']}({','.join(map(canonical_type, entry['inputs']))})": entry
        for entry in artifact(contract).abi
        if entry["type"] == kind
    }


def selector(signature: str) -> str:
    return "0x" + keccak256(signature.encode())[:4].hex()


@pytest.mark.parametrize("contract", CONTRACTS)
async def test_every_function_is_called_or_read_by_a_binding(contract: str) -> None:
    bound = {"0x" + call.data[:4].hex() for call in (*CALLS.values(), *MORE_CALLS)}
    asked: list[str] = []

    def script(method: str, parameters: list[Any]) -> Any:
        asked.append(parameters[0]["data"][:10] if method == "eth_call" else method)
        # Words that read as a text too: what it was answered does not matter, only what was asked.
        return "0x" + (32).to_bytes(32, "big").hex() * 40

    async with scripted_endpoint(script) as url, Rpc(url) as rpc:
        for read in READS[contract]:
            with suppress(AioumError, ValueError):
                await read(Chain(rpc, 1, A, B))
    functions = declared(contract, "function")
    views = {name for name, entry in functions.items() if entry["stateMutability"] in ("view", "pure")}
    assert {name for name in views if selector(name) not in asked} == set()
    assert {name for name in functions.keys() - views if selector(name) not in bound} == set()


def python_name(name: str) -> str:
    """`_disputeID` is `dispute_id`, `from` is `from_`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("_")).lower()
    return snake + "_" * keyword.iskeyword(snake)


def python_type(parameter: dict[str, Any]) -> type:
    kind = parameter["type"]
    if kind == "bytes32":
        return ChannelId if parameter["name"] == "channelId" else Bytes32
    return {"address": Address, "string": str, "bytes": bytes, "bool": bool}.get(kind, int)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_event_has_a_type_with_its_members_in_order(contract: str) -> None:
    for entry in declared(contract, "event").values():
        hints = get_type_hints(EVENTS[entry["name"]])
        members = [(field.name, hints[field.name]) for field in fields(EVENTS[entry["name"]])]  # type: ignore[arg-type]
        assert members == [
            (python_name(parameter["name"]), python_type(parameter)) for parameter in entry["inputs"]
        ], entry["name"]


def test_no_event_has_a_type_that_no_contract_emits() -> None:
    assert EVENTS.keys() == {
        entry["name"] for contract in CONTRACTS for entry in declared(contract, "event").values()
    }
