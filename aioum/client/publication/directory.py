"""Publishing into a folder that a web server serves."""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.client.publication.exchange import Reach
from aioum.client.publication.published import Placed, PublishFailed, require_uri_length
from aioum.client.publication.service import service_url
from aioum.core.types import Bytes32

_MODE: Final = 0o644
"""Of the file, less what the process's umask takes away: a web server has to read it."""


@dataclass(frozen=True, slots=True)
class DirectoryPublisher:
    """A `Publisher` that writes one file, named by its hash, into a folder that is served at a URL.

    A file is there whole or not at all, and one that holds other bytes is never replaced.

    Attributes:
        directory: an existing folder.
        base_url: what the folder is served as; https, or http for this machine alone.
        reach: whether plain HTTP is allowed elsewhere too.
    """

    directory: Path
    base_url: str
    reach: Reach

    async def place(self, data: bytes, evidence_hash: Bytes32) -> Placed:
        """See `Publisher.place`.

        Raises:
            InvalidInput: `service-url-invalid`.
            PolicyRefused: `plain-http-refused`.
            PublishFailed: `publish-directory-unusable`, or `publish-conflict`: a file of that name holds
                other bytes; `publish-uri-too-long`.
        """
        name = f"{evidence_hash.hex()}.json"
        uri = f"{service_url(self.base_url, self.reach)}/{name}"
        require_uri_length(uri)
        try:
            await asyncio.to_thread(_write_once, self.directory / name, data)
        except OSError as error:
            raise PublishFailed(
                f"cannot write to {self.directory}: {error.strerror or error}",
                code="publish-directory-unusable",
                hint="name an existing folder that you may write to",
            ) from error
        return Placed(uri)


def _write_once(path: Path, data: bytes) -> None:
    if _is_there(path, data):
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # A link, not a rename: it fails where the name is taken, whoever took it in the meantime.
        with suppress(FileExistsError):
            os.link(draft, path)
        if not _is_there(path, data):
            raise FileNotFoundError(2, "the file vanished", str(path))
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _is_there(path: Path, data: bytes) -> bool:
    """Whether the name holds exactly these bytes. Raises PublishFailed where it holds others."""
    try:
        with path.open("rb") as file:
            found = file.read(len(data) + 1)
    except FileNotFoundError:
        return False
    if found != data:
        raise PublishFailed(
            f"{path} holds other bytes than its name says, and is left as it is",
            code="publish-conflict",
            hint="find out what changed it, and move it away",
        )
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
