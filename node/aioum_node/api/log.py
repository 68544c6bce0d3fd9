"""The transparency log over HTTP: what any static host could serve, and the place of one session."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import Refused
from aioum.core.hextext import channel_id as parse_channel_id
from aioum_node.log.reader import LogReader

_FOR_EVER: Final = "public, max-age=31536000, immutable"
_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"


class LogRoutes:
    """Reads; nothing here can change the log. What they raise, the application answers.

    Args:
        log: what is served; None where the operator keeps no log.
    """

    def __init__(self, log: LogReader | None) -> None:
        self._log = log

    async def checkpoint(self, request: web.Request) -> web.Response:
        """`GET /log/checkpoint`."""
        note = await self._reader().checkpoint()
        if note is None:
            raise Refused(
                "the log has no checkpoint yet",
                code="log-resource-missing",
                hint="it gets its first one when the first session is over",
            )
        return _answer(note, _TEXT, "no-cache")

    async def tile(self, request: web.Request) -> web.Response:
        """`GET /log/tile/…`."""
        data = await self._reader().file("tile/" + request.match_info["path"])
        # A tile with this path always has these bytes.
        return _answer(data, _BYTES, _FOR_EVER)

    async def proof(self, request: web.Request) -> web.Response:
        """`GET /log/proof/{channelId}`."""
        membership = await self._reader().membership(parse_channel_id(request.match_info["channel_id"]))
        if membership is None:
            raise Refused(
                "the session is not in the log, or not yet",
                code="session-not-logged",
                hint="once it is final it has to be there within the card's maxLogDelaySeconds; "
                "`aioum log audit` says whether it is late",
            )
        return _answer(canonical_bytes(membership.to_json()), "application/json", "no-cache")

    def _reader(self) -> LogReader:
        if self._log is None:
            raise Refused(
                "this operator keeps no transparency log",
                code="log-not-kept",
                hint="a card that promises one names it as `log`",
            )
        return self._log


def _answer(body: bytes, content_type: str, cache: str) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": content_type, "Cache-Control": cache})
