"""The OpenAPI document and a whole node, held against each other by schemathesis with a client that pays."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
import schemathesis
from schemathesis import BaseSchema, GenerationMode
from schemathesis.config import (
    ChecksConfig,
    FuzzingPhaseConfig,
    GenerationConfig,
    PhasesConfig,
    PositiveDataAcceptanceConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
    StatefulPhaseConfig,
)
from schemathesis.config._checks import NegativeDataRejectionConfig
from schemathesis.engine import events, from_schema
from schemathesis.hooks import GLOBAL_HOOK_DISPATCHER

from aioum.core.errors import ConfigError
from aioum.core.payment import Voucher
from aioum.core.signing import LocalKey
from aioum.core.suspicion import suspect
from aioum.core.types import ChannelId
from aioum.core.wire import Credential
from aioum.devnet.anvil import find_anvil
from aioum_node.api.openapi import OPENAPI_PATH, openapi_document
from aioum_node.app import RunningNode
from tests.contract_http.conformance import statuses_of
from tests.contract_http.live import (
    BODY_TIMEOUT_SECONDS,
    MAX_REQUEST_BYTES,
    World,
    running_loop,
    running_world,
)
from tests.contract_http.paying import TOOL_PATH, PayingHook, Purse
from tests.contract_http.refused_early import MAX_CONNECTIONS, paths_of_a_damaged_node, said_beside
from tests.contract_http.watched import Watched
from tests.integration.chain.faulty_endpoint import Fault
from tests.integration.node.edge_client import Opened, Reply
from tests.pens import Pen
from tests.tools import missing

pytestmark = [pytest.mark.integration, pytest.mark.slow]

EXAMPLES = 30
PAID_EXAMPLES = 150
STRANGER = LocalKey(b"\x05" * 32)
# A request may be refused for what no schema says: it was not paid, or the session is not here.
REFUSALS = ["401", "402", "403", "404", "409", "410"]


@dataclass
class Outcome:
    """What a whole run gave."""

    failures: list[str] = field(default_factory=list)
    answers: dict[tuple[str, str, int], int] = field(default_factory=dict)
    paid: dict[str, int] = field(default_factory=dict)
    scripted: set[tuple[str, str, int]] = field(default_factory=set)
    scripted_faults: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One node, tested by schemathesis, then led into every documented answer that this did not give."""
    try:
        find_anvil()
    except ConfigError as error:
        missing(str(error))
    result = Outcome()
    with running_loop() as loop:
        stack = AsyncExitStack()
        try:
            world = loop.run(stack.enter_async_context(running_world(tmp_path_factory.mktemp("world"))))
            buyer = Watched(world.chain, world.buyer.account, world.buyer.http)
            first_life = AsyncExitStack()
            stack.push_async_callback(first_life.aclose)
            node = loop.run(first_life.enter_async_context(world.node()))
            unsigned = loop.run(buyer.open_and_enter(node))
            signed = loop.run(buyer.open_and_enter(node, signed=True))
            assert unsigned.challenge is not None
            hook = PayingHook(
                buyer.account.key,
                world.chain.domain,
                unsigned.challenge,
                Purse(unsigned.channel_id),
                Pen(signed.channel_id),
            )
            result.failures = list(schemathesis_failures(node.url, hook))
            result.answers, result.paid = dict(hook.answers), dict(hook.paid)
            loop.run(paths_of_a_healthy_node(world, node, buyer, signed))
            loop.run(first_life.aclose())
            loop.run(paths_of_a_node_that_lost_something(world, buyer, unsigned))
            loop.run(paths_of_a_damaged_node(world, buyer, signed))
            result.scripted, result.scripted_faults = buyer.seen, buyer.faults
        finally:
            loop.run(stack.aclose())
    return result


def schemathesis_failures(url: str, hook: PayingHook) -> Iterator[str]:
    """Run schemathesis with its checks on every operation; what it has to complain about."""
    GLOBAL_HOOK_DISPATCHER.register_hook_with_name(hook.before_call, "before_call")
    try:
        yield from _failures(_schema(url, hook, EXAMPLES, list(GenerationMode)))
        # The operation that everything is about, with requests that can be paid for.
        schema = _schema(url, hook, PAID_EXAMPLES, [GenerationMode.POSITIVE])
        yield from _failures(schema.include(path=TOOL_PATH))
    finally:
        GLOBAL_HOOK_DISPATCHER.unregister(hook.before_call)


def _schema(url: str, hook: PayingHook, examples: int, modes: list[GenerationMode]) -> BaseSchema:
    generation = GenerationConfig(max_examples=examples, modes=modes)
    checks = ChecksConfig(
        negative_data_rejection=NegativeDataRejectionConfig(
            expected_statuses=[*REFUSALS, "400", "405", "413"]
        ),
        positive_data_acceptance=PositiveDataAcceptanceConfig(expected_statuses=["2xx", *REFUSALS]),
    )
    phases = PhasesConfig(
        fuzzing=FuzzingPhaseConfig(generation=generation), stateful=StatefulPhaseConfig(enabled=False)
    )
    project = ProjectConfig(base_url=url, checks=checks, phases=phases)
    config = SchemathesisConfig(projects=ProjectsConfig(default=project), seed=20_260_101)
    schema = schemathesis.openapi.from_dict(dict(openapi_document()), config=config)
    schema.auth().apply_to(path_regex="^/sessions/")(hook.reading())
    schema.hooks.register_hook_with_name(hook.after_call, "after_call")
    schema.hooks.register_hook_with_name(hook.filter_body, "filter_body")
    return schema


def _failures(schema: BaseSchema) -> Iterator[str]:
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            for checks in event.recorder.checks.values():
                for check in checks:
                    if check.failure_info is not None:
                        failure, sample = check.failure_info.failure, check.failure_info.code_sample
                        yield f"{event.label}: {check.name}: {failure}: {sample}"
        elif isinstance(event, events.NonFatalError | events.FatalError):
            yield repr(event)


async def paths_of_a_healthy_node(world: World, node: RunningNode, buyer: Watched, signed: Opened) -> None:
    """Every documented answer that a node in order gives, and a generator does not find."""
    card = node.offering.offer.descriptor_hash
    await buyer.get(f"{node.url}/cards/0x{card.hex()}")
    await buyer.get(node.url + OPENAPI_PATH)
    await buyer.get(f"{node.url}/readyz")
    session = await buyer.open_and_enter(node)
    sessions = f"{node.url}/sessions/0x{session.channel_id.hex()}"
    assert (await buyer.read(node, session, "/statement")).code == "nothing-recorded"

    paid = await buyer.pay(node, session, 10, "echo")
    assert (paid.status, paid.json) == (200, {"arguments": {"text": "hey"}, "tool": "echo"})
    assert (await buyer.pay(node, session, 10, "echo", {"other": 1})).code == "request-conflict"
    assert (await buyer.pay(node, signed, 20_000, "echo")).code == "signature-required"
    assert (await buyer.pay(node, session, 20, "strict", {})).code == "arguments-invalid"
    large = {"text": "x" * MAX_REQUEST_BYTES}
    assert (await buyer.pay(node, session, 20, "echo", large)).code == "request-too-large"
    assert (await buyer.pay(node, session, 20, "broken")).status == 500
    assert (await buyer.pay(node, session, 21, "binary")).status == 502
    slow, second = await asyncio.gather(
        buyer.pay(node, session, 22, "slow"), _meanwhile(buyer.pay(node, session, 40, "echo"))
    )
    assert (slow.status, second.code) == (504, "too-many-in-flight")
    unknown = Opened(
        ChannelId(secrets.token_bytes(32)), session.transaction, session.signer, session.challenge
    )
    assert (await buyer.pay(node, unknown, 20, "echo")).code == "channel-not-found"
    voucher = await _credential(buyer, session, 50)
    late = await buyer.post(f"{node.url}/tools/echo", _dripping(), Authorization=voucher)
    assert late.code == "request-timeout"

    for path in ("", "/calls", "/statement"):
        assert (await buyer.read(node, session, path)).status == 200
        assert (await buyer.read(node, unknown, path)).code == "channel-not-found"
        assert (await buyer.get(f"{sessions}{path}")).code == "read-access-missing"
    assert (await buyer.post(f"{sessions}/close", b"{")).code == "json-syntax"
    assert (await buyer.post(f"{sessions}/close", _dripping())).code == "request-timeout"
    assert (await buyer.post(f"{sessions}/close", b" " * 2 * MAX_REQUEST_BYTES)).code == "request-too-large"
    assert (await buyer.close(node, unknown, 0)).code == "channel-not-found"
    stranger = Opened(session.channel_id, session.transaction, STRANGER)
    assert (await buyer.close(node, stranger, 4)).code == "signer-mismatch"
    assert (await buyer.close(node, session, 3)).code == "call-count-mismatch"
    closed = await buyer.close(node, session, 4)
    assert closed.status == 202
    while closed.status == 202:
        await asyncio.sleep(0.05)
        closed = await buyer.close(node, session, 4)
    assert (closed.status, closed.json["phase"]) == (200, "final")
    on_chain = await world.chain.session(session.channel_id)
    assert on_chain is not None
    assert (on_chain.settled, on_chain.call_count) == (10, 4)
    log = f"{node.url}/log"
    while (proof := await buyer.get(f"{log}/proof/0x{session.channel_id.hex()}")).status == 404:
        await asyncio.sleep(0.05)
    assert proof.json["proof"]["index"] == 0
    assert (await buyer.get(f"{log}/checkpoint")).status == 200
    assert (await buyer.get(f"{log}/tile/entries/000.p/1")).status == 200
    assert (await buyer.get(f"{log}/tile/0/000.p/2")).code == "log-resource-missing"

    await node.store.update(signed.channel_id, suspect, 0)
    for path in ("/calls", "/statement"):
        assert (await buyer.read(node, signed, path)).code == "session-suspect"


async def paths_of_a_node_that_lost_something(world: World, buyer: Watched, session: Opened) -> None:
    """Answers of a node whose receipt key was exchanged, whose chain is away, and that keeps no log."""
    stranger = Opened(session.channel_id, session.transaction, STRANGER)
    async with world.node() as node:
        world.endpoint.faults.update(dict.fromkeys(world.endpoint.seen, Fault.LOST))
        try:
            # Only a contract could have signed so, and there is no chain to ask it on.
            for path in ("", "/calls", "/statement"):
                assert (await buyer.read(node, stranger, path)).status == 503
            assert (await buyer.close(node, stranger, 1)).status == 503
            deadline = time.monotonic() + 30
            while (await buyer.get(f"{node.url}/readyz")).status == 200:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            assert (await buyer.pay(node, session, 9_000_000, "echo")).code == "not-ready"
        finally:
            world.endpoint.faults.clear()
    async with world.node(
        LocalKey(secrets.token_bytes(32)),
        transparency_log=False,
        trusted_proxies=(),
        max_connections_per_address=MAX_CONNECTIONS,
    ) as node:
        assert (await buyer.get(f"{node.url}/log/checkpoint")).code == "log-not-kept"
        for path in ("", "/calls", "/statement"):
            assert (await buyer.read(node, session, path)).code == "terms-not-ours"
        assert (await buyer.close(node, session, 1)).code == "terms-not-ours"
        assert await said_beside(MAX_CONNECTIONS, node, buyer) == {(429, "too-many-connections")}


async def _meanwhile(work: Any) -> Reply:
    await asyncio.sleep(0.3)
    reply: Reply = await work
    return reply


async def _dripping() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.sleep(BODY_TIMEOUT_SECONDS * 4)
    yield b"}"


async def _credential(buyer: Watched, session: Opened, amount: int) -> str:
    assert session.challenge is not None
    signature = session.signer.sign_digest(Voucher(session.channel_id, amount).digest(buyer.chain.domain))
    return Credential(session.challenge, "voucher", session.channel_id, amount, signature).header()


def test_schemathesis_finds_no_answer_that_the_document_does_not_say(outcome: Outcome) -> None:
    assert outcome.failures == []


def test_what_schemathesis_generates_is_paid_run_and_answered(outcome: Outcome) -> None:
    assert sum(outcome.paid.values()) >= 100
    assert min(outcome.paid.get(kind, 0) for kind in ("unsigned", "signed")) >= 10


def test_schemathesis_brings_about_no_server_error(outcome: Outcome) -> None:
    assert {answer for answer in outcome.answers if answer[2] >= 500} == set()


def test_answers_to_a_script_are_as_the_document_says(outcome: Outcome) -> None:
    assert outcome.scripted_faults == []


def test_every_documented_status_was_seen(outcome: Outcome) -> None:
    assert statuses_of(openapi_document()) - outcome.answers.keys() - outcome.scripted == set()


def test_every_status_seen_is_documented_or_says_that_the_method_is_not_taken(outcome: Outcome) -> None:
    undocumented = {*outcome.answers, *outcome.scripted} - statuses_of(openapi_document())

    assert {status for _, _, status in undocumented} <= {405}
