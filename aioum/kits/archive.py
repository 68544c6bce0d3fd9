"""The canonical archive of a kit: a ustar that is nothing but the paths and bytes of its files.

Two archives with the same files are the same bytes, so the SHA-256 of all bytes names the files. Reading
therefore accepts only what writing gives, and nothing is ever unpacked to find out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from aioum.core.errors import InvalidInput

MAX_ARCHIVE_BYTES: Final = 67_108_864
MAX_FILES: Final = 512
"""Most entries of an archive, the manifest's included."""

MAX_PATH_BYTES: Final = 100

_BLOCK: Final = 512
_END: Final = bytes(2 * _BLOCK)
_SIZE: Final = re.compile(rb"[0-7]{11}\0")
_CHECKSUM_AT: Final = slice(148, 156)


def content_digest(data: bytes) -> str:
    """`sha256:` and the lower-case hex of the SHA-256."""
    return "sha256:" + sha256(data).hexdigest()


def write_archive(files: Mapping[str, bytes]) -> bytes:
    """The canonical archive of some files.

    Args:
        files: content by path, at most MAX_FILES.

    Raises:
        InvalidInput: `kit-path-unsafe`, `kit-too-many-files`, `kit-too-large`.
    """
    _require_count(len(files))
    _require_safe(files)
    parts: list[bytes] = []
    for path in sorted(files):
        content = files[path]
        parts += (_header(path, len(content)), content, bytes(-len(content) % _BLOCK))
    archive = b"".join((*parts, _END))
    _require_size(len(archive))
    return archive


def read_archive(archive: bytes) -> dict[str, bytes]:
    """The files of a canonical archive, by path.

    Raises:
        InvalidInput: `kit-too-large`, `kit-too-many-files`, `kit-path-unsafe`, `kit-entry-not-regular`,
            `kit-archive-malformed` (no ustar, truncated, or a wrong checksum or end), or `kit-not-canonical`:
            the same files are written as other bytes.
    """
    _require_size(len(archive))
    if not archive or len(archive) % _BLOCK:
        raise _malformed(f"{len(archive)} bytes are not a number of blocks of {_BLOCK} bytes")
    files: dict[str, bytes] = {}
    offset = 0
    while any(header := archive[offset : offset + _BLOCK]):
        path, size = _parse_header(header)
        start = offset + _BLOCK
        offset = start + size + -size % _BLOCK
        if offset > len(archive):
            raise _malformed(f"it ends within {path!r}")
        if path in files:
            raise _not_canonical(f"{path!r} occurs twice")
        files[path] = archive[start : start + size]
        _require_count(len(files))
    if archive[offset:] != _END:
        raise _malformed("it does not end with exactly two zero blocks")
    if write_archive(files) != archive:
        raise _not_canonical("its order, attributes or padding are not those that writing gives")
    return files


def require_safe_path(path: str) -> None:
    """Refuse a path that is not relative, normalized and short.

    Raises:
        InvalidInput: `kit-path-unsafe`.
    """
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        size = 0
    segments = path.split("/")
    if (
        not 0 < size <= MAX_PATH_BYTES
        or any(segment in ("", ".", "..") for segment in segments)
        or any(character == "\\" or character < " " or character == "\x7f" for character in path)
    ):
        raise InvalidInput(
            f"a kit cannot hold a file at {path!r:.120}",
            code="kit-path-unsafe",
            hint=f"paths are relative and normalized, of at most {MAX_PATH_BYTES} bytes, without backslashes",
        )


def _require_safe(files: Mapping[str, bytes]) -> None:
    for path in files:
        require_safe_path(path)
        parent = path
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent in files:
                raise InvalidInput(f"{parent!r} is a file and the folder of {path!r}", code="kit-path-unsafe")


def _header(path: str, size: int) -> bytes:
    header = bytearray(_BLOCK)
    name = path.encode()
    header[: len(name)] = name
    header[100:108] = b"0000444\0"
    header[108:116] = header[116:124] = b"0000000\0"
    header[124:136] = b"%011o\0" % size
    header[136:148] = b"%011o\0" % 0
    header[156:157] = b"0"
    header[257:265] = b"ustar\x0000"
    header[_CHECKSUM_AT] = _checksum(header)
    return bytes(header)


def _checksum(header: bytes | bytearray) -> bytes:
    blanked = sum(header) - sum(header[_CHECKSUM_AT]) + 8 * ord(" ")
    return b"%06o\0 " % blanked


def _parse_header(header: bytes) -> tuple[str, int]:
    if header[_CHECKSUM_AT] != _checksum(header):
        raise _malformed("a header's checksum is wrong")
    if header[257:265] != b"ustar\x0000":
        raise _malformed("a header is not one of ustar")
    if header[156:157] != b"0":
        raise InvalidInput(
            "an entry is not a regular file; a kit holds nothing else", code="kit-entry-not-regular"
        )
    try:
        path = header[:100].rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("a path is not UTF-8", code="kit-path-unsafe") from error
    require_safe_path(path)
    if not _SIZE.fullmatch(header[124:136]):
        raise _malformed(f"the size of {path!r} is not 11 octal digits")
    return path, int(header[124:135], 8)


def _require_count(count: int) -> None:
    if count > MAX_FILES:
        raise InvalidInput(f"a kit holds at most {MAX_FILES} files", code="kit-too-many-files")


def _require_size(size: int) -> None:
    if size > MAX_ARCHIVE_BYTES:
        raise InvalidInput(f"a kit has at most {MAX_ARCHIVE_BYTES} bytes, not {size}", code="kit-too-large")


def _malformed(why: str) -> InvalidInput:
    return InvalidInput(f"not a kit's archive: {why}", code="kit-archive-malformed")


def _not_canonical(why: str) -> InvalidInput:
    return InvalidInput(f"the archive is not in its canonical form: {why}", code="kit-not-canonical")
