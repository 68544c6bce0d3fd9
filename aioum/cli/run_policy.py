"""Whose seals a person believes: public key files, or a policy file."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.run_keys import ALGORITHMS
from aioum.options.common import Command, with_options

if TYPE_CHECKING:
    from aioum.core.canonical import JsonValue
    from aioum.run.policy import SealPolicy, TrustedKey

MAX_POLICY_BYTES = 8 * 1024 * 1024

_FILE = click.Path(path_type=Path, dir_okay=False)
_MEMBERS = {"trusted", "threshold", "require"}
_KEY_MEMBERS = {"alg", "publicKey", "firstIndex", "lastIndex"}


def policy_options(function: Command) -> Command:
    """Add the options that say whose seals count; the command takes one `policy`, a function."""

    @functools.wraps(function)
    def command(
        *args: Any,
        trusted: tuple[Path, ...],
        threshold: int | None,
        require: tuple[str, ...],
        policy_file: Path | None,
        **kwargs: Any,
    ) -> Any:
        if policy_file is not None and (trusted or threshold is not None or require):
            raise click.UsageError("--policy says what --trust, --threshold and --require would; give one")
        policy = functools.partial(_policy, trusted, threshold, require, policy_file)
        return function(*args, policy=policy, **kwargs)

    return with_options(
        command,
        click.option(
            "--policy",
            "policy_file",
            type=_FILE,
            metavar="FILE",
            help='The same from a JSON file: {"trusted": [{"alg", "publicKey", "firstIndex"?, '
            '"lastIndex"?}], "threshold"?, "require"?}.',
        ),
        click.option(
            "--require",
            type=click.Choice(ALGORITHMS),
            multiple=True,
            help="A trusted key of this algorithm must have signed; can be given several times.",
        ),
        click.option(
            "--threshold",
            type=click.IntRange(1),
            metavar="COUNT",
            help="So many trusted keys must have signed; without it, one.",
        ),
        click.option(
            "--trust",
            "trusted",
            type=_FILE,
            multiple=True,
            metavar="FILE",
            help="Public key that is believed; can be given several times. Without any, nobody vouches.",
        ),
    )


def _policy(
    trusted: tuple[Path, ...], threshold: int | None, require: tuple[str, ...], policy_file: Path | None
) -> SealPolicy:
    """Raises ConfigError as `read_public_key`; InvalidInput `run-policy-invalid`, `file-unusable`."""
    from aioum.run.key_files import read_public_key
    from aioum.run.policy import SealPolicy

    if policy_file is not None:
        return _read_policy(policy_file)
    keys = tuple(read_public_key(file) for file in trusted)
    return SealPolicy(keys or None, threshold or 1, frozenset(require))


def _read_policy(file: Path) -> SealPolicy:
    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.core.canonical import parse_json
    from aioum.core.errors import InvalidInput
    from aioum.run.policy import MAX_TRUSTED_KEYS, SealPolicy

    value = parse_json(read_bytes(file, MAX_POLICY_BYTES), max_bytes=MAX_POLICY_BYTES)
    try:
        if type(value) is not dict or not {"trusted"} <= value.keys() <= _MEMBERS:
            raise InvalidInput("expected an object with trusted, and maybe threshold and require")
        keys, threshold, require = value["trusted"], value.get("threshold", 1), value.get("require", [])
        if type(keys) is not list or len(keys) > MAX_TRUSTED_KEYS or type(require) is not list:
            raise InvalidInput(f"trusted and require are lists, of at most {MAX_TRUSTED_KEYS} keys")
        if type(threshold) is not int or any(type(each) is not str for each in require):
            raise InvalidInput("threshold is a number, require holds names of algorithms")
        return SealPolicy(tuple(_trusted(key) for key in keys), threshold, frozenset(map(str, require)))
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error}", code="run-policy-invalid") from error


def _trusted(value: JsonValue) -> TrustedKey:
    from aioum.core.errors import InvalidInput
    from aioum.core.submission.framing import decode_base64
    from aioum.run.policy import TrustedKey

    if type(value) is not dict or not {"alg", "publicKey"} <= value.keys() <= _KEY_MEMBERS:
        raise InvalidInput("a trusted key has alg and publicKey, and maybe firstIndex and lastIndex")
    alg, public_key = value["alg"], value["publicKey"]
    first, last = value.get("firstIndex"), value.get("lastIndex")
    if type(alg) is not str or type(public_key) is not str:
        raise InvalidInput("alg and publicKey are text")
    if any(bound is not None and type(bound) is not int for bound in (first, last)):
        raise InvalidInput("firstIndex and lastIndex are numbers")
    size_bytes = len(public_key.rstrip("=")) * 3 // 4
    bounds = [bound if type(bound) is int else None for bound in (first, last)]
    return TrustedKey(alg, decode_base64(public_key, size_bytes), *bounds)
