"""The recorder of a run: events as they happen, from any thread and task (PROTOCOL 8).

An event has its index from its beginning: what happens inside of a span has the span as its parent, and
a run reads in the order in which things began. It enters the hash chain once it and all before it are over.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from aioum.run.content import INTERRUPTED, Content, content_bytes
from aioum.run.current import Place, at_place, current_place
from aioum.run.errors import EventMalformed, SealRefused
from aioum.run.event import Event, Header, Kind, PaidCall
from aioum.run.journal import NO_OUTPUT
from aioum.run.line_file import Durability, durability_named, replace_file
from aioum.run.order import RecordingRefused, RunOrder
from aioum.run.salts import Side
from aioum.run.seal import read_seal, seal_chain
from aioum.run.spans import Span
from aioum.run.suite import commitment
from aioum.run.writing import RunFiles

if TYPE_CHECKING:
    from aioum.run.capsule import Capsule
    from aioum.run.keys import SigningKey

_RUN_ID_BYTES: Final = 16


class Run:
    """A run that is being recorded; made by `start` or `resume`.

    Attributes:
        header: of the run.
        folder: with its journal, its secrets and, where they are kept, its contents.
    """

    def __init__(
        self,
        folder: Path,
        header: Header,
        files: RunFiles,
        durability: Durability,
        clock: Callable[[], float],
    ) -> None:
        """Made by `start` and `resume`."""
        self.header = header
        self.folder = folder
        self._files = files
        self._durability = durability
        self._clock = clock
        self._order = RunOrder(header)
        self._lock = threading.Lock()
        self._sealed = False
        self._closed = False
        self._process = os.getpid()
        self._entered = ExitStack()

    @classmethod
    def start(
        cls,
        folder: str | Path,
        *,
        agent: str,
        run_id: str | None = None,
        durability: Durability | str = Durability.WRITTEN,
        keep_contents: bool = False,
        clock: Callable[[], float] = time.time,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> Self:
        """Begin a run; use it in a `with` statement.

        Args:
            folder: where its files go; made if it is not there.
            agent: who runs, 1 to 256 bytes; it is public.
            run_id: how the run is called, 1 to 256 bytes, public; None: 32 random hex digits.
            durability: what has happened to an event when recording it returns.
            keep_contents: keep inputs and outputs too, in a file that the owner alone can read. Otherwise
                they have to be handed in again when they are to be disclosed.
            clock: unix seconds.
            random_bytes: gives as many random bytes as it is asked for.

        Raises:
            EventMalformed: `header-malformed`.
            InvalidInput: `run-durability-unknown`.
            RunJournalError: `run-journal-exists`, `run-journal-failed`.
        """
        mode = durability_named(durability)
        header = Header(run_id or random_bytes(_RUN_ID_BYTES).hex(), int(clock() * 1_000), agent)
        files = RunFiles.create(Path(folder), header, random_bytes, keep_contents=keep_contents)
        return cls(Path(folder), header, files, mode, clock)

    @classmethod
    def resume(
        cls,
        folder: str | Path,
        *,
        durability: Durability | str = Durability.WRITTEN,
        accept_loss: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Go on with a run whose recorder ended or crashed, or seal it.

        Spans that were open get the output `{"error":"interrupted"}`. A run that was sealed can only be
        sealed again.

        Args:
            folder: as in `start`.
            durability: as in `start`.
            accept_loss: where the journal is damaged, cut it there.
            clock: unix seconds.

        Raises:
            RunJournalError: `run-journal-missing`, `run-journal-in-use`, `run-journal-damaged`,
                `run-journal-failed`.
            ConfigError: as `RunSecrets.read`.
            SuiteUnknown: `suite-unknown`.
        """
        mode = durability_named(durability)
        files, header, recorded = RunFiles.reopen(Path(folder), accept_loss=accept_loss)
        try:
            run = cls(Path(folder), header, files, mode, clock)
            for event, salt in zip(recorded.events, recorded.salts, strict=True):
                if event.index in recorded.open:
                    run._order.begin(event, salt)
                else:
                    run._order.add(event)
            for index in run._order.open:
                run.end(index, INTERRUPTED)
            run._sealed = recorded.sealed is not None
        except BaseException:
            files.close()
            raise
        return run

    def __repr__(self) -> str:
        return f"Run({self.header.run_id!r}, {self.event_count} events)"

    def __enter__(self) -> Self:
        """Make this the run of everything in the block, tasks that begin in it included."""
        self._entered.enter_context(at_place(Place(self, None)))
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close the run, whether it was sealed or not; `resume` goes on with one that was not."""
        self._entered.close()
        self.close()

    @property
    def recording(self) -> bool:
        """Whether events can be recorded: neither sealed nor closed."""
        return not (self._sealed or self._closed)

    @property
    def event_count(self) -> int:
        """Events that have begun."""
        return self._order.begun

    def record(
        self,
        kind: Kind | str,
        name: str,
        *,
        input: Content = b"",
        output: Content = b"",
        parent: Span | int | None = None,
        call: PaidCall | None = None,
    ) -> int:
        """Record an event that is over. Blocks for the disk in the mode `synced`.

        Args:
            kind: what happened.
            name: of the tool, model or whatever it was, 1 to 256 bytes; it is public.
            input: what went in. Only a commitment is kept, unless the run keeps contents.
            output: what came out.
            parent: the span it belongs to; None: the innermost one that is open here.
            call: the paid call that it was. Calls of a PaidSession link themselves.

        Returns:
            The event's index.

        Raises:
            InvalidInput: `content-unsupported`, `content-too-large`, `run-parent-unknown`.
            EventMalformed: `event-malformed`.
            SealRefused: `run-too-long`.
            RecordingRefused: `run-sealed`, `run-closed`, `run-other-process`.
            RunJournalError: `run-journal-failed`. The event was not recorded.
        """
        given, gave = content_bytes(input), content_bytes(output)
        files = self._files
        salt = files.next_salt()
        committed = commitment(files.secrets.salt(salt, Side.INPUT), given)
        committed_output = commitment(files.secrets.salt(salt, Side.OUTPUT), gave)
        above = self._parent(parent)
        with self._lock:
            event = self._event(kind, name, committed, committed_output, above, call)
            files.keep(salt, Side.INPUT, given)
            files.keep(salt, Side.OUTPUT, gave)
            position = files.write_event(salt, event, buffered=self._durability is Durability.BUFFERED)
            self._order.add(event)
        if self._durability is Durability.SYNCED:
            files.sync(position)
        return event.index

    def span(
        self,
        kind: Kind | str,
        name: str,
        *,
        input: Content = b"",
        parent: Span | int | None = None,
    ) -> Span:
        """An event with a beginning and an end, for `with` or `async with`; see `Span`.

        What is recorded inside belongs to it. Arguments and errors as in `record`, when it is entered.
        """
        return Span(self, kind, name, input, parent)

    def attached(self, parent: Span | int | None = None) -> AbstractContextManager[None]:
        """Make this the run, and `parent` the span, of what is recorded in the block.

        For threads, which do not inherit either from whoever started them.
        """
        return at_place(Place(self, _index(parent)))

    def begin(
        self, kind: Kind | str, name: str, input: Content, parent: Span | int | None
    ) -> tuple[int, int]:
        """Begin a span; `Span` calls it. Arguments and errors as `record`.

        Returns:
            The event's index, and what `wait_durable` has to reach.
        """
        given = content_bytes(input)
        files = self._files
        salt = files.next_salt()
        committed = commitment(files.secrets.salt(salt, Side.INPUT), given)
        above = self._parent(parent)
        with self._lock:
            event = self._event(kind, name, committed, NO_OUTPUT, above, None)
            files.keep(salt, Side.INPUT, given)
            position = files.write_begin(salt, event, buffered=self._durability is Durability.BUFFERED)
            self._order.begin(event, salt)
        return event.index, position

    def end(self, index: int, output: Content, call: PaidCall | None = None) -> int:
        """End a span; `Span` calls it. Returns what `wait_durable` has to reach.

        Raises:
            InvalidInput, RecordingRefused, RunJournalError: as `record`; the span stays open.
        """
        gave = content_bytes(output)
        with self._lock:
            self._require_recording()
            span = self._order.span(index)
            committed = commitment(self._files.secrets.salt(span.salt, Side.OUTPUT), gave)
            event = replace(span.draft, output=committed, call=call)
            self._files.keep(span.salt, Side.OUTPUT, gave)
            position = self._files.write_end(event, buffered=self._durability is Durability.BUFFERED)
            self._order.end(event)
        return position

    @property
    def waits_for_disk(self) -> bool:
        """Whether recording is over only when the disk has the event."""
        return self._durability is Durability.SYNCED

    def wait_durable(self, position: int) -> None:
        """Wait for the disk, in the mode `synced`. Raises RunJournalError `run-journal-failed`."""
        if self._durability is Durability.SYNCED:
            self._files.sync(position)

    def sync(self) -> None:
        """Return when the disk has everything that was recorded so far, in any mode.

        Raises:
            RunJournalError: `run-journal-failed`.
            RecordingRefused: `run-closed`.
        """
        with self._lock:
            self._require_open()
            position = self._files.flush()
        self._files.sync(position)

    def seal(self, *signers: SigningKey, file: str | Path | None = None) -> Capsule:
        """End the recording and sign what was recorded. Call it before the `with` block ends.

        Args:
            signers: 1 to 16 keys.
            file: where to write the capsule, in place of an older one; None: nowhere.

        Raises:
            SealRefused: as `seal_chain`; `run-span-open`, a span has no end yet.
            RecordingRefused: `run-closed`, `run-other-process`.
            RunJournalError: `run-journal-failed`.
            CapsuleMalformed: `capsule-too-large`.
            OSError: the file cannot be written; sealing can be repeated.
        """
        with self._lock:
            self._require_open()
            if self._order.open:
                raise SealRefused(
                    f"{len(self._order.open)} spans are open, the first is event {self._order.open[0]}",
                    code="run-span-open",
                    hint="wait for what still runs; a run that crashed is closed by resuming it",
                )
            capsule = seal_chain(self._order.chain, signers)
            if not self._sealed:
                # Durable before anybody has the capsule: one run never gets two seals of different length.
                position = self._files.write_sealed(read_seal(capsule.envelope.payload).root)
                self._sealed = True
                self._files.sync(position)
        if file is not None:
            replace_file(Path(file), capsule.to_bytes())
        return capsule

    def close(self) -> None:
        """Make everything durable and give the journal back. A closed run can be resumed.

        Raises:
            RunJournalError: `run-journal-failed`.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if os.getpid() == self._process:
                    self._files.sync(self._files.flush())
            finally:
                self._files.close()

    def _parent(self, parent: Span | int | None) -> int | None:
        if parent is not None:
            return _index(parent)
        place = current_place()
        return place.parent if place is not None and place.run is self else None

    def _event(
        self,
        kind: Kind | str,
        name: str,
        given: bytes,
        gave: bytes,
        parent: int | None,
        call: PaidCall | None,
    ) -> Event:
        self._require_recording()
        index = self._order.next_index(parent)
        return Event(index, _kind(kind), int(self._clock() * 1_000), name, given, gave, parent, call)

    def _require_recording(self) -> None:
        self._require_open()
        if self._sealed:
            raise RecordingRefused(
                "the run is sealed", code="run-sealed", hint="start another run for what comes after"
            )

    def _require_open(self) -> None:
        if self._closed:
            raise RecordingRefused(
                "the run is closed",
                hint="seal it inside of its with statement, or resume it from its folder",
            )
        if os.getpid() != self._process:
            # Two processes would give the same indexes to different events.
            raise RecordingRefused(
                "the run is recorded by another process, of which this is a copy",
                code="run-other-process",
                hint="let a child process record a run of its own",
            )


def _kind(kind: Kind | str) -> Kind:
    try:
        return Kind(kind)
    except ValueError as error:
        raise EventMalformed(f"the kind {kind!r:.40} is none of {', '.join(Kind)}") from error


def _index(parent: Span | int | None) -> int | None:
    return parent.index if isinstance(parent, Span) else parent
