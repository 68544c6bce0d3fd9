"""Tests that are many alike: scripts/test runs some of them, scripts/deep all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def strides(every: int) -> list[Any]:
    """How far a test goes from one enumerated step to the next: `every`, and 1 where the test is `long`."""
    return [
        pytest.param(every, id=f"one-in-{every}"),
        pytest.param(1, id="each", marks=pytest.mark.long),
    ]


def some_of(values: Sequence[str], every: int, *, first: int = 0) -> list[Any]:
    """Parameters of a test, of which one in `every` is not `long`, from the one at `first` on."""
    return [
        pytest.param(value, marks=() if at % every == first else pytest.mark.long)
        for at, value in enumerate(values)
    ]
