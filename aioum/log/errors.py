"""What the log refuses, by kind; the codes are at the functions that raise them."""

from __future__ import annotations

from typing import ClassVar

from aioum.core.errors import AioumError, InvalidInput


class CheckpointInvalid(AioumError):
    """A checkpoint is not written as C2SP says, or not signed by the log's key."""

    default_code: ClassVar[str] = "checkpoint-layout-malformed"


class TileInvalid(InvalidInput):
    """A tile, an entry bundle or the path of one is malformed."""

    default_code: ClassVar[str] = "tile-malformed"


class ResourceMissing(AioumError):
    """A static file of the log is not there (on the web: 404)."""

    default_code: ClassVar[str] = "log-resource-missing"


class LogFolderError(AioumError):
    """A log folder cannot be written or does not hold what it must."""

    default_code: ClassVar[str] = "log-folder-missing"


class PublishRefused(AioumError):
    """Publishing could show two histories, so nothing is published; a person has to look."""

    default_code: ClassVar[str] = "log-forked"
