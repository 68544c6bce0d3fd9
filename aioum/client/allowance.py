"""Letting our contracts pull deposits and bonds, for sessions that open side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.client.payer import Payer
from aioum.core.errors import PolicyRefused
from aioum.core.types import Address


class Allowances:
    """Keeps a payer's allowance at what is under way, and approves for everybody who waits at once.

    A token holds one allowance for all deposits of a payer: two openings that each looked and approved for
    themselves would use up each other's.
    """

    def __init__(self, chain: Chain, payer: Payer) -> None:
        self._chain = chain
        self._payer = payer
        self._lock = asyncio.Lock()
        self._under_way: dict[tuple[Address, Address], int] = {}

    @asynccontextmanager
    async def covering(
        self, token: Address, amount: int, purpose: str, spender: Address | None = None
    ) -> AsyncIterator[None]:
        """While the block lasts, `spender` may pull `amount` base units beside all others under way.

        Args:
            token: of the amount.
            amount: base units.
            purpose: kept beside the approving transaction.
            spender: None: the PaymentManager.

        Raises:
            PolicyRefused: `balance-too-low`.
            ChainError, OutcomeUnknown: as `Payer.send`.
        """
        balance = await self._chain.token_balance(token, self._payer.address)
        if balance < amount:
            raise PolicyRefused(
                f"the payer holds {balance} base units of the token, {amount} are needed",
                code="balance-too-low",
                hint="fund the payer's account",
            )
        pair = (token, spender or self._chain.payment_manager)
        self._under_way[pair] = self._under_way.get(pair, 0) + amount
        try:
            async with self._lock:
                await self._approve_what_is_under_way(*pair, purpose)
            yield
        finally:
            self._under_way[pair] -= amount

    async def _approve_what_is_under_way(self, token: Address, spender: Address, purpose: str) -> None:
        allowed = await self._chain.token_allowance(token, self._payer.address, spender)
        needed = self._under_way[token, spender]
        if allowed < needed:
            # Never lowers it: what was pulled meanwhile only leaves more than is needed.
            await self._payer.send(calls.approve(token, spender, needed), purpose)
