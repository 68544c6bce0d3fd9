"""Events with a beginning and an end, inside of which others happen."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from aioum.core.errors import InvalidInput
from aioum.run.content import Content, error_content
from aioum.run.current import Place, at_place
from aioum.run.event import Kind, PaidCall

if TYPE_CHECKING:
    from aioum.run.recorder import Run


class Span:
    """One event, from its beginning to its end. For `with`, or for `async with`, which waits for the disk
    off the event loop. What ends with an error has that as its output.
    """

    def __init__(
        self,
        run: Run,
        kind: Kind | str,
        name: str,
        input: Content,
        parent: Span | int | None,
    ) -> None:
        """Made by `Run.span`."""
        self._run = run
        self._what = (kind, name, input, parent)
        self._index: int | None = None
        self._output: Content = b""
        self._call: PaidCall | None = None
        self._place = ExitStack()

    @property
    def index(self) -> int:
        """Of the event. Raises InvalidInput `run-span-not-open` before the span is entered."""
        if self._index is None:
            raise InvalidInput("the span has not begun", code="run-span-not-open")
        return self._index

    def output(self, content: Content) -> None:
        """Say what came out; the last word counts. Without one it is empty."""
        self._output = content

    def link(self, call: PaidCall) -> None:
        """Say which paid call this tool call was."""
        self._call = call

    def __enter__(self) -> Self:
        """Begin. Errors as `Run.record`."""
        self._run.wait_durable(self._begin())
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """End. Raises RunJournalError, InvalidInput, RecordingRefused: the span stays open."""
        self._run.wait_durable(self._end(error))

    async def __aenter__(self) -> Self:
        """Begin. Errors as `Run.record`."""
        position = self._begin()
        if self._run.waits_for_disk:
            await asyncio.to_thread(self._run.wait_durable, position)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """End. Raises RunJournalError, InvalidInput, RecordingRefused: the span stays open."""
        position = self._end(error)
        if self._run.waits_for_disk:
            await asyncio.to_thread(self._run.wait_durable, position)

    def _begin(self) -> int:
        if self._index is not None:
            raise InvalidInput("a span begins once", code="run-span-not-open")
        self._index, position = self._run.begin(*self._what)
        self._what = (self._what[0], self._what[1], b"", None)
        self._place.enter_context(at_place(Place(self._run, self._index)))
        return position

    def _end(self, error: BaseException | None) -> int:
        self._place.close()
        if error is None:
            return self._run.end(self.index, self._output, self._call)
        return self._run.end(self.index, error_content(error))
