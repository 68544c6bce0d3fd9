"""What a run's folder holds, and the lines of its journal.

    journal       header and events as they happen: commitments alone
    secrets.json  what opens the commitments
    contents      the contents themselves, only where the owner wants them kept

All are their owner's alone. Lines of the journal are JSON arrays:

    ["header", header]
    ["event", salt, index, kind, at, name, input, output, parent, call]   over at once
    ["begin", salt, index, kind, at, name, input, parent]                 a span: its index is taken
    ["end", index, output, call]                                          and this is its output
    ["sealed", root]                                                      nothing follows

`salt` is the number that the event's salts are made from. Indexes begin in order; spans end in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aioum.core.canonical import JsonValue, canonical_bytes, parse_json, plain_text
from aioum.core.errors import AioumError
from aioum.run.errors import EventMalformed
from aioum.run.event import Event, Header, PaidCall
from aioum.run.fields import HASH_BYTES, read_hash
from aioum.run.line_file import MAX_LINE_BYTES, RunJournalError, read_lines

JOURNAL: Final = "journal"
SECRETS: Final = "secrets.json"
CONTENTS: Final = "contents"

NO_OUTPUT: Final = bytes(HASH_BYTES)
"""Stands in the draft of an event whose span is open; it is in no sealed run."""

_EVENT_ITEMS: Final = 10
_BEGIN_ITEMS: Final = 8
_END_ITEMS: Final = 4


@dataclass(slots=True)
class Recorded:
    """What the lines of a journal say.

    Attributes:
        header: of the run, or None before its line.
        events: by index; an open span's has NO_OUTPUT.
        salts: the salt number of each event, by index.
        open: indexes of spans without an end.
        sealed: the root that was sealed, 32 bytes, or None.
    """

    header: Header | None = None
    events: list[Event] = field(default_factory=list)
    salts: list[int] = field(default_factory=list)
    open: set[int] = field(default_factory=set)
    sealed: bytes | None = None

    def take(self, payload: bytes) -> None:
        """Take over the next line.

        Raises:
            RunJournalError: `run-journal-damaged`, it does not fit the lines before it.
        """
        try:
            line: Any = parse_json(payload, max_bytes=MAX_LINE_BYTES)
            self._take(line)
        except (AioumError, TypeError, ValueError, IndexError, KeyError) as error:
            raise RunJournalError(
                f"a line of the journal makes no sense: {error}", code="run-journal-damaged"
            ) from error

    def _take(self, line: Any) -> None:
        if type(line) is not list or not line:
            raise EventMalformed("a line is a list")
        if (line[0] == "header") is not (self.header is None):
            raise EventMalformed("the header comes first, and once")
        match line[0]:
            case "header":
                self.header = Header.from_json(line[1])
            case "event" if len(line) == _EVENT_ITEMS:
                self._begin(line[1], _event(line[2:8], line[8], line[9]))
            case "begin" if len(line) == _BEGIN_ITEMS:
                event = _event([*line[2:7], "0x" + NO_OUTPUT.hex()], line[7], None)
                self._begin(line[1], event)
                self.open.add(event.index)
            case "end" if len(line) == _END_ITEMS:
                index = line[1]
                self.open.remove(index)
                call = None if line[3] is None else PaidCall.from_json(line[3])
                self.events[index] = replace(
                    self.events[index], output=read_hash("output", line[2]), call=call
                )
            case "sealed" if not self.open:
                self.sealed = read_hash("root", line[1])
            case _:
                raise EventMalformed(f"an unexpected line: {line[0]!r:.40}")

    def _begin(self, salt: int, event: Event) -> None:
        if self.sealed is not None or event.index != len(self.events) or type(salt) is not int:
            raise EventMalformed(f"event {event.index} stands where {len(self.events)} should")
        self.events.append(event)
        self.salts.append(salt)


def read_journal(folder: Path) -> Recorded:
    """Read the journal of a run that somebody may be recording; a torn last line does not count.

    Raises:
        RunJournalError: `run-journal-missing`, `run-journal-damaged`, `run-journal-failed`.
    """
    recorded = Recorded()
    path = folder / JOURNAL
    try:
        read_lines(path, recorded.take)
    except FileNotFoundError as error:
        raise RunJournalError(
            f"{path} is not there", code="run-journal-missing", hint="name the folder of a recorded run"
        ) from error
    except OSError as error:
        raise RunJournalError(f"{path} cannot be read: {error.strerror}") from error
    return recorded


def header_line(header: Header) -> bytes:
    """The first line."""
    return canonical_bytes(["header", header.to_json()])


def event_line(salt: int, event: Event) -> bytes:
    """The line of an event that is over."""
    # By hand: this is on the path of every event, and each part is known to be plain.
    return (
        f'["event",{salt},{event.index},"{event.kind.value}",{event.at},{plain_text(event.name)},'
        f'"0x{event.input.hex()}","0x{event.output.hex()}",{_number(event.parent)},{_call(event.call)}]'
    ).encode()


def begin_line(salt: int, event: Event) -> bytes:
    """The line of a span that begins."""
    return (
        f'["begin",{salt},{event.index},"{event.kind.value}",{event.at},{plain_text(event.name)},'
        f'"0x{event.input.hex()}",{_number(event.parent)}]'
    ).encode()


def end_line(event: Event) -> bytes:
    """The line of a span that ended."""
    return f'["end",{event.index},"0x{event.output.hex()}",{_call(event.call)}]'.encode()


def sealed_line(root: bytes) -> bytes:
    """The last line."""
    return f'["sealed","0x{root.hex()}"]'.encode()


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def _call(call: PaidCall | None) -> str:
    return "null" if call is None else plain_text(call.to_json())


def _event(items: list[Any], parent: JsonValue, call: JsonValue) -> Event:
    value: dict[str, JsonValue] = dict(
        zip(("index", "kind", "at", "name", "input", "output"), items, strict=True)
    )
    if parent is not None:
        value["parent"] = parent
    if call is not None:
        value["call"] = call
    return Event.from_json(value)
