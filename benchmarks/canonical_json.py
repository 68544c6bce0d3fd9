"""Canonical JSON: ours against `json.dumps(sort_keys=True)` (not canonical) and against rfc8785."""

from __future__ import annotations

import json
from typing import Any

import rfc8785

from aioum.core.canonical import JsonValue, canonical_text
from benchmarks.measure import Alternative, Plan, measure, repeated
from benchmarks.result import Case, Comparison

NAME = "canonical-json"
OPERATION = "serializing one value to text"
PACKAGES = ("rfc8785",)
NOTES = ()


def naive_text(value: Any) -> str:
    """What one writes first: sorted keys, no white space. Wrong for floats, `-0`, and some keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def rfc8785_text(value: Any) -> str:
    """The library's form as text."""
    return rfc8785.dumps(value).decode()


def values() -> dict[str, JsonValue]:
    """Values such as calls carry."""
    words = "The operator's history of the session is exactly this, and anyone can check it. "
    return {
        "small call": {
            "arguments": {"text": "to be counted", "unit": "words", "top": 5},
            "tool": "wordcount",
        },
        "call with 16 kB of text": {"arguments": {"text": words * 200, "language": "en"}, "tool": "summary"},
        "table of 200 rows": {
            "columns": ["id", "name", "price", "stock"],
            "rows": [
                {
                    "id": row,
                    "name": f"item {row}",
                    "price": row * 1.25 + 0.1,
                    "stock": row % 7,
                    "sold": row % 2 == 0,
                }
                for row in range(200)
            ],
        },
        "keys and floats of the slow path": {
            "arguments": {"\ufb33": 1.0, "\U0001f600": -0.0, "limit": 1e21, "label": "Größe"},
            "tool": "convert",
        },
    }


def run(plan: Plan) -> list[Case]:
    """Measure every value."""
    cases = []
    for name, value in values().items():
        if canonical_text(value) != rfc8785_text(value):
            raise RuntimeError(f"the alternatives do not agree on: {name}")
        samples = measure(
            [
                Alternative("aioum", repeated(canonical_text, value)),
                Alternative("json.dumps", repeated(naive_text, value)),
                Alternative("rfc8785", repeated(rfc8785_text, value)),
            ],
            plan,
        )
        comparisons = (
            Comparison(subject="aioum", baseline="json.dumps"),
            Comparison(subject="aioum", baseline="rfc8785"),
        )
        cases.append(Case(name=name, samples=samples, comparisons=comparisons))
    return cases
