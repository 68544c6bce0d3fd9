"""How much of what is dear to have many of goes on at once: in all, and for one client or session."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from aioum.core.errors import Refused
from aioum_node.limits.rates import Shares


class Slots:
    """A place for each. Nobody queues for one: the client is told to come again."""

    def __init__(self, most: int, most_each: int, *, what: str, code: str) -> None:
        """Args: most_each: places of one key; what: takes them, in the plural; code: of the refusal."""
        self._most = most
        self._taken = 0
        self._shares = Shares(most_each)
        self._what = what
        self._code = code

    @property
    def taken(self) -> int:
        """Places that are held at this moment."""
        return self._taken

    @contextmanager
    def held(self, key: Hashable | None) -> Iterator[None]:
        """Hold a place for as long as the block lasts.

        Args:
            key: whose share it is of; None has no share, and counts in all alone.

        Raises:
            Refused: with the code of these places.
        """
        if self._taken >= self._most:
            raise Refused(f"too many {self._what} at once", code=self._code)
        if key is not None and not self._shares.take(key):
            raise Refused(f"too many {self._what} of one client at once", code=self._code)
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
            if key is not None:
                self._shares.give_back(key)
