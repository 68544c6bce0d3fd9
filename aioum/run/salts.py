"""The secret of a run: all salts come from it, so one small file keeps every commitment openable.

It stays with the owner. A salt is BLAKE3, keyed with the secret, of the event's salt number and the side;
without the secret that is as good as sixteen random bytes, and one salt tells nothing about another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from blake3 import blake3

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import AioumError, ConfigError, InvalidInput
from aioum.core.hextext import from_hex, to_hex
from aioum.run.suite import SALT_BYTES

SECRETS_TYPE: Final = "aioum.run-secrets.v1"
SECRET_BYTES: Final = 32

_MAX_FILE_BYTES: Final = 4_096
_LOST: Final = "without it the run can be sealed and verified, but no content can be disclosed"


class Side(StrEnum):
    """Which of an event's two contents."""

    INPUT = "input"
    OUTPUT = "output"


_SIDE_BYTES: Final = {Side.INPUT: b"\x00", Side.OUTPUT: b"\x01"}


@dataclass(frozen=True, slots=True)
class RunSecrets:
    """What opens a run's commitments.

    Attributes:
        secret: SECRET_BYTES random bytes.
    """

    secret: bytes = field(repr=False)

    @classmethod
    def make(cls, random_bytes: Callable[[int], bytes]) -> Self:
        """A new secret."""
        return cls(random_bytes(SECRET_BYTES))

    def salt(self, number: int, side: Side) -> bytes:
        """A content's salt, SALT_BYTES. `number`: the event's salt number, 0 to 2^64-1."""
        place = number.to_bytes(8, "big") + _SIDE_BYTES[side]
        return blake3(place, key=self.secret).digest(SALT_BYTES)

    def write(self, path: Path) -> None:
        """Write a new file that its owner alone can read; its content is durable on return.

        Raises:
            OSError: the file exists, or cannot be written.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(canonical_bytes({"type": SECRETS_TYPE, "secret": to_hex(self.secret)}))
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` wrote.

        Raises:
            ConfigError: `run-secrets-missing`; `run-secrets-exposed`, others can read the file;
                `run-secrets-damaged`.
        """
        try:
            with path.open("rb") as file:
                mode, content = os.fstat(file.fileno()).st_mode, file.read(_MAX_FILE_BYTES + 1)
        except FileNotFoundError as error:
            raise ConfigError(f"{path} is not there", code="run-secrets-missing", hint=_LOST) from error
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read: {error.strerror}", code="run-secrets-damaged", hint=_LOST
            ) from error
        if os.name == "posix" and mode & 0o077:
            raise ConfigError(
                f"the run's secrets in {path} can be read by others",
                code="run-secrets-exposed",
                hint=f"chmod 600 {path}; who read them can open the commitments whose contents he can guess",
            )
        try:
            value = parse_json(content, max_bytes=_MAX_FILE_BYTES)
            if type(value) is not dict or value.keys() != {"type", "secret"} or value["type"] != SECRETS_TYPE:
                raise InvalidInput("expected a type and a secret")
            return cls(from_hex(value["secret"], SECRET_BYTES))
        except AioumError:
            # What stands there is secret: neither the text nor the error about it may be shown.
            raise ConfigError(
                f"{path} does not hold a run's secrets", code="run-secrets-damaged", hint=_LOST
            ) from None
