"""The HTTP edge, put together from its parts. What costs most per call can be exchanged for a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from aioum.chain.client import Chain
from aioum.chain.signers import Signer
from aioum.core.errors import Refused
from aioum.core.transcript import canonical_request
from aioum.core.types import ChannelId
from aioum_node.access import ClientSignatures
from aioum_node.api.challenges import Challenges
from aioum_node.api.log import LogRoutes
from aioum_node.api.service import ServiceRoutes, admin_application, public_application
from aioum_node.api.sessions import SessionRoutes
from aioum_node.api.tools import ToolRoutes
from aioum_node.calls import CallLimits, PaidCalls
from aioum_node.cards import Cards
from aioum_node.keys.session_signers import SessionSigners
from aioum_node.limits.addresses import ProxyTrust
from aioum_node.limits.connections import ConnectionLimits, Gate
from aioum_node.limits.rates import Rate, TokenBuckets
from aioum_node.limits.requests import MeteredSignatures, request_limits
from aioum_node.limits.slots import Slots
from aioum_node.log.reader import LogReader
from aioum_node.metrics import NodeMetrics
from aioum_node.openings import OpeningPolicy, Openings
from aioum_node.planning import Canonicalize
from aioum_node.readiness import Readiness
from aioum_node.registration import Registration
from aioum_node.service import ServiceTool
from aioum_node.sessions import Sessions
from aioum_node.settings import Settings
from aioum_node.store.port import Store
from aioum_node.turns import TurnLimits


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the node sees it: `now_seconds` unix, `monotonic` for durations, both in seconds."""

    now_seconds: Callable[[], float]
    monotonic: Callable[[], float]

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.now_seconds() * 1_000)


@dataclass(frozen=True, slots=True)
class Edge:
    """Both applications, and what a starter has to know of them."""

    public: web.Application
    admin: web.Application
    calls: PaidCalls
    sessions: Sessions
    gate: Gate
    openings: Openings
    reads: Slots


def build_edge(
    *,
    settings: Settings,
    store: Store,
    chain: Chain,
    cards: Cards,
    tools: Mapping[str, ServiceTool],
    registration: Registration,
    receipt_signer: Signer | SessionSigners,
    challenge_secret: bytes,
    settle: Callable[[ChannelId], None],
    readiness: Readiness,
    metrics: NodeMetrics,
    clock: Clock,
    canonicalize: Canonicalize = canonical_request,
    clients: ClientSignatures | None = None,
    suspect_until: int | None = None,
    log: LogReader | None = None,
) -> Edge:
    """Build the applications; nothing is started.

    Args:
        settings: limits and policy.
        store: where everything is kept.
        chain: asked for openings and top-ups, and about contract signers where they are accepted.
        cards: with the card that is offered now.
        tools: what is behind the card's tools.
        registration: the service on-chain.
        receipt_signer: gives the same bytes each time, so that a retry gets the same receipt; with several
            signers, each signs for the sessions whose terms name it.
        challenge_secret: 32 bytes.
        settle: asks for a sealed session to be settled soon.
        readiness: unmet conditions stop paid calls.
        metrics: counts what happens.
        clock: unix and monotonic time.
        canonicalize: another serializer, for measurements.
        clients: another check of client signatures, for measurements.
        suspect_until: as of `restored.Life`.
        log: the transparency log to serve; None where the operator keeps none.
    """
    terms = registration.terms
    if clients is None:
        clients = ClientSignatures(chain if settings.accept_contract_signers else None)
    signers = receipt_signer if isinstance(receipt_signer, SessionSigners) else SessionSigners(receipt_signer)
    clients = MeteredSignatures(
        clients,
        TokenBuckets(
            Rate(settings.session_requests_per_second, settings.session_request_burst),
            max_entries=settings.rate_limit_entries,
            monotonic=clock.monotonic,
        ),
    )
    sessions = Sessions(store, cards, chain.domain, signers.addresses, settings.cached_sessions)
    sign = signers.signing_for(sessions.context)
    calls = PaidCalls(
        store=store,
        sessions=sessions,
        tools=tools,
        clients=clients,
        sign_receipt=sign,
        observer=metrics,
        limits=CallLimits(
            settings.max_request_bytes,
            settings.max_concurrent_calls,
            TurnLimits(settings.max_in_flight, settings.turn_wait_ms / 1_000, settings.max_waiting_calls),
        ),
        now_ms=clock.now_ms,
        monotonic=clock.monotonic,
        canonicalize=canonicalize,
    )
    openings = Openings(
        chain=chain,
        domain=chain.domain,
        store=store,
        sessions=sessions,
        cards=cards,
        clients=clients,
        policy=OpeningPolicy(
            service_id=registration.service_id,
            operator=terms.operator,
            payee=terms.payee,
            token=terms.token,
            receipt_signers=signers.addresses,
            descriptor_hash=terms.descriptor_hash,
            confirmations=settings.confirmations,
            wait_seconds=settings.opening_wait_seconds,
            max_concurrent=settings.max_concurrent_openings,
            max_per_address=settings.max_openings_per_address,
            max_seats=settings.max_seats,
            require_signed=settings.require_signed,
            accept_plain_channels=settings.accept_plain_channels,
            accept_uncommitted_sessions=settings.accept_uncommitted_sessions,
        ),
        on_adopted=metrics.session_adopted,
        now_ms=clock.now_ms,
        suspect_until=suspect_until,
    )

    def require_ready() -> None:
        if missing := readiness.missing():
            raise Refused(f"the node is not ready: {', '.join(missing)}", code="not-ready")

    service_routes = ServiceRoutes(
        cards=cards,
        chain_id=chain.chain_id,
        service_registry=chain.service_registry,
        service_id=registration.service_id,
        readiness=readiness,
    )
    tool_routes = ToolRoutes(
        calls=calls,
        openings=openings,
        sessions=sessions,
        cards=cards,
        store=store,
        challenges=Challenges(
            secret=challenge_secret,
            realm=settings.realm,
            payee=terms.payee,
            suggested_calls=settings.suggested_calls,
            now_seconds=clock.now_seconds,
        ),
        metrics=metrics,
        require_ready=require_ready,
        body_timeout_seconds=settings.body_timeout_seconds,
        retry_after_seconds=settings.retry_after_seconds,
        now_seconds=clock.now_seconds,
    )
    reads = Slots(
        settings.max_concurrent_reads, settings.max_reads_per_session, what="reads", code="too-many-reads"
    )
    session_routes = SessionRoutes(
        store=store,
        sessions=sessions,
        clients=clients,
        settle=settle,
        sign=sign,
        metrics=metrics,
        slots=reads,
        page_calls=settings.page_calls,
        page_bytes=settings.page_bytes,
        body_timeout_seconds=settings.body_timeout_seconds,
        retry_after_seconds=settings.retry_after_seconds,
        now_ms=clock.now_ms,
    )
    metrics.watch(
        in_flight=lambda: calls.in_flight,
        waiting=lambda: calls.waiting,
        ready=lambda: not readiness.missing(),
    )
    public = public_application(
        service_routes,
        tool_routes,
        session_routes,
        LogRoutes(log),
        refused=metrics.refused,
        max_request_bytes=settings.max_request_bytes,
    )
    gate = _guarded(public, settings, metrics, clock)
    metrics.gauge("aioum_connections", "Open connections of the public port", lambda: gate.connections)
    metrics.gauge("aioum_openings_in_flight", "Openings being looked up", lambda: openings.in_flight)
    metrics.gauge("aioum_reads_in_flight", "Reads of sessions, until they are sent", lambda: reads.taken)
    return Edge(public, admin_application(service_routes, metrics), calls, sessions, gate, openings, reads)


def _guarded(public: web.Application, settings: Settings, metrics: NodeMetrics, clock: Clock) -> Gate:
    """Put the limits of connections and addresses in front of the public application."""
    trust = ProxyTrust(settings.trusted_proxies, settings.forwarded_header)
    gate = Gate(
        ConnectionLimits(
            max_connections=settings.max_connections,
            max_connections_per_address=settings.max_connections_per_address,
            max_header_bytes=settings.max_header_bytes,
            header_timeout_seconds=settings.header_timeout_seconds,
            write_timeout_seconds=settings.write_timeout_seconds,
        ),
        trusts=trust.trusts,
        refused=metrics.refused,
        retry_after_seconds=settings.retry_after_seconds,
    )
    addresses = TokenBuckets(
        Rate(settings.address_requests_per_second, settings.address_request_burst),
        max_entries=settings.rate_limit_entries,
        monotonic=clock.monotonic,
    )
    public.middlewares.insert(0, request_limits(gate, trust, addresses, refused=metrics.refused))
    return gate
