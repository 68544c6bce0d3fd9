"""Who the log is: its name, and the key that signs its checkpoints, which is not the operator's."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from aioum.core.errors import AioumError, ConfigError
from aioum.core.hextext import to_hex
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.core.types import Address
from aioum.log.checkpoint import require_origin
from aioum.run.keys import SEED_BYTES, Ed25519Key
from aioum_node.keys.identity import write_private
from aioum_node.secret_files import read_secret
from aioum_node.settings import Settings

_KEY_BYTES = 32
_WHAT = "the transparency log's key"


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """A log's name and keys.

    Attributes:
        origin: the first line of every checkpoint.
        key: signs checkpoints.
        former_keys: public keys that did so before it, 32 bytes each.
    """

    origin: str
    key: Ed25519Key
    former_keys: tuple[bytes, ...] = ()

    @property
    def public_keys(self) -> tuple[bytes, ...]:
        """Of all keys, the one in use first."""
        return (self.key.public_key, *self.former_keys)


def keeps_log(settings: Settings) -> bool:
    """Whether the node keeps a log.

    Processes that share a store need one key, which a person has to bring to each of them first.
    """
    return settings.store == "sqlite" if settings.transparency_log is None else settings.transparency_log


def log_identity(
    settings: Settings, operator: Address, *, random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> LogIdentity | None:
    """The log that the settings ask for, or None. The first start of a node of its own makes the key.

    Raises:
        ConfigError: `log-key-missing`, the key of a log that exists, or one that others have, is not there;
            `log-key-malformed`; `log-origin-invalid`; and as `read_secret`.
    """
    if not keeps_log(settings):
        return None
    path = settings.path(settings.transparency_log_key_file)
    if not path.exists():
        folder = settings.path(settings.transparency_log_folder)
        if settings.store != "sqlite" or (folder / "origin").exists():
            raise ConfigError(
                f"{path} is not there, and a new key would make another log",
                code="log-key-missing",
                hint="copy it there from where you keep it; every node of a fleet needs the same key",
            )
        write_private(path, encode_base64(random_bytes(SEED_BYTES)).encode() + b"\n")
    try:
        key = Ed25519Key(decode_base64(read_secret(path, _WHAT), SEED_BYTES))
        former = tuple(decode_base64(text, _KEY_BYTES) for text in settings.transparency_log_former_keys)
    except ConfigError:
        raise
    except AioumError as error:
        raise ConfigError(
            f"{_WHAT}: {error}",
            code="log-key-malformed",
            hint="the key file holds 32 bytes in base64, and so does each of transparency_log_former_keys",
        ) from error
    origin = settings.transparency_log_origin or f"aioum-log/{to_hex(operator)}"
    try:
        require_origin(origin)
    except AioumError as error:
        raise ConfigError(str(error), code="log-origin-invalid", hint=error.hint) from error
    return LogIdentity(origin, key, former)
