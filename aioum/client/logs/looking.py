"""Looking at an operator's logs and at the chain beside them: reads both, and lets `aioum.log` judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Container, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from heapq import nsmallest
from typing import Final

from aioum.chain.anchors import LogAnchored, anchored
from aioum.chain.client import Chain
from aioum.chain.finished import finished_sessions
from aioum.chain.model import BlockRef
from aioum.client.logs.look import MAX_REMARKS, LogView, Look
from aioum.client.logs.matching import Matching
from aioum.client.logs.repeated import repeated_entries
from aioum.client.logs.sources import LogTarget
from aioum.core.canonical import JsonValue
from aioum.core.errors import ChainError, OutcomeUnknown, PolicyRefused, ProofInvalid
from aioum.core.merkle import Frontier
from aioum.core.types import Bytes32, ChannelId
from aioum.log.audit import (
    Coverage,
    FinalSession,
    Level,
    LoggedSession,
    Remark,
    Standing,
    WrongEntry,
    judge_missing,
    judge_stranger,
)
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.compare import judge_anchor, judge_growth
from aioum.log.errors import CheckpointInvalid, ResourceMissing, TileInvalid
from aioum.log.following import checked_entries, prefix_between
from aioum.log.membership import Membership
from aioum.log.monitor import WINDOW_BLOCKS, LogState, OperatorState
from aioum.log.tiles import TileReader
from aioum.verify.logged import entry_of

DEFAULT_MAX_DELAY_SECONDS: Final = 3_600

_AT_ONCE: Final = 16
_UNREADABLE: Final = (OutcomeUnknown, PolicyRefused, ResourceMissing)
_ALTERED: Final = (ProofInvalid, TileInvalid)


class Looking:
    """Looks at one operator, once.

    Args:
        chain: where its sessions are.
        state: what is remembered; empty for an audit.
        targets: its logs.
        confirmations: blocks that make something final, its own included.
        max_delay_seconds: in place of what the cards promise.
    """

    def __init__(
        self,
        chain: Chain,
        state: OperatorState,
        targets: Sequence[LogTarget],
        *,
        confirmations: int,
        max_delay_seconds: int | None = None,
    ) -> None:
        self._chain = chain
        self._state = state
        self._targets = targets
        self._confirmations = confirmations
        self._anew = False
        self._broken: dict[LogTarget, Exception] = {}
        self._own_delay_seconds = max_delay_seconds
        promised = [target.max_delay_seconds for target in targets if target.max_delay_seconds is not None]
        self._max_delay_seconds = (
            max(promised, default=DEFAULT_MAX_DELAY_SECONDS)
            if max_delay_seconds is None
            else max_delay_seconds
        )

    async def look(self, remarks: Iterable[Remark] = ()) -> Look:
        """Read the newest block, then of each log anchor and checkpoint, then sessions and entries.

        So a log is never older than what it is held against. Sessions and entries are read up to that block
        and that checkpoint. A log whose entries break off counts as one that cannot be reached: all is read
        once more without it, since nothing that it gave can be trusted.

        Args:
            remarks: made before; they come first.

        Raises:
            ChainError: as `Chain`.
            InvalidInput: `audit-too-large`.
        """
        said = list(remarks)
        while True:
            look = await self._attempt(said)
            if look is not None:
                return look

    async def _attempt(self, remarks: Iterable[Remark]) -> Look | None:
        """None: the entries of one more log broke off."""
        head, before = await self._chain.head(), self._state
        look = Look(before, head, self._max_delay_seconds)
        for remark in remarks:
            kept = before.logs.get(str(remark.facts.get("origin")))
            look.add(remark, () if kept is None else (kept.note,))
        self._anew = await self._has_other_history(look)
        if self._anew:
            before = OperatorState(before.chain_id, before.payment_manager, before.operator, logs=before.logs)
        last = head.number - self._confirmations + 1
        coverage = Coverage(before.missing, before.strangers, before.counts)
        recent, logs = dict(before.recent), dict(before.logs)
        async with aclosing(self._sessions(before, recent, last)) as sessions:
            matching = Matching(coverage, sessions, (before.chain_id, before.payment_manager))
            # Where all is compared anew, this takes every log that was followed.
            trusted = not self._anew or logs.keys() <= {target.identity.origin for target in self._targets}
            for target in self._targets:
                view = LogView(target, TileReader(target.source.fetch), await self._anchored(target))
                look.views.append(view)
                broken = len(self._broken)
                trusted &= await self._read(look, view, logs, matching)
                if len(self._broken) > broken:
                    return None
            if trusted:
                await matching.take_sessions()
        if trusted:
            await self._name_wrong(look, matching)
            await self._judge_strangers(look, coverage, recent, last, logs.keys())
            look.state = replace(
                before,
                searched=await self._searched(before, last),
                recent={channel: at for channel, at in recent.items() if at > last - WINDOW_BLOCKS},
                missing=tuple(coverage.missing.values()),
                strangers=tuple(coverage.strangers.values()),
                counts=coverage.counts,
                logs=logs,
            )
        # Of a log that was never read nobody knows what it lacks.
        if look.state.logs:
            await self._judge_missing(look)
        return look

    async def _has_other_history(self, look: Look) -> bool:
        """Whether what is remembered of sessions may be of blocks that the chain no longer has."""
        if self._state.searched is None:
            return False
        number, block_hash = self._state.searched
        block = await self._chain.block(number)
        if block is not None and block.hash == block_hash:
            return False
        text = f"the chain has another block {number} than at the last look: every entry is compared anew"
        look.add(Remark("chain-reorganized", Level.NOTE, text, {"blockNumber": number}))
        return True

    async def _sessions(
        self, state: OperatorState, recent: dict[ChannelId, int], last: int
    ) -> AsyncGenerator[FinalSession, None]:
        first = self._chain.first_block
        if state.searched is not None:
            first = max(first, state.searched[0] + 1 - WINDOW_BLOCKS)
        async for finished in finished_sessions(self._chain, state.operator, first, last):
            entry, delay = entry_of(self._chain.domain, finished.session), self._max_delay_seconds
            session = FinalSession(entry, finished.block_number, delay)
            channel = session.entry.channel_id
            if channel not in recent:
                if session.block_number > last - WINDOW_BLOCKS:
                    recent[channel] = session.block_number
                yield session

    async def _searched(self, before: OperatorState, last: int) -> tuple[int, Bytes32] | None:
        if last < max(self._chain.first_block, before.searched[0] if before.searched else 0):
            return before.searched
        return last, (await self._block(last)).hash

    async def _anchored(self, target: LogTarget) -> LogAnchored | None:
        deployment = self._chain.deployment
        if deployment is None or deployment.log_anchor is None:
            return None
        return await anchored(
            self._chain.rpc, deployment.log_anchor, self._state.operator, target.identity.origin
        )

    async def _read(self, look: Look, view: LogView, logs: dict[str, LogState], matching: Matching) -> bool:
        """Whether what was taken into the coverage can be trusted."""
        # Where all is compared anew, sessions without the entries that were read before would be missing.
        identity, trusted, now = view.target.identity, not self._anew, look.head.timestamp
        kept = logs.get(identity.origin)
        since = now if kept is None or kept.behind_since is None else kept.behind_since
        try:
            view.note = await view.target.source.note()
            shown = read_checkpoint(view.note, identity.origin, identity.public_key)
            # Who sees a log for the first time has nothing but the anchor to reckon from.
            await self._judge_anchor(look, view, shown, now if kept is None else now - since)
            if kept is None or await self._grows(look, view, kept, shown, now - since):
                view.shown = shown
                await self._take_entries(view, kept, shown, logs, matching)
                trusted = view.read = True
        except CheckpointInvalid as error:
            code = "origin-changed" if error.code == "checkpoint-origin-unexpected" else error.code
            self._alert(look, view, code, f"{view.target.source.where}: {error}")
        except _ALTERED as error:
            text = f"the files of {identity.origin} are not those that it signed: {error}"
            self._alert(look, view, "log-files-altered", text)
        except _UNREADABLE as error:
            look.unreachable(view, error)
        if view.doubtful:
            self._remember_doubt(look, logs, identity.origin, since)
        return trusted

    async def _grows(
        self, look: Look, view: LogView, kept: LogState, shown: Checkpoint, behind_seconds: int
    ) -> bool:
        before = kept.checkpoint()
        prefix = await prefix_between(view.reader, before, shown)
        remark = judge_growth(before, shown, prefix, behind_seconds, self._max_delay_seconds)
        if remark is None:
            return True
        view.doubtful |= remark.code != "split-view"
        look.add(remark, (kept.note, view.note))
        return False

    def _remember_doubt(self, look: Look, logs: dict[str, LogState], origin: str, since: int) -> None:
        log = logs.get(origin)
        if log is not None:
            logs[origin] = behind = replace(log, behind_since=since)
            if self._is_remembered(log):
                # Also where nothing else of this look is kept, as after a reorganization.
                look.state = replace(look.state, logs={**look.state.logs, origin: behind})

    def _is_remembered(self, log: LogState) -> bool:
        """Whether this is the state before this look; another one is of a place that was read in it."""
        return self._state.logs.get(log.identity.origin) is log

    async def _take_entries(
        self,
        view: LogView,
        kept: LogState | None,
        shown: Checkpoint,
        logs: dict[str, LogState],
        matching: Matching,
    ) -> None:
        if view.target in self._broken:
            raise self._broken[view.target]
        identity, where = view.target.identity, view.target.source.where
        anew = kept is None or (self._anew and self._is_remembered(kept))
        known = Frontier() if kept is None or anew else kept.frontier
        try:
            entries = checked_entries(view.reader, known, shown)
            frontier = await matching.take_entries(identity.origin, entries) or known
        except (*_ALTERED, *_UNREADABLE) as error:
            self._broken[view.target] = error
            raise
        grown = LogState(identity, where, view.note, frontier)
        if kept is not None:
            grown = kept.grown(identity, where, view.note, frontier)
        promised = view.target.max_delay_seconds
        logs[identity.origin] = grown if promised is None else replace(grown, max_delay_seconds=promised)

    async def _judge_anchor(self, look: Look, view: LogView, shown: Checkpoint, behind_seconds: int) -> None:
        anchor, prefix, age = None, None, 0
        if view.anchored is not None:
            anchor = Checkpoint(shown.origin, view.anchored.size, view.anchored.root)
            prefix = await prefix_between(view.reader, anchor, shown)
            age = min(behind_seconds, look.head.timestamp - view.anchored.anchored_at)
        remark = judge_anchor(anchor, shown, prefix, age, self._max_delay_seconds)
        if remark is not None:
            view.doubtful |= remark.code in ("checkpoint-behind", "consistency-invalid")
            look.add(remark, (view.note,))

    async def _name_wrong(self, look: Look, matching: Matching) -> None:
        for wrong in sorted(matching.wrong, key=lambda wrong: (wrong.origin, wrong.index)):
            await _add_entry(look, look.view(wrong.origin), wrong)
        if matching.left_out:
            look.left_out[matching.wrong[-1].remark.code] += matching.left_out

    async def _judge_strangers(
        self,
        look: Look,
        coverage: Coverage,
        recent: Container[ChannelId],
        last: int,
        origins: Collection[str],
    ) -> None:
        waiting = list(coverage.strangers.values())
        newest: dict[LoggedSession, Standing | None] = {}
        # All sessions that were final there had their entry, or wait for it.
        had_one: set[LoggedSession] = set()
        for start in range(0, len(waiting), _AT_ONCE):
            group = waiting[start : start + _AT_ONCE]
            # Of its newest blocks an endpoint may not have had all logs yet.
            blocks = [last if logged.entry.channel_id in recent else last - WINDOW_BLOCKS for logged in group]
            standings = await asyncio.gather(*map(self._standings, group, blocks))
            for logged, (searched, now) in zip(group, standings, strict=True):
                newest[logged] = now
                if searched is not None and searched.is_final:
                    had_one.add(logged)
        repeated, unclear = await repeated_entries(look, had_one, origins)
        for logged in waiting:
            if logged in unclear:
                continue
            remark = judge_stranger(logged, self._state.operator, newest[logged], repeated=logged in repeated)
            if remark is not None:
                # A session that is open yet, or not known here, may become what its entry says, in blocks
                # not seen here. To invent one costs nothing, so of these only some are remembered.
                unknown = remark.code == "log-entry-unknown" and look.has_room(remark.code)
                if remark.code != "log-entry-premature" and not unknown:
                    coverage.drop(logged)
                wrong = WrongEntry(logged.origin, logged.index, logged.entry.to_bytes(), remark)
                await _add_entry(look, look.view(logged.origin), wrong)
            elif logged in had_one:
                coverage.accept(logged)

    async def _standings(self, logged: LoggedSession, block: int) -> tuple[Standing | None, Standing | None]:
        """At this block, and at the newest one."""
        channel_id = logged.entry.channel_id
        searched = await self._standing(channel_id, block) if block >= self._chain.first_block else None
        return searched, await self._standing(channel_id, None)

    async def _standing(self, channel_id: ChannelId, block: int | None) -> Standing | None:
        session = await self._chain.session(channel_id, block)
        if session is None:
            return None
        return Standing(session.operator, entry_of(self._chain.domain, session), session.is_finalized)

    async def _judge_missing(self, look: Look) -> None:
        missing = look.state.missing
        # The oldest ones, which are the first to be late.
        named = nsmallest(MAX_REMARKS, missing, key=lambda session: session.block_number)
        final_at: dict[int, int] = {}
        for number in {session.block_number for session in named}:
            final_at[number] = (await self._block(number + self._confirmations - 1)).timestamp
        notes = tuple(view.note for view in look.views if view.shown is not None)
        code = ""
        whole, delay = all(view.read for view in look.views), self._own_delay_seconds
        for remark in judge_missing(named, final_at, look.head.timestamp, delay, read_whole=whole):
            code = remark.code
            look.add(remark, notes)
        if len(missing) > len(named):
            look.left_out[code] += len(missing) - len(named)

    async def _block(self, number: int) -> BlockRef:
        block = await self._chain.block(number)
        if block is None:
            raise ChainError(
                f"the endpoint does not know block {number}",
                code="block-missing",
                hint="it lags, or was asked with fewer confirmations before: look again later",
            )
        return block

    def _alert(self, look: Look, view: LogView, code: str, text: str) -> None:
        facts: dict[str, JsonValue] = {"origin": view.target.identity.origin}
        look.add(Remark(code, Level.ALERT, text, facts), (view.note,))


async def _add_entry(look: Look, view: LogView | None, wrong: WrongEntry) -> None:
    """Add a remark about an entry with the proof that the log has it, where there is one."""
    membership, notes = None, () if view is None else (view.note,)
    shown = None if view is None else view.shown
    if (
        view is not None
        and shown is not None
        and wrong.index < shown.size
        and look.has_room(wrong.remark.code)
    ):
        try:
            proof = await view.reader.inclusion(wrong.index, shown.size)
            membership = Membership(view.note, wrong.data, wrong.index, tuple(proof))
        except (*_UNREADABLE, TileInvalid):
            membership = None
    look.add(wrong.remark, notes, membership)
