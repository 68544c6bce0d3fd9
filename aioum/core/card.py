"""The service card (PROTOCOL 6): what a service offers, at which prices, under which limits.

The card's hash on-chain covers its canonical JSON, so members this version does not know stay in the JSON.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from aioum.core.amounts import parse_amount
from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.errors import InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.hextext import address
from aioum.core.submission.framing import decode_base64
from aioum.core.types import Address, Bytes32

MAX_CARD_BYTES: Final = 262_144
TOOL_ID_PATTERN: Final = r"^[A-Za-z0-9_-]{1,64}$"
MODULE_DIGEST_PATTERN: Final = r"[0-9a-f]{64}"
LOG_KEY_BYTES: Final = 32


def _as_address(value: Any) -> Address:
    try:
        return address(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from error


def _as_amount(value: Any) -> int:
    try:
        return parse_amount(value)
    except InvalidInput as error:
        raise ValueError(str(error)) from error


def _as_public_key(value: Any) -> bytes:
    try:
        return decode_base64(value, LOG_KEY_BYTES)
    except InvalidInput as error:
        raise ValueError(str(error)) from error


AddressText = Annotated[Address, BeforeValidator(_as_address)]
AmountText = Annotated[int, BeforeValidator(_as_amount)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )


class Tool(_Model):
    """One paid tool.

    Attributes:
        input_schema: JSON Schema of the arguments object.
        price: base units per successful call.
        timeout_seconds: 1…300.
        deterministic: False exempts the tool from re-execution of a deterministic service.
    """

    id: Annotated[str, Field(pattern=TOOL_ID_PATTERN)]
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    price: AmountText
    timeout_seconds: Annotated[int, Field(ge=1, le=300)] = 30
    deterministic: bool = True


class Contracts(_Model):
    """Where the service's contracts live."""

    chain_id: Annotated[int, Field(ge=1)]
    service_registry: AddressText
    payment_manager: AddressText


class Token(_Model):
    """The token that calls are paid in."""

    address: AddressText
    symbol: str
    decimals: Annotated[int, Field(ge=0, le=77)]


class Deterministic(_Model):
    """How a stranger re-executes a deterministic service; pinned by digest.

    Attributes:
        module: of kind `wasm`, SHA-256 of the module's file, lower-case hex without a prefix.
        entry: what is started: a command line, or of kind `wasm` the exported function (default `_start`).
        uri: where the module lies; whoever reads it holds it against `module`.
    """

    kind: Literal["docker", "wasm", "command"]
    image: str | None = None
    module: str | None = None
    entry: str | None = None
    uri: str | None = None

    @model_validator(mode="after")
    def _pinned(self) -> Deterministic:
        if self.kind == "wasm" and not re.fullmatch(MODULE_DIGEST_PATTERN, self.module or ""):
            raise ValueError("kind wasm needs the SHA-256 of its module, 64 lower-case hex digits")
        return self


class CardLimits(_Model):
    """Limits the node enforces; a client can plan with them."""

    max_request_bytes: Annotated[int, Field(ge=1)] = 65_536
    max_response_bytes: Annotated[int, Field(ge=1)] = 1_048_576
    max_unpaid_calls: Annotated[int, Field(ge=1)] = 8
    max_in_flight: Annotated[int, Field(ge=1)] = 1
    max_seats: Annotated[int, Field(ge=1)] = 64


class CardLog(_Model):
    """The transparency log that the service's sessions are in (PROTOCOL 9).

    Attributes:
        origin: its name, the first line of its checkpoints.
        public_key: the Ed25519 key that signs them, 32 bytes; canonical base64 on the card.
    """

    origin: Annotated[str, Field(min_length=1, max_length=255)]
    public_key: Annotated[bytes, BeforeValidator(_as_public_key)]


class Card(_Model):
    """A service card, validated. Keep the JSON it came from: its hash covers all members.

    Attributes:
        retention_ms: how long the node keeps a settled transcript, milliseconds.
        min_deposit: smallest deposit the node accepts, base units.
        submissions: scheme of client-signed calls the node supports, or None (unsigned sessions only).
        submissions_required: the node takes sessions with signed calls only.
        log: where the session will be found once it is final, or None: the operator keeps no log.
        max_log_delay_seconds: how long after it is final on-chain it is in that log at the latest; None with
            `log` alone.
    """

    name: Annotated[str, Field(min_length=1, max_length=200)]
    operator: AddressText
    contracts: Contracts
    token: Token
    tools: Annotated[tuple[Tool, ...], Field(min_length=1, max_length=1_000, strict=False)]
    receipt_signer: AddressText
    retention_ms: Annotated[int, Field(ge=0)] = 604_800_000
    limits: CardLimits = CardLimits()
    min_deposit: AmountText = 0
    deterministic: Deterministic | None = None
    submissions: str | None = None
    submissions_required: bool = False
    log: CardLog | None = None
    max_log_delay_seconds: Annotated[int | None, Field(ge=1, le=31_536_000)] = None

    @model_validator(mode="after")
    def _promised(self) -> Card:
        if (self.log is None) != (self.max_log_delay_seconds is None):
            raise ValueError("log and maxLogDelaySeconds belong together")
        return self

    def tool(self, tool_id: str) -> Tool | None:
        """The tool of that id, or None."""
        return next((tool for tool in self.tools if tool.id == tool_id), None)

    def reexecutable(self, tool_id: str) -> bool:
        """Whether calls of this tool may be judged by re-execution."""
        tool = self.tool(tool_id)
        return self.deterministic is not None and tool is not None and tool.deterministic


def parse_card(value: JsonValue) -> Card:
    """Validate a card's JSON.

    Raises:
        InvalidInput: `card-invalid`, naming the first member that is wrong.
    """
    try:
        card = Card.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"card member {where or '(root)'}: {first['msg']}", code="card-invalid") from error
    if len({tool.id for tool in card.tools}) != len(card.tools):
        raise InvalidInput("two tools of the card have the same id", code="card-invalid")
    return card


def descriptor_hash(card: JsonValue) -> Bytes32:
    """keccak256 of the card's canonical JSON: what the ServiceRegistry holds."""
    return Bytes32(keccak256(canonical_bytes(card)))
