"""A Python function as a tool."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import structlog
from pydantic import ValidationError, validate_call
from pydantic_core import to_jsonable_python

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import CanonicalError
from aioum.core.ledger import Answer
from aioum.core.wire import JsonObject
from aioum_node.failures import answer_of, failed
from aioum_node.upstream.threads import FunctionThreads

_log = structlog.get_logger(__name__)

TEXT: str = "text/plain; charset=utf-8"
JSON: str = "application/json"


class ToolError(Exception):
    """Raised by a tool to say why it failed: its text (up to 200 characters) is the failed call's title."""


class FunctionUpstream:
    """Runs a function with arguments converted to its type hints.

    A coroutine function is awaited on the loop; any other runs in a thread. A thread cannot be stopped: after
    a timeout the call is recorded as failed while the function runs on, unheard.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        tool_id: str,
        threads: FunctionThreads,
        max_response_bytes: int,
    ) -> None:
        """Args: threads: where plain functions run."""
        self._call = validate_call(function)
        self._is_async = inspect.iscoroutinefunction(function)
        self._tool_id = tool_id
        self._threads = threads
        self._max_response_bytes = max_response_bytes

    async def run(self, arguments: JsonObject, request: bytes, timeout_seconds: float) -> Answer:
        """Call the function: text and bytes are the response as they are, all else becomes canonical JSON.

        It gets the arguments of `request`, which is what the transcript shows: `1.0` there is 1, and keys are
        in order. With the client's own spelling it could answer what no re-execution gives again.
        """
        recorded: Any = parse_json(request, max_bytes=len(request))
        named = recorded["arguments"]
        deadline = asyncio.timeout(timeout_seconds)
        try:
            async with deadline:
                if self._is_async:
                    result = await self._call(**named)
                else:
                    result = await self._threads.run(lambda: self._call(**named))
        except ToolError as error:
            return failed("tool-failed", str(error))
        except ValidationError as error:
            _log.warning("tool-refused-arguments", tool=self._tool_id, errors=error.error_count())
            return failed("arguments-invalid")
        except (Exception, SystemExit) as error:
            # SystemExit too: a function that ends a program of its own must not end the node.
            if isinstance(error, TimeoutError) and deadline.expired():
                return failed("tool-timeout")
            _log.warning("tool-raised", tool=self._tool_id, exc_info=True)
            return failed("tool-failed")
        return self._answer(result)

    def _answer(self, result: Any) -> Answer:
        if type(result) is bytes:
            return answer_of(result, TEXT, max_bytes=self._max_response_bytes)
        try:
            if type(result) is str:
                return answer_of(result.encode(), TEXT, max_bytes=self._max_response_bytes)
            response = canonical_bytes(to_jsonable_python(result))
        except UnicodeEncodeError:
            return failed("response-not-text")
        except (CanonicalError, ValueError) as error:
            _log.warning("tool-result-not-json", tool=self._tool_id, error=str(error))
            return failed("tool-failed")
        return answer_of(response, JSON, max_bytes=self._max_response_bytes)

    async def close(self) -> None:
        """Nothing to release; the threads belong to who made them."""
