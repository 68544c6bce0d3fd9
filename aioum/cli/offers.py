"""Services as `aioum services` shows them: what the registry has, beside the card that the node serves.

Looking needs no key. A node that does not answer, or serves another card than it registered, is a fact of the
list and does not end it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from aioum.chain.client import Chain
from aioum.chain.model import Service
from aioum.chain.ratings import ServiceRatings, service_ratings
from aioum.cli.references import is_number
from aioum.cli.settings import Settings
from aioum.client.http import HttpTransport, node_base_url
from aioum.client.node import NodeClient
from aioum.client.policy import KnownContracts, Policy, check_card, check_terms
from aioum.client.settings import ClientSettings
from aioum.core.amounts import format_token_amount
from aioum.core.card import Card, Tool, descriptor_hash, parse_card
from aioum.core.errors import AioumError, PolicyRefused
from aioum.core.hextext import address_text, to_hex

_AT_ONCE: Final = 8
_LOOKING: Final = ClientSettings(
    connect_timeout_seconds=3.0, read_timeout_seconds=5.0, max_read_bytes=1024 * 1024
)


@dataclass(frozen=True, slots=True)
class SeenService:
    """One service.

    Attributes:
        node_url: base URL of its node, or None where the registry's text is none.
        card: checked against the registry, or None.
        problem: why there is no card, or why the default policy would not pay; None where all is well.
        ratings: what payers gave it, weighted by amounts of the token that it takes now; None where the
            deployment has no rating registry.
    """

    service: Service
    node_url: str | None
    card: Card | None
    problem: AioumError | None
    ratings: ServiceRatings | None


async def list_services(settings: Settings, limit: int) -> tuple[list[SeenService], int]:
    """The first `limit` services by id, and how many there are in all."""
    async with Chain.connect(settings.deployment()) as chain:
        services = await chain.services()
        return await _look_at(chain, services[:limit]), len(services)


async def show_service(settings: Settings, service: str) -> SeenService:
    """One service, by its number or its node's URL.

    Raises:
        PolicyRefused: `service-unknown`.
        InvalidInput, OutcomeUnknown: the URL is none, or its node does not say which service it serves.
    """
    async with Chain.connect(settings.deployment()) as chain:
        service_id = int(service) if is_number(service) else await _service_at(service)
        registered = await chain.service(service_id) if service_id < 2**256 else None
        if registered is None:
            raise PolicyRefused(
                f"the registry has no service {service_id} that takes sessions",
                code="service-unknown",
                hint="`aioum services list` shows them",
            )
        (seen,) = await _look_at(chain, [registered])
        return seen


def to_json(seen: SeenService) -> dict[str, Any]:
    """A service for a program; amounts are base units as text."""
    terms, card = seen.service.terms, seen.card
    return {
        "serviceId": str(seen.service.service_id),
        "nodeUrl": seen.node_url,
        "descriptorUri": seen.service.descriptor_uri,
        "termsHash": to_hex(seen.service.terms_hash),
        "operator": address_text(terms.operator),
        "payee": address_text(terms.payee),
        "token": address_text(terms.token),
        "receiptSigner": address_text(terms.receipt_signer),
        "commitRequired": terms.commit_required,
        "disputeWindowSeconds": terms.dispute_window_seconds,
        "arbitrator": address_text(terms.arbitrator) if any(terms.arbitrator) else None,
        "rulingPeriodSeconds": terms.ruling_period_seconds,
        "disputeBond": str(terms.dispute_bond),
        "ratings": None if seen.ratings is None else _ratings_json(seen.ratings),
        "card": None if card is None else _card_json(card),
        "problem": None if seen.problem is None else {"code": seen.problem.code, "text": str(seen.problem)},
    }


def list_row(seen: SeenService) -> tuple[str, ...]:
    """A service as a row: number, name, tools, prices, rating, verdict, node."""
    card = seen.card
    rating = "-" if seen.ratings is None or seen.ratings.mean is None else f"{seen.ratings.mean:.0f}"
    verdict = "ready" if seen.problem is None else seen.problem.code
    where = seen.node_url or seen.service.descriptor_uri
    if card is None:
        return str(seen.service.service_id), "-", "-", "-", rating, verdict, where
    names = ", ".join(tool.id for tool in card.tools[:4]) + (", …" if len(card.tools) > 4 else "")
    prices = [tool.price for tool in card.tools]
    ends = sorted({min(prices), max(prices)})
    range_text = "…".join(format_token_amount(price, card.token.decimals) for price in ends)
    return (
        str(seen.service.service_id), card.name, names, f"{range_text} {card.token.symbol}", rating, verdict,
        where,
    )  # fmt: skip


def facts(seen: SeenService) -> list[tuple[str, str]]:
    """A service for print, without its tools."""
    terms, card = seen.service.terms, seen.card
    rows = [
        ("service", str(seen.service.service_id)),
        ("name", card.name if card else ""),
        ("node", seen.node_url or seen.service.descriptor_uri),
        ("operator", address_text(terms.operator)),
        ("payee", address_text(terms.payee)),
        ("token", f"{card.token.symbol} {address_text(terms.token)}" if card else address_text(terms.token)),
        ("record anchored", "required before payment" if terms.commit_required else "not required"),
    ]
    if seen.ratings is not None:
        rows.append(("ratings", _ratings_text(seen.ratings)))
    if terms.dispute_window_seconds:
        bond = str(terms.dispute_bond)
        if card is not None:
            bond = f"{format_token_amount(terms.dispute_bond, card.token.decimals)} {card.token.symbol}"
        rows += [
            (
                "captures held for",
                f"{terms.dispute_window_seconds / 3_600:g} hours; a dispute's bond is {bond}",
            ),
            (
                "arbitrator",
                f"{address_text(terms.arbitrator)}, within {terms.ruling_period_seconds / 3_600:g} hours"
                if any(terms.arbitrator)
                else "none: only lies that the operator's own words prove count",
            ),
        ]
    if card is not None:
        least = f"{format_token_amount(card.min_deposit, card.token.decimals)} {card.token.symbol}"
        rows += [
            ("least deposit", least),
            (
                "deterministic",
                f"{card.deterministic.kind}: answers can be re-executed" if card.deterministic else "no",
            ),
            ("kept for", f"{card.retention_ms // 3_600_000} hours after settlement"),
            ("terms", to_hex(seen.service.terms_hash)),
        ]
    if seen.problem is not None:
        rows.append(("not payable", f"{seen.problem} [{seen.problem.code}]"))
    return rows


def tool_rows(card: Card) -> list[tuple[str, ...]]:
    """The tools of a card: id, price, arguments, description."""
    return [
        (
            tool.id,
            f"{format_token_amount(tool.price, card.token.decimals)} {card.token.symbol}",
            _arguments(tool),
            tool.description,
        )
        for tool in card.tools
    ]


def _ratings_text(ratings: ServiceRatings) -> str:
    if ratings.mean is None or ratings.weighted_mean is None:
        return "none yet"
    sessions = "session" if ratings.count == 1 else "sessions"
    return (
        f"{ratings.mean:.1f} of 100 in {ratings.count} {sessions}; "
        f"{ratings.weighted_mean:.1f} weighted by what they paid"
    )


def _ratings_json(ratings: ServiceRatings) -> dict[str, Any]:
    return {
        "count": ratings.count,
        "mean": ratings.mean,
        "weightedMean": ratings.weighted_mean,
        "weighedAmount": str(ratings.amount),
    }


async def _look_at(chain: Chain, services: list[Service]) -> list[SeenService]:
    tokens = frozenset(chain.deployment.tokens.values()) if chain.deployment else frozenset()
    known = KnownContracts(chain.domain, chain.service_registry, tokens)
    transport = HttpTransport(connect_timeout_seconds=_LOOKING.connect_timeout_seconds)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def look(service: Service) -> SeenService:
        async with gate:
            return await _look_at_one(chain, known, service, transport)

    try:
        async with asyncio.TaskGroup() as tasks:
            looking = [tasks.create_task(look(service)) for service in services]
        return [task.result() for task in looking]
    finally:
        await transport.aclose()


async def _look_at_one(
    chain: Chain, known: KnownContracts, service: Service, transport: HttpTransport
) -> SeenService:
    url = card = ratings = None
    if chain.deployment is not None and chain.deployment.rating_registry is not None:
        ratings = await service_ratings(
            chain.rpc, chain.deployment.rating_registry, service.service_id, service.terms.token
        )
    try:
        url = node_base_url(service.descriptor_uri, allow_plain_http=False)
        described = await NodeClient(transport, url, _LOOKING).describe()
        value = described.get("card")
        offered = parse_card(value)
        check_card(known, service.terms, offered, descriptor_hash(value))
        card = offered
        check_terms(Policy(), known, service.terms)
    except AioumError as error:
        return SeenService(service, url, card, error, ratings)
    return SeenService(service, url, card, None, ratings)


async def _service_at(url: str) -> int:
    base = node_base_url(url, allow_plain_http=False)
    transport = HttpTransport(connect_timeout_seconds=_LOOKING.connect_timeout_seconds)
    try:
        value = (await NodeClient(transport, base, _LOOKING).describe()).get("serviceId")
    finally:
        await transport.aclose()
    return int(value) if isinstance(value, str) and is_number(value) else 0


def _arguments(tool: Tool) -> str:
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, dict):
        return ""
    required = tool.input_schema.get("required")
    needed = required if isinstance(required, list) else []
    shown = []
    for name, schema in properties.items():
        kind = schema.get("type", "any") if isinstance(schema, dict) else "any"
        shown.append(f"{name}{'' if name in needed else '?'}: {kind}")
    return ", ".join(shown)


def _card_json(card: Card) -> dict[str, Any]:
    return {
        "name": card.name,
        "token": {
            "address": address_text(card.token.address),
            "symbol": card.token.symbol,
            "decimals": card.token.decimals,
        },
        "minDeposit": str(card.min_deposit),
        "deterministic": card.deterministic.kind if card.deterministic else None,
        "retentionMs": card.retention_ms,
        "tools": [
            {
                "id": tool.id,
                "description": tool.description,
                "price": str(tool.price),
                "timeoutSeconds": tool.timeout_seconds,
                "inputSchema": tool.input_schema,
            }
            for tool in card.tools
        ],
    }
