"""Holds answers against the OpenAPI document: what schemathesis does with its own, for those of a script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

Document = Mapping[str, Any]


def statuses_of(document: Document) -> set[tuple[str, str, int]]:
    """Method, path and status of every documented answer."""
    return {
        (method.upper(), path, int(status))
        for path, item in document["paths"].items()
        for method, operation in item.items()
        for status in operation["responses"]
    }


def path_of(document: Document, concrete: str) -> str:
    """The documented path that a request's path is one of."""
    for path in document["paths"]:
        # The path of a tile is the one parameter that has slashes.
        pattern = re.escape(path).replace(r"\{path\}", ".+")
        if re.fullmatch(re.sub(r"\\\{[^}]*\\\}", "[^/]+", pattern), concrete):
            return str(path)
    raise AssertionError(f"no documented path: {concrete}")


def faults(
    document: Document, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes
) -> Iterator[str]:
    """What of an answer the document does not say."""
    where = f"{method} {path} {status}"
    response = document["paths"][path][method.lower()]["responses"].get(str(status))
    if response is None:
        yield f"{where}: no such status"
        return
    present = {name.lower(): value for name, value in headers.items()}
    for name, header in response["headers"].items():
        value = present.get(name.lower())
        if value is None:
            if header.get("required"):
                yield f"{where}: lacks {name}"
        elif not jsonschema_rs.is_valid(header["schema"], value):
            yield f"{where}: {name}: {value}"
    if "*/*" in response["content"]:
        return
    content_type = present["content-type"].partition(";")[0]
    content = response["content"].get(content_type)
    if content is None:
        yield f"{where}: is {content_type}"
        return
    if not content_type.endswith("json"):
        return
    schema = content["schema"] | {"components": document["components"]}
    for error in jsonschema_rs.validator_for(schema).iter_errors(json.loads(body)):
        yield f"{where}: {error.message}: {body!r:.200}"
