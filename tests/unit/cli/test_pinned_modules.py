"""Reading a module at the place that a card names."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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
    (tmp_path / "empty").touch()
    with (tmp_path / "long").open("wb") as long:
        long.truncate(MAX_MODULE_BYTES + 1)

    for name in ("pipe", "empty", "long", ".", "absent"):
        assert await refused((tmp_path / name).as_uri()) == "wasm-module-unreachable"


async def test_devices_and_files_of_the_kernel_are_not_even_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr(os, "open", lambda path, *_: opened.append(path))

    for path in ("/dev/zero", "/dev/tty", "/proc/self/environ", "/proc/version"):
        assert await refused(f"file://{path}") == "wasm-module-unreachable"

    assert opened == []


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
async def own_server() -> AsyncIterator[tuple[int, list[str]]]:
    """The port of a server on this machine, and what connects to it."""
    met: list[str] = []

    async def meet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append("somebody")
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], met


async def test_a_card_cannot_have_the_verifiers_own_network_asked(
    own_server: tuple[int, list[str]],
) -> None:
    port, met = own_server

    for place in ("https://127.0.0.1", "https://localhost", "https://[::ffff:127.0.0.1]", "http://127.0.0.1"):
        assert await refused(f"{place}:{port}/stop") == "wasm-module-unreachable"

    assert met == []


class Mirror:
    """A fetcher that has one module."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def fetch(self, url: str, *, max_bytes: int) -> bytes:
        self.asked.append(url)
        assert max_bytes == MAX_MODULE_BYTES
        return MODULE


async def test_a_module_is_downloaded_unless_no_network_is_to_be_asked() -> None:
    mirror = Mirror()
    uri = "https://shop.example/module.wasm"

    assert await fetch_module(uri, fetcher=mirror) == MODULE
    with pytest.raises(ModuleUnreadable):
        await fetch_module(uri, fetcher=mirror, offline=True)

    assert mirror.asked == [uri]


def test_named_files_must_be_readable(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(MODULE)

    assert read_modules([tmp_path / "a"]) == [MODULE]
    for name in ("absent", "."):
        with pytest.raises(InvalidInput) as refusal:
            read_modules([tmp_path / name])
        assert refusal.value.code == "file-unusable"
