"""What an operator writes: `@tool` on a Python function with type hints.

    @tool(price="0.001", timeout_seconds=5, deterministic=True)
    def wordcount(text: str) -> dict[str, int]:
        \"\"\"Counts words, lines and characters of a text.\"\"\"

The JSON Schema of the arguments comes from the hints, the description from the docstring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar, cast

from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from aioum.core.errors import ConfigError
from aioum_node.upstream.function import ToolError

__all__ = ["ToolError", "ToolOptions", "arguments_schema", "declared_tools", "describe", "options_of", "tool"]

_ATTRIBUTE = "__aioum_tool__"
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What `@tool` declares.

    Attributes:
        price: text in whole tokens (`"0.001"`) or an int of base units; None: the configuration names it.
        tool_id: the id it is called by; None is the function's name.
        deterministic: equal arguments always give equal bytes, so a stranger may judge by re-execution.
    """

    price: str | int | None = None
    tool_id: str | None = None
    timeout_seconds: int = 30
    deterministic: bool = False
    description: str | None = None


def tool(
    *,
    price: str | int | None = None,
    tool_id: str | None = None,
    timeout_seconds: int = 30,
    deterministic: bool = False,
    description: str | None = None,
) -> Callable[[Function], Function]:
    """Declare a function as a tool; the function itself stays as it is. Arguments: see ToolOptions."""
    options = ToolOptions(price, tool_id, timeout_seconds, deterministic, description)

    def declare(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, options)
        return function

    return declare


def options_of(function: Callable[..., Any]) -> ToolOptions | None:
    """What `@tool` declared on this very function, or None."""
    options = getattr(function, _ATTRIBUTE, None)
    return options if isinstance(options, ToolOptions) else None


def declared_tools(module: ModuleType) -> list[Callable[..., Any]]:
    """The functions with `@tool` that a module defines, in their order there."""
    return [
        value
        for value in vars(module).values()
        if inspect.isroutine(value) and options_of(value) and value.__module__ == module.__name__
    ]


def arguments_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of the function's arguments object.

    Raises:
        ConfigError: `tool-signature-unsupported`; parameters must have names and types that JSON can carry.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", function))
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, NameError) as error:
        raise ConfigError(
            f"the arguments of tool {name} have no JSON Schema: {str(error).splitlines()[0]}",
            code="tool-signature-unsupported",
            hint="annotate every parameter with a type that JSON can carry",
        ) from error
    if schema.get("type") != "object":
        raise ConfigError(
            f"the arguments of tool {name} are not an object",
            code="tool-signature-unsupported",
            hint="do not mix positional-only parameters or *args with named ones",
        )
    return schema


def describe(function: Callable[..., Any]) -> str:
    """The first paragraph of the function's docstring, as one line."""
    paragraph = (inspect.getdoc(function) or "").split("\n\n")[0]
    return " ".join(paragraph.split())
