"""Sessions of the chain and entries of logs, read side by side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from aioum.core.merkle import Frontier
from aioum.core.types import Address
from aioum.log.audit import Coverage, FinalSession, WrongEntry

MAX_WRONG: Final = 1_000
"""Most wrong entries that are kept; of more only the number."""


class Matching:
    """Takes a session whenever no more sessions than entries wait. Both come in about the same order, so few
    of either wait for the other, however long log and chain are.

    Attributes:
        coverage: what waits.
        wrong: entries that the chain does not bear out.
        left_out: how many more of them there were.
    """

    def __init__(
        self, coverage: Coverage, sessions: AsyncIterator[FinalSession], chain: tuple[int, Address]
    ) -> None:
        """Begin.

        Args:
            coverage: what waits from before.
            sessions: that became final since.
            chain: chain id and PaymentManager of these sessions.
        """
        self.coverage = coverage
        self.wrong: list[WrongEntry] = []
        self.left_out = 0
        self._sessions = sessions
        self._chain = chain
        self._more = True

    async def take_entries(
        self, origin: str, entries: AsyncIterator[tuple[bytes, Frontier]]
    ) -> Frontier | None:
        """Take the entries of a log, each with the state that includes it; the last state, if any.

        Raises:
            InvalidInput: `audit-too-large`; whatever sessions and entries raise.
        """
        coverage, frontier = self.coverage, None
        async for data, frontier in entries:
            while self._more and len(coverage.missing) <= len(coverage.strangers):
                await self._take_session()
            self._note(coverage.see(origin, frontier.size - 1, data, self._chain))
        return frontier

    async def take_sessions(self) -> None:
        """Take all sessions that are left. Raises as `take_entries`."""
        while self._more:
            await self._take_session()

    async def _take_session(self) -> None:
        session = await anext(self._sessions, None)
        if session is None:
            self._more = False
        else:
            self._note(self.coverage.expect(session))

    def _note(self, wrong: WrongEntry | None) -> None:
        if wrong is None:
            return
        if len(self.wrong) < MAX_WRONG:
            self.wrong.append(wrong)
        else:
            self.left_out += 1
