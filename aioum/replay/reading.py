"""Reading an artifact: bytes to a checked model, or the problems of its form (SUBMISSIONS 1.6)."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from aioum.core.errors import InvalidInput
from aioum.replay import model
from aioum.replay.facts import Profile
from aioum.replay.header import read_header
from aioum.replay.inputs import InputReader
from aioum.replay.json_lines import load_json, require_unique_keys, split_lines
from aioum.replay.limits import DEFAULT_LIMITS, Limits
from aioum.replay.model import Artifact, Header, Record
from aioum.replay.problems import ArtifactInvalid, Problem
from aioum.replay.profiles import profile_for
from aioum.replay.records import RecordReader

__all__ = ["ArtifactInvalid", "read_artifact"]

_EVERY_KIND: Final = frozenset(
    {
        model.ACTION,
        model.RESOLUTION,
        model.TIMEOUT,
        model.INTEREST,
        model.INTERACTION,
        model.SEAT_SIGNATURE,
        model.COMMIT_MISMATCH,
        model.CHECKPOINT,
        model.EXTENSION,
    }
)
_ACTIONS_ONLY: Final = frozenset({model.ACTION})


def read_artifact(
    data: bytes, *, limits: Limits = DEFAULT_LIMITS, refuse_duplicate_keys: bool | None = None
) -> Artifact:
    """Read a `gaos.replay` artifact of version 1.0 to 1.4. Its bytes need not be canonical.

    Args:
        data: JSON lines, the header first; LF or CRLF.
        limits: most of what is read.
        refuse_duplicate_keys: whether a repeated key is a problem; if not, its last value counts. None
            refuses them in what says it is a paid session (PROTOCOL 1), whose writers never repeat one.

    Raises:
        ArtifactInvalid: with every problem found. Lines after a bad one are still checked.
    """
    with collector_paused():
        try:
            lines = split_lines(data, limits)
        except InvalidInput as error:
            raise ArtifactInvalid([Problem(error.code, str(error), "artifact")]) from error
        values = _each_line(lines, limits, lambda _, line: _load_line(line, limits))
        try:
            header = read_header(values[0], max_seats=limits.seats)
        except InvalidInput as error:
            raise ArtifactInvalid([Problem(error.code, str(error), "header")]) from error
        if refuse_duplicate_keys is None:
            refuse_duplicate_keys = profile_for(header.session_id) is Profile.PAID
        if refuse_duplicate_keys:
            _each_line(lines, limits, lambda position, line: require_unique_keys(line, values[position]))
        return _read_lines(header, values[1:], limits)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic collector of the whole process, where it runs.

    What is read has no cycles and stays. While it grows, the collector would only walk it again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _each_line(lines: list[str], limits: Limits, read: Callable[[int, str], Any]) -> list[Any]:
    values: list[Any] = []
    problems: list[Problem] = []
    for position, line in enumerate(lines):
        try:
            values.append(read(position, line))
        except InvalidInput as error:
            problems.append(Problem(error.code, str(error), f"line {position + 1}"))
            if len(problems) == limits.problems:
                break
    if problems:
        raise ArtifactInvalid(problems)
    return values


def _load_line(line: str, limits: Limits) -> Any:
    if len(line) > limits.line_characters:
        raise InvalidInput(
            f"a line of {len(line)} characters, at most {limits.line_characters} are read",
            code="line-too-large",
        )
    if not line or line.isspace():
        raise InvalidInput("the line is blank", code="blank-line")
    return load_json(line)


def _read_lines(header: Header, values: list[Any], limits: Limits) -> Artifact:
    is_grouped = header.format_version > "1.0" and any(map(_is_no_action, values))
    inputs = InputReader(header, unique_ids=is_grouped)
    reader = RecordReader(
        header,
        inputs,
        numbered_from=0 if is_grouped else _first_number(values),
        kinds=_EVERY_KIND if is_grouped else _ACTIONS_ONLY,
    )
    records: list[Record] = []
    problems: list[Problem] = []
    for position, value in enumerate(values):
        try:
            records.append(reader.read(value))
        except InvalidInput as error:
            problems.append(Problem(error.code, str(error), f"{_kind(value)} {position}"))
            if len(problems) == limits.problems:
                break
    if problems:
        raise ArtifactInvalid(problems)
    return Artifact(header, tuple(records), is_grouped, inputs.has_signature_material)


def _is_no_action(value: Any) -> bool:
    return type(value) is not dict or value.get("kind") != model.ACTION


def _first_number(actions: list[Any]) -> int:
    # Old writers number from 1. What else stands there is then found to be out of sequence.
    first = actions[0].get("n") if actions and type(actions[0]) is dict else None
    return 1 if type(first) is int and first == 1 else 0


def _kind(value: Any) -> str:
    kind = value.get("kind") if type(value) is dict else None
    return kind if type(kind) is str and kind in _EVERY_KIND else "line"
