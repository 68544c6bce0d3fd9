"""Anchoring: what is published goes into the LogAnchor contract, proven to continue what is there.

It reads what everybody can read, the public files, and so needs nothing of whoever writes the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from aioum.chain import anchors
from aioum.chain.anchors import LogAnchored
from aioum.chain.sender import Sender
from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.core.hextext import to_hex
from aioum.core.types import Address, Bytes32
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.entry import SessionEntry, read_entry
from aioum.log.errors import LogFolderError, PublishRefused
from aioum.log.files import published_note
from aioum.log.fsck import fsck
from aioum.log.tiles import TileReader
from aioum_node.log.identity import LogIdentity
from aioum_node.log.observer import LogObserver
from aioum_node.log.reader import LogReader
from aioum_node.loops import LoopObserver, Unobserved

PURPOSE: Final = "anchor-log"
"""Purpose of an anchor in the transaction journal."""

_PAUSE_SECONDS: Final = 60.0
# Hashing everything again takes the longer the larger the log is, and at most this part of the time.
_REST_PER_HASHING: Final = 20

_log = structlog.get_logger(__name__)


class Anchoring:
    """Anchors one log of one operator.

    Args:
        identity: the log's.
        folder: of the log.
        log_anchor: the contract.
        sender: of the operator; journals the transaction before it is sent.
        interval_seconds: after the last anchor, by the chain's clock.
        may_send: whether this process is the one that anchors.
        monotonic: seconds.
        observer: told about what was mined, and what a person should look at.
        pause_seconds: between two looks of `run`.
        rounds: told how the looks fare.

    Attributes:
        size: entries under the last anchor, as far as was looked.
        refusal: reason code, while the folder is damaged or contradicts what is anchored.
    """

    def __init__(
        self,
        identity: LogIdentity,
        folder: Path,
        log_anchor: Address,
        sender: Sender,
        *,
        interval_seconds: int,
        may_send: Callable[[], bool],
        monotonic: Callable[[], float],
        observer: LogObserver,
        pause_seconds: float = _PAUSE_SECONDS,
        rounds: LoopObserver | None = None,
    ) -> None:
        self._identity = identity
        self._folder = folder
        self._reader = LogReader(folder)
        self._log_anchor = log_anchor
        self._sender = sender
        self._chain = sender.chain
        self._interval_seconds = interval_seconds
        self._may_send = may_send
        self._monotonic = monotonic
        self._observer = observer
        self._pause_seconds = pause_seconds
        self._rounds = rounds or Unobserved()
        self._told: str | None = None
        self._hashing_seconds = 0.0
        self.size = 0
        self.refusal: str | None = None

    async def run(self) -> None:
        """Anchor until canceled. What fails is said once for each reason, and tried again after a pause."""
        while True:
            self._hashing_seconds = 0.0
            if self._may_send():
                await self.look()
            else:
                # Another process looks after the log now.
                self._told = self.refusal = None
                self._rounds.round_done()
            await asyncio.sleep(max(self._pause_seconds, _REST_PER_HASHING * self._hashing_seconds))

    async def look(self) -> None:
        """Anchor if it is time. Raises nothing."""
        try:
            await self.anchor_if_due()
        except (LogFolderError, PublishRefused) as error:
            self.refusal = error.code
            self._failed(error)
        except AioumError as error:
            self._failed(error)
        except Exception as error:
            # A bug here must end neither serving nor settling.
            _log.exception("log-anchor-broke")
            code = AioumError(str(error)).code
            self._observer.log_alert(code)
            self._rounds.round_failed(code)
        else:
            self._told = self.refusal = None
            self._rounds.round_done()

    async def last(self) -> Checkpoint | None:
        """What is anchored. Raises ChainError."""
        found = await self._anchored()
        return None if found is None else self._checkpoint(found)

    async def anchor_if_due(self) -> bool:
        """Anchor what is published, if it is time; whether a transaction was mined.

        Everything is hashed again before. A crash at any point comes back here and finds on the chain what
        is anchored: the same values again would change nothing.

        Raises:
            PublishRefused: `log-rolled-back`, `log-forked`: the anchored state is not one of this log.
            LogFolderError: as `FsckReport.require_sound`; `log-disk-failed`.
            CheckpointInvalid: as `read_checkpoint`, what is published is not this log's.
            ChainError: the chain could not be asked, or the contract refused.
            OutcomeUnknown: an earlier anchor, or this one, may still be mined.
        """
        try:
            return await self._anchor_if_due()
        except OSError as error:
            raise LogFolderError(
                f"the log cannot be read: {error}",
                code="log-disk-failed",
                hint="see to the disk; it goes on by itself",
            ) from error

    async def _anchor_if_due(self) -> bool:
        found = await self._anchored()
        note = await asyncio.to_thread(published_note, self._folder)
        if note is None:
            return False
        shown = self._read(note)
        reader = TileReader(self._reader.file)
        if found is not None:
            await self._require_continues(reader, self._checkpoint(found), shown)
        if shown.size <= self.size:
            return False
        head = await self._chain.head()
        if head.timestamp < await self._due_at(reader, shown, found):
            return False
        if await self._was_on_its_way():
            # Mined or gone by now: the next look reads again what is anchored.
            return False
        started = self._monotonic()
        report = await asyncio.to_thread(fsck, self._folder, self._identity.key.public_key)
        self._hashing_seconds = self._monotonic() - started
        report.require_sound()
        checkpoint = report.checkpoint or shown
        # What the first anchor continues is nothing.
        proof = [] if found is None else await reader.consistency(found.size, checkpoint.size)
        root = Bytes32(checkpoint.root)
        call = anchors.anchor(self._log_anchor, self._identity.origin, checkpoint.size, root, proof)
        mined = await self._sender.send(call, PURPOSE, is_independent=True)
        # A crash before this line: the chain knows the anchor, and the journal its transaction.
        self.size = checkpoint.size
        self._observer.anchored(checkpoint.size, mined.gas_used)
        _log.info(
            "log-anchored",
            size=checkpoint.size,
            root=to_hex(root),
            transaction=to_hex(mined.transaction_hash),
            gas_used=mined.gas_used,
        )
        return True

    async def _anchored(self) -> LogAnchored | None:
        operator = self._sender.signer.address
        found = await anchors.anchored(self._chain.rpc, self._log_anchor, operator, self._identity.origin)
        self.size = 0 if found is None else found.size
        return found

    def _checkpoint(self, found: LogAnchored) -> Checkpoint:
        return Checkpoint(self._identity.origin, found.size, bytes(found.root))

    def _read(self, note: bytes) -> Checkpoint:
        return read_checkpoint(note, self._identity.origin, self._identity.key.public_key)

    async def _require_continues(self, reader: TileReader, anchored: Checkpoint, shown: Checkpoint) -> None:
        if anchored.size > shown.size:
            raise PublishRefused(
                f"the log shows {shown.size} entries, {anchored.size} are anchored",
                code="log-rolled-back",
                hint="restore the newest copy of the folder",
            )
        if await reader.root(anchored.size, shown.size) != anchored.root:
            raise PublishRefused(
                f"the log's first {anchored.size} entries are not those that are anchored",
                code="log-forked",
                hint="find out who anchored with the operator's key",
            )

    async def _due_at(self, reader: TileReader, shown: Checkpoint, found: LogAnchored | None) -> int:
        """Unix seconds of the chain's clock."""
        if found is not None:
            return found.anchored_at + self._interval_seconds
        first = read_entry(await reader.entry(0, shown.size))
        if not isinstance(first, SessionEntry):
            return 0
        session = await self._chain.session(first.channel_id)
        # A log that began on another chain is anchored here at once.
        return 0 if session is None else session.finalized_at + self._interval_seconds

    async def _was_on_its_way(self) -> bool:
        """Whether an earlier anchor got its outcome just now. Raises OutcomeUnknown where it has none yet."""
        if not await self._is_on_its_way():
            return False
        await self._sender.reconcile()
        if await self._is_on_its_way():
            raise OutcomeUnknown(
                "an earlier anchor has no outcome yet",
                hint="it is looked up again",
                details={"purpose": PURPOSE},
            )
        return True

    async def _is_on_its_way(self) -> bool:
        return any(transaction.purpose == PURPOSE for transaction in await self._sender.unresolved())

    def _failed(self, error: AioumError) -> None:
        self._rounds.round_failed(error.code)
        if self._told == error.code:
            return
        self._told = error.code
        self._observer.log_alert(error.code)
        _log.error("log-anchor-failed", code=error.code, error=str(error), details=error.details)
