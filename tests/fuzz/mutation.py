"""Changing a JSON value here and there: what keeps bytes from ending as one syntax error after the other."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2**53 - 1, 2**53, 2**64, 0.5, 1e300, "", "0", "-1", "1.0", str(2**128 - 1),
    str(2**128), "0x", "0x" + "00" * 32, "0x" + "ff" * 65, "0x" + "11" * 20, "\ud83d\ude00", "é", "x" * 200,
    [], {}, [[]], {"": {}},
)  # fmt: skip


def changed(text: bytes, random: Random) -> bytes | None:
    """Another JSON text near this one, or None where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for _ in range(random.randint(1, 3)):
        value = _edited(value, random)
    return json.dumps(value, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")


def _edited(value: Any, random: Random) -> Any:
    """The value with one place in it changed."""
    if random.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return _replaced(value, random)
    if isinstance(value, list):
        position = random.randrange(len(value))
        edited = list(value)
        match random.randrange(6):
            case 0:
                del edited[position]
            case 1:
                edited.insert(position, edited[random.randrange(len(edited))])
            case 2:
                random.shuffle(edited)
            case _:
                edited[position] = _edited(edited[position], random)
        return edited
    name = random.choice(list(value))
    members = dict(value)
    match random.randrange(6):
        case 0:
            del members[name]
        case 1:
            members[random.choice(list(value))] = value[name]
        case 2:
            members[str(_replaced(name, random))] = value[name]
        case _:
            members[name] = _edited(value[name], random)
    return members


def _replaced(value: Any, random: Random) -> Any:
    if isinstance(value, str) and value and random.random() < 0.6:
        position = random.randrange(len(value))
        other = random.choice(["", value[position] * 2, chr(random.randrange(32, 127)), "0", "\u0000", "ſ"])
        return value[:position] + other + value[position + 1 :]
    if type(value) is int and random.random() < 0.5:
        return value + random.choice([-1, 1, 2**31, -(2**63)])
    return random.choice(_VALUES)
