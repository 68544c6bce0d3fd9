"""The node's keys and secrets: key stores whose passwords lie in files that only the node's user may read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.chain.keystore import create_keystore, load_keystore
from aioum.core.errors import ConfigError
from aioum.core.signing import LocalKey
from aioum_node.api.challenges import SECRET_SIZE_BYTES
from aioum_node.settings import Settings

CHALLENGE_SECRET_FILE: Final = "challenge.secret"
_PRIVATE_MODE: Final = 0o600
_MAX_PASSWORD_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a node is: `operator` sends transactions, `receipt_signer` signs receipts and statements."""

    operator: LocalKey
    receipt_signer: LocalKey


def load_identity(settings: Settings) -> Identity:
    """Open the key stores; takes about a second for each.

    Raises:
        ConfigError: `password-missing`, `password-exposed`, and those of `load_keystore`.
    """
    operator = _load(settings, settings.operator_key_file, settings.operator_password_file)
    if settings.receipt_key_file is None:
        return Identity(operator, operator)
    if settings.receipt_password_file is None:
        raise ConfigError("receipt_key_file needs receipt_password_file", code="password-missing")
    return Identity(operator, _load(settings, settings.receipt_key_file, settings.receipt_password_file))


def create_operator(
    settings: Settings, key: LocalKey | None, *, random_text: Callable[[int], str] = secrets.token_urlsafe
) -> LocalKey:
    """Make the operator's key store with a random password beside it.

    Args:
        settings: name both files.
        key: the key to keep; None makes a fresh one.
        random_text: gives text with at least that many random bytes.

    Raises:
        ConfigError: `keystore-exists`, `keystore-unwritable`.
    """
    key_file = settings.path(settings.operator_key_file)
    if key_file.exists():
        # Found before a password is written: the file beside it opens that key store.
        raise ConfigError(
            f"{key_file} exists already", code="keystore-exists", hint="keys are never overwritten"
        )
    password = random_text(32)
    write_private(settings.path(settings.operator_password_file), password.encode() + b"\n")
    return create_keystore(key_file, password, key)


def challenge_secret(
    settings: Settings, *, random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> bytes:
    """The secret that binds challenges to this node; made at the first start, kept over restarts."""
    path = settings.path(Path(CHALLENGE_SECRET_FILE))
    if not path.exists():
        write_private(path, random_bytes(SECRET_SIZE_BYTES))
    secret = path.read_bytes()
    if len(secret) != SECRET_SIZE_BYTES:
        raise ConfigError(
            f"{path} does not have {SECRET_SIZE_BYTES} bytes", hint="delete it; a new one is made"
        )
    return secret


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all; an older one is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _load(settings: Settings, key_file: Path, password_file: Path) -> LocalKey:
    path = settings.path(password_file)
    try:
        exposed = os.name == "posix" and path.stat().st_mode & 0o077
        with path.open("rb") as file:
            password = file.read(_MAX_PASSWORD_BYTES)
    except OSError as error:
        raise ConfigError(
            f"the password file {path} cannot be read: {error.strerror}",
            code="password-missing",
            hint="aioum-node init makes keys; or name the file in the settings",
        ) from error
    if exposed:
        raise ConfigError(f"others may read {path}", code="password-exposed", hint=f"chmod 600 {path}")
    return load_keystore(settings.path(key_file), password.decode(errors="replace").rstrip("\r\n"))
