"""Readers with a known fault each: they show that a run finds faults, and keeps what brings them about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.fuzz.targets import Target


def _raises(data: bytes) -> None:
    if data[:1] == b"{" and len(data) > 3:
        raise KeyError("a fault that was put here on purpose")


def _hangs(data: bytes) -> None:
    while data[:1] == b"{":
        pass


def _grows(data: bytes) -> None:
    kept = []
    while data[:1] == b"{":
        kept.append(bytearray(1 << 22))


def _seeds() -> list[bytes]:
    return [b"{}", b"[]"]


TARGETS: Final[Mapping[str, Target]] = {
    target.name: target
    for target in (
        Target("planted-error", _raises, _seeds),
        Target("planted-hang", _hangs, _seeds),
        Target("planted-growth", _grows, _seeds),
    )
}
