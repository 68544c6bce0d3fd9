"""Looking at kept logs with `aioum log monitor`, and serving them with and without cards."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from aioum.chain import calls
from aioum.core.card import descriptor_hash
from aioum.core.hextext import address_text
from aioum.core.submission.framing import encode_base64
from aioum.core.submission.keys import SubmissionKey
from tests.integration.cli.log.kept_log import KEY, ORIGIN, KeptLog

NEW_KEY = SubmissionKey(b"\x08" * 32)
NOWHERE = "http://127.0.0.1:9/log"


def following(log: KeptLog, place: Path | str | None = None, key: SubmissionKey = KEY) -> dict[str, Any]:
    return {
        "operator": log.operator, "log": str(place or log.folder), "origin": ORIGIN,
        "publicKey": encode_base64(key.public_key),
    }  # fmt: skip


def options(tmp_path: Path, *operators: dict[str, Any], state: str = "state") -> list[str]:
    """To look once at these operators."""
    config = tmp_path / f"{state}.json"
    config.write_text(json.dumps({"operators": operators}))
    return ["monitor", "--once", "--config", str(config), "--state", str(tmp_path / state)]


def codes(look: Any, level: str = "alert") -> list[str]:
    return [remark["code"] for remark in look["remarks"] if remark["level"] == level]


def evidence(look: Any) -> dict[str, Any]:
    """The one piece of evidence."""
    (path,) = look["evidence"]
    value: dict[str, Any] = json.loads(Path(path).read_bytes())
    return value


def card_of(log: KeptLog) -> dict[str, Any]:
    terms, chain = log.service.service.terms, log.chain
    return {
        "name": "Shop", "operator": log.operator,
        "contracts": {
            "chainId": chain.chain_id, "serviceRegistry": address_text(chain.service_registry),
            "paymentManager": address_text(chain.payment_manager),
        },
        "token": {"address": address_text(terms.token), "symbol": "aUSD", "decimals": 6},
        "tools": [{"id": "repeat", "price": "1000"}], "receiptSigner": log.operator,
        "log": {"origin": ORIGIN, "publicKey": encode_base64(KEY.public_key)}, "maxLogDelaySeconds": 60,
    }  # fmt: skip


async def offer(log: KeptLog, card: dict[str, Any], url: str) -> None:
    """Register the service again, with this card at this address."""
    service = log.service.service
    terms = replace(service.terms, descriptor_hash=descriptor_hash(card))
    update = calls.update(log.chain.service_registry, service.service_id, terms, url)
    await log.service.operator.sender.send(update, "update")


@asynccontextmanager
async def hanging() -> AsyncIterator[str]:
    """A server that takes connections, and never answers."""
    ended = asyncio.Event()

    async def wait(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended.set()


@asynccontextmanager
async def hosted(folder: Path, card: dict[str, Any] | None = None) -> AsyncIterator[str]:
    """A folder as static files; below `/log`, where a card is served too."""

    async def describe(_request: web.Request) -> web.Response:
        return web.json_response({"card": card})

    application = web.Application()
    application.router.add_get("/.well-known/aioum.json", describe)
    application.router.add_static("/log" if card else "/", folder)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
