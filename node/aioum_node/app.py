"""A whole node: opened, recovered, supervised, served, and stopped in order."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import structlog
from aiohttp import web

from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.errors import ConfigError
from aioum.core.hextext import address_text, to_hex
from aioum.core.ledger import Limits
from aioum.core.payment import Terms
from aioum_node.api.service import MAX_HEADER_BYTES
from aioum_node.card_builder import build_card
from aioum_node.cards import Cards, Offer
from aioum_node.edge import Clock, Edge, build_edge
from aioum_node.identity import Identity, challenge_secret, load_identity
from aioum_node.metrics import NodeMetrics
from aioum_node.readiness import Readiness
from aioum_node.recovery import recover_interrupted
from aioum_node.registration import (
    Registration,
    current_registration,
    deployment_of,
    make_terms,
    publish,
    read_card_facts,
)
from aioum_node.retention import RetentionLoop
from aioum_node.service import ServiceTool, ToolFunction, load_tools
from aioum_node.settings import Settings
from aioum_node.settlement import SettleLoop
from aioum_node.settlement_rules import SettlePolicy
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from aioum_node.watch import ChainWatcher

JOURNAL_FILE: Final = "transactions.sqlite3"
SYSTEM_CLOCK: Final = Clock(time.time, time.monotonic)
_RUNNING: Final = "running"
_CHAIN: Final = "chain"
_BACKLOG: Final = 1_024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Offering:
    """What a node would offer with its settings, and how it reaches the chain."""

    identity: Identity
    tools: Mapping[str, ServiceTool]
    chain: Chain
    sender: Sender
    offer: Offer
    terms: Terms


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that serves.

    Attributes:
        url: base URL of the public port on this machine; `admin_url` of the admin port.
        supervisor: watching, settling and retention; ends early only with the failure of one of them.
    """

    url: str
    admin_url: str
    offering: Offering
    registration: Registration
    store: SqliteStore
    edge: Edge
    watcher: ChainWatcher
    settle_loop: SettleLoop
    readiness: Readiness
    supervisor: asyncio.Task[None]


@asynccontextmanager
async def opened_offering(
    settings: Settings, *, functions: Sequence[ToolFunction] = (), identity: Identity | None = None
) -> AsyncIterator[Offering]:
    """Load tools and keys, connect to the chain, and generate the card.

    Args:
        settings: name tools, keys and deployment.
        functions: tools declared with `@tool`, beside those that the settings name.
        identity: keys; None opens the key stores that the settings name.

    Raises:
        ConfigError, ChainError: as `load_tools`, `load_identity`, `Chain.connect` and `build_card`.
    """
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(load_tools(settings, functions))
        known = await asyncio.to_thread(load_identity, settings) if identity is None else identity
        deployment = deployment_of(settings)
        chain = await stack.enter_async_context(
            Chain.connect(
                deployment,
                rpc_url=settings.rpc_url or None,
                request_timeout_seconds=settings.rpc_timeout_seconds,
            )
        )
        journal = SqliteTransactionJournal(settings.node_dir / JOURNAL_FILE)
        stack.push_async_callback(journal.close)
        sender = Sender(
            chain,
            LocalSigner(known.operator),
            journal,
            confirmations=settings.confirmations,
            receipt_timeout_seconds=settings.receipt_timeout_seconds,
        )
        facts = await read_card_facts(settings, deployment, chain, known)
        offer = build_card(settings, box.tools, facts)
        yield Offering(known, box.tools, chain, sender, offer, make_terms(settings, facts, offer))


async def register_service(settings: Settings, offering: Offering, node_url: str) -> Registration:
    """Publish what `offering` offers; see `registration.publish`."""
    # What a former run sent may be a registration: its outcome comes before another one is sent.
    await offering.sender.reconcile()
    return await publish(settings, offering.chain, offering.sender, offering.terms, node_url)


@asynccontextmanager
async def running_node(
    settings: Settings,
    *,
    functions: Sequence[ToolFunction] = (),
    identity: Identity | None = None,
    register: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[RunningNode]:
    """Run a node for as long as the block lasts, then let running calls finish.

    Args:
        settings: port 0 takes a free one.
        functions: tools declared with `@tool`, beside those that the settings name.
        identity: keys; None opens the key stores that the settings name.
        register: publish the service first where the registry has another version of it.
        clock: unix and monotonic time.

    Raises:
        ConfigError: `not-registered`, `registration-outdated`, `store-locked`, `address-unusable`, and as
            `opened_offering`.
        ChainError: the chain could not be reached, or is another one.
    """
    async with AsyncExitStack() as stack:
        public_socket = stack.enter_context(_listen(settings.listen_host, settings.listen_port))
        admin_socket = stack.enter_context(_listen(settings.admin_host, settings.admin_port))
        url = _url(settings.listen_host, public_socket)
        offering = await stack.enter_async_context(
            opened_offering(settings, functions=functions, identity=identity)
        )
        if register:
            registration = await register_service(settings, offering, settings.public_url or url)
        else:
            registration = await current_registration(settings, offering.chain, offering.terms)
        # Clients send the calls of a session one after the other, signed ones too.
        limits = Limits(max_in_flight=1, max_unpaid_calls=settings.max_unpaid_calls)
        path = settings.node_dir / STORE_FILE
        store = await stack.enter_async_context(
            SqliteStore(path, limits, max_cached_sessions=settings.cached_sessions)
        )
        await store.put_card(offering.offer.descriptor_hash, offering.offer.canonical)
        interrupted_calls = await recover_interrupted(store, clock.now_ms())
        node = await _started(
            stack,
            settings,
            offering,
            registration,
            store,
            clock,
            url,
            _url(settings.admin_host, admin_socket),
        )
        await _serve(stack, node.edge.public, public_socket, settings.shutdown_seconds)
        await _serve(stack, node.edge.admin, admin_socket, settings.shutdown_seconds)
        node.readiness.met(_RUNNING)
        _log.info(
            "node-ready",
            url=url,
            admin_url=node.admin_url,
            service_id=registration.service_id,
            operator=address_text(offering.identity.operator.address),
            card=to_hex(offering.offer.descriptor_hash),
            interrupted_calls=interrupted_calls,
        )
        try:
            yield node
        finally:
            node.readiness.unmet(_RUNNING)


async def _started(
    stack: AsyncExitStack,
    settings: Settings,
    offering: Offering,
    registration: Registration,
    store: SqliteStore,
    clock: Clock,
    url: str,
    admin_url: str,
) -> RunningNode:
    """Put the parts together and start those that run beside the edge; `stack` stops them."""
    readiness = Readiness(clock.monotonic)
    readiness.require(_RUNNING)
    metrics = NodeMetrics()
    settle_loop = SettleLoop(
        store=store,
        chain=offering.chain,
        sender=offering.sender,
        policy=SettlePolicy(idle_seconds=settings.session_idle_seconds),
        confirmations=settings.confirmations,
        interval_seconds=settings.settle_interval_seconds,
        now_ms=clock.now_ms,
        observer=metrics,
    )
    watcher = ChainWatcher(
        store=store,
        chain=offering.chain,
        confirmations=settings.confirmations,
        interval_seconds=settings.watch_interval_seconds,
        now_ms=clock.now_ms,
        on_change=settle_loop.wake,
        on_look=lambda: readiness.met(_CHAIN, for_seconds=settings.chain_silence_seconds),
    )
    edge = build_edge(
        settings=settings,
        store=store,
        chain=offering.chain,
        cards=Cards(store, offering.offer),
        tools=offering.tools,
        registration=registration,
        receipt_signer=LocalSigner(offering.identity.receipt_signer),
        challenge_secret=challenge_secret(settings),
        settle=settle_loop.wake,
        readiness=readiness,
        metrics=metrics,
        clock=clock,
    )
    retention = RetentionLoop(
        store=store,
        retention_ms=settings.transcript_retention_ms,
        interval_seconds=settings.retention_interval_seconds,
        now_ms=clock.now_ms,
        on_removed=edge.sessions.forget,
    )
    # Deposits and pending closes may have changed while nobody looked: nothing is served before this.
    await watcher.look()
    readiness.met(_CHAIN, for_seconds=settings.chain_silence_seconds)
    supervisor = asyncio.create_task(_supervise(watcher.run, settle_loop.run, retention.run))
    supervisor.add_done_callback(lambda task: _supervision_ended(task, readiness))
    stack.push_async_callback(_stop, supervisor)
    stack.push_async_callback(edge.calls.drain, settings.shutdown_seconds)
    return RunningNode(
        url, admin_url, offering, registration, store, edge, watcher, settle_loop, readiness, supervisor
    )


async def _supervise(*parts: Callable[[], Coroutine[None, None, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(part())


def _supervision_ended(task: asyncio.Task[None], readiness: Readiness) -> None:
    readiness.unmet(_RUNNING)
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("node-part-failed", exc_info=error)


async def _stop(supervisor: asyncio.Task[None]) -> None:
    supervisor.cancel()
    with suppress(asyncio.CancelledError):
        await supervisor


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            code="address-unusable",
            hint="another program may use it; choose another listen_port or admin_port",
        ) from error


def _url(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"


async def _serve(
    stack: AsyncExitStack, application: web.Application, listening: socket.socket, shutdown_seconds: float
) -> None:
    runner = web.AppRunner(
        application, access_log=None, shutdown_timeout=shutdown_seconds, max_field_size=MAX_HEADER_BYTES
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.SockSite(runner, listening).start()
