"""Reading a module at the place that a card names."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from aioum.cli.pinned_modules import ModuleUnreadable, fetch_module, read_modules
from aioum.core.errors import InvalidInput
from aioum.kits.wasm import MAX_MODULE_BYTES

MODULE = b"\0asm\x01\0\0\0 any bytes \xff"


async def refused(uri: str, *, offline: bool = False) -> str:
    with pytest.raises(ModuleUnreadable) as refusal:
        await asyncio.wait_for(fetch_module(uri, offline=offline), 30)
    return refusal.value.code


async def test_a_file_with_any_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a module%20ä.wasm"
    path.write_bytes(MODULE)

    assert await fetch_module(path.as_uri(), offline=True) == MODULE


@pytest.mark.parametrize(
    "head, body", [(";base64", base64.b64encode(MODULE).decode()), ("application/wasm", "%00asm%01%00%00%00")]
)
async def test_data_in_the_uri_itself_is_taken(head: str, body: str) -> None:
    assert (await fetch_module(f"data:{head},{body}", offline=True))[:8] == MODULE[:8]


async def test_what_has_no_end_or_is_too_long_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "long").open("wb") as long:
        long.truncate(MAX_MODULE_BYTES + 1)

    for path in (tmp_path / "pipe", tmp_path / "long", tmp_path, Path("/dev/zero"), tmp_path / "absent"):
        assert await refused(path.as_uri()) == "wasm-module-unreachable"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "module.wasm",
        "data:;base64,!!!",
        "data:no-comma",
        "file://other-host/module.wasm",
        "file:///a\0b",
        "ftp://shop.example/module.wasm",
        "http://shop.example/module.wasm",
        "https://[",
        "https://127.0.0.1:1/module.wasm",
        "https:",
    ],
)
async def test_other_places_are_refused(uri: str) -> None:
    assert await refused(uri) == "wasm-module-unreachable"


@pytest.fixture
async def shop() -> AsyncIterator[str]:
    """A server on this machine."""
    application = web.Application(client_max_size=2**26)

    async def serve(request: web.Request) -> web.Response:
        match request.match_info["name"]:
            case "moved":
                raise web.HTTPFound("/module")
            case "absent":
                raise web.HTTPNotFound
            case "long":
                return web.Response(body=bytes(MAX_MODULE_BYTES + 1))
        return web.Response(body=MODULE)

    application.router.add_get("/{name}", serve)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_a_module_is_downloaded_without_redirects_and_up_to_its_limit(shop: str) -> None:
    assert await fetch_module(f"{shop}/module") == MODULE
    for name in ("moved", "absent", "long"):
        assert await refused(f"{shop}/{name}") == "wasm-module-unreachable"


async def test_offline_no_network_is_asked(shop: str) -> None:
    assert await refused(f"{shop}/module", offline=True) == "wasm-module-unreachable"


def test_named_files_must_be_readable(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(MODULE)

    assert read_modules([tmp_path / "a"]) == [MODULE]
    for name in ("absent", "."):
        with pytest.raises(InvalidInput) as refusal:
            read_modules([tmp_path / name])
        assert refusal.value.code == "file-unusable"
