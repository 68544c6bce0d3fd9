"""Serving an application, and the end of it."""

import asyncio
import socket

import aiohttp
import pytest
from aiohttp import web

from aioum_node.serving import ServingTimes, serving


async def test_an_end_that_is_to_wait_for_nobody_cuts_off_who_is_being_answered() -> None:
    arrived = asyncio.Event()

    async def never(request: web.Request) -> web.Response:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError

    application = web.Application()
    application.add_routes([web.get("/", never)])
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    async with asyncio.timeout(20), aiohttp.ClientSession() as http:
        async with serving(application, listening, ServingTimes(idle_seconds=60, shutdown_seconds=0)):
            asking = asyncio.ensure_future(http.get(f"http://127.0.0.1:{port}/"))
            await arrived.wait()

        with pytest.raises(aiohttp.ClientConnectionError):
            await asking
