"""Canonical form: JCS against JSON as one writes it first, the library of JCS, and deterministic CBOR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import cbor2
import rfc8785

from aioum.core.canonical import JsonValue, canonical_bytes
from benchmarks.canonical_json import naive_text, values
from benchmarks.evidence_material import events
from benchmarks.measure import Alternative, Plan, measure, repeated
from benchmarks.result import Case, Comparison, Count

NAME = "evidence-forms"
OPERATION = "encoding one value to bytes"
PACKAGES = ("rfc8785", "cbor2")
NOTES = (
    "`json.dumps` has sorted keys and no white space. It is not canonical: the value of the slow path comes "
    "out wrong.",
    "`CBOR` is the deterministic encoding of RFC 8949; commitments as byte strings would be half as long in "
    "it, but then the value is another one, and JSON could not show it.",
)

_OURS: Final = "JCS (aioum)"

FORMS: Final[Mapping[str, Callable[[Any], bytes]]] = {
    _OURS: canonical_bytes,
    "JCS (rfc8785)": rfc8785.dumps,
    "json.dumps": lambda value: naive_text(value).encode(),
    "CBOR": lambda value: cbor2.dumps(value, canonical=True),
}
"""Value -> bytes, by name; ours first."""


def chosen_values() -> dict[str, JsonValue]:
    """An event of a run, and the values of calls that differ most."""
    calls = values()
    return {
        "event of a run": events(1)[0].to_json(),
        **{name: calls[name] for name in ("table of 200 rows", "keys and floats of the slow path")},
    }


def run(plan: Plan) -> list[Case]:
    """Measure every value in every form."""
    return [_case(name, value, plan) for name, value in chosen_values().items()]


def _case(name: str, value: JsonValue, plan: Plan) -> Case:
    if canonical_bytes(value) != rfc8785.dumps(value) or cbor2.loads(FORMS["CBOR"](value)) != value:
        raise RuntimeError(f"the alternatives do not agree on: {name}")
    return Case(
        name=name,
        samples=measure([Alternative(form, repeated(encode, value)) for form, encode in FORMS.items()], plan),
        comparisons=tuple(Comparison(subject=_OURS, baseline=form) for form in FORMS if form != _OURS),
        counts=tuple(
            Count(name=form, value=len(encode(value)), unit="bytes")
            for form, encode in FORMS.items()
            # Both write the same bytes.
            if form != "JCS (rfc8785)"
        ),
    )
