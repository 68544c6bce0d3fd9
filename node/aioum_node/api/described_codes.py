"""Which reason code each operation of the HTTP edge answers with, and with which status.

The edge's table of codes says the status; this says where. A code of that table which is named nowhere here
is one that `POST /tools/{toolId}` may answer with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioum_node.api.problems import STATUS_OF_CODE

JSON_CODES: Final = (
    "json-bom",
    "json-duplicate-key",
    "json-lone-surrogate",
    "json-not-utf8",
    "json-number-not-finite",
    "json-number-unsafe",
    "json-syntax",
    "json-too-deep",
    "json-trailing-bytes",
)
"""Of the JSON loader, each 400; `json-too-large` has a row in the edge's table."""

SIGNATURE_CODES: Final = (
    "signature-counterfactual",
    "signature-high-s",
    "signature-invalid",
    "signature-malformed",
    "signer-mismatch",
)
"""Of a signature that is not the client's: 402 with a call, 401 on session paths."""

CHAIN_FAMILIES: Final = ("block", "chain", "endpoint", "rpc", "signer")
"""What the codes of a chain endpoint, or of a signer that is elsewhere, begin with; each is 503."""

NO_OPERATION: Final[Mapping[str, int]] = {
    code: STATUS_OF_CODE[code] for code in ("method-not-allowed", "not-found")
}
"""What a method or a path gets that is none of the operations."""

BEFORE_OPERATIONS: Final = (
    ("headers-too-large", 431),
    ("rate-limited", STATUS_OF_CODE["rate-limited"]),
    ("request-timeout", STATUS_OF_CODE["request-timeout"]),
    ("too-many-connections", 429),
    ("too-many-connections", 503),
)
"""What every operation may answer before it begins, for its connection, its headers or the address."""

_READ: Final = ("read-access-missing", "read-access-malformed", "read-access-expired", "read-access-too-long")
_KNOWN_SESSION: Final = ("channel-not-found", "session-elsewhere", "terms-not-ours", "store-busy")
_ELSEWHERE: Final = frozenset(
    {
        *NO_OPERATION,
        *_READ,
        "call-count-mismatch",
        "card-unknown",
        "log-not-kept",
        "log-resource-missing",
        "nothing-recorded",
        "session-not-logged",
        "too-many-reads",
    }
)
"""Rows of the edge's table that no paid call gets."""


def _rows(*codes: str, **others: int) -> dict[str, int]:
    return {code: STATUS_OF_CODE[code] for code in codes} | others


def _session_rows(*codes: str, **others: int) -> dict[str, int]:
    return (
        _rows(*_KNOWN_SESSION, *codes)
        | {"hex-invalid": 400, "internal-error": 500, "chain": 503}
        | dict.fromkeys(SIGNATURE_CODES, 401)
        | {code.replace("_", "-"): status for code, status in others.items()}
    )


CODES: Final[Mapping[str, Mapping[str, int]]] = {
    "callTool": (
        {code: status for code, status in STATUS_OF_CODE.items() if code not in _ELSEWHERE}
        | dict.fromkeys(JSON_CODES, 400)
        | dict.fromkeys(SIGNATURE_CODES, 402)
        | {
            "action-unsupported": 400,
            "arguments-invalid": 400,
            "body-malformed": 400,
            "hex-invalid": 400,
            "request-not-portable": 400,
            "roster-invalid": 400,
            "submission-malformed": 400,
            "internal-error": 500,
            "chain": 503,
        }
    ),
    "describeService": {},
    "readCard": _rows("card-unknown", "store-busy") | {"hex-invalid": 400, "internal-error": 500},
    "readSession": _session_rows(*_READ, "too-many-reads"),
    "readCalls": _session_rows(*_READ, "session-suspect", "too-many-reads", call_index_invalid=400),
    "readStatement": _session_rows(*_READ, "nothing-recorded", "session-suspect", "too-many-reads"),
    "closeSession": _session_rows(
        "call-count-mismatch", "session-suspect", "request-timeout", "request-too-large", "json-too-large"
    )
    | dict.fromkeys(("body-malformed", "close-request-malformed", *JSON_CODES), 400),
    "readCheckpoint": _rows("log-not-kept", "log-resource-missing") | {"internal-error": 500},
    "readTile": (
        _rows("log-not-kept", "log-resource-missing") | {"tile-path-malformed": 400, "internal-error": 500}
    ),
    "readLogProof": _rows("log-not-kept", "session-not-logged") | {"hex-invalid": 400, "internal-error": 500},
    "describeApi": {},
    "checkHealth": {},
    "checkReadiness": {},
}
"""Operation → reason code → status, beside BEFORE_OPERATIONS. `chain` stands for each of CHAIN_FAMILIES.

An operation without rows answers from memory: nothing in it can fail.
"""


def refusals_of(operation_id: str) -> dict[int, list[str]]:
    """Status → the codes that an operation refuses with, sorted."""
    found: dict[int, list[str]] = {}
    for code, status in sorted({*CODES[operation_id].items(), *BEFORE_OPERATIONS}):
        found.setdefault(status, []).append(code)
    return found
