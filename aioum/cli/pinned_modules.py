"""Modules for `verify-evidence --reexec`: from files, or from the place that a card names.

A card is its operator's word, so its `uri` may name anything. Nothing but regular files and machines of the
public Internet is asked, whatever is read is bounded, and it is used only where its digest is the pinned one.
"""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit
from urllib.request import url2pathname

from aioum.core.errors import AioumError, InvalidInput
from aioum.kits.wasm import MAX_MODULE_BYTES

if TYPE_CHECKING:
    from aioum.kits.fetch import KitFetcher

TIMEOUT_SECONDS: Final = 60.0


class ModuleUnreadable(AioumError):
    """Nothing could be read at a URI."""

    default_code = "wasm-module-unreachable"


def read_modules(files: Iterable[Path]) -> list[bytes]:
    """The contents of files that a person names.

    Raises:
        InvalidInput: `file-unusable`.
    """
    modules = []
    for file in files:
        try:
            modules.append(_read_file(file))
        except (OSError, ModuleUnreadable) as error:
            raise InvalidInput(f"cannot read {file}: {error}", code="file-unusable") from error
    return modules


async def fetch_module(uri: str, *, offline: bool = False, fetcher: KitFetcher | None = None) -> bytes:
    """Read a module at an `https:`, `file:` or `data:` URI.

    Args:
        uri: as the card has it.
        offline: ask no network.
        fetcher: asks by HTTPS; by default as for kits: without redirects, and of public addresses alone.

    Raises:
        ModuleUnreadable: whatever the reason.
    """
    try:
        parts = urlsplit(uri)
        if parts.scheme == "data":
            return _inline(uri)
        if parts.scheme == "file" and parts.hostname in (None, "localhost"):
            return await asyncio.to_thread(_read_file, Path(url2pathname(parts.path)))
    except (ValueError, OSError) as error:
        raise ModuleUnreadable(f"{uri!r:.200}: {error}") from error
    if offline:
        raise ModuleUnreadable(f"{uri!r:.200} is not on this machine, and no network is asked")
    if parts.scheme == "https":
        return await _download(uri, fetcher)
    raise ModuleUnreadable(f"{uri!r:.200} is no https, file or data URI")


def _read_file(path: Path) -> bytes:
    # Looked at before it is opened, for opening a device can have effects; and again once it is open.
    _require_module_file(os.stat(path))
    with open(path, "rb", opener=_open_without_waiting) as stream:
        _require_module_file(os.fstat(stream.fileno()))
        data = stream.read(MAX_MODULE_BYTES + 1)
    if len(data) > MAX_MODULE_BYTES:
        raise ModuleUnreadable(f"it is longer than {MAX_MODULE_BYTES} bytes")
    return data


def _require_module_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ModuleUnreadable("it is no file")
    # The kernel's own files, which reading can block on or use up, say that they are empty.
    if not 0 < status.st_size <= MAX_MODULE_BYTES:
        raise ModuleUnreadable(f"it has {status.st_size} bytes, and a module has 1 to {MAX_MODULE_BYTES}")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _inline(uri: str) -> bytes:
    head, comma, body = uri.removeprefix("data:").partition(",")
    if not comma:
        raise ModuleUnreadable("its data URI has no comma")
    if head.endswith(";base64"):
        return base64.b64decode(unquote(body), validate=True)
    return unquote_to_bytes(body)


async def _download(url: str, fetcher: KitFetcher | None) -> bytes:
    if fetcher is None:
        from aioum.client.kit_download import HttpsKitFetcher

        fetcher = HttpsKitFetcher(timeout_seconds=TIMEOUT_SECONDS)
    try:
        return await fetcher.fetch(url, max_bytes=MAX_MODULE_BYTES)
    except AioumError as error:
        raise ModuleUnreadable(f"{url!r:.200}: {error}") from error
