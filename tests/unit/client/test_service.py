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
