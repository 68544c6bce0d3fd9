"""Light checks of arguments before anything is paid."""

from typing import Any

import pytest

from aioum.client.service import check_arguments
from aioum.core.card import Tool
from aioum.core.errors import InvalidInput


def make_tool(schema: dict[str, Any]) -> Tool:
    return Tool.model_validate({"id": "echo", "price": "1", "inputSchema": schema})


def test_arguments_that_do_not_fit_the_schema_are_named() -> None:
    tool = make_tool({"type": "object", "properties": {"list": {"items": {"type": "integer"}}}})
    check_arguments(tool, {"list": [1, 2]})
    with pytest.raises(InvalidInput) as caught:
        check_arguments(tool, {"list": [1, "2"]})
    assert caught.value.code == "arguments-invalid"
    assert "list/1" in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:1/schema.json"},
        {"properties": {"text": {"pattern": "^(?=a)(?!b)"}}},
        {"type": "nonsense"},
    ],
)
def test_a_schema_that_cannot_be_judged_here_is_left_to_the_node(schema: dict[str, Any]) -> None:
    check_arguments(make_tool(schema), {"text": "x"})


def test_a_schema_that_doubles_the_work_again_and_again_does_not_hold_the_client() -> None:
    both = {f"d{step}": {"anyOf": [{"$ref": f"#/$defs/d{step + 1}"}] * 2} for step in range(60)}
    schema = {"$defs": {**both, "d60": {"type": "string"}}, "$ref": "#/$defs/d0"}

    check_arguments(make_tool(schema), {"text": "x"})


def test_a_schema_with_a_few_references_is_judged() -> None:
    schema = {"$defs": {"text": {"type": "string"}}, "properties": {"text": {"$ref": "#/$defs/text"}}}

    with pytest.raises(InvalidInput) as caught:
        check_arguments(make_tool(schema), {"text": 1})
    assert caught.value.code == "arguments-invalid"
