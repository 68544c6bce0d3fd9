"""A folder of kits under their digests. What lies in it is checked at every use, never believed."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.core.errors import AioumError, ConfigError, Divergence, InvalidInput
from aioum.kits.archive import MAX_ARCHIVE_BYTES, content_digest
from aioum.kits.folder import read_regular
from aioum.kits.kit import Kit, read_kit
from aioum.kits.manifest import require_digest

SUFFIX: Final = ".gaos-verifier"


class CacheMismatch(Divergence):
    """The file of a digest has other bytes. It is left as it is: somebody should look at it."""

    default_code = "kit-cache-mismatch"


@dataclass(frozen=True, slots=True)
class KitCache:
    """Kits by digest, one file each.

    Attributes:
        folder: is made on the first store.
    """

    folder: Path

    def place(self, digest: str) -> Path:
        """Where the kit of a digest lies. Raises InvalidInput `kit-digest-invalid`."""
        return self.folder / (
            require_digest(digest, code="kit-digest-invalid").removeprefix("sha256:") + SUFFIX
        )

    def load(self, digest: str) -> Kit | None:
        """The kit of a digest, or None.

        Raises:
            CacheMismatch: a file is there, with other bytes.
            ConfigError: `kit-cache-unusable`.
        """
        place = self.place(digest)
        try:
            # A link could point at a file whose bytes change later.
            archive = read_regular(place, MAX_ARCHIVE_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(self.folder, error) from error
        if archive is None:
            raise _mismatch(place, "it is no regular file")
        if content_digest(archive) != digest:
            raise _mismatch(place, "its bytes have another digest")
        try:
            return read_kit(archive)
        except InvalidInput as error:
            # The digest is right, so these bytes were never a kit; nothing else could stand under this name.
            raise _mismatch(place, str(error)) from error

    def store(self, kit: Kit) -> Path:
        """Keep a kit. Durable on return: the file appears whole, under its final name, or not at all.

        Raises:
            CacheMismatch: a file of this name is there, with other bytes.
            ConfigError: `kit-cache-unusable`.
        """
        place = self.place(kit.digest)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp makes it 0600. A link, unlike a rename, never replaces what is already there.
            descriptor, name = tempfile.mkstemp(prefix=".incoming-", dir=self.folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(kit.archive)
                    file.flush()
                    os.fsync(file.fileno())
                with suppress(FileExistsError):
                    os.link(name, place)
            finally:
                Path(name).unlink(missing_ok=True)
            _sync(self.folder)
        except OSError as error:
            raise _unusable(self.folder, error) from error
        if self.load(kit.digest) is None:
            raise ConfigError(f"{place} is gone again", code="kit-cache-unusable")
        return place


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mismatch(place: Path, why: str) -> CacheMismatch:
    return CacheMismatch(
        f"{place.name} in the cache is not the kit that its name says: {why}",
        hint="look who changed it; after removing it, the kit can be fetched anew",
    )


def _unusable(folder: Path, error: OSError) -> AioumError:
    return ConfigError(
        f"the cache {folder} cannot be used: {error.strerror or error}", code="kit-cache-unusable"
    )
