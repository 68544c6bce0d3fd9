"""Settlements that are ready at the same time share a transaction, which costs a third less gas for each.

The contract settles each item on its own: one that it refuses is left out by an event, and blocks no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aioum.chain.calls import Settlement
from aioum.chain.errors import reverted
from aioum.chain.model import Mined
from aioum.core.errors import ChainError
from aioum.core.hextext import to_hex
from aioum.core.types import ChannelId

_LINGER_SECONDS: Final = 0.2
_Waiting = tuple[Settlement, "asyncio.Future[Mined]"]
SendAll = Callable[[list[Settlement]], Awaitable[Mined]]


class Batches:
    """Puts together what is to be settled at the same time.

    Args:
        send: sends settlements in one transaction and waits until it is confirmed.
        max_items: settlements in one transaction.
    """

    def __init__(self, send: SendAll, max_items: int) -> None:
        self._send = send
        self._max_items = max_items
        self._filling: list[_Waiting] = []

    async def settle(self, settlement: Settlement) -> Mined:
        """Settle with whatever else comes within a fifth of a second.

        Raises:
            ChainError: `settlement-skipped`, the contract refused this one; details `error` and `args`. Else,
                and OutcomeUnknown, as `send`, the same for all of the transaction.
        """
        if not self._filling or len(self._filling) >= self._max_items:
            self._filling = []
        batch = self._filling
        is_first = not batch
        future: asyncio.Future[Mined] = asyncio.get_running_loop().create_future()
        batch.append((settlement, future))
        if is_first:
            await self._lead(batch)
        return await future

    async def _lead(self, batch: list[_Waiting]) -> None:
        """Wait for company, send, and tell everybody, also where this task is canceled on the way."""
        try:
            await asyncio.sleep(_LINGER_SECONDS)
            if self._filling is batch:
                self._filling = []
            mined = await self._send([settlement for settlement, _ in batch])
        except BaseException as error:
            if self._filling is batch:
                self._filling = []
            for _, future in batch:
                _fail(future, error)
            if isinstance(error, Exception):
                return
            raise
        reasons = skipped(mined)
        for settlement, future in batch:
            reason = reasons.get(settlement.channel_id)
            if reason is not None:
                _fail(future, reason)
            elif not future.done():
                future.set_result(mined)


def skipped(mined: Mined) -> dict[ChannelId, ChainError]:
    """Why the contract left out settlements of a batch, by channel: `settlement-skipped`."""
    return {
        event.channel_id: reverted(
            event.args["reason"],
            code="settlement-skipped",
            details={"transaction_hash": to_hex(mined.transaction_hash)},
        )
        for event in mined.events
        if event.name == "SettlementSkipped" and event.channel_id is not None
    }


def _fail(future: asyncio.Future[Mined], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, Exception):
        future.set_exception(error)
        # Whoever waited may be gone.
        future.exception()
    else:
        future.cancel()
