"""What a paid request comes to, decided before anything is stored: its canonical bytes, its price, its fate.

The two kinds of session differ here. What an unsigned session's card does not offer is refused. In a signed
one the client has signed it for this index, so it becomes a call that fails there and costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.card import TOOL_ID_PATTERN
from aioum.core.errors import InvalidInput, Refused
from aioum.core.ledger import Answer, CallRequest
from aioum.core.submission.canonical import canonical_json_text
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import MAX_COMMAND_BYTES
from aioum.core.types import ChannelId
from aioum.core.wire import JsonObject
from aioum_node.cards import Offer
from aioum_node.failures import failed

Canonicalize = Callable[[str, JsonValue], str]
"""Tool id and arguments to the canonical request."""

_TOOL_ID: Final = re.compile(TOOL_ID_PATTERN)


@dataclass(frozen=True, slots=True)
class PaidRequest:
    """A call with its voucher, as it came over the wire.

    Attributes:
        body: the arguments, JSON text; empty stands for none.
        envelope: the seat's signed submission in a signed session, else None.
    """

    channel_id: ChannelId
    tool_id: str
    body: bytes
    amount: int
    signature: bytes
    envelope: Envelope | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A call as it will be admitted.

    Attributes:
        failure: what is recorded instead of running the tool; in signed sessions only.
    """

    request: CallRequest
    arguments: JsonObject
    timeout_seconds: int = 0
    failure: Answer | None = None


def plan_call(paid: PaidRequest, offer: Offer, *, max_request_bytes: int, canonicalize: Canonicalize) -> Plan:
    """Hold a request against its limits, its form and the session's card.

    Raises:
        InvalidInput: `arguments-invalid`, those of `parse_json`; of a signed call `request-not-portable` and
            `json-number-unsafe`, its bytes differ between the two rules of canonical JSON (PROTOCOL 1).
        Refused: `request-too-large`; `tool-unknown`, of a signed call only where it is no tool id at all.
    """
    if paid.envelope is not None and not _TOOL_ID.fullmatch(paid.tool_id):
        raise _tool_unknown(paid.tool_id)
    arguments = _arguments(paid.body, max_request_bytes)
    if paid.envelope is not None:
        limit_bytes = min(max_request_bytes, MAX_COMMAND_BYTES)
        return _plan_signed(paid, arguments, _canonical(paid, arguments, limit_bytes, canonicalize), offer)
    offered = offer.tools.get(paid.tool_id)
    if offered is None:
        raise _tool_unknown(paid.tool_id)
    offered.check(arguments)
    request = _canonical(paid, arguments, max_request_bytes, canonicalize)
    entry = CallRequest(paid.tool_id, request, offered.price, paid.amount, paid.signature)
    return Plan(entry, arguments, offered.timeout_seconds)


def _plan_signed(paid: PaidRequest, arguments: JsonObject, request: bytes, offer: Offer) -> Plan:
    if canonical_json_text({"arguments": arguments, "tool": paid.tool_id}).encode() != request:
        raise InvalidInput(
            "the arguments have keys that two rules of canonical JSON put in different orders",
            code="request-not-portable",
            hint="name the members with characters of the basic plane",
        )
    offered = offer.tools.get(paid.tool_id)
    price = 0 if offered is None else offered.price
    entry = CallRequest(paid.tool_id, request, price, paid.amount, paid.signature, paid.envelope)
    if offered is None:
        return Plan(entry, arguments, failure=failed("tool-unknown"))
    try:
        offered.check(arguments)
    except InvalidInput as error:
        return Plan(entry, arguments, failure=failed("arguments-invalid", str(error)))
    return Plan(entry, arguments, offered.timeout_seconds)


def _arguments(body: bytes, max_bytes: int) -> JsonObject:
    value: Any = parse_json(body, max_bytes=max_bytes) if body else {}
    if not isinstance(value, dict):
        raise InvalidInput("the body must be a JSON object", code="arguments-invalid")
    return value


def _canonical(paid: PaidRequest, arguments: JsonObject, max_bytes: int, canonicalize: Canonicalize) -> bytes:
    request = canonicalize(paid.tool_id, arguments).encode()
    if len(request) > max_bytes:
        raise Refused(
            f"the canonical request has {len(request)} of at most {max_bytes} bytes", code="request-too-large"
        )
    return request


def _tool_unknown(tool_id: str) -> Refused:
    return Refused(f"the session's card has no tool {tool_id!r:.80}", code="tool-unknown")
