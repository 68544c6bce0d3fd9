"""A WebAssembly module as a tool: run exactly as a verifier runs it again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from typing import Final

import structlog

from aioum.core.errors import AioumError
from aioum.core.ledger import Answer
from aioum.core.wire import JsonObject
from aioum.kits.wasm import ModuleStopped, WasmLimits, run_module_async
from aioum_node.failures import answer_of, failed

_log = structlog.get_logger(__name__)

FUEL: Final = 900_000_000
"""Less than a verifier's 10^9: should another engine count a little more, it still comes to the answer."""


class WasmUpstream:
    """Runs a module in a process of its own: canonical request on stdin, the whole of stdout is the response.

    It has no files, no network, no time and no randomness, so equal requests give equal responses.
    """

    def __init__(
        self,
        module: bytes,
        *,
        tool_id: str,
        entry: str,
        content_type: str,
        processes: asyncio.Semaphore,
        max_response_bytes: int,
    ) -> None:
        """Args: processes: how many modules may run at once, shared by all tools."""
        self.module_digest = sha256(module).hexdigest()
        self._module = module
        self._tool_id = tool_id
        self._entry = entry
        self._content_type = content_type
        self._processes = processes
        self._max_response_bytes = max_response_bytes

    async def run(self, arguments: JsonObject, request: bytes, timeout_seconds: float) -> Answer:
        """Run the module once."""
        try:
            async with asyncio.timeout(timeout_seconds), self._processes:
                limits = replace(WasmLimits(), fuel=FUEL, wall_seconds=timeout_seconds)
                result = await run_module_async(self._module, request, limits, entry=self._entry)
        except TimeoutError:
            return failed("tool-timeout")
        except ModuleStopped as error:
            _log.warning("module-stopped", tool=self._tool_id, code=error.code, reason=str(error))
            if error.code == "wasm-timeout":
                return failed("tool-timeout")
            return failed("response-too-large" if error.code == "wasm-output-exceeded" else "tool-failed")
        except (AioumError, OSError) as error:
            _log.error("module-not-started", tool=self._tool_id, error=str(error))
            return failed("upstream-unreachable")
        if result.exit_code != 0:
            _log.warning(
                "module-failed", tool=self._tool_id, exit_code=result.exit_code, stderr=result.stderr
            )
            return failed("tool-failed")
        return answer_of(result.stdout, self._content_type, max_bytes=self._max_response_bytes)

    async def close(self) -> None:
        """Nothing to release: no process outlives its call."""
