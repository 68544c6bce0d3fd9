"""A whole node: opened, recovered, supervised, served, and stopped in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from aioum.chain.client import Chain
from aioum.chain.journal import TransactionJournal
from aioum.chain.sender import Sender
from aioum.core.hextext import address_text, to_hex
from aioum.core.ledger import Limits
from aioum.core.payment import Terms
from aioum.core.types import ChannelId
from aioum_node.account import opened_account
from aioum_node.api.endpoints import endpoints_route
from aioum_node.balance import BalanceWatch
from aioum_node.card_builder import build_card
from aioum_node.cards import Cards, Offer
from aioum_node.chain_metrics import EndpointMetrics, LoopMetrics, TransactionMetrics
from aioum_node.disputes.control import serving_control
from aioum_node.disputes.desk import DisputeDesk
from aioum_node.disputes.loop import DisputeLoop
from aioum_node.disputes.start import make_dispute_loop, together
from aioum_node.edge import Clock, Edge, build_edge
from aioum_node.interrupted_calls import recover_interrupted
from aioum_node.keys.identity import Identity, challenge_secret, opened_identity
from aioum_node.keys.session_signers import opened_signers
from aioum_node.leaving import leaving_told
from aioum_node.limits.admin import admin_token, require_token
from aioum_node.log.identity import LogIdentity, log_identity
from aioum_node.log.start import log_reader, make_log_loop
from aioum_node.metrics import NodeMetrics
from aioum_node.readiness import STORE, Readiness
from aioum_node.registration import (
    Registration,
    current_registration,
    deployment_of,
    make_terms,
    publish,
    read_card_facts,
)
from aioum_node.restored.counting import SuspectCount
from aioum_node.restored.start import begin_life
from aioum_node.restored.watermark import Watermark
from aioum_node.retention import RetentionLoop, forget_any
from aioum_node.service import ServiceTool, ToolFunction, load_tools
from aioum_node.serving import ServingTimes, listening, local_url, serving
from aioum_node.settings import Settings
from aioum_node.settlement.finishing import Finisher
from aioum_node.settlement.loop import SettleLoop
from aioum_node.settlement.rules import SettlePolicy
from aioum_node.storage import NodeStore, Sending, is_shared, opened_sending, opened_store
from aioum_node.store.watch import StoreWatch
from aioum_node.supervision import supervised
from aioum_node.takeover import started_takeover
from aioum_node.watch import ChainWatcher

SYSTEM_CLOCK: Final = Clock(time.time, time.monotonic)
_RUNNING: Final = "running"
_CHAIN: Final = "chain"

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
    log: LogIdentity | None = None
    queues: Mapping[str, Callable[[], int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that serves.

    Attributes:
        url: base URL of the public port on this machine; `admin_url` of the admin port.
        supervisor: watching, settling, disputes, retention, the log; ends early only where one of them fails.
    """

    url: str
    admin_url: str
    offering: Offering
    registration: Registration
    store: NodeStore
    edge: Edge
    watcher: ChainWatcher
    settle_loop: SettleLoop
    dispute_loop: DisputeLoop
    readiness: Readiness
    supervisor: asyncio.Task[None]


@asynccontextmanager
async def opened_offering(
    settings: Settings,
    *,
    functions: Sequence[ToolFunction] = (),
    identity: Identity | None = None,
    journal: TransactionJournal | None = None,
) -> AsyncIterator[Offering]:
    """Load tools and keys, connect to the chain, and generate the card.

    Args:
        settings: name tools, keys and deployment.
        functions: tools declared with `@tool`, beside those that the settings name.
        identity: keys; None opens the key stores that the settings name.
        journal: of transactions; None opens the one that the settings name.

    Raises:
        ConfigError, ChainError: as `load_tools`, `opened_identity`, `Chain.connect` and `build_card`.
    """
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(load_tools(settings, functions))
        known = identity
        if known is None:
            known = await stack.enter_async_context(opened_identity(settings))
        if journal is None:
            journal = (await stack.enter_async_context(opened_sending(settings))).journal
        account = await stack.enter_async_context(opened_account(settings, known, journal))
        chain, sender = account.chain, account.sender
        log = log_identity(settings, known.operator.address)
        facts = await read_card_facts(settings, deployment_of(settings), chain, known, log)
        offer = build_card(settings, box.tools, facts)
        terms = make_terms(settings, facts, offer)
        yield Offering(known, box.tools, chain, sender, offer, terms, log, box.queues)


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
            `opened_offering` and `admin_token`.
        ChainError: the chain could not be reached, or is another one.
    """
    token = admin_token(settings)
    async with AsyncExitStack() as stack:
        public_socket = stack.enter_context(listening(settings.listen_host, settings.listen_port))
        admin_socket = stack.enter_context(listening(settings.admin_host, settings.admin_port))
        url = local_url(settings.listen_host, public_socket)
        watermark = Watermark(settings.path(settings.watermark_file))
        stack.callback(watermark.close)
        limits = Limits(settings.max_in_flight, settings.max_unpaid_calls)
        metrics = NodeMetrics()
        loops = LoopMetrics(metrics.registry, clock.now_seconds)
        store = await stack.enter_async_context(opened_store(settings, limits, watermark, loops.of))
        await stack.enter_async_context(leaving_told(store))
        sending = await stack.enter_async_context(opened_sending(settings, store, loops.of))
        offering = await stack.enter_async_context(
            opened_offering(settings, functions=functions, identity=identity, journal=sending.journal)
        )
        if register:
            node_url = settings.public_url or url
            registration = await sending.once(lambda: register_service(settings, offering, node_url))
        else:
            registration = await current_registration(settings, offering.chain, offering.terms)
        # Before anything is written: what a restored store lacks must not be answered a second time.
        life = await begin_life(store, watermark, offering.chain.head)
        await store.put_card(offering.offer.descriptor_hash, offering.offer.canonical)
        interrupted_calls = await recover_interrupted(store, clock.now_ms())
        node = await _started(
            stack,
            settings,
            offering,
            registration,
            store,
            sending,
            metrics,
            loops,
            clock,
            url,
            local_url(settings.admin_host, admin_socket),
            life.suspect_until,
        )
        if token is not None:
            node.edge.admin.middlewares.append(require_token(token))
        times = ServingTimes(settings.idle_timeout_seconds, settings.shutdown_seconds)
        await stack.enter_async_context(serving(node.edge.public, public_socket, times, node.edge.gate))
        await stack.enter_async_context(serving(node.edge.admin, admin_socket, times))
        desk = DisputeDesk(node.dispute_loop.sending, sending.is_held, offering.sender.signer.address)
        await stack.enter_async_context(serving_control(settings.node_dir, desk.handle))
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
            # Both ports are open meanwhile: who asks hears that the node is not ready.
            await node.edge.calls.drain(settings.shutdown_seconds)


async def _started(
    stack: AsyncExitStack,
    settings: Settings,
    offering: Offering,
    registration: Registration,
    store: NodeStore,
    sending: Sending,
    metrics: NodeMetrics,
    loops: LoopMetrics,
    clock: Clock,
    url: str,
    admin_url: str,
    suspect_until: int | None,
) -> RunningNode:
    """Put the parts together and start those that run beside the edge; `stack` stops them."""
    readiness = Readiness(clock.monotonic)
    readiness.require(_RUNNING)
    suspects = SuspectCount(store, settings.watch_interval_seconds, loops.of("suspects"))
    await suspects.look()
    metrics.gauge("aioum_suspect_sessions", "Sessions that are suspect", lambda: suspects.value)
    signing = await stack.enter_async_context(
        opened_signers(
            settings,
            offering.identity,
            offering.chain.domain,
            readiness,
            on_failure=metrics.signer_failed,
            observer_of=loops.of,
        )
    )
    finisher = Finisher(store, offering.chain, clock.now_ms, metrics)
    settle_loop = SettleLoop(
        store=store,
        chain=offering.chain,
        sender=offering.sender,
        finisher=finisher,
        policy=SettlePolicy(
            idle_seconds=settings.session_idle_seconds, exit_alert_seconds=settings.exit_alert_seconds
        ),
        confirmations=settings.confirmations,
        interval_seconds=settings.settle_interval_seconds,
        now_ms=clock.now_ms,
        observer=metrics,
        rounds=loops.of("settle"),
        max_batch_items=settings.settle_batch_items,
    )
    sender, rpc = offering.sender, offering.chain.rpc
    sender.observe(
        TransactionMetrics(
            metrics.registry,
            in_flight=lambda: sender.in_flight,
            nearest_exit_seconds=lambda: settle_loop.nearest_exit_seconds,
        )
    )
    metrics.registry.register(EndpointMetrics(lambda: rpc.endpoints))
    dispute_loop = make_dispute_loop(
        settings,
        store=store,
        chain=offering.chain,
        sender=sender,
        now_ms=clock.now_ms,
        readiness=readiness,
        registry=metrics.registry,
        rounds=loops.of("disputes"),
    )

    def chain_is_back() -> None:
        settle_loop.chain_is_back()
        dispute_loop.chain_is_back()

    watcher = ChainWatcher(
        store=store,
        chain=offering.chain,
        finisher=finisher,
        confirmations=settings.confirmations,
        interval_seconds=settings.watch_interval_seconds,
        now_ms=clock.now_ms,
        on_change=settle_loop.wake,
        on_read=settle_loop.saw,
        on_look=lambda: readiness.met(_CHAIN, for_seconds=settings.chain_silence_seconds),
        on_return=chain_is_back,
        observer=loops.watch(),
    )
    edge = build_edge(
        settings=settings,
        store=store,
        chain=offering.chain,
        cards=Cards(store, offering.offer),
        tools=offering.tools,
        registration=registration,
        receipt_signer=signing.signers,
        challenge_secret=await store.agreed_secret(challenge_secret(settings)),
        settle=settle_loop.wake,
        readiness=readiness,
        metrics=metrics,
        clock=clock,
        suspect_until=suspect_until,
        log=None if offering.log is None else log_reader(settings),
    )

    def forget(channel_id: ChannelId) -> None:
        edge.sessions.forget(channel_id)
        signing.forget(channel_id)

    log_loop = make_log_loop(
        settings,
        offering.log,
        store=store,
        sending=sending,
        sender=sender,
        monotonic=clock.monotonic,
        readiness=readiness,
        registry=metrics.registry,
        rounds=loops,
    )
    retention = RetentionLoop(
        store=store,
        retention_ms=settings.transcript_retention_ms,
        interval_seconds=settings.retention_interval_seconds,
        now_ms=clock.now_ms,
        on_removed=forget,
        observer=loops.of("retention"),
        may_forget=forget_any if log_loop is None else log_loop.may_forget,
    )
    edge.admin.add_routes([endpoints_route(lambda: rpc.endpoints)])
    # Deposits and pending closes may have changed while nobody looked: nothing is served before this.
    await watcher.look()
    readiness.met(_CHAIN, for_seconds=settings.chain_silence_seconds)
    metrics.gauge("aioum_store_steps_waiting", "Writes that wait for the store", lambda: store.waiting_steps)
    sends = sending.exclusive(together(settle_loop.run, dispute_loop.run))
    storing = StoreWatch(store, loops.of("store"))
    readiness.require_while(STORE, storing.holds)
    balance = BalanceWatch(offering.chain, sender.signer.address, loops.of("balance"))
    metrics.gauge("aioum_account_balance_wei", "What the sending account holds for gas", lambda: balance.wei)
    for queue, waiting in offering.queues.items():
        metrics.queue(queue, waiting)
    metrics.queue("signer", signing.waiting)
    metrics.queue("settlement", lambda: settle_loop.waiting)
    parts = [watcher.run, sends, retention.run, suspects.run, storing.run, balance.run, *signing.loops]
    if log_loop is not None:
        parts.append(log_loop.run)
    if is_shared(settings):
        takeover = await started_takeover(settings, store, clock.now_ms, readiness, loops.of("takeover"))
        parts.append(takeover.run)
        metrics.gauge("aioum_sending", "1 where this process sends transactions", sending.is_held)
        metrics.gauge(
            "aioum_calls_taken_over", "Calls of dead processes, recorded here", lambda: takeover.taken
        )
    supervisor = await stack.enter_async_context(supervised(parts, lambda: readiness.unmet(_RUNNING)))
    stack.push_async_callback(edge.calls.drain, settings.shutdown_seconds)
    return RunningNode(
        url,
        admin_url,
        offering,
        registration,
        store,
        edge,
        watcher,
        settle_loop,
        dispute_loop,
        readiness,
        supervisor,
    )
