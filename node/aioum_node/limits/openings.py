"""How many openings and top-ups are looked up on the chain at once: in all, and for one address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aioum.core.errors import Refused
from aioum_node.limits.rates import Shares


class LookupSlots:
    """A place for each look-up. Nobody queues for one: the client is told to come again."""

    def __init__(self, most: int, most_per_client: int) -> None:
        self._most = most
        self._running = 0
        self._shares = Shares(most_per_client)

    @property
    def running(self) -> int:
        """Look-ups at this moment."""
        return self._running

    @contextmanager
    def held(self, client: str | None) -> Iterator[None]:
        """Hold a place for as long as the block lasts.

        Args:
            client: what the asking address is counted by; None is not counted.

        Raises:
            Refused: `too-many-openings`.
        """
        if self._running >= self._most:
            raise Refused("too many openings are being looked up", code="too-many-openings")
        if client is not None and not self._shares.take(client):
            raise Refused("too many openings of this address are being looked up", code="too-many-openings")
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if client is not None:
                self._shares.give_back(client)
