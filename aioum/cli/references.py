"""How a person names a session, a service, or some calls on the command line."""

from __future__ import annotations

from typing import Any

import click

MAX_DISCLOSED_CALLS = 10_000


class SessionReference(click.ParamType[bytes | int]):
    """A session: its channel id (32 bytes), or the number that the chain gave it."""

    name = "session"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes | int:
        """Read a reference; anything else is wrong usage."""
        from aioum.core.errors import InvalidInput
        from aioum.core.hextext import channel_id

        if isinstance(value, bytes | int):
            return value
        if is_number(value) and int(value) > 0:
            return int(value)
        try:
            return channel_id(value)
        except InvalidInput:
            self.fail(
                f"{value!r:.80} is no session number, and no channel id of 0x and 64 digits", param, ctx
            )


class CallIndexes(click.ParamType[tuple[int, ...]]):
    """Indexes of calls such as `1,2,5` or `0-3,7`."""

    name = "indexes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Read the indexes, ascending and without repetition."""
        if isinstance(value, tuple):
            return value
        indexes: set[int] = set()
        for part in str(value).split(","):
            first, dash, last = part.strip().partition("-")
            last = last if dash else first
            if not (is_number(first) and is_number(last)) or int(last) < int(first):
                self.fail(
                    f"{part!r:.40} is no index and no range; write them like 1,2,5 or 0-3,7", param, ctx
                )
            if int(last) - int(first) >= MAX_DISCLOSED_CALLS:
                self.fail(f"{part!r:.40} is more than {MAX_DISCLOSED_CALLS} calls", param, ctx)
            indexes.update(range(int(first), int(last) + 1))
        return tuple(sorted(indexes))


SESSION = SessionReference()
CALL_INDEXES = CallIndexes()


def is_number(text: str) -> bool:
    """Whether `text` is a non-negative integer as chains write them: at most 78 ASCII digits."""
    return text.isascii() and text.isdecimal() and len(text) <= 78
