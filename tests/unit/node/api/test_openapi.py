"""The OpenAPI document says what the edge does: its routes, its codes, their statuses, and nothing else."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from aioum_node.api.described_codes import (
    BEFORE_OPERATIONS,
    CHAIN_FAMILIES,
    CODES,
    JSON_CODES,
    NO_OPERATION,
    SIGNATURE_CODES,
)
from aioum_node.api.openapi import OPENAPI_PATH, OPERATIONS, openapi_document
from aioum_node.api.problems import STATUS_OF_CODE
from aioum_node.failures import FAILURES
from tests.unit.node.api.shop import running_shop
from tests.unit.node.api.wares import FUNCTIONS

# What refuses a request, by itself or through what it calls.
ANSWERING = (
    "node/aioum_node/access.py",
    "node/aioum_node/api/*.py",
    "node/aioum_node/calls.py",
    "node/aioum_node/cards.py",
    "node/aioum_node/edge.py",
    "node/aioum_node/limits/*.py",
    "node/aioum_node/log/index.py",
    "node/aioum_node/log/reader.py",
    "node/aioum_node/openings.py",
    "node/aioum_node/planning.py",
    "node/aioum_node/restored/shown_receipts.py",
    "node/aioum_node/rosters.py",
    "node/aioum_node/sessions.py",
    "node/aioum_node/turns.py",
    "aioum/core/amounts.py",
    "aioum/core/canonical.py",
    "aioum/core/funding.py",
    "aioum/core/hextext.py",
    "aioum/core/ledger.py",
    "aioum/core/payment.py",
    "aioum/core/seats.py",
    "aioum/core/signing.py",
    "aioum/core/submission/envelope.py",
    "aioum/core/submission/keys.py",
    "aioum/core/submission/roster.py",
    "aioum/core/wire.py",
    "aioum/log/paths.py",
)
NEVER_SENT = {
    "address-invalid": "no request has an address",
    "admin-token-invalid": "of the admin port",
    "admin-token-required": "of the admin port",
    "admin-token-too-short": "of the admin port",
    "amount-invalid": "a credential with such an amount is credential-malformed",
    "call-not-recorded": "only recorded calls are answered with",
    "card-damaged": "goes to the node's log; a client gets internal-error",
    "integer-out-of-range": "a read access or close request with such a number is malformed",
    "json-type-unsupported": "of values that no JSON text gives",
    "key-invalid": "of keys that the node has itself",
    "log-unreadable": "goes to the node's log; a client gets internal-error",
    "receipt-malformed": "read by clients; a node leaves one that it cannot read aside",
    "session-not-drained": "asked by the settle loop",
    "session-not-sealed": "asked by the settle loop",
    "statement-malformed": "read by clients",
    "tool-schema-invalid": "of cards that the node wrote itself",
}


def raised(path: Path) -> Iterator[str]:
    """The reason codes in a module: keywords named `code`, and constants named `_CODE` or `code`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        value = None
        if isinstance(node, ast.keyword) and node.arg == "code":
            value = node.value
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(
                isinstance(target, ast.Name) and target.id.lower() in ("code", "_code") for target in targets
            ):
                value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def described() -> dict[str, set[int]]:
    """Reason code → statuses, as the document has them."""
    found: dict[str, set[int]] = {}
    document: Any = openapi_document()
    for item in document["paths"].values():
        for operation in item.values():
            for status, response in operation["responses"].items():
                for member in ("x-reason-codes", "x-recorded-failures"):
                    for code in response.get(member, ()):
                        found.setdefault(code, set()).add(int(status))
    for code, status in NO_OPERATION.items():
        found.setdefault(code, set()).add(status)
    return found


def rendered(operation: Any, member: str) -> set[tuple[str, int]]:
    """The codes of an operation in the document, each with its status, whose types the schema admits."""
    found = set()
    for status, response in operation["responses"].items():
        codes = response.get(member, ())
        schema = response["content"]["application/problem+json"]["schema"] if codes else {}
        for code in codes:
            assert f'"https://aioum.org/problems/{code}"' in json.dumps(schema) or code == "chain"
            found.add((code, int(status)))
    return found


async def test_every_route_is_described_and_every_described_operation_is_a_route(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS) as shop:
        routes = {
            (route.method, re.sub(r"\{[^}]*\}", "{}", route.resource.canonical))
            for route in shop.edge.public.router.routes()
            if route.method != "HEAD" and route.resource is not None
        }
        served = await shop.get(OPENAPI_PATH)

    operations = {(item.method, re.sub(r"\{[^}]*\}", "{}", item.path)) for item in OPERATIONS}
    assert routes == operations
    assert (served.status, served.json) == (200, openapi_document())


def test_every_code_of_the_edges_tables_is_described_with_its_status() -> None:
    found = described()
    expected = {code: {status} for code, status in STATUS_OF_CODE.items()}
    for code, (status, _) in FAILURES.items():
        expected.setdefault(code, set()).add(status)
    for code, status in BEFORE_OPERATIONS:
        expected.setdefault(code, set()).add(status)
    # A stranger's signature is a payment problem with a call, and no authorization elsewhere.
    expected |= {code: {401, 402} for code in SIGNATURE_CODES}
    expected |= {code: {400} for code in JSON_CODES}
    expected["chain"] = {503}

    assert {code: found.get(code) for code in expected} == expected


def test_every_row_of_the_tables_is_in_the_document() -> None:
    document: Any = openapi_document()
    for item in OPERATIONS:
        operation = document["paths"][item.path][item.method.lower()]
        failures = {(code, status) for code, (status, _) in FAILURES.items()} if item.failures else set()

        assert rendered(operation, "x-reason-codes") == {*CODES[item.id].items(), *BEFORE_OPERATIONS}
        assert rendered(operation, "x-recorded-failures") == failures
    assert {
        (row["type"].rpartition("/")[2], row["status"]) for row in document["info"]["x-no-operation"]
    } == (set(NO_OPERATION.items()))


def test_every_code_that_the_edge_raises_is_described(repository: Path) -> None:
    found = described()
    sources = {path for name in ANSWERING for path in repository.glob(name)}
    codes = {code for path in sources for code in raised(path)}

    assert codes - found.keys() == NEVER_SENT.keys()


def test_every_described_code_is_on_the_page_of_the_interface(repository: Path) -> None:
    page = (repository / "docs" / "http-api.md").read_text(encoding="utf-8")
    # These two families are named as such.
    single = described().keys() - {*JSON_CODES, "chain"}

    assert [code for code in sorted(single) if f"`{code}`" not in page] == []


def test_every_described_code_is_raised_somewhere(repository: Path) -> None:
    sources = [path for folder in ("aioum", "node") for path in sorted((repository / folder).rglob("*.py"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources if "described_" not in path.name)

    assert [code for code in described() if code != "chain" and text.count(f'"{code}"') < 1] == []


@pytest.mark.parametrize("package", ["aioum/chain"])
def test_codes_of_the_chain_begin_with_a_described_family(repository: Path, package: str) -> None:
    endpoint_modules = ("rpc.py", "pool.py", "endpoints.py")
    codes = {code for name in endpoint_modules for code in raised(repository / package / name)}

    assert codes
    assert {code for code in codes if code.partition("-")[0] not in CHAIN_FAMILIES} == set()


def test_every_operation_has_codes_of_its_own_and_a_schema_for_every_answer() -> None:
    assert set(CODES) == {item.id for item in OPERATIONS}
    document: Any = openapi_document()
    for item in document["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                for content in response["content"].values():
                    schema = content["schema"] | {"components": document["components"]}
                    jsonschema_rs.Draft202012Validator(schema)
    assert json.loads(json.dumps(document)) == document
