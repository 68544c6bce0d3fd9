"""The order of a run's events: each gets its index when it begins, and is chained when it is over.

Pure: whoever records decides under a lock, and writes down what was decided.
"""

from __future__ import annotations

from dataclasses import dataclass

from aioum.core.errors import AioumError, InvalidInput
from aioum.run.chain import MAX_EVENTS, RunChain
from aioum.run.errors import SealRefused
from aioum.run.event import Event, Header


class RecordingRefused(AioumError):
    """Nothing can be recorded in this run any more, or not like this."""

    default_code = "run-closed"


@dataclass(frozen=True, slots=True)
class OpenSpan:
    """A span without an end.

    Attributes:
        draft: its event, without an output.
        salt: its salt number.
    """

    draft: Event
    salt: int


class RunOrder:
    """Events of one run as they begin and end.

    Attributes:
        chain: of all events before the first that is not over.
        begun: events that have an index.
    """

    __slots__ = ("_open", "_waiting", "begun", "chain")

    def __init__(self, header: Header) -> None:
        """Args: header: of the run. Raises SuiteUnknown `suite-unknown`."""
        self.chain = RunChain(header)
        self.begun = 0
        self._open: dict[int, OpenSpan] = {}
        # Over, but behind a span that is not.
        self._waiting: dict[int, Event] = {}

    @property
    def open(self) -> tuple[int, ...]:
        """Indexes of spans without an end, ascending."""
        return tuple(sorted(self._open))

    def next_index(self, parent: int | None) -> int:
        """The index of the next event, which belongs to `parent`.

        Raises:
            SealRefused: `run-too-long`.
            InvalidInput: `run-parent-unknown`, no event of that index has begun.
        """
        if self.begun >= MAX_EVENTS:
            raise SealRefused(f"a run has at most {MAX_EVENTS} events", code="run-too-long")
        if parent is not None and not 0 <= parent < self.begun:
            raise InvalidInput(f"event {parent} has not begun", code="run-parent-unknown")
        return self.begun

    def add(self, event: Event) -> None:
        """Take an event that is over; its index is the next."""
        self.begun += 1
        self._chain(event)

    def begin(self, draft: Event, salt: int) -> None:
        """Take a span that begins; its index is the next."""
        self.begun += 1
        self._open[draft.index] = OpenSpan(draft, salt)

    def span(self, index: int) -> OpenSpan:
        """An open span. Raises RecordingRefused `run-span-not-open`."""
        if index not in self._open:
            raise RecordingRefused(f"event {index} is no open span", code="run-span-not-open")
        return self._open[index]

    def end(self, event: Event) -> None:
        """Take the event of an open span, now with its output."""
        del self._open[event.index]
        self._chain(event)

    def _chain(self, event: Event) -> None:
        if event.index != len(self.chain.events):
            self._waiting[event.index] = event
            return
        self.chain.append(event)
        while self._waiting and (following := self._waiting.pop(len(self.chain.events), None)) is not None:
            self.chain.append(following)
