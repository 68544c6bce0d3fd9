"""Functions whose calls are events of whatever run is current when they are called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast

from aioum.core.errors import InvalidInput
from aioum.run.content import Content
from aioum.run.current import current_run
from aioum.run.event import Kind

P = ParamSpec("P")
R = TypeVar("R")


def recorded(
    kind: Kind | str,
    name: str | None = None,
    *,
    input: Callable[..., Content] | None = None,
    output: Callable[[Any], Content] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Record each call of a function or coroutine function as a span; outside of a run, only call it.

    Args:
        kind: of the events.
        name: of the events; None: the function's own.
        input: makes the content out of the call's arguments; None: an object of the arguments by name, which
            have to be JSON values, without `self`.
        output: makes the content out of what is returned; None: what is returned, text, bytes or JSON.

    Raises:
        InvalidInput: `run-decorator-unsupported`, the function is a generator. From a call: as
            `Run.record`, and `content-unsupported` also after the function has run.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidInput(
                f"{function.__qualname__} is a generator, of which no call has one output",
                code="run-decorator-unsupported",
                hint="open a span where it is used",
            )
        signature = inspect.signature(function)
        called = name or function.__name__
        told: Callable[[Any], Content] = output or _as_it_is

        def content(*args: P.args, **kwargs: P.kwargs) -> Content:
            if input is not None:
                return input(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            named = {key: value for key, value in bound.arguments.items() if key != "self"}
            # Python gives the rest of the positional arguments as a tuple, which JSON has as a list.
            return {key: list(value) if type(value) is tuple else value for key, value in named.items()}

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def recorded_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                coroutine = cast("Callable[P, Awaitable[Any]]", function)
                run = current_run()
                if run is None:
                    return await coroutine(*args, **kwargs)
                async with run.span(kind, called, input=content(*args, **kwargs)) as span:
                    result = await coroutine(*args, **kwargs)
                    span.output(told(result))
                return result

            return cast("Callable[P, R]", recorded_coroutine)

        @functools.wraps(function)
        def recorded_function(*args: P.args, **kwargs: P.kwargs) -> R:
            run = current_run()
            if run is None:
                return function(*args, **kwargs)
            with run.span(kind, called, input=content(*args, **kwargs)) as span:
                result = function(*args, **kwargs)
                span.output(told(result))
            return result

        return recorded_function

    return decorate


def _as_it_is(result: Content) -> Content:
    return result
