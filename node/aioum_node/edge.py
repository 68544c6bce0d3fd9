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
from aioum_node.api.service import ServiceRoutes, admin_application, public_application
from aioum_node.api.sessions import SessionRoutes
from aioum_node.api.tools import ToolRoutes
from aioum_node.calls import CallLimits, PaidCalls
from aioum_node.cards import Cards
from aioum_node.metrics import NodeMetrics
from aioum_node.openings import OpeningPolicy, Openings
from aioum_node.planning import Canonicalize
from aioum_node.readiness import Readiness
from aioum_node.registration import Registration
from aioum_node.service import ServiceTool
from aioum_node.sessions import Sessions
from aioum_node.settings import Settings
from aioum_node.store.port import Store


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


def build_edge(
    *,
    settings: Settings,
    store: Store,
    chain: Chain,
    cards: Cards,
    tools: Mapping[str, ServiceTool],
    registration: Registration,
    receipt_signer: Signer,
    challenge_secret: bytes,
    settle: Callable[[ChannelId], None],
    readiness: Readiness,
    metrics: NodeMetrics,
    clock: Clock,
    canonicalize: Canonicalize = canonical_request,
    clients: ClientSignatures | None = None,
) -> Edge:
    """Build the applications; nothing is started.

    Args:
        settings: limits and policy.
        store: where everything is kept.
        chain: asked for openings and top-ups, and about contract signers where they are accepted.
        cards: with the card that is offered now.
        tools: what is behind the card's tools.
        registration: the service on-chain.
        receipt_signer: must sign deterministically, so that a retry gets the same receipt.
        challenge_secret: 32 bytes.
        settle: asks for a sealed session to be settled soon.
        readiness: unmet conditions stop paid calls.
        metrics: counts what happens.
        clock: unix and monotonic time.
        canonicalize: another serializer, for measurements.
        clients: another check of client signatures, for measurements.
    """
    terms = registration.terms
    if clients is None:
        clients = ClientSignatures(chain if settings.accept_contract_signers else None)
    sessions = Sessions(store, cards, chain.domain, receipt_signer.address, settings.cached_sessions)
    calls = PaidCalls(
        store=store,
        sessions=sessions,
        tools=tools,
        clients=clients,
        sign_receipt=receipt_signer.sign,
        observer=metrics,
        limits=CallLimits(settings.max_request_bytes, settings.max_concurrent_calls),
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
            receipt_signer=terms.receipt_signer,
            descriptor_hash=terms.descriptor_hash,
            confirmations=settings.confirmations,
            wait_seconds=settings.opening_wait_seconds,
            max_concurrent=settings.max_concurrent_openings,
            max_seats=settings.max_seats,
            require_signed=settings.require_signed,
            accept_plain_channels=settings.accept_plain_channels,
            accept_uncommitted_sessions=settings.accept_uncommitted_sessions,
        ),
        on_adopted=metrics.session_adopted,
        now_ms=clock.now_ms,
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
    session_routes = SessionRoutes(
        store=store,
        sessions=sessions,
        clients=clients,
        settle=settle,
        sign=receipt_signer.sign,
        metrics=metrics,
        page_calls=settings.page_calls,
        page_bytes=settings.page_bytes,
        body_timeout_seconds=settings.body_timeout_seconds,
        retry_after_seconds=settings.retry_after_seconds,
        now_ms=clock.now_ms,
    )
    metrics.watch(in_flight=lambda: calls.in_flight, ready=lambda: not readiness.missing())
    public = public_application(
        service_routes, tool_routes, session_routes, max_request_bytes=settings.max_request_bytes
    )
    return Edge(public, admin_application(service_routes, metrics), calls, sessions)
