"""What `aioum verify-run` reads: the artifact, an adapter's file, and heads that seats kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aioum.cli.python_file import import_file
from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import ConfigError, InvalidInput
from aioum.core.submission.framing import decode_base64
from aioum.core.types import Bytes32

if TYPE_CHECKING:
    from aioum.replay.adapter import RecheckReplay

MAX_HEADS_BYTES: Final = 16 * 1024 * 1024

_FUNCTION: Final = "recheck_replay"
_HEADS_CODE: Final = "heads-invalid"


def read_bytes(file: Path, max_bytes: int) -> bytes:
    """A file's bytes, or standard input's for `-`.

    Raises:
        InvalidInput: `file-unusable` or `artifact-too-large`.
    """
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(max_bytes + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror or error}", code="file-unusable") from error
    if len(data) > max_bytes:
        raise InvalidInput(f"{file} has over {max_bytes} bytes", code="artifact-too-large")
    return data


def load_adapter(file: Path) -> RecheckReplay:
    """The function of an adapter's file. Its code runs in this process, with all that this process may do.

    Raises:
        ConfigError: `adapter-unusable`.
    """
    function: RecheckReplay | None = getattr(import_file(file, "aioum_verify_adapter"), _FUNCTION, None)
    if not callable(function):
        raise ConfigError(
            f"{file} has no function {_FUNCTION}(artifact)",
            code="adapter-unusable",
            hint=f"an adapter is a Python file with a function {_FUNCTION}(artifact)",
        )
    return function


def retained_heads(options: Sequence[str], file: Path | None) -> dict[str, set[Bytes32]]:
    """Heads by seat, from `SEAT=BASE64` texts and from a JSON object of seats to one head or a list of them.

    Raises:
        InvalidInput: `heads-invalid` or `file-unusable`, or a code of the JSON loader.
    """
    heads: dict[str, set[Bytes32]] = {}
    for text in options:
        seat, separator, head = text.partition("=")
        if not seat or not separator:
            raise InvalidInput(f"a retained head is SEAT=BASE64, got {text!r:.100}", code=_HEADS_CODE)
        heads.setdefault(seat, set()).add(_head(head))
    if file is not None:
        given = parse_json(read_bytes(file, MAX_HEADS_BYTES), max_bytes=MAX_HEADS_BYTES)
        if not isinstance(given, dict):
            raise InvalidInput(f"{file} must hold a JSON object of seats and heads", code=_HEADS_CODE)
        for seat, value in given.items():
            several = value if isinstance(value, list) else [value]
            heads.setdefault(seat, set()).update(map(_head, several))
    return heads


def _head(value: JsonValue) -> Bytes32:
    return Bytes32(decode_base64(value, 32, code=_HEADS_CODE))
