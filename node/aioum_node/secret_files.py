"""Secrets come from files that nobody but the node's user may read: no setting, variable or flag is one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from aioum.core.errors import ConfigError

MAX_SECRET_BYTES: Final = 8_192


def read_secret(path: Path, what: str) -> str:
    """The text of a file, without white space around it.

    Args:
        path: the file.
        what: it holds, for the error.

    Raises:
        ConfigError: `secret-file-missing`, `secret-file-exposed` (others may read it) or
            `secret-file-malformed` (empty, over MAX_SECRET_BYTES, or no printable ASCII).
    """
    try:
        with path.open("rb") as file:
            exposed = os.name == "posix" and os.fstat(file.fileno()).st_mode & forbidden_mode(path)
            content = file.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the file of {what}, {path}, cannot be read: {error.strerror}",
            code="secret-file-missing",
            hint="write it there, mode 0600, or name another file in the settings",
        ) from error
    if exposed:
        raise ConfigError(
            f"others may read {path}, which holds {what}",
            code="secret-file-exposed",
            hint=f"chmod 600 {path}",
        )
    text = content.decode("ascii", errors="replace").strip()
    if not text or len(content) > MAX_SECRET_BYTES or not (text.isascii() and text.isprintable()):
        raise ConfigError(
            f"{path} does not hold {what}: one line of ASCII text is expected", code="secret-file-malformed"
        )
    return text


def forbidden_mode(path: Path) -> int:
    """The rights that the file of a secret may not give."""
    # systemd lets the service's user in by an access list, whose mask shows as the rights of the group; the
    # folder around it is closed to everybody else.
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return 0o007 if folder is not None and path.parent == Path(folder) else 0o077
