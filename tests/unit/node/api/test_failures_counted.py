"""Whatever is not answered as it was asked is counted by code, and what broke is logged with its session."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs
from structlog.typing import EventDict

from aioum.core.errors import AioumError
from aioum.core.hextext import to_hex
from tests.unit.node.api.shop import Shop, running_shop
from tests.unit.node.api.wares import PRICE, shout

NO_HASH = "0x" + "11" * 32


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with running_shop(tmp_path, [shout], max_request_bytes=1_000) as running:
        yield running


@pytest.fixture
def entries() -> Iterator[list[EventDict]]:
    """What is logged, with the ids that belong to it."""
    with capture_logs(processors=[merge_contextvars]) as captured:
        yield captured


async def refusals(shop: Shop) -> dict[str, float]:
    async with shop.admin.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    counted = [line for line in lines if line.startswith("aioum_refusals_total{")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in counted}


async def test_what_no_route_serves_and_what_public_reads_miss_is_counted(shop: Shop) -> None:
    channel = await shop.open_session()
    replies = [
        await shop.get("/nothing"),
        await shop.get("/tools/shout"),
        await shop.pay(channel, PRICE, body=b" " * 2_000),
        await shop.get(f"/cards/{NO_HASH}"),
        await shop.get("/cards/one"),
        await shop.get("/log/checkpoint"),
        await shop.get("/log/tile/0/000"),
        await shop.get(f"/log/proof/{NO_HASH}"),
    ]

    assert [(reply.status, reply.code) for reply in replies] == [
        (404, "not-found"),
        (405, "method-not-allowed"),
        (413, "request-too-large"),
        (404, "card-unknown"),
        (400, "hex-invalid"),
        *[(404, "log-not-kept")] * 3,
    ]
    assert await refusals(shop) == {
        "not-found": 1,
        "method-not-allowed": 1,
        "request-too-large": 1,
        "card-unknown": 1,
        "hex-invalid": 1,
        "log-not-kept": 3,
    }


async def test_a_bug_in_serving_a_call_is_counted_and_logged_with_session_and_call(
    shop: Shop, entries: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*arguments: Any) -> NoReturn:
        raise RuntimeError("a bug")

    channel = await shop.open_session()
    with monkeypatch.context() as patched:
        patched.setattr(shop.store, "record", broken)
        reply = await shop.pay(channel, PRICE)

    assert (reply.status, reply.code) == (500, "internal-error")
    assert await refusals(shop) == {"call-broke": 1, "request-broke": 1}
    told = {entry["event"]: entry for entry in entries}
    assert (told["call-broke"]["channel"], told["call-broke"]["call"]) == (to_hex(channel), 0)
    assert told["request-broke"]["path"] == "/tools/shout"


async def test_a_read_that_the_store_fails_is_logged_with_its_session(
    shop: Shop, entries: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*arguments: Any) -> NoReturn:
        raise AioumError("no disk", code="store-failed")

    channel = await shop.open_session()
    with monkeypatch.context() as patched:
        patched.setattr(shop.store, "session", failing)
        reply = await shop.read(channel)

    assert (reply.status, reply.code) == (503, "store-busy")
    assert await refusals(shop) == {"store-failed": 1}
    (entry,) = entries
    assert (entry["event"], entry["channel"], entry["code"]) == (
        "request-failed",
        to_hex(channel),
        "store-failed",
    )
