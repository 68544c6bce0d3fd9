"""Searching a chain through endpoints that refuse long ranges or do not keep old blocks."""

from typing import Any

import pytest

from aioum.chain.rpc import Rpc
from aioum.chain.scan import MAX_RANGE_BLOCKS, first_block_since, logs_between
from aioum.core.errors import AioumError
from aioum.core.types import Address
from tests.unit.chain.scripted_endpoint import RpcRefusal, Script, scripted_endpoint

AT = Address(b"\7" * 20)


def block(number: int, timestamp: int) -> dict[str, Any]:
    return {
        "number": hex(number),
        "hash": "0x" + number.to_bytes(32, "big").hex(),
        "timestamp": hex(timestamp),
    }


def log(number: int) -> dict[str, Any]:
    word = "0x" + number.to_bytes(32, "big").hex()
    return {
        "address": "0x" + AT.hex(),
        "topics": [],
        "data": "0x",
        "blockNumber": hex(number),
        "blockHash": word,
        "transactionHash": word,
        "transactionIndex": "0x0",
        "logIndex": "0x0",
        "removed": False,
    }


def archive(longest: int, asked: list[tuple[int, int]]) -> Script:
    """An endpoint with one log in each block, which refuses ranges of more than `longest` blocks."""

    def script(method: str, parameters: list[Any]) -> Any:
        assert method == "eth_getLogs"
        first, last = (int(parameters[0][name], 16) for name in ("fromBlock", "toBlock"))
        asked.append((first, last))
        if last - first + 1 > longest:
            raise RpcRefusal(-32005, "range too long")
        return [log(number) for number in range(first, last + 1)]

    return script


@pytest.mark.parametrize("longest", [1, 2, 500, 2_000])
async def test_every_log_comes_once_and_in_order_whatever_range_the_endpoint_takes(longest: int) -> None:
    asked: list[tuple[int, int]] = []
    last = min(4_321, longest * 40)
    async with scripted_endpoint(archive(longest, asked)) as url, Rpc(url) as rpc:
        numbers = [found["blockNumber"] async for found in logs_between(rpc, AT, 7, last)]
    assert numbers == list(range(7, last + 1))
    assert all(end - start < MAX_RANGE_BLOCKS for start, end in asked)
    assert len(asked) <= (last - 7) // max(1, longest // 2) + 15


async def test_one_block_that_is_refused_is_an_error() -> None:
    async with scripted_endpoint(archive(0, [])) as url, Rpc(url) as rpc:
        with pytest.raises(AioumError) as caught:
            _ = [found async for found in logs_between(rpc, AT, 0, 9)]
    assert caught.value.code == "rpc-error"


async def test_an_empty_range_asks_nothing() -> None:
    asked: list[tuple[int, int]] = []
    async with scripted_endpoint(archive(1, asked)) as url, Rpc(url) as rpc:
        assert [found async for found in logs_between(rpc, AT, 5, 4)] == []
    assert asked == []


TIMES = (10, 10, 12, 12, 12, 15, 20)


@pytest.mark.parametrize(
    "timestamp, expected", [(0, 0), (10, 0), (11, 2), (12, 2), (13, 5), (15, 5), (20, 6), (21, 7)]
)
async def test_the_first_block_since_a_time_is_found_among_equal_times(timestamp: int, expected: int) -> None:
    def script(_method: str, parameters: list[Any]) -> Any:
        number = int(parameters[0], 16)
        return block(number, TIMES[number])

    async with scripted_endpoint(script) as url, Rpc(url) as rpc:
        assert await first_block_since(rpc, timestamp, 0, len(TIMES) - 1) == expected


async def test_a_block_that_the_endpoint_does_not_keep_is_said() -> None:
    async with scripted_endpoint(lambda *_: None) as url, Rpc(url) as rpc:
        with pytest.raises(AioumError) as caught:
            await first_block_since(rpc, 5, 0, 9)
    assert caught.value.code == "block-missing"
