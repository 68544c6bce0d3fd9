"""The service card, generated from the tools and settings of a node (PROTOCOL 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aioum.core.amounts import check_amount, parse_token_amount
from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.card import MAX_CARD_BYTES
from aioum.core.errors import CanonicalError, ConfigError, InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text
from aioum.core.submission.framing import SCHEME, encode_base64
from aioum.core.types import Address, Bytes32
from aioum.core.wire import JsonObject
from aioum_node.cards import Offer
from aioum_node.service import ServiceTool
from aioum_node.settings import DeterministicSettings, Settings


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """The token that calls are paid in. `decimals` is 0…77."""

    address: Address
    symbol: str
    decimals: int


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The transparency log that the service's sessions will be in. `public_key` is 32 bytes."""

    origin: str
    public_key: bytes


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card says beside tools and settings. `log` is None where the operator keeps none."""

    operator: Address
    receipt_signer: Address
    chain_id: int
    service_registry: Address
    payment_manager: Address
    token: TokenFacts
    log: LogFacts | None = None


def build_card(settings: Settings, tools: Mapping[str, ServiceTool], facts: CardFacts) -> Offer:
    """Generate the card. Equal inputs give equal bytes.

    Raises:
        ConfigError: `card-too-large`, `tool-schema-invalid`, `price-invalid` for a price that the token's
            decimals cannot express, `wasm-module-missing`, or `wasm-module-mismatched` where a deterministic
            tool is not the module that the card pins.
        InvalidInput: `card-invalid`.
    """
    decimals = facts.token.decimals
    card: JsonObject = {
        "name": settings.service_name,
        "operator": address_text(facts.operator),
        "contracts": {
            "chainId": facts.chain_id,
            "serviceRegistry": address_text(facts.service_registry),
            "paymentManager": address_text(facts.payment_manager),
        },
        "token": {
            "address": address_text(facts.token.address),
            "symbol": facts.token.symbol,
            "decimals": decimals,
        },
        "tools": [_tool(settings, tool, decimals) for tool in tools.values()],
        "receiptSigner": address_text(facts.receipt_signer),
        "retentionMs": settings.transcript_retention_ms,
        "limits": {
            "maxRequestBytes": settings.max_request_bytes,
            "maxResponseBytes": settings.max_response_bytes,
            "maxUnpaidCalls": settings.max_unpaid_calls,
            "maxInFlight": settings.max_in_flight,
            "maxSeats": settings.max_seats,
        },
        "submissions": SCHEME,
        "submissionsRequired": settings.require_signed,
        "minDeposit": str(base_units(settings.min_deposit, decimals, "min_deposit")),
    }
    if facts.log is not None:
        card["log"] = {"origin": facts.log.origin, "publicKey": encode_base64(facts.log.public_key)}
        card["maxLogDelaySeconds"] = settings.max_log_delay_seconds
    if settings.deterministic is not None:
        card["deterministic"] = _deterministic(settings.deterministic, tools)
    try:
        canonical = canonical_bytes(card)
    except CanonicalError as error:
        raise ConfigError(f"the card has no canonical JSON: {error}", code="tool-schema-invalid") from error
    if len(canonical) > MAX_CARD_BYTES:
        raise ConfigError(
            f"the card has {len(canonical)} bytes, at most {MAX_CARD_BYTES} are allowed",
            code="card-too-large",
        )
    return Offer.of(Bytes32(keccak256(canonical)), canonical)


def _tool(settings: Settings, tool: ServiceTool, decimals: int) -> JsonObject:
    schema: dict[str, JsonValue] = dict(tool.input_schema)
    value: JsonObject = {
        "id": tool.id,
        "description": tool.description,
        "inputSchema": schema,
        "price": str(base_units(tool.price, decimals, f"price of {tool.id}")),
        "timeoutSeconds": tool.timeout_seconds,
    }
    if settings.deterministic is not None and not tool.deterministic:
        value["deterministic"] = False
    return value


def _deterministic(declared: DeterministicSettings, tools: Mapping[str, ServiceTool]) -> JsonObject:
    value: JsonObject = declared.model_dump(exclude_none=True)
    if declared.kind == "wasm":
        value["module"] = _pinned_module(declared.module, tools)
    return value


def _pinned_module(declared: str | None, tools: Mapping[str, ServiceTool]) -> str:
    """The digest of the one module that every deterministic tool is."""
    judged = {tool.id: tool.module_digest for tool in tools.values() if tool.deterministic}
    pinned = declared or next((digest for digest in judged.values() if digest is not None), None)
    if pinned is None:
        raise ConfigError(
            "the service is declared deterministic of kind wasm, and no tool of it is a module",
            code="wasm-module-missing",
            hint='give a [[tools]] table wasm = "FILE", or [deterministic] module = "SHA-256"',
        )
    for tool_id, digest in judged.items():
        if digest != pinned:
            raise ConfigError(
                f"tool {tool_id} is {'no module' if digest is None else f'the module {digest}'}, and answers"
                f" of deterministic tools are held against the module {pinned}",
                code="wasm-module-mismatched",
                hint="write deterministic = false in its [[tools]] table",
            )
    return pinned


def base_units(amount: str | int, decimals: int, what: str) -> int:
    """An amount of the settings in base units. Raises ConfigError `price-invalid`, which names `what`."""
    try:
        return parse_token_amount(amount, decimals) if isinstance(amount, str) else check_amount(amount)
    except InvalidInput as error:
        raise ConfigError(f"{what}: {error}", code="price-invalid") from error
