"""What the sending account holds for gas: without it nothing settles and no challenge is answered."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from aioum.chain.client import Chain
from aioum.core.errors import AioumError
from aioum.core.types import Address
from aioum_node.loops import LoopObserver

_INTERVAL_SECONDS: Final = 30.0


class BalanceWatch:
    """Asks for an account's balance now and then.

    Args:
        chain: is asked.
        account: whose balance.
        observer: told how the rounds fare; a chain that is away is told of by whoever needs it.

    Attributes:
        wei: the balance as it was last; NaN before that.
    """

    def __init__(self, chain: Chain, account: Address, observer: LoopObserver) -> None:
        self._chain = chain
        self._account = account
        self._observer = observer
        self.wei = math.nan

    async def run(self) -> None:
        """Look until canceled."""
        while True:
            try:
                self.wei = float(await self._chain.native_balance(self._account))
                self._observer.round_done()
            except AioumError as error:
                self._observer.round_failed(error.code)
            await asyncio.sleep(_INTERVAL_SECONDS)
