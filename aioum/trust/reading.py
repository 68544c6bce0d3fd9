"""Reading of published documents: what is wrong, where, under the document's own code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from aioum.core.errors import InvalidInput

T = TypeVar("T")


@contextmanager
def placed(where: str, code: str) -> Iterator[None]:
    """Say where in a document something is wrong, and refuse it under the document's code.

    Raises:
        InvalidInput: with `code`, in place of whatever code came.
    """
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}", code=code) from error


def items(
    value: Any, name: str, read: Callable[[Any], T], *, most: int, code: str, least: int = 0
) -> list[T]:
    """Read a list of `least` to `most` items. Raises InvalidInput with `code`."""
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise InvalidInput(f"{name} must be a list of {least} to {most} items", code=code)
    found = []
    for position, item in enumerate(value):
        with placed(f"{name}[{position}]", code):
            found.append(read(item))
    return found


def flag(value: dict[str, Any], name: str) -> bool:
    """Read a member that is true or false. Raises InvalidInput `flag-invalid`."""
    found = value.get(name)
    if not isinstance(found, bool):
        raise InvalidInput(f"{name} must be true or false", code="flag-invalid")
    return found
