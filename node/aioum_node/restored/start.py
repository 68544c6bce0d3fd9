"""Whether the store is the one that clients were answered from last (PROTOCOL 3.2, restored stores).

What lies outside the store and was not restored with it tells: the watermark. Where it says that the store is
older, or another one, every session that is not over becomes suspect, and so does every session that was
opened until now and is not in the store. A copy of everything, watermark included, only the chain and the
clients can tell: see `settlement.rules.observed` and `shown_receipts`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from aioum.chain.model import BlockRef
from aioum.core import suspicion
from aioum.core.errors import AioumError, ConfigError
from aioum.core.ledger import SessionState
from aioum_node.restored.watermark import Mark, Watermark
from aioum_node.store.incarnations import (
    INCARNATION_BYTES,
    Beginning,
    IncarnationStore,
    StoreMark,
    chain_instant,
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Life:
    """What a start found.

    Attributes:
        doubt: why the store may lack something, a code of `doubt_about`; None where it does not.
        suspects: sessions that became suspect now.
        suspect_until: an instant of the chain (`chain_instant`): sessions opened until then that the store
            does not have are suspect; None where none are.
    """

    doubt: str | None
    suspects: int
    suspect_until: int | None


def doubt_about(store: StoreMark, kept: Mark | None) -> str | None:
    """Why a store may lack something that was answered, or None.

    Args:
        store: where it stands.
        kept: the watermark.

    Returns:
        `store-older`, it stands below the watermark; `store-replaced`, it never met a watermark, and there
        is one; `store-forked`, the watermark knows another life of it; `watermark-missing`, it met one, and
        there is none.
    """
    if kept is None:
        return "watermark-missing" if store.starts else None
    if not store.starts:
        return "store-replaced"
    if store.sequence < kept.sequence:
        return "store-older"
    # A start that crashed between the store's new life and the watermark's left the former one there.
    if kept.incarnation not in (store.incarnation, store.previous):
        return "store-forked"
    return None


async def _looked_at(mark: StoreMark, watermark: Watermark) -> tuple[Mark | None, str | None]:
    try:
        kept = await asyncio.to_thread(watermark.read)
    except AioumError as error:
        if error.code != "watermark-damaged":
            raise
        return None, error.code
    return kept, doubt_about(mark, kept)


async def require_looked_at(store: IncarnationStore, watermark: Watermark) -> None:
    """Whether a start has noticed what there is to notice; for whoever writes while the node does not run.

    Each write lifts the store, and one that stands above the watermark raises no doubt any more.

    Raises:
        ConfigError: `store-in-doubt`, `watermark-unusable`.
    """
    _, doubt = await _looked_at(await store.mark(), watermark)
    if doubt is not None:
        raise ConfigError(
            f"the store may lack what was answered, and no session is suspect for it yet: {doubt}",
            code="store-in-doubt",
            hint="start the node that served last, and stop it again: it notices which sessions are suspect",
        )


async def begin_life(
    store: IncarnationStore,
    watermark: Watermark,
    head: Callable[[], Awaitable[BlockRef]],
    *,
    random_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> Life:
    """Compare store and watermark and begin a new incarnation; run before anything reads or writes sessions.

    Args:
        store: opened with `watermark.cover`.
        watermark: of this node.
        head: the chain's newest block; asked for only where there is doubt.
        random_bytes: names the incarnation.

    Raises:
        ConfigError: `watermark-unusable`.
        ChainError: there is doubt, and the chain could not be asked. Nothing was changed.
        AioumError: `store-failed`.
    """
    mark = await store.mark()
    kept, doubt = await _looked_at(mark, watermark)
    until = None
    if doubt is not None:
        newest = await head()
        until = chain_instant(newest.timestamp, newest.number)
    beginning = Beginning(
        incarnation=random_bytes(INCARNATION_BYTES),
        previous=None if kept is None else kept.incarnation,
        # Numbers go on above both: the next comparison must not find this life below the one before.
        sequence=max(mark.sequence, 0 if kept is None else kept.sequence) + 1,
        suspect_until=until,
    )
    suspects = await store.begin(beginning)
    # Durable: the suspects, and the former incarnation as `previous`. After a crash here the next start finds
    # the watermark of that one, and doubts nothing a second time.
    begun = await store.mark()
    await asyncio.to_thread(watermark.replace, Mark(begun.incarnation, begun.sequence))
    if doubt is not None:
        _log.error(
            doubt,
            suspect_sessions=suspects,
            store_sequence=mark.sequence,
            watermark_sequence=None if kept is None else kept.sequence,
            hint="aioum-node recover --from PACKAGE for each of them, or --abandon",
        )
    return Life(doubt, suspects, begun.suspect_until)


def suspect_at_opening(state: SessionState, opened_at: int, suspect_until: int | None) -> SessionState:
    """The state of a session that the store does not have: suspect where it may have had it once.

    Args:
        state: of a new session.
        opened_at: the instant of its block, or the earliest that it can be.
        suspect_until: of `Life`.
    """
    if suspect_until is None or opened_at > suspect_until:
        return state
    return suspicion.suspect(state)
