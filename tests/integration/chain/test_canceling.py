"""Requests that are canceled half-way."""

import asyncio

from aioum.chain.client import Chain


async def test_connection_stays_usable_however_its_requests_are_canceled(chain: Chain) -> None:
    for turns in range(60):
        requests = [asyncio.create_task(chain.head()) for _ in range(3)]
        for _ in range(turns % 20):
            await asyncio.sleep(0)
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)

    async with asyncio.timeout(30):
        assert (await chain.head()).number > 0
