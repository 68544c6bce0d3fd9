"""Modules for `verify-evidence --reexec`: from files, or from the place that a card names.

A card is its operator's word, so its `uri` may name anything. Whatever is read is bounded, and used only
where its digest is the pinned one.
"""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit
from urllib.request import url2pathname

from aioum.core.errors import AioumError, InvalidInput, OutcomeUnknown
from aioum.kits.wasm import MAX_MODULE_BYTES

TIMEOUT_SECONDS: Final = 60.0
_CONNECT_SECONDS = 10.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


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


async def fetch_module(uri: str, *, offline: bool = False) -> bytes:
    """Read a module at an `https:`, `file:` or `data:` URI, without redirects.

    Args:
        uri: `http:` is taken too where it names this machine.
        offline: ask no network.

    Raises:
        ModuleUnreadable: whatever the reason.
    """
    try:
        parts = urlsplit(uri)
        host = parts.hostname
        if parts.scheme == "data":
            return _inline(uri)
        if parts.scheme == "file" and host in (None, "localhost"):
            return await asyncio.to_thread(_read_file, Path(url2pathname(parts.path)))
    except (ValueError, OSError) as error:
        raise ModuleUnreadable(f"{uri!r:.200}: {error}") from error
    if offline:
        raise ModuleUnreadable(f"{uri!r:.200} is not on this machine, and no network is asked")
    if parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK):
        return await _download(uri)
    raise ModuleUnreadable(f"{uri!r:.200} is no https, file or data URI")


def _read_file(path: Path) -> bytes:
    # Opened before it is looked at, and never waited for: a pipe or a device has no end.
    with open(path, "rb", opener=_open_without_waiting) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ModuleUnreadable("it is no file")
        data = stream.read(MAX_MODULE_BYTES + 1)
    if len(data) > MAX_MODULE_BYTES:
        raise ModuleUnreadable(f"it is longer than {MAX_MODULE_BYTES} bytes")
    return data


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _inline(uri: str) -> bytes:
    head, comma, body = uri.removeprefix("data:").partition(",")
    if not comma:
        raise ModuleUnreadable("its data URI has no comma")
    if head.endswith(";base64"):
        return base64.b64decode(unquote(body), validate=True)
    return unquote_to_bytes(body)


async def _download(url: str) -> bytes:
    from aioum.client.http import HttpTransport

    transport = HttpTransport(connect_timeout_seconds=_CONNECT_SECONDS)
    try:
        answer = await transport.request(
            "GET", url, headers={}, body=None, max_bytes=MAX_MODULE_BYTES, timeout_seconds=TIMEOUT_SECONDS
        )
    except OutcomeUnknown as error:
        raise ModuleUnreadable(str(error)) from error
    finally:
        await transport.aclose()
    if answer.status != 200:
        raise ModuleUnreadable(f"{url!r:.200} answers with status {answer.status}")
    return answer.body
