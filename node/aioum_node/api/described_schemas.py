"""The JSON Schemas of the OpenAPI document: what travels over the HTTP edge."""

from __future__ import annotations

from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue
from aioum.core.card import TOOL_ID_PATTERN
from aioum.core.ledger import Phase
from aioum.core.wire import PAYMENT_RECEIPT_HEADER, RECEIPT_HEADER, JsonObject

_HASH: Final[JsonObject] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
_HEX: Final[JsonObject] = {"type": "string", "pattern": "^0x([0-9a-fA-F]{2})*$"}
_ADDRESS: Final[JsonObject] = {"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"}
_AMOUNT: Final[JsonObject] = {"type": "string", "pattern": "^(0|[1-9][0-9]{0,38})$"}
_COUNT: Final[JsonObject] = {"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER}
_TOKEN: Final[JsonObject] = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
_TEXT: Final[JsonObject] = {"type": "string"}
_BASE64_32: Final[JsonObject] = {"type": "string", "pattern": "^[A-Za-z0-9+/]{43}=$"}
_BASE64_64: Final[JsonObject] = {"type": "string", "pattern": "^[A-Za-z0-9+/]{86}==$"}
_NAME: Final[JsonObject] = {"type": "string", "pattern": "^[A-Za-z0-9_.:@-]{1,128}$"}


def _object(required: JsonObject, **optional: JsonValue) -> JsonObject:
    """An object that has exactly these members, or any of the optional ones too."""
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": required | optional,
    }


def _path(name: str, schema: JsonObject, description: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": description}


TOOL_ID: Final = _path("toolId", {"type": "string", "pattern": TOOL_ID_PATTERN}, "id of a tool of the card")
DESCRIPTOR_HASH: Final = _path("descriptorHash", _HASH, "keccak256 of the card's canonical JSON")
CHANNEL_ID: Final = _path("channelId", _HASH, "the session")
# A place begins with no group of zeros, and a partial tile has fewer than 256 hashes.
_TILE_PATTERN: Final = (
    r"^(entries|[0-7])/(x(00[1-9]|0[1-9][0-9]|[1-9][0-9]{2})/(x[0-9]{3}/){0,3})?[0-9]{3}"
    r"(\.p/([1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5]))?$"
)
TILE: Final = _path(
    "path",
    {"type": "string", "pattern": _TILE_PATTERN},
    "level and place, such as `0/x001/234` or `entries/000.p/7`",
)
NEWEST_RECEIPT: Final[JsonObject] = {
    "name": RECEIPT_HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": (
        "the session's newest receipt: a node that lost its call refuses, session-suspect; "
        "what is no receipt of the session is passed over"
    ),
}
FROM: Final[JsonObject] = {
    "name": "from",
    "in": "query",
    "required": False,
    "schema": {"type": "integer", "minimum": 0, "maximum": 99_999_999, "default": 0},
    "description": "index of the first call",
}

ARGUMENTS: Final[JsonObject] = {
    "required": False,
    "description": "The tool's arguments, by its inputSchema in the card; an empty body stands for {}.",
    "content": {"application/json": {"schema": {"type": "object"}}},
}
_SUBMISSION: Final = _object(
    {
        "seat": _NAME,
        "submissionId": _NAME,
        "cursor": _COUNT,
        "clientTime": _COUNT,
        "prevHead": _BASE64_32,
        "sig": _BASE64_64,
    }
)
CARD: Final[JsonObject] = {
    "type": "object",
    "required": ["contracts", "name", "operator", "receiptSigner", "token", "tools"],
    "properties": {
        "name": _TEXT,
        "operator": _ADDRESS,
        "receiptSigner": _ADDRESS,
        "tools": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["id", "inputSchema", "price", "timeoutSeconds"],
                "properties": {
                    "id": {"type": "string", "pattern": TOOL_ID_PATTERN},
                    "inputSchema": {"type": "object"},
                    "price": _AMOUNT,
                    "timeoutSeconds": {"type": "integer", "minimum": 1, "maximum": 300},
                },
            },
        },
    },
}
SERVICE: Final = _object(
    {
        "card": {"$ref": "#/components/schemas/Card"},
        "chainId": _COUNT,
        "serviceId": _AMOUNT,
        "serviceRegistry": _ADDRESS,
    }
)
STATEMENT: Final = _object({"callCount": _COUNT, "root": _HASH, "spent": _AMOUNT, "signature": _HEX})
_EQUIVOCATION: Final = _object(
    {
        "index": _COUNT,
        "seat": _NAME,
        "submissionId": _NAME,
        "cursor": _COUNT,
        "clientTime": _COUNT,
        "prevHead": _BASE64_32,
        "sig": _BASE64_64,
        "toolId": _TEXT,
        "request": _TEXT,
        "seenAtMs": _COUNT,
    }
)
SESSION: Final = _object(
    {
        "channelId": _HASH,
        "sessionId": _AMOUNT,
        "phase": {"enum": [phase.value for phase in Phase]},
        "callCount": _COUNT,
        "recorded": _COUNT,
        "accepted": _AMOUNT,
        "spent": _AMOUNT,
        "reserved": _AMOUNT,
        "deposit": _AMOUNT,
        "closePending": {"type": "boolean"},
        "sealReason": {"type": ["string", "null"]},
    },
    heads={"type": "object", "additionalProperties": _BASE64_32},
    equivocations={"type": "array", "items": _EQUIVOCATION},
)
_CALL: Final = _object(
    {
        "index": _COUNT,
        "toolId": _TEXT,
        "request": _TEXT,
        "response": _TEXT,
        "status": {"type": "integer", "minimum": 200, "maximum": 599},
        "receipt": _TOKEN,
    },
    submission=_SUBMISSION,
)
CALLS: Final = _object(
    {
        "calls": {"type": "array", "items": _CALL},
        "next": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_SAFE_INTEGER},
    }
)
CLOSE_REQUEST: Final[JsonObject] = {
    "required": True,
    "description": "A CloseRequest signed by the session's client.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["callCount", "signature"],
                "properties": {"callCount": _COUNT, "signature": _HEX},
            }
        }
    },
}
CLOSED: Final = _object(
    {
        "channelId": _HASH,
        "phase": {"enum": [phase.value for phase in Phase]},
        "statement": {"anyOf": [STATEMENT, {"type": "null"}]},
        "transaction": {"anyOf": [_HASH, {"type": "null"}]},
    }
)
LOG_PROOF: Final = _object(
    {
        "checkpoint": _TEXT,
        "proof": _object(
            {"entry": {"type": "object"}, "hashes": {"type": "array", "items": _HASH}, "index": _COUNT}
        ),
    }
)
HEALTH: Final = _object({"status": {"const": "ok"}})
READINESS: Final = _object(
    {"ready": {"type": "boolean"}, "missing": {"type": "array", "items": _TEXT, "uniqueItems": True}}
)

COMPONENTS: Final[JsonObject] = {
    "Card": CARD,
    "Refusal": {
        "description": "Nothing was recorded and nothing is owed. Facts may stand beside these members.",
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {"title": _TEXT, "detail": _TEXT, "hint": _TEXT},
    },
}
SECURITY: Final[JsonObject] = {
    "Payment": {
        "type": "http",
        "scheme": "Payment",
        "description": "A credential of the session intent on EVM chains: open, topUp or voucher.",
    },
    "AioumRead": {
        "type": "http",
        "scheme": "AioumRead",
        "description": "A ReadAccess signed by the session's client.",
    },
}
HEADERS: Final[dict[str, JsonObject]] = {
    RECEIPT_HEADER: {
        "description": "The receipt of a recorded call. An answer without it is not the call's.",
        "schema": _TOKEN,
    },
    PAYMENT_RECEIPT_HEADER: {"description": "The scheme's receipt.", "schema": _TOKEN},
    "WWW-Authenticate": {"description": "A challenge.", "schema": {"type": "string", "minLength": 7}},
    "Retry-After": {
        "description": "Seconds.",
        "schema": {"type": "string", "pattern": "^[1-9][0-9]*$"},
    },
}
HEADERS_OF_REFUSALS: Final[dict[str, dict[int, bool]]] = {
    "WWW-Authenticate": {401: True, 402: True},
    "Retry-After": {402: False, 408: False, 413: True, 429: True, 431: True, 503: True},
}
"""Header → the statuses that it comes with, and whether with each refusal of that status."""
