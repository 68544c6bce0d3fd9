import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.canonical import canonical_text, parse_json
from aioum.core.errors import CanonicalError
from aioum.core.submission.canonical import canonical_json, canonical_json_text

MAX_TEXT_BYTES = 100_000

# Cases in which PROTOCOL 1, which is RFC 8785 behind a strict loader, decides otherwise than the scheme.
DECIDED_OTHERWISE = {
    '{"\\ud83d\\ude00":1,"\\ue000":2}': '{"😀":1,"\ue000":2}',  # keys by UTF-16 code unit
    "9007199254740992": "9007199254740992",  # an integer literal that is exactly what ES6 prints for a double
    "1e20": "100000000000000000000",  # doubles that ES6 prints so
    "1e21": "1e+21",
    '{"a":1,"a":2}': "json-duplicate-key",
}


@pytest.fixture
def cases(shared_vectors_dir: Path) -> list[dict[str, Any]]:
    path = shared_vectors_dir / "gaos" / "generated" / "canonical-json.cases.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_case_of_the_schemes_canonical_json_gives_its_bytes_or_is_refused(
    cases: list[dict[str, Any]],
) -> None:
    assert len(cases) == 30
    for case in cases:
        value = json.loads(case["text"])
        if "error" in case:
            with pytest.raises(CanonicalError) as caught:
                canonical_json(value)
            assert caught.value.code in {"json-number-unsafe", "json-lone-surrogate"}, case
        else:
            assert canonical_json(value) == case["canonical"].encode(), case


def test_exactly_the_listed_cases_differ_under_protocol_1(cases: list[dict[str, Any]]) -> None:
    differing = {}
    for case in cases:
        try:
            outcome = canonical_text(parse_json(case["text"], max_bytes=MAX_TEXT_BYTES))
        except CanonicalError as error:
            outcome = error.code
        if outcome != case.get("canonical") and not ("error" in case and outcome.startswith("json-")):
            differing[case["text"]] = outcome
    assert differing == DECIDED_OTHERWISE


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-1e15, 1e15)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\ue000😀é\n", max_size=3), inner),
    max_leaves=20,
)


@given(plain_json)
def test_canonical_text_reads_back_to_a_value_with_the_same_text(value: Any) -> None:
    text = canonical_json_text(value)
    assert canonical_json_text(json.loads(text)) == text


@given(plain_json)
def test_where_keys_sort_alike_the_text_is_that_of_rfc_8785(value: Any) -> None:
    text = canonical_json_text(value)
    if "\ue000" not in text:
        assert text == canonical_text(value)


@pytest.mark.parametrize("value", [1e20, -1e20, 1.5e300, 2.0**53, 2**53, -(2**53), [{"a": 2.0**60}]])
def test_a_whole_number_outside_the_safe_range_is_refused_however_it_is_spelled(value: Any) -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical_json(value)
    assert caught.value.code == "json-number-unsafe"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (float("nan"), "json-number-not-finite"),
        (float("inf"), "json-number-not-finite"),
        ("\ud800", "json-lone-surrogate"),
        ({"\udfff": 1}, "json-lone-surrogate"),
        (b"", "json-type-unsupported"),
        ((1,), "json-type-unsupported"),
    ],
)
def test_what_json_cannot_say_is_refused(value: Any, code: str) -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical_json(value)
    assert caught.value.code == code


def test_sixty_four_containers_may_be_nested_and_no_more() -> None:
    value: Any = 0
    for _ in range(64):
        value = [value]
    assert canonical_json(value) == b"[" * 64 + b"0" + b"]" * 64
    with pytest.raises(CanonicalError) as caught:
        canonical_json([value])
    assert caught.value.code == "json-too-deep"
