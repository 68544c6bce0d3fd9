"""Keys at rest: Web3 secret storage (keystore version 3, scrypt), readable by other Ethereum tools."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Final

from aioum.core.errors import ConfigError, InvalidInput
from aioum.core.hextext import address_text
from aioum.core.signing import LocalKey

MAX_KEYSTORE_SIZE_BYTES: Final = 65_536


def create_keystore(path: Path, password: str, key: LocalKey | None = None) -> LocalKey:
    """Write a new keystore file (mode 0600) and return its key. Takes about a second: scrypt is slow on
    purpose.

    Args:
        path: where; an existing file is never replaced. Missing folders are made with mode 0700.
        password: not empty. It must not come from a command line, where every user of the machine can read
            it.
        key: the key to keep; None: a fresh random one.

    Raises:
        ConfigError: `keystore-exists`, `keystore-password-empty`, or `keystore-unwritable`.
    """
    if not password:
        raise ConfigError("a keystore needs a password", code="keystore-password-empty")
    if path.exists():
        raise _exists(path)
    key = key or _random_key()
    from eth_account import Account

    content = json.dumps(Account.encrypt(key.secret_bytes(), password)).encode()
    try:
        _write_once(path, content)
    except OSError as error:
        raise ConfigError(
            f"the keystore {path} cannot be written: {error.strerror}", code="keystore-unwritable"
        ) from error
    return key


def load_keystore(path: Path, password: str) -> LocalKey:
    """Read a keystore file. Takes about a second.

    Raises:
        ConfigError: `keystore-missing`, `keystore-exposed` (others than the owner may read it),
            `keystore-invalid`, or `keystore-password-wrong`.
    """
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise ConfigError(
                f"the keystore {path} can be read by others",
                code="keystore-exposed",
                hint=f"chmod 600 {path}",
            )
        with path.open("rb") as file:
            content = file.read(MAX_KEYSTORE_SIZE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the keystore {path} cannot be read: {error.strerror}",
            code="keystore-missing",
            hint="create one, or name another file",
        ) from error
    try:
        stored = json.loads(content) if len(content) <= MAX_KEYSTORE_SIZE_BYTES else None
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or stored.get("version") != 3:
        raise ConfigError(f"{path} is not a version 3 keystore", code="keystore-invalid")
    key = _decrypt(path, stored, password)
    named = stored.get("address")
    if isinstance(named, str) and named.lower().removeprefix("0x") != key.address.hex():
        raise ConfigError(
            f"{path} says that it holds another key than {address_text(key.address)}", code="keystore-invalid"
        )
    return key


def _write_once(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A hard link of a finished file: a crash leaves no half-written keystore, and no file is ever replaced.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            raise _exists(path) from None
    finally:
        draft.unlink()
    # The name has to be as durable as the content: money may go to this key in the next moment.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _decrypt(path: Path, stored: dict[str, object], password: str) -> LocalKey:
    from eth_account import Account

    try:
        return LocalKey(bytes(Account.decrypt(stored, password)))
    except ValueError as error:
        # eth-keyfile tells a wrong password from a damaged file by this text alone.
        if "MAC mismatch" in str(error):
            raise ConfigError(f"the password does not open {path}", code="keystore-password-wrong") from None
        raise ConfigError(f"{path} is damaged", code="keystore-invalid") from error
    except (InvalidInput, KeyError, TypeError, NotImplementedError) as error:
        raise ConfigError(f"{path} is damaged", code="keystore-invalid") from error


def _random_key() -> LocalKey:
    while True:
        try:
            return LocalKey(secrets.token_bytes(32))
        except InvalidInput:
            continue


def _exists(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} exists already", code="keystore-exists", hint="name another file; keys are never overwritten"
    )
