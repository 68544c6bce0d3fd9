"""The HTTP edge as an OpenAPI 3.1 document, built from the tables that the edge itself answers by.

It is the same for every node: tools, prices and limits are the card's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aioum import __version__
from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.problem import PROBLEM_BASE, PROBLEM_CONTENT_TYPE
from aioum.core.wire import PAYMENT_RECEIPT_HEADER, RECEIPT_HEADER, JsonObject
from aioum_node.api import described_schemas as schemas
from aioum_node.api.described_codes import CHAIN_FAMILIES, NO_OPERATION, refusals_of
from aioum_node.failures import FAILURES

OPENAPI_PATH: Final = "/openapi.json"
_JSON: Final = "application/json"
_ANY: Final = "*/*"
_TITLES: Final = {
    200: "The answer",
    202: "Sealed; ask again until the chain finalized the session",
    400: "The request is malformed",
    401: "The session's client has not signed this",
    402: "To be paid, with a fresh challenge",
    403: "Paid, but not taken by this node",
    404: "There is no such thing",
    408: "The request did not arrive in time",
    409: "It contradicts what the node has",
    410: "The session takes no calls any more, or is not here",
    413: "Too large",
    429: "Too many at once; try again later",
    431: "The headers are too large",
    500: "The tool or the node failed",
    502: "What is behind the tool gave no usable answer",
    503: "Not now; try again later",
    504: "The tool took longer than the card allows",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        answers: status → schema of the JSON body, where it is no problem document.
        failures: there are recorded failures, with statuses of their own or of refusals.
        security: names of the schemes, one of which is needed; an empty one needs none.
        always: header names that an answer with that status always has.
    """

    id: str
    method: str
    path: str
    summary: str
    answers: dict[int, JsonObject]
    failures: bool = False
    security: Sequence[str] = ()
    parameters: Sequence[JsonObject] = ()
    body: JsonObject | None = None
    content_type: str = _JSON
    always: dict[int, Sequence[str]] = field(default_factory=dict)


OPERATIONS: Final = (
    Operation(
        "callTool",
        "POST",
        "/tools/{toolId}",
        "A paid call; without a credential the price",
        {200: {}},
        failures=True,
        security=("", "Payment"),
        parameters=(schemas.TOOL_ID, schemas.NEWEST_RECEIPT),
        body=schemas.ARGUMENTS,
        content_type=_ANY,
        always={200: (RECEIPT_HEADER, PAYMENT_RECEIPT_HEADER)},
    ),
    Operation(
        "describeService",
        "GET",
        "/.well-known/aioum.json",
        "The service and the card that it offers now",
        {200: schemas.SERVICE},
    ),
    Operation(
        "readCard",
        "GET",
        "/cards/{descriptorHash}",
        "A card's canonical bytes; every card that a session was opened under stays",
        {200: schemas.CARD},
        parameters=(schemas.DESCRIPTOR_HASH,),
    ),
    Operation(
        "readSession",
        "GET",
        "/sessions/{channelId}",
        "The session's accounting",
        {200: schemas.SESSION},
        security=("AioumRead",),
        parameters=(schemas.CHANNEL_ID,),
    ),
    Operation(
        "readCalls",
        "GET",
        "/sessions/{channelId}/calls",
        "The recorded transcript, by pages",
        {200: schemas.CALLS},
        security=("AioumRead",),
        parameters=(schemas.CHANNEL_ID, schemas.FROM),
    ),
    Operation(
        "readStatement",
        "GET",
        "/sessions/{channelId}/statement",
        "A signed statement over all recorded calls",
        {200: schemas.STATEMENT},
        security=("AioumRead",),
        parameters=(schemas.CHANNEL_ID,),
    ),
    Operation(
        "closeSession",
        "POST",
        "/sessions/{channelId}/close",
        "Cooperative close, at the call count that both sides know",
        {200: schemas.CLOSED, 202: schemas.CLOSED},
        parameters=(schemas.CHANNEL_ID,),
        body=schemas.CLOSE_REQUEST,
    ),
    Operation(
        "readCheckpoint",
        "GET",
        "/log/checkpoint",
        "The transparency log's newest checkpoint, a signed note",
        {200: {"type": "string"}},
        content_type="text/plain",
    ),
    Operation(
        "readTile",
        "GET",
        "/log/tile/{path}",
        "Hashes or entries of the transparency log (C2SP tlog-tiles); they never change",
        {200: {}},
        parameters=(schemas.TILE,),
        content_type="application/octet-stream",
    ),
    Operation(
        "readLogProof",
        "GET",
        "/log/proof/{channelId}",
        "That a session is in the transparency log, as an evidence package carries it",
        {200: schemas.LOG_PROOF},
        parameters=(schemas.CHANNEL_ID,),
    ),
    Operation("describeApi", "GET", OPENAPI_PATH, "This document", {200: {"type": "object"}}),
    Operation("checkHealth", "GET", "/healthz", "Answers while the process does", {200: schemas.HEALTH}),
    Operation(
        "checkReadiness",
        "GET",
        "/readyz",
        "Whether paid calls are taken, and what is missing for it",
        {200: schemas.READINESS, 503: schemas.READINESS},
    ),
)


def openapi_document() -> JsonObject:
    """The document."""
    paths: JsonObject = {}
    for operation in OPERATIONS:
        item = paths.setdefault(operation.path, {})
        if isinstance(item, dict):
            item[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "aioum node",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Paid tool calls. Other paths and methods get the problems under x-no-operation.",
            "x-no-operation": [
                {"type": PROBLEM_BASE + code, "status": status} for code, status in NO_OPERATION.items()
            ],
        },
        "paths": paths,
        "components": {"securitySchemes": schemas.SECURITY, "schemas": schemas.COMPONENTS},
    }


def openapi_bytes() -> bytes:
    """The document as the node serves it."""
    return canonical_bytes(openapi_document())


def _operation(operation: Operation) -> JsonObject:
    refusals = refusals_of(operation.id)
    failures: dict[int, list[str]] = {}
    if operation.failures:
        for code, (status, _) in FAILURES.items():
            failures.setdefault(status, []).append(code)
    described: JsonObject = {
        "operationId": operation.id,
        "summary": operation.summary,
        "security": [{name: []} if name else {} for name in operation.security],
        "responses": {
            str(status): _response(operation, status, refusals.get(status, ()), failures.get(status, ()))
            for status in sorted({*operation.answers, *refusals, *failures})
        },
    }
    if operation.parameters:
        described["parameters"] = list(operation.parameters)
    if operation.body is not None:
        described["requestBody"] = operation.body
    return described


def _response(
    operation: Operation, status: int, refusals: Sequence[str], failures: Sequence[str]
) -> JsonObject:
    headers: JsonObject = {
        name: schemas.HEADERS[name] | {"required": True} for name in operation.always.get(status, ())
    }
    content: JsonObject = {}
    response: JsonObject = {"description": _TITLES[status], "content": content, "headers": headers}
    answer = operation.answers.get(status)
    if answer is not None:
        content[operation.content_type] = {"schema": answer}
    forms: list[JsonValue] = []
    if refusals:
        forms.append(_refusal(status, refusals))
        response["x-reason-codes"] = list(refusals)
        others = answer is not None or failures
        for name, on in schemas.HEADERS_OF_REFUSALS.items():
            if status in on:
                headers[name] = schemas.HEADERS[name] | {"required": on[status] and not others}
    if failures:
        forms.append(_failure(status, failures))
        response["x-recorded-failures"] = list(failures)
        headers[RECEIPT_HEADER] = schemas.HEADERS[RECEIPT_HEADER]
    if forms:
        content[PROBLEM_CONTENT_TYPE] = {"schema": forms[0] if len(forms) == 1 else {"oneOf": forms}}
    return response


def _refusal(status: int, codes: Sequence[str]) -> JsonObject:
    named: JsonObject = {"enum": [PROBLEM_BASE + code for code in codes if code != "chain"]}
    if "chain" in codes:
        families = "|".join(CHAIN_FAMILIES)
        pattern = f"^{PROBLEM_BASE.replace('.', '[.]')}({families})-[a-z0-9-]+$"
        named = {"anyOf": [named, {"type": "string", "pattern": pattern}]}
    return {
        "allOf": [{"$ref": "#/components/schemas/Refusal"}],
        "properties": {"type": named, "status": {"const": status}},
    }


def _failure(status: int, codes: Sequence[str]) -> JsonObject:
    return {
        "type": "object",
        "required": ["status", "title", "type"],
        "additionalProperties": False,
        "properties": {
            "status": {"const": status},
            "title": {"type": "string"},
            "type": {"enum": [PROBLEM_BASE + code for code in codes]},
        },
    }
