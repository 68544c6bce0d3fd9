"""Looking at an operator's logs and at the chain beside them: reads both, and lets `aioum.log` judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Container, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from heapq import nsmallest
from typing import Final

from aioum.chain.anchors import LogAnchored, anchored
from aioum.chain.client import Chain
from aioum.chain.finished import finished_sessions
from aioum.chain.model import BlockRef, ChainSession
from aioum.client.logs.look import MAX_REMARKS, LogView, Look
from aioum.client.logs.matching import Matching
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
    judge_anchor,
    judge_missing,
    judge_stranger,
)
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.compare import judge_growth
from aioum.log.entry import SessionEntry
from aioum.log.errors import CheckpointInvalid, ResourceMissing, TileInvalid
from aioum.log.following import checked_entries, proof_between
from aioum.log.membership import Membership
from aioum.log.monitor import WINDOW_BLOCKS, LogState, OperatorState
from aioum.log.tiles import TileReader

DEFAULT_MAX_DELAY_SECONDS: Final = 3_600

_AT_ONCE: Final = 16
_UNREADABLE: Final = (OutcomeUnknown, PolicyRefused, ResourceMissing)


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
        promised = [target.max_delay_seconds for target in targets if target.max_delay_seconds is not None]
        self._max_delay_seconds = (
            max(promised, default=DEFAULT_MAX_DELAY_SECONDS)
            if max_delay_seconds is None
            else max_delay_seconds
        )

    async def look(self, remarks: Iterable[Remark] = ()) -> Look:
        """Read the newest block, then of each log anchor and checkpoint, then sessions and entries.

        So a log is never older than what it is held against. Sessions and entries are read up to that block
        and that checkpoint.

        Args:
            remarks: made before; they come first.

        Raises:
            ChainError: as `Chain`.
            InvalidInput: `audit-too-large`.
        """
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
                trusted &= await self._read(look, view, logs, matching)
            if trusted:
                await matching.take_sessions()
        if trusted:
            await self._name_wrong(look, matching)
            await self._judge_strangers(look, coverage, recent, last)
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
            session = FinalSession(self._entry(finished.session), finished.block_number)
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
        identity, trusted = view.target.identity, not self._anew
        try:
            view.note = await view.target.source.note()
            shown = read_checkpoint(view.note, identity.origin, identity.public_key)
            await self._judge_anchor(look, view, shown)
            kept = logs.get(identity.origin)
            if kept is None or await self._grows(look, view, kept, shown, logs):
                view.shown = shown
                trusted = False
                trusted = await self._take_entries(look, view, kept, shown, logs, matching)
        except CheckpointInvalid as error:
            code = "origin-changed" if error.code == "checkpoint-origin-unexpected" else error.code
            self._alert(look, view, code, f"{view.target.source.where}: {error}")
        except _UNREADABLE as error:
            look.unreachable(view, error)
        return trusted

    async def _grows(
        self, look: Look, view: LogView, kept: LogState, shown: Checkpoint, logs: dict[str, LogState]
    ) -> bool:
        before, now = kept.checkpoint(), look.head.timestamp
        proof = await proof_between(view.reader, before, shown)
        since = now if kept.behind_since is None else kept.behind_since
        remark = judge_growth(before, shown, proof, now - since, self._max_delay_seconds)
        if remark is None:
            return True
        look.add(remark, (kept.note, view.note))
        if remark.code == "checkpoint-behind":
            logs[shown.origin] = behind = replace(kept, behind_since=since)
            if self._is_remembered(kept):
                # Also where nothing else of this look is kept, as after a reorganization.
                look.state = replace(look.state, logs={**look.state.logs, shown.origin: behind})
        return False

    def _is_remembered(self, log: LogState) -> bool:
        """Whether this is the state before this look; another one is of a place that was read in it."""
        return self._state.logs.get(log.identity.origin) is log

    async def _take_entries(
        self,
        look: Look,
        view: LogView,
        kept: LogState | None,
        shown: Checkpoint,
        logs: dict[str, LogState],
        matching: Matching,
    ) -> bool:
        identity, where = view.target.identity, view.target.source.where
        anew = kept is None or (self._anew and self._is_remembered(kept))
        known = Frontier() if kept is None or anew else kept.frontier
        try:
            entries = checked_entries(view.reader, known, shown)
            frontier = await matching.take_entries(identity.origin, entries) or known
        except (ProofInvalid, TileInvalid) as error:
            text = f"the files of {identity.origin} are not those that it signed: {error}"
            self._alert(look, view, "log-files-altered", text)
            return False
        grown = LogState(identity, where, view.note, frontier)
        logs[identity.origin] = grown if kept is None else kept.grown(identity, where, view.note, frontier)
        return True

    async def _judge_anchor(self, look: Look, view: LogView, shown: Checkpoint) -> None:
        anchor, root, proof = None, None, None
        if view.anchored is not None:
            anchor = Checkpoint(shown.origin, view.anchored.size, view.anchored.root)
            proof = await proof_between(view.reader, anchor, shown)
            if anchor.size <= shown.size:
                try:
                    root = await view.reader.root(anchor.size, shown.size)
                except (ResourceMissing, TileInvalid):
                    root = None
        remark = judge_anchor(anchor, shown, root, proof)
        if remark is not None:
            look.add(remark, (view.note,))

    async def _name_wrong(self, look: Look, matching: Matching) -> None:
        views = _by_origin(look)
        for wrong in sorted(matching.wrong, key=lambda wrong: (wrong.origin, wrong.index)):
            await _add_entry(look, views.get(wrong.origin), wrong)
        if matching.left_out:
            look.left_out[matching.wrong[-1].remark.code] += matching.left_out

    async def _judge_strangers(
        self, look: Look, coverage: Coverage, recent: Container[ChannelId], last: int
    ) -> None:
        async def judge(logged: LoggedSession) -> Remark | None:
            # Of its newest blocks an endpoint may not have had all logs yet.
            named = logged.entry.channel_id in recent
            return await self._judge_stranger(logged, last if named else last - WINDOW_BLOCKS)

        waiting = list(coverage.strangers.values())
        views = _by_origin(look)
        for start in range(0, len(waiting), _AT_ONCE):
            group = waiting[start : start + _AT_ONCE]
            remarks = await asyncio.gather(*map(judge, group))
            for logged, remark in zip(group, remarks, strict=True):
                if remark is not None:
                    # A session that is open yet, or not known here, may become what its entry says, in blocks
                    # not seen here. To invent one costs nothing, so of these only some are remembered.
                    unknown = remark.code == "log-entry-unknown" and look.has_room(remark.code)
                    if remark.code != "log-entry-premature" and not unknown:
                        coverage.drop(logged)
                    wrong = WrongEntry(logged.origin, logged.index, logged.entry.to_bytes(), remark)
                    await _add_entry(look, views.get(logged.origin), wrong)

    async def _judge_stranger(self, logged: LoggedSession, last: int) -> Remark | None:
        channel_id = logged.entry.channel_id
        searched = await self._standing(channel_id, last) if last >= self._chain.first_block else None
        return judge_stranger(logged, self._state.operator, searched, await self._standing(channel_id, None))

    async def _standing(self, channel_id: ChannelId, block: int | None) -> Standing | None:
        session = await self._chain.session(channel_id, block)
        if session is None:
            return None
        return Standing(session.operator, self._entry(session), session.is_finalized)

    async def _judge_missing(self, look: Look) -> None:
        missing = look.state.missing
        # The oldest ones, which are the first to be late.
        named = nsmallest(MAX_REMARKS, missing, key=lambda session: session.block_number)
        final_at: dict[int, int] = {}
        for number in {session.block_number for session in named}:
            final_at[number] = (await self._block(number + self._confirmations - 1)).timestamp
        notes = tuple(view.note for view in look.views if view.shown is not None)
        code = ""
        whole = not any(view.unreachable for view in look.views)
        delay = self._max_delay_seconds
        for remark in judge_missing(named, final_at, look.head.timestamp, delay, read_whole=whole):
            code = remark.code
            look.add(remark, notes)
        if len(missing) > len(named):
            look.left_out[code] += len(missing) - len(named)

    async def _block(self, number: int) -> BlockRef:
        block = await self._chain.block(number)
        if block is None:
            raise ChainError(f"the endpoint does not know block {number}", code="block-missing")
        return block

    def _alert(self, look: Look, view: LogView, code: str, text: str) -> None:
        facts: dict[str, JsonValue] = {"origin": view.target.identity.origin}
        look.add(Remark(code, Level.ALERT, text, facts), (view.note,))

    def _entry(self, session: ChainSession) -> SessionEntry:
        return SessionEntry(
            chain_id=self._chain.chain_id,
            payment_manager=self._chain.payment_manager,
            channel_id=session.channel_id,
            session_id=session.session_id,
            call_count=session.call_count,
            captured=session.settled,
            results_root=session.root,
        )


def _by_origin(look: Look) -> dict[str, LogView]:
    return {view.target.identity.origin: view for view in look.views}


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
