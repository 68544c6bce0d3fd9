"""A tool's arguments from what a person types: `--arg k=v`, `--json-args`, or JSON on standard input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import AioumError

MAX_ARGUMENTS_BYTES: Final = 1_048_576
"""Most that is read from standard input or a file. A node's own limit, in its card, is usually lower."""


def read_arguments(
    *,
    json_text: str | bytes | None,
    pairs: Sequence[str],
    file_pairs: Sequence[str],
    input_schema: Mapping[str, Any],
) -> dict[str, JsonValue]:
    """Make the arguments object.

    Args:
        json_text: a JSON object to start from, or None.
        pairs: `name=value`; the value is text unless `input_schema` says that the member is something else.
        file_pairs: `name=path`; the value is read from the file, as with `pairs`.
        input_schema: JSON Schema of the tool's arguments.

    Raises:
        click.UsageError: something cannot be read, or a name is given twice.
    """
    arguments: dict[str, JsonValue] = {}
    if json_text is not None:
        value = _parse(json_text, "the arguments")
        if not isinstance(value, dict):
            raise click.UsageError('the arguments must be a JSON object, such as \'{"text": "one two"}\'')
        arguments.update(value)
    named = [(*_split(pair, "--arg"), False) for pair in pairs]
    named += [(*_split(pair, "--arg-file"), True) for pair in file_pairs]
    for name, text, is_path in named:
        if name in arguments:
            raise click.UsageError(f"the argument {name!r} is given twice")
        arguments[name] = _value(name, _file_text(text) if is_path else text, input_schema)
    return arguments


def _split(pair: str, option: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{option} takes name=value, got {pair!r:.80}")
    return name, value


def _file_text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_ARGUMENTS_BYTES + 1)
        if len(content) > MAX_ARGUMENTS_BYTES:
            raise click.UsageError(f"{path} is longer than {MAX_ARGUMENTS_BYTES} bytes")
        return content.decode()
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} holds no UTF-8 text") from error


def _value(name: str, text: str, input_schema: Mapping[str, Any]) -> JsonValue:
    properties = input_schema.get("properties")
    member = properties.get(name) if isinstance(properties, Mapping) else None
    kinds = member.get("type") if isinstance(member, Mapping) else None
    if kinds is None or kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        return text
    return _parse(text, f"the argument {name!r}, which the tool wants as {kinds},")


def _parse(text: str | bytes, what: str) -> JsonValue:
    try:
        return parse_json(text, max_bytes=MAX_ARGUMENTS_BYTES)
    except AioumError as error:
        raise click.UsageError(f"{what} cannot be read as JSON: {error}") from error
