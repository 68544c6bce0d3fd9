"""A kit: an archive whose manifest accounts for every byte in it. Its digest is its only name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from aioum.core.errors import InvalidInput
from aioum.kits.archive import content_digest, read_archive, write_archive
from aioum.kits.manifest import MANIFEST_PATH, FileEntry, KitManifest


@dataclass(frozen=True, slots=True)
class Kit:
    """A kit whose bytes were checked; made by `read_kit` and `pack_kit` alone.

    Attributes:
        digest: `sha256:…` of the archive.
        archive: all bytes.
        manifest: what it says of itself.
        files: content by path, the manifest's own among them.
    """

    digest: str
    archive: bytes = field(repr=False)
    manifest: KitManifest
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def program(self) -> bytes:
        """The file that is run."""
        return self.files[self.manifest.entrypoint]


def read_kit(archive: bytes) -> Kit:
    """Check an archive and what its manifest lists. Nothing is unpacked.

    Raises:
        InvalidInput: as `read_archive` and `KitManifest.from_bytes`; `kit-manifest-missing`;
            `kit-file-mismatch`, the manifest lists other files, sizes or digests; `kit-entrypoint-missing`.
    """
    files = read_archive(archive)
    if MANIFEST_PATH not in files:
        raise InvalidInput(f"the archive has no {MANIFEST_PATH}", code="kit-manifest-missing")
    manifest = KitManifest.from_bytes(files[MANIFEST_PATH])
    actual = _entries(files)
    if manifest.files != actual:
        raise InvalidInput(
            f"the manifest lists other files than there are: {_first_difference(manifest.files, actual)}",
            code="kit-file-mismatch",
        )
    _require_entrypoint(manifest)
    return Kit(content_digest(archive), archive, manifest, MappingProxyType(files))


def pack_kit(description: KitManifest, files: Mapping[str, bytes]) -> Kit:
    """Make a kit.

    Args:
        description: the manifest; its list of files is made anew.
        files: content by path, without the manifest.

    Raises:
        InvalidInput: as `write_archive`; `kit-manifest-invalid`, a file has the manifest's path or there is
            none; `kit-entrypoint-missing`.
    """
    if MANIFEST_PATH in files or not files:
        raise InvalidInput(
            f"a kit needs files, and {MANIFEST_PATH} is written by packing", code="kit-manifest-invalid"
        )
    manifest = replace(description, files=_entries(files))
    _require_entrypoint(manifest)
    # Reading it back holds the writer to the reader's rules.
    return read_kit(write_archive({**files, MANIFEST_PATH: manifest.to_bytes()}))


def _entries(files: Mapping[str, bytes]) -> tuple[FileEntry, ...]:
    return tuple(
        FileEntry(path, len(files[path]), content_digest(files[path]))
        for path in sorted(files)
        if path != MANIFEST_PATH
    )


def _require_entrypoint(manifest: KitManifest) -> None:
    if manifest.entrypoint not in {file.path for file in manifest.files}:
        raise InvalidInput(
            f"the entrypoint {manifest.entrypoint!r} is not among the files", code="kit-entrypoint-missing"
        )


def _first_difference(listed: tuple[FileEntry, ...], actual: tuple[FileEntry, ...]) -> str:
    there = {file.path: file for file in actual}
    for file in listed:
        if there.get(file.path) != file:
            return f"{file.path!r} differs" if file.path in there else f"{file.path!r} is missing"
    named = {file.path for file in listed}
    extra = [file.path for file in actual if file.path not in named]
    return f"{extra[0]!r} is not listed" if extra else "their order is another"
