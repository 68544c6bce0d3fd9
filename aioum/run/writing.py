"""The files of a run that is being recorded."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Self

from aioum.run.event import Event, Header
from aioum.run.journal import (
    CONTENTS,
    JOURNAL,
    SECRETS,
    Recorded,
    begin_line,
    end_line,
    event_line,
    header_line,
    sealed_line,
)
from aioum.run.line_file import LineFile, RunJournalError, sync_folder
from aioum.run.salts import RunSecrets, Side


class RunFiles:
    """Writes for one thread at a time; `next_salt` and `sync` are for any number.

    Attributes:
        secrets: of the run.
    """

    def __init__(self, journal: LineFile, contents: LineFile | None, secrets: RunSecrets, salts: int) -> None:
        """Made by `create` and `reopen`."""
        self.secrets = secrets
        self._journal = journal
        self._contents = contents
        self._salts = itertools.count(salts)

    @classmethod
    def create(
        cls,
        folder: Path,
        header: Header,
        random_bytes: Callable[[int], bytes],
        *,
        keep_contents: bool,
    ) -> Self:
        """Make the files of a new run; durable on return.

        Raises:
            RunJournalError: `run-journal-exists`, `run-journal-failed`.
        """
        secrets = RunSecrets.make(random_bytes)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if (folder / JOURNAL).exists():
                raise FileExistsError
            # Before the journal: an event is never recorded that could not be opened. What a crash between
            # the two leaves is the folder of no run.
            secrets.write(folder / SECRETS)
        except FileExistsError as error:
            raise RunJournalError(
                f"{folder} holds a run already",
                code="run-journal-exists",
                hint="record into another folder, or resume this run",
            ) from error
        except OSError as error:
            raise RunJournalError(f"{folder}: {error.strerror or error}") from error
        contents = LineFile.create(folder / CONTENTS) if keep_contents else None
        journal = LineFile.create(folder / JOURNAL)
        journal.sync(journal.append(header_line(header), buffered=False))
        sync_folder(folder)
        sync_folder(folder.parent)
        return cls(journal, contents, secrets, 0)

    @classmethod
    def reopen(cls, folder: Path, *, accept_loss: bool) -> tuple[Self, Header, Recorded]:
        """Read the files of a run and go on in them.

        Raises:
            RunJournalError: as `LineFile.reopen`.
            ConfigError: as `RunSecrets.read`.
        """
        recorded = Recorded()
        journal = LineFile.reopen(folder / JOURNAL, recorded.take, accept_loss=accept_loss)
        contents = None
        try:
            if recorded.header is None:
                raise RunJournalError(f"{folder} holds no header of a run", code="run-journal-damaged")
            secrets = RunSecrets.read(folder / SECRETS)
            if (folder / CONTENTS).exists():
                contents = LineFile.reopen(folder / CONTENTS, lambda _: None, accept_loss=accept_loss)
        except BaseException:
            journal.close()
            raise
        files = cls(journal, contents, secrets, max(recorded.salts, default=-1) + 1)
        return files, recorded.header, recorded

    def next_salt(self) -> int:
        """A salt number that no event has."""
        return next(self._salts)

    def keep(self, salt: int, side: Side, content: bytes) -> None:
        """Keep a content, where the run keeps contents. Before its event: none is recorded without.

        Raises:
            RunJournalError: `run-journal-failed`.
        """
        if self._contents is not None:
            line = b'[%d,"%b","%b"]' % (salt, side.value.encode(), base64.b64encode(content))
            self._contents.append(line, buffered=False)

    def write_event(self, salt: int, event: Event, *, buffered: bool) -> int:
        """Add an event that is over. Returns what `sync` has to reach. Raises RunJournalError."""
        return self._journal.append(event_line(salt, event), buffered=buffered)

    def write_begin(self, salt: int, event: Event, *, buffered: bool) -> int:
        """As `write_event`, of a span that begins."""
        return self._journal.append(begin_line(salt, event), buffered=buffered)

    def write_end(self, event: Event, *, buffered: bool) -> int:
        """As `write_event`, of a span that ends."""
        return self._journal.append(end_line(event), buffered=buffered)

    def write_sealed(self, root: bytes) -> int:
        """As `write_event`, of the seal."""
        return self._journal.append(sealed_line(root), buffered=False)

    def flush(self) -> int:
        """Hand everything to the operating system. Returns what `sync` has to reach."""
        self._journal.flush()
        return self._journal.flushed_bytes

    def sync(self, position: int) -> None:
        """Return when the disk has the journal up to a position, and the contents that belong to it.

        Raises:
            RunJournalError: `run-journal-failed`.
        """
        if self._contents is not None:
            self._contents.sync(self._contents.flushed_bytes)
        self._journal.sync(position)

    def close(self) -> None:
        """Give the files back."""
        try:
            self._journal.close()
        finally:
            if self._contents is not None:
                self._contents.close()
