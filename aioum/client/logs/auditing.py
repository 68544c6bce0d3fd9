"""Auditing an operator once, and monitoring operators over time.

async with Chain.connect(deployment) as chain, open_web() as web:
    look = await audit(chain, Followed(operator), web, confirmations=12)
    if not look.ok: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aioum.chain.client import Chain
from aioum.client.logs.followed import Followed
from aioum.client.logs.look import Look
from aioum.client.logs.looking import Looking
from aioum.client.logs.peers import Peers
from aioum.client.logs.state_folder import StateFolder
from aioum.client.logs.web import Web
from aioum.core.errors import OutcomeUnknown
from aioum.log.monitor import OperatorState


async def audit(
    chain: Chain,
    followed: Followed,
    web: Web,
    *,
    confirmations: int,
    timeout_seconds: float | None = None,
) -> Look:
    """Hold all logs of an operator against the chain, from the first entry on.

    Args:
        chain: where its sessions are.
        followed: the operator.
        web: to logs and cards.
        confirmations: blocks that make something final, its own included; 12 or more on a public chain.
        timeout_seconds: longest audit; None: however long it takes.

    Raises:
        ChainError: as `Chain`.
        ConfigError, ResourceMissing, OutcomeUnknown, CheckpointInvalid: as `Followed.targets`.
        OutcomeUnknown: `look-timeout`.
        InvalidInput: `audit-too-large`.
    """
    state = OperatorState(chain.chain_id, chain.payment_manager, followed.operator)
    async with _within(timeout_seconds):
        return await _look(chain, followed, state, web, confirmations)


@dataclass(frozen=True, slots=True)
class Monitor:
    """Looks again and again, and remembers.

    Attributes:
        chain: where the sessions are.
        folder: what is remembered.
        web: to logs and cards.
        peers: other monitors.
        confirmations: as of `audit`.
        timeout_seconds: longest look at one operator.
    """

    chain: Chain
    folder: StateFolder
    web: Web
    peers: Peers
    confirmations: int
    timeout_seconds: float

    async def look(self, followed: Followed) -> Look:
        """Look at an operator, and keep what was found.

        Raises:
            ChainError: as `Chain`, and as `StateFolder.load`.
            ConfigError, ResourceMissing, CheckpointInvalid: as `Followed.targets`.
            OutcomeUnknown: likewise; `look-timeout`: what was known before is still known.
            InvalidInput: `audit-too-large`, and as `StateFolder.load`.
            OSError: the folder cannot be written.
        """
        state = self.folder.load(self.chain, followed.operator)
        async with _within(self.timeout_seconds):
            look = await _look(self.chain, followed, state, self.web, self.confirmations)
            await self.peers.compare(look)
        self.folder.keep(look)
        return look


@asynccontextmanager
async def _within(seconds: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise OutcomeUnknown(
            f"the look was not over within {seconds} s",
            code="look-timeout",
            hint="the log or the endpoint is slow; allow more time, most of all for the first look",
        ) from error


async def _look(chain: Chain, followed: Followed, state: OperatorState, web: Web, confirmations: int) -> Look:
    targets, remarks = await followed.targets(chain, state, web)
    delay = followed.max_delay_seconds
    looking = Looking(chain, state, targets, confirmations=confirmations, max_delay_seconds=delay)
    return await looking.look(remarks)
