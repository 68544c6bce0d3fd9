"""How commands have the running node send for them: over a port of the loopback interface.

One process at a time sends for an account, and while a node runs that is the node. A file in its folder says
where it listens, with a token for this run; whoever may read that file may read the node's keys as well.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import aiohttp
import structlog
from aiohttp import web

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.wire import JsonObject
from aioum_node.keys.identity import write_private
from aioum_node.serving import listening, local_url

CONTROL_FILE: Final = "control.json"
"""The file's name in the node's folder: `{"token", "url"}`; it is there while the node runs."""

MAX_MESSAGE_BYTES: Final = 65_536
_LOOPBACK: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 32
_PATIENCE_SECONDS: Final = 600.0

Handle = Callable[[JsonObject], Awaitable[JsonObject]]

_log = structlog.get_logger(__name__)


class NodeRefused(AioumError):
    """The running node did not do it; code and hint are its own."""


@asynccontextmanager
async def serving_control(folder: Path, handle: Handle) -> AsyncIterator[None]:
    """Serve commands for as long as the block lasts.

    Args:
        folder: the node's, locked by this process.
        handle: does what a command asks; an AioumError becomes the answer.
    """
    token = secrets.token_hex(_TOKEN_BYTES)

    async def answer(request: web.Request) -> web.Response:
        shown = request.headers.get("Authorization", "")
        if not hmac.compare_digest(shown.encode(), f"Bearer {token}".encode()):
            return _json({"code": "token-wrong", "message": "another run's token", "hint": None}, 401)
        try:
            asked = parse_json(await request.read(), max_bytes=MAX_MESSAGE_BYTES)
            if not isinstance(asked, dict):
                raise InvalidInput("a command is a JSON object", code="command-malformed")
            return _json(await handle(asked), 200)
        except AioumError as error:
            return _json({"code": error.code, "message": str(error), "hint": error.hint}, 409)
        except Exception as error:
            _log.exception("command-broke")
            return _json({"code": "internal-error", "message": str(error), "hint": None}, 500)

    application = web.Application(client_max_size=MAX_MESSAGE_BYTES)
    application.router.add_post("/", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    path = folder / CONTROL_FILE
    try:
        listener = listening(_LOOPBACK, 0)
        await web.SockSite(runner, listener).start()
        write_private(path, canonical_bytes({"token": token, "url": local_url(_LOOPBACK, listener)}))
        yield
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        await runner.cleanup()


async def ask_node(folder: Path, command: JsonObject) -> JsonObject | None:
    """Have the node of this folder do something; None where none runs.

    Raises:
        NodeRefused: with the node's reason code; nothing else is known where it is `outcome-unknown`.
        AioumError: `node-silent`, it took the command and gave no answer: what became of it is not known.
    """
    try:
        named = parse_json((folder / CONTROL_FILE).read_bytes(), max_bytes=MAX_MESSAGE_BYTES)
    except (OSError, AioumError):
        return None
    if not isinstance(named, dict):
        return None
    headers = {"Authorization": f"Bearer {named.get('token')}"}
    timeout = aiohttp.ClientTimeout(total=_PATIENCE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as http,
            http.post(str(named.get("url")), data=canonical_bytes(command), headers=headers) as response,
        ):
            status = response.status
            said = parse_json(await response.read(), max_bytes=MAX_MESSAGE_BYTES)
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL):
        # A process that died left the file behind.
        return None
    except (aiohttp.ClientError, TimeoutError, InvalidInput) as error:
        raise AioumError(
            "the running node took the command and gave no answer",
            code="node-silent",
            hint="look into its log and at the chain before you try again",
        ) from error
    if status == 401:
        # Of a former run; another program has its port now.
        return None
    if status != 200 or not isinstance(said, dict):
        facts = said if isinstance(said, dict) else {}
        hint = facts.get("hint")
        raise NodeRefused(
            str(facts.get("message")),
            code=str(facts.get("code")),
            hint=hint if isinstance(hint, str) else None,
        )
    return said


def _json(value: JsonObject, status: int) -> web.Response:
    return web.Response(body=canonical_bytes(value), status=status, content_type="application/json")
