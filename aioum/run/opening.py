"""The owner's side of a disclosure: salts, and contents where they were kept."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from pathlib import Path

from aioum.run.capsule import Capsule
from aioum.run.disclosure import DisclosureMalformed, Opening
from aioum.run.event import Event
from aioum.run.journal import CONTENTS, SECRETS, Recorded, read_journal
from aioum.run.line_file import RunJournalError, read_lines
from aioum.run.salts import RunSecrets, Side

Wanted = tuple[int, Side]
"""Index of an event, and which of its contents."""


def openings(folder: Path, capsule: Capsule, wanted: Mapping[Wanted, bytes | None]) -> dict[Wanted, Opening]:
    """What opens chosen commitments of a capsule.

    Args:
        folder: of the run.
        capsule: of the same run.
        wanted: which contents; None for one that the run kept.

    Raises:
        RunJournalError: as `read_journal`.
        ConfigError: as `RunSecrets.read`.
        DisclosureMalformed: `disclosure-run-differs`, the capsule is of another run;
            `disclosure-event-unknown`; `content-not-kept`; `content-mismatch`.
    """
    recorded = read_journal(folder)
    secrets = RunSecrets.read(folder / SECRETS)
    for index, _ in wanted:
        _require_same(capsule, recorded, index)
    kept = _kept(folder, {recorded.salts[index] for index, _ in wanted})
    found = {}
    for (index, side), given in wanted.items():
        event, salt = recorded.events[index], recorded.salts[index]
        candidates = kept.get((salt, side), []) if given is None else [given]
        if not candidates:
            raise DisclosureMalformed(
                f"the run did not keep the {side.value} of event {index}",
                code="content-not-kept",
                hint="hand in a file with exactly the bytes that were recorded",
            )
        opening = _first_that_opens(secrets.salt(salt, side), candidates, _committed(event, side))
        if opening is None:
            raise DisclosureMalformed(
                f"the {side.value} of event {index} is another content",
                code="content-mismatch",
                hint="hand in exactly the bytes that were recorded",
            )
        found[index, side] = opening
    return found


def _require_same(capsule: Capsule, recorded: Recorded, index: int) -> None:
    if not 0 <= index < len(capsule.events):
        raise DisclosureMalformed(
            f"the run has no event {index}, it has {len(capsule.events)}", code="disclosure-event-unknown"
        )
    if index >= len(recorded.events) or recorded.events[index] != capsule.events[index].event:
        raise DisclosureMalformed(
            f"event {index} of the capsule is not what the folder's journal says",
            code="disclosure-run-differs",
            hint="name the folder that this capsule was sealed from",
        )


def _committed(event: Event, side: Side) -> bytes:
    return event.input if side is Side.INPUT else event.output


def _first_that_opens(salt: bytes, contents: Iterable[bytes], committed: bytes) -> Opening | None:
    return next(
        (each for each in (Opening(salt, content) for content in contents) if each.opens(committed)), None
    )


def _kept(folder: Path, salts: set[int]) -> dict[tuple[int, Side], list[bytes]]:
    found: dict[tuple[int, Side], list[bytes]] = {}

    def take(payload: bytes) -> None:
        # Not the JSON reader: most lines are other events', and a content can be long.
        number, side, content = payload[1:-1].split(b",", 2)
        if int(number) in salts:
            key = (int(number), Side(side[1:-1].decode()))
            found.setdefault(key, []).append(base64.b64decode(content[1:-1], validate=True))

    try:
        read_lines(folder / CONTENTS, take)
    except FileNotFoundError:
        return {}
    except (ValueError, binascii.Error) as error:
        raise RunJournalError(
            f"{folder / CONTENTS} holds a line that makes no sense", code="run-journal-damaged"
        ) from error
    except OSError as error:
        raise RunJournalError(f"{folder / CONTENTS} cannot be read: {error.strerror}") from error
    return found
