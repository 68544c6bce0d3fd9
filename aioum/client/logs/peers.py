"""What other monitors saw of a log: their signed checkpoints, held against ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aioum.client.http import Transport
from aioum.client.logs.look import LogView, Look
from aioum.client.logs.sources import get
from aioum.client.logs.state_folder import checkpoint_name
from aioum.core.errors import AioumError, OutcomeUnknown, PolicyRefused
from aioum.log.audit import Level, Remark
from aioum.log.checkpoint import MAX_NOTE_BYTES, parse_checkpoint
from aioum.log.compare import judge_peer
from aioum.log.errors import CheckpointInvalid
from aioum.log.following import prefix_between
from aioum.log.monitor import MAX_UNEXPLAINED, LogState, Unexplained


@dataclass(frozen=True, slots=True)
class Peers:
    """Where others keep the checkpoints that they saw.

    Attributes:
        places: files, folders of a monitor, and URLs; one that ends in `/` is such a folder's.
        transport: to the web.
    """

    places: Sequence[str]
    transport: Transport

    async def compare(self, look: Look) -> None:
        """Hold what others saw against what a look came to; adds to its remarks and its state."""
        logs = dict(look.state.logs)
        for view in look.views:
            kept = logs.get(view.target.identity.origin)
            if kept is not None:
                logs[kept.identity.origin] = await self._compare_log(look, view, kept)
        look.state = replace(look.state, logs=logs)

    async def _compare_log(self, look: Look, view: LogView, kept: LogState) -> LogState:
        seen_at = {known.note: known.seen_at for known in kept.unexplained}
        notes = dict.fromkeys([*seen_at, *await self._notes(look, kept.identity.origin)])
        ours, now = kept.checkpoint(), look.head.timestamp
        unexplained = []
        for note in notes:
            try:
                theirs = kept.read_signed(note)
            except CheckpointInvalid as error:
                facts = {"origin": kept.identity.origin}
                look.add(Remark("peer-invalid", Level.NOTE, f"what a peer has: {error}", facts))
                continue
            since = seen_at.get(note, now)
            try:
                prefix = await prefix_between(view.reader, ours, theirs)
            except (OutcomeUnknown, PolicyRefused) as error:
                # Kept until the log can be asked, whatever becomes of the peer.
                look.unreachable(view, error)
                unexplained.append(Unexplained(note, since))
                continue
            remark = judge_peer(ours, theirs, prefix, now - since, look.max_delay_seconds)
            if remark is None:
                continue
            look.add(remark, (kept.note, note))
            if remark.code != "split-view":
                unexplained.append(Unexplained(note, since))
        return replace(kept, unexplained=tuple(unexplained[:MAX_UNEXPLAINED]))

    async def _notes(self, look: Look, origin: str) -> list[bytes]:
        notes, name = [], checkpoint_name(look.state, origin)
        for place in self.places:
            try:
                note = await self._note(place, name)
                if note is not None and parse_checkpoint(note).origin == origin:
                    notes.append(note)
            except (AioumError, OSError) as error:
                text = f"the peer at {place} has nothing to say about {origin}: {error}"
                look.add(Remark("peer-unreachable", Level.NOTE, text, {"place": place, "origin": origin}))
        return notes

    async def _note(self, place: str, name: str) -> bytes | None:
        """None: the peer does not follow this log."""
        if place.startswith(("http://", "https://")):
            url = place + name if place.endswith("/") else place
            return await get(url, self.transport, MAX_NOTE_BYTES)
        path = Path(place).expanduser()
        if path.is_dir():
            folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
            path = folder / name
            if not path.exists():
                return None
        with path.open("rb") as file:
            return file.read(MAX_NOTE_BYTES + 1)
