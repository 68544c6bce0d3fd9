"""The node's keys and secrets: key stores whose passwords lie in files that only the node's user may read, or
keys that an external signer holds.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.chain.external_signer import ExternalSigner, SignerClient, SignerEndpoint, opened_client
from aioum.chain.keystore import create_keystore, load_keystore
from aioum.chain.signers import Signer
from aioum.core.errors import ConfigError, InvalidInput
from aioum.core.hextext import address
from aioum.core.signing import LocalKey
from aioum_node.api.challenges import SECRET_SIZE_BYTES
from aioum_node.secret_files import forbidden_mode, read_secret
from aioum_node.settings import Settings
from aioum_node.settings_signer import SignerSettings

CHALLENGE_SECRET_FILE: Final = "challenge.secret"
_PRIVATE_MODE: Final = 0o600
_MAX_PASSWORD_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a node is: `operator` sends transactions, `receipt_signer` signs receipts and statements.

    Attributes:
        retired: former receipt signers, for sessions whose terms name them.
    """

    operator: LocalKey | Signer
    receipt_signer: LocalKey | Signer
    retired: tuple[LocalKey | Signer, ...] = ()


@asynccontextmanager
async def opened_identity(settings: Settings) -> AsyncIterator[Identity]:
    """Open the key stores, about a second for each, and reach the external signer where one is set.

    Raises:
        ConfigError: `password-missing`, `password-exposed`, those of `load_keystore`, `opened_client` and
            `read_secret`; `signer-missing`, `signer-address-invalid`.
        SignerError: as `ExternalSigner.check`.
    """
    async with AsyncExitStack() as stack:
        client = None
        if settings.signer is not None:
            endpoint = _endpoint(settings, settings.signer)
            client = await stack.enter_async_context(opened_client(endpoint, settings.signer.kind))
        # One request after the other: clef asks a person about each.
        external = {name: await _external(client, name) for name in _named_addresses(settings)}
        yield await asyncio.to_thread(_identity, settings, external)


def load_identity(settings: Settings) -> Identity:
    """Open the key stores of a node without an external signer; takes about a second for each.

    Raises:
        ConfigError: as `opened_identity`.
    """
    return _identity(settings, {})


def _identity(settings: Settings, external: Mapping[str, Signer]) -> Identity:
    signer = settings.signer or SignerSettings(url="")
    operator = (
        _signer_of(external, signer.operator)
        if signer.operator
        else _load(settings, settings.operator_key_file, settings.operator_password_file)
    )
    receipt_signer: LocalKey | Signer = operator
    if signer.receipts:
        receipt_signer = _signer_of(external, signer.receipts)
    elif settings.receipt_key_file is not None:
        if settings.receipt_password_file is None:
            raise ConfigError("receipt_key_file needs receipt_password_file", code="password-missing")
        receipt_signer = _load(settings, settings.receipt_key_file, settings.receipt_password_file)
    retired: list[LocalKey | Signer] = []
    for key in settings.retired_receipt_keys:
        if key.key_file is not None and key.password_file is not None:
            retired.append(_load(settings, key.key_file, key.password_file))
        else:
            retired.append(_signer_of(external, key.address))
    return Identity(operator, receipt_signer, tuple(retired))


def _named_addresses(settings: Settings) -> list[str]:
    named = [key.address for key in settings.retired_receipt_keys]
    if settings.signer is not None:
        named += [settings.signer.operator, settings.signer.receipts]
    return sorted({name for name in named if name})


async def _external(client: SignerClient | None, name: str) -> Signer:
    if client is None:
        raise _signer_missing(name)
    try:
        account = address(name)
    except InvalidInput as error:
        raise ConfigError(f"key in the external signer: {error}", code="signer-address-invalid") from error
    signer = ExternalSigner(client, account)
    await signer.check()
    return signer


def _signer_of(external: Mapping[str, Signer], name: str) -> Signer:
    if name not in external:
        raise _signer_missing(name)
    return external[name]


def _signer_missing(name: str) -> ConfigError:
    return ConfigError(
        f"no external signer is set that could hold the key of {name:.80}",
        code="signer-missing",
        hint="set url in the table [signer]",
    )


def _endpoint(settings: Settings, signer: SignerSettings) -> SignerEndpoint:
    def path(file: Path | None) -> Path | None:
        return None if file is None else settings.path(file)

    token = None
    if signer.token_file is not None:
        token = read_secret(settings.path(signer.token_file), "the external signer's token")
    return SignerEndpoint(
        url=signer.url,
        timeout_seconds=signer.timeout_seconds,
        ca_file=path(signer.ca_file),
        certificate_file=path(signer.certificate_file),
        certificate_key_file=path(signer.certificate_key_file),
        token=token,
    )


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
        exposed = os.name == "posix" and path.stat().st_mode & forbidden_mode(path)
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
