"""The tools a node offers, loaded from its settings and from functions handed in."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aioum.core.errors import ConfigError
from aioum.kits.wasm import DEFAULT_ENTRY, require_wasm
from aioum_node.secret_files import read_secret
from aioum_node.settings import Settings, ToolSettings
from aioum_node.tools import ToolOptions, arguments_schema, declared_tools, describe, options_of
from aioum_node.upstream.command import CommandLimits, CommandUpstream
from aioum_node.upstream.function import FunctionUpstream
from aioum_node.upstream.http import HttpUpstream
from aioum_node.upstream.port import Upstream
from aioum_node.upstream.queues import WatchedSemaphore
from aioum_node.upstream.threads import FunctionThreads
from aioum_node.upstream.wasm import WasmUpstream

ToolFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ServiceTool:
    """A tool as this node runs it.

    Attributes:
        price: text in whole tokens, or base units.
        deterministic: may be judged by re-execution where the service declares how.
        module_digest: hex SHA-256 of the WebAssembly module that the tool is, or None.
    """

    id: str
    description: str
    input_schema: Mapping[str, Any]
    price: str | int
    timeout_seconds: int
    deterministic: bool
    upstream: Upstream
    module_digest: str | None = None


class ToolBox:
    """All tools of a node by id, and what they share. `async with` closes their connections and threads.

    Attributes:
        queues: how many calls wait for what tools share, by the setting that limits it; read at any time.
    """

    def __init__(
        self,
        tools: Mapping[str, ServiceTool],
        threads: FunctionThreads,
        commands: WatchedSemaphore,
        modules: WatchedSemaphore,
    ) -> None:
        self.tools = tools
        self._threads = threads
        upstreams = [tool.upstream for tool in tools.values()]
        web = [upstream for upstream in upstreams if isinstance(upstream, HttpUpstream)]
        self.queues: Mapping[str, Callable[[], int]] = {
            "function_threads": lambda: threads.waiting,
            "command_runs": lambda: commands.waiting,
            "wasm_processes": lambda: modules.waiting,
            "upstream_connections": lambda: sum(upstream.waiting for upstream in web),
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tool in self.tools.values():
            await tool.upstream.close()
        self._threads.close()


def load_tools(settings: Settings, functions: Sequence[ToolFunction] = ()) -> ToolBox:
    """Load every tool that `settings` names, and `functions` declared with `@tool`.

    Raises:
        ConfigError: `tool-not-found`, `tool-signature-unsupported`, `tool-price-missing`, `tool-duplicate`,
            `tool-schema-invalid`, `wasm-module-missing` or `wasm-unavailable`, those of `read_secret` and of
            `require_upstream_url`; `no-tools` where there would be none.
    """
    threads = FunctionThreads(settings.function_threads)
    for folder in reversed(settings.python_path):
        text = str(settings.path(folder).resolve())
        if text not in sys.path:
            sys.path.insert(0, text)
    loaded: dict[str, ServiceTool] = {}
    modules, commands = WatchedSemaphore(settings.wasm_processes), WatchedSemaphore(settings.command_runs)
    named = [(function, ToolSettings(python=function.__module__)) for function in functions]
    for entry in settings.tools:
        if entry.wasm is not None:
            _add(loaded, _wasm_tool(entry, entry.wasm, settings, modules))
        elif entry.python is None:
            _add(loaded, _foreign_tool(entry, settings, commands))
        else:
            named.extend((function, entry) for function in _functions(entry.python))
    for function, entry in named:
        _add(loaded, _function_tool(function, entry, settings, threads))
    if not loaded:
        raise ConfigError("the configuration names no tool", code="no-tools", hint="add a [[tools]] table")
    return ToolBox(loaded, threads, commands, modules)


def _add(tools: dict[str, ServiceTool], tool: ServiceTool) -> None:
    if tool.id in tools:
        raise ConfigError(f"two tools have the id {tool.id!r}", code="tool-duplicate", hint="give one an id")
    tools[tool.id] = tool


def _functions(reference: str) -> list[ToolFunction]:
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"cannot import {module_name}: {error}",
            code="tool-not-found",
            hint="add its folder to python_path",
        ) from error
    if not attribute:
        found = declared_tools(module)
        if not found:
            raise ConfigError(f"{module_name} declares no @tool", code="tool-not-found")
        return found
    function = getattr(module, attribute, None)
    if not callable(function):
        raise ConfigError(f"{module_name} has no function {attribute}", code="tool-not-found")
    return [function]


def _function_tool(
    function: ToolFunction, entry: ToolSettings, settings: Settings, threads: FunctionThreads
) -> ServiceTool:
    options = options_of(function) or ToolOptions()
    tool_id = entry.id or options.tool_id or function.__name__
    price = options.price if entry.price is None else entry.price
    if price is None:
        raise ConfigError(
            f"tool {tool_id} has no price",
            code="tool-price-missing",
            hint='write @tool(price="0.001") or price = "0.001" in its [[tools]] table',
        )
    return ServiceTool(
        id=tool_id,
        description=entry.description or options.description or describe(function),
        input_schema=_schema_of(entry, settings) or arguments_schema(function),
        price=price,
        timeout_seconds=entry.timeout_seconds or options.timeout_seconds,
        deterministic=options.deterministic if entry.deterministic is None else entry.deterministic,
        upstream=FunctionUpstream(
            function, tool_id=tool_id, threads=threads, max_response_bytes=settings.max_response_bytes
        ),
    )


def _foreign_tool(entry: ToolSettings, settings: Settings, commands: WatchedSemaphore) -> ServiceTool:
    tool_id, price = _id_and_price(entry)
    if entry.command:
        upstream = _command(entry, tool_id, settings, commands)
    else:
        upstream = _http(entry, tool_id, settings)
    return ServiceTool(
        id=tool_id,
        description=entry.description or "",
        input_schema=_schema_of(entry, settings) or {"type": "object"},
        price=price,
        timeout_seconds=entry.timeout_seconds or ToolOptions().timeout_seconds,
        deterministic=bool(entry.deterministic),
        upstream=upstream,
    )


def _wasm_tool(
    entry: ToolSettings, file: Path, settings: Settings, processes: WatchedSemaphore
) -> ServiceTool:
    require_wasm()
    tool_id, price = _id_and_price(entry)
    path = settings.path(file)
    try:
        module = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the module {path} cannot be read: {error}", code="wasm-module-missing") from error
    declared = settings.deterministic
    upstream = WasmUpstream(
        module,
        tool_id=tool_id,
        entry=(declared.entry if declared and declared.kind == "wasm" else None) or DEFAULT_ENTRY,
        content_type=entry.content_type,
        processes=processes,
        max_response_bytes=settings.max_response_bytes,
    )
    return ServiceTool(
        id=tool_id,
        description=entry.description or "",
        input_schema=_schema_of(entry, settings) or {"type": "object"},
        price=price,
        timeout_seconds=entry.timeout_seconds or ToolOptions().timeout_seconds,
        # What the sandbox guarantees need not be said.
        deterministic=entry.deterministic is not False,
        upstream=upstream,
        module_digest=upstream.module_digest,
    )


def _id_and_price(entry: ToolSettings) -> tuple[str, str | int]:
    if entry.id is None or entry.price is None:
        raise ConfigError("a command, http or wasm tool needs an id and a price", code="tool-price-missing")
    return entry.id, entry.price


def _command(entry: ToolSettings, tool_id: str, settings: Settings, commands: WatchedSemaphore) -> Upstream:
    passed = {name: os.environ[name] for name in entry.pass_environment if name in os.environ}
    secret = _secrets(entry.environment_from_files, tool_id, settings)
    return CommandUpstream(
        entry.command or (),
        tool_id=tool_id,
        environment={**passed, **entry.environment, **secret},
        directory=settings.path(entry.directory),
        content_type=entry.content_type,
        max_response_bytes=settings.max_response_bytes,
        limits=CommandLimits(
            cpu_seconds=settings.command_cpu_seconds,
            memory_bytes=settings.command_memory_bytes,
            processes=settings.command_processes,
            open_files=settings.command_open_files,
            file_bytes=settings.command_file_bytes,
        ),
        processes=commands,
    )


def _http(entry: ToolSettings, tool_id: str, settings: Settings) -> Upstream:
    secret = _secrets(entry.headers_from_files, tool_id, settings)
    return HttpUpstream(
        entry.http or "",
        tool_id=tool_id,
        headers={**entry.headers, **secret},
        connect_timeout_seconds=settings.upstream_connect_seconds,
        max_connections=settings.upstream_connections,
        max_response_bytes=settings.max_response_bytes,
        trusted_host=entry.trusted_host,
    )


def _secrets(files: Mapping[str, Path], tool_id: str, settings: Settings) -> dict[str, str]:
    return {
        name: read_secret(settings.path(file), f"{name} of tool {tool_id}") for name, file in files.items()
    }


def _schema_of(entry: ToolSettings, settings: Settings) -> dict[str, Any] | None:
    if entry.input_schema_file is None:
        return entry.input_schema
    path: Path = settings.path(entry.input_schema_file)
    try:
        schema = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not readable JSON: {error}", code="tool-schema-invalid") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"{path} is not a JSON Schema object", code="tool-schema-invalid")
    return schema
