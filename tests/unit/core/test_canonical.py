import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aioum.core import canonical
from aioum.core.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, canonical_bytes, canonical_text, parse_json
from aioum.core.errors import CanonicalError

LIMIT = 1 << 20
LOADER_CODES = {
    "json-too-large",
    "json-not-utf8",
    "json-bom",
    "json-too-deep",
    "json-syntax",
    "json-trailing-bytes",
    "json-duplicate-key",
    "json-number-not-finite",
    "json-number-unsafe",
    "json-lone-surrogate",
}


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    ONE = "one"


class Fraction(float):
    pass


def refusal(data: str | bytes, max_bytes: int = LIMIT) -> CanonicalError:
    with pytest.raises(CanonicalError) as caught:
        parse_json(data, max_bytes=max_bytes)
    return caught.value


def value_refusal_code(value: Any) -> str:
    with pytest.raises(CanonicalError) as of_text:
        canonical_text(value)
    with pytest.raises(CanonicalError) as of_bytes:
        canonical_bytes(value)
    assert of_text.value.code == of_bytes.value.code
    return of_text.value.code


def nested(levels: int, make: Callable[[Any], Any], innermost: Any = 0) -> Any:
    value = innermost
    for _ in range(levels):
        value = make(value)
    return value


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Half of the characters come from where encoders disagree: controls, quotes, both sides of the surrogates.
awkward = st.text(
    st.sampled_from('\x00\b\t\n\f\r\x1f "\\/\x7f\x80é\u2028\ud7ff\ue000\ufb33\uffff\U00010000😀az'),
    max_size=6,
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(1e-8, 1e22),
    st.integers(-(10**6), 10**6).map(float),
    texts,
    awkward,
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts | awkward, inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=1000)
@given(values)
@example({"\ue000": 1, "\U00010000": 2})
@example([1e-4, 9.9e-5, 1e15, 1e16, 1.5e15, 123456789012345.6, -0.0, 5.0, 1e21, 1e-7])
@example({"a": {"b": [0.5, "é", {"\ud7ff": None, "a": True}]}})
def test_every_value_gets_the_bytes_of_the_reference_serializer(value: Any) -> None:
    expected = rfc8785.dumps(value)
    assert canonical_bytes(value) == expected
    assert canonical_text(value) == expected.decode()


@settings(max_examples=1000)
@given(st.floats(allow_nan=False, allow_infinity=False) | st.floats(1e-5, 1e17))
def test_every_double_gets_the_text_of_the_reference_serializer(number: float) -> None:
    assert canonical_text(number) == rfc8785.dumps(number).decode()


@settings(max_examples=500)
@given(values)
def test_what_was_written_is_read_and_written_the_same(value: Any) -> None:
    text = canonical_text(value)
    read = parse_json(text, max_bytes=LIMIT)
    assert read == value
    assert canonical_text(read) == text
    assert parse_json(text.encode(), max_bytes=len(text.encode())) == read


@settings(max_examples=500)
@given(st.text(st.sampled_from('[]{}",:\\u0dD8-1.eE \nntrf\ufeff😀é'), max_size=30) | st.binary(max_size=30))
def test_any_text_is_read_or_refused_with_a_code_and_nothing_else_escapes(data: str | bytes) -> None:
    codes = set()
    try:
        text = canonical_text(parse_json(data, max_bytes=LIMIT))
        assert canonical_text(parse_json(text, max_bytes=LIMIT)) == text
    except CanonicalError as error:
        codes.add(error.code)
    assert codes <= LOADER_CODES


def test_the_ordinary_call_takes_the_fast_path_and_the_border_cases_do_not() -> None:
    def fast(value: Any) -> bool:
        return canonical.require_json([value])

    assert fast({"arguments": {"n": 3, "x": 0.25, "ok": True, "none": None, "é": ["è", "😀"]}, "tool": "t"})
    for value in (1.0, -0.0, 1e-5, 1e15, {"\ue000": 1}, {"a": [{"😀": 1}]}):
        assert not fast([value])


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        b"x",
        Decimal(1),
        {1: 2},
        {None: 2},
        {True: 2},
        {"a": {2: 3}},
        {1, 2},
        object(),
        Number.ONE,
        Word.ONE,
        {Word.ONE: 1},
        Fraction(0.5),
        OrderedDict(a=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_types_that_json_lacks_are_refused(value: Any) -> None:
    assert value_refusal_code(value) == "json-type-unsupported"
    assert value_refusal_code({"a": [value]}) == "json-type-unsupported"


def test_booleans_are_not_numbers() -> None:
    assert canonical_text([True, 1, False, 0]) == "[true,1,false,0]"


def test_integers_beyond_the_safe_range_are_refused() -> None:
    assert canonical_text([MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER]) == "[9007199254740991,-9007199254740991]"
    for number in (MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, 10**5000):
        assert value_refusal_code(number) == "json-number-unsafe"


def test_numbers_that_are_not_finite_are_refused() -> None:
    for number in (math.nan, math.inf, -math.inf):
        assert value_refusal_code({"a": number}) == "json-number-not-finite"


def test_unpaired_surrogates_are_refused_in_keys_and_values_on_both_paths() -> None:
    for value in ("\ud800", {"\udfff": 1}, {"a": ["x\udc00y"]}, [1.0, "\ud800"], {"\ud83d\ude00": 1}):
        assert value_refusal_code(value) == "json-lone-surrogate"


@pytest.mark.parametrize("innermost", [0, 1.0])
def test_64_nested_containers_are_written_and_65_refused(innermost: Any) -> None:
    for make in (lambda inner: [inner], lambda inner: {"a": inner}):
        deepest = nested(MAX_DEPTH, make, innermost)
        assert canonical_bytes(deepest) == rfc8785.dumps(deepest)
        assert value_refusal_code(make(deepest)) == "json-too-deep"


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    assert value_refusal_code(value) == "json-too-deep"


def with_little_stack_left(action: Callable[[], Any]) -> Any:
    """Runs the action as deep in the stack as it can be called at all; returns at the first that works."""

    def descend() -> Any:
        try:
            return descend()
        except RecursionError:
            return action()

    return descend()


def test_a_full_call_stack_is_a_refusal_and_not_a_recursion_error() -> None:
    value = nested(MAX_DEPTH, lambda inner: [1.0, inner])
    text = canonical_text(value)
    seen = set()

    def attempt() -> None:
        for act in (lambda: canonical_text(value), lambda: parse_json(text, max_bytes=LIMIT)):
            try:
                act()
            except CanonicalError as error:
                seen.add(error.code)

    with_little_stack_left(attempt)
    assert seen == {"json-too-deep"}


def test_text_that_is_not_utf8_is_refused_with_its_place() -> None:
    for data in (b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b"\xff\xfe1\x00", b'{"a":"\xe2\x82'):
        assert refusal(data).code == "json-not-utf8"
    assert refusal(b'"a\xff"').details == {"byte_position": 2}


def test_a_byte_order_mark_is_refused_at_the_start_and_kept_in_strings() -> None:
    assert refusal(b"\xef\xbb\xbf{}").code == "json-bom"
    assert refusal("\ufeff{}").code == "json-bom"
    assert parse_json('"\ufeff"', max_bytes=LIMIT) == "\ufeff"


def test_size_is_counted_in_bytes() -> None:
    text = '"éé"'
    assert parse_json(text, max_bytes=6) == "éé"
    assert parse_json(text.encode(), max_bytes=6) == "éé"
    assert refusal(text, max_bytes=5).code == "json-too-large"
    assert refusal(text.encode(), max_bytes=5).code == "json-too-large"
    assert refusal(" 1", max_bytes=1).code == "json-too-large"


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":1}',
        '{"x":[{"b":1,"a":{},"b":1}]}',
        '{"":1,"":1}',
        '{"😀":1,"\\ud83d\\ude00":1}',
        '{"/":1,"\\/":1}',
    ],
)
def test_duplicate_keys_are_refused_also_when_they_are_spelled_differently(text: str) -> None:
    assert refusal(text).code == "json-duplicate-key"


def test_equal_keys_of_different_objects_are_no_duplicates() -> None:
    assert parse_json('[{"a":1},{"a":{"a":2}}]', max_bytes=LIMIT) == [{"a": 1}, {"a": {"a": 2}}]


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", "[1,NaN]", '{"a":1e400}', "-1e400", "1e999999999999"]
)
def test_numbers_that_no_double_holds_are_refused(text: str) -> None:
    assert refusal(text).code == "json-number-not-finite"


@pytest.mark.parametrize(
    "literal",
    [
        "9007199254740993",
        "-9007199254740993",
        "100000000000000000001",
        "295147905179352825856",
        "1000000000000000000000",
        "9" * 5000,
        "-" + "1" * 100_000,
    ],
    ids=lambda literal: literal[:24],
)
def test_integer_literals_that_are_not_a_doubles_own_text_are_refused(literal: str) -> None:
    assert refusal(f"[{literal}]").code == "json-number-unsafe"


@pytest.mark.parametrize(
    "literal",
    [
        "9007199254740992",
        "-9007199254740992",
        "100000000000000000000",
        "295147905179352830000",
        "-999999999999999900000",
    ],
)
def test_integer_literals_that_are_a_doubles_own_text_become_that_double(literal: str) -> None:
    number = parse_json(literal, max_bytes=LIMIT)
    assert type(number) is float
    assert canonical_text(number) == literal


def test_safe_integers_stay_integers_and_all_other_numbers_are_doubles() -> None:
    read = parse_json("[9007199254740991,-9007199254740991,-0,1.0,1e2,-0.0,1e-400]", max_bytes=LIMIT)
    assert isinstance(read, list)
    assert read == [MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER, 0, 1.0, 100.0, 0.0, 0.0]
    assert [type(number) for number in read] == [int, int, int, float, float, float, float]
    assert canonical_text(read) == "[9007199254740991,-9007199254740991,0,1,100,0,0]"


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '{"\\uDBFF":1}',
        '["\\ud83d😀"]',
        '"\\\\\\ud800"',
        '{"a":[1.0,"\\ud800x"]}',
        '"\ud800"',
    ],
    ids=ascii,
)
def test_unpaired_surrogates_are_refused_escaped_and_raw(text: str) -> None:
    assert refusal(text).code == "json-lone-surrogate"


def test_paired_surrogates_and_escaped_backslashes_are_read() -> None:
    assert parse_json('["\\ud83d\\ude00","\\\\ud800"]', max_bytes=LIMIT) == ["😀", "\\ud800"]


@pytest.mark.parametrize("opening,closing", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_64_open_brackets_are_read_and_65_refused(opening: str, closing: str) -> None:
    levels = MAX_DEPTH // (opening.count("[") + opening.count("{"))
    text = opening * levels + "0" + closing * levels
    assert canonical_text(parse_json(text, max_bytes=LIMIT)) == text
    assert refusal(f"[{text}]").code == "json-too-deep"


def test_brackets_in_strings_and_brackets_already_closed_do_not_count() -> None:
    for text in (
        '["' + "[{" * 500 + '"]',
        "[" + "[]," * 500 + "{}]",
        '["\\"' + "[" * 100 + '\\\\",' + "[0]]",
    ):
        assert canonical_text(parse_json(text, max_bytes=LIMIT)) == text


def test_a_million_open_brackets_are_refused_where_the_65th_stands() -> None:
    error = refusal("[" * 1_000_000)
    assert error.code == "json-too-deep"
    assert error.details == {"position": 64}
    assert refusal('["]]",' * 65).code == "json-too-deep"
    assert refusal('{"a":' * 100_000).code == "json-too-deep"


@pytest.mark.parametrize(
    "text", ['{"a":1} x', "1 2", "{}{}", "01", "1.", "null,", "{}\x00", "[]\u00a0", "1\v"]
)
def test_anything_after_the_value_is_refused(text: str) -> None:
    assert refusal(text).code == "json-trailing-bytes"


def test_json_white_space_around_the_value_is_allowed() -> None:
    assert parse_json(" \t\r\n{ } \n", max_bytes=LIMIT) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[1,]",
        '{"a":01}',
        "{'a':1}",
        "{a:1}",
        "[",
        '"',
        '"\t"',
        '"\\x41"',
        '"\\u12"',
        "+1",
        ".5",
        "-",
        "tru",
        "[1 2]",
        "\u00a01",
        "[１]",
        '{"a"}',
        "{,}",
        "/**/1",
        "nan",
        "undefined",
        '["a]' + "[" * 70,
    ],
)
def test_text_that_is_not_json_is_refused(text: str) -> None:
    error = refusal(text)
    assert error.code == "json-syntax"
    assert isinstance(error.details["position"], int)


def test_a_syntax_error_names_its_line_and_column() -> None:
    error = refusal('{\n "a": ?}')
    assert "line 2 column 7" in str(error)
    assert error.details == {"position": 8}


def test_the_interpreters_own_digit_limit_never_shows() -> None:
    assert sys.get_int_max_str_digits() > 0
    assert refusal("1" * (sys.get_int_max_str_digits() + 1)).code == "json-number-unsafe"
