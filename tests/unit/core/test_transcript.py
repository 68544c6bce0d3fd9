from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.canonical import canonical_text, parse_json
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.merkle import Frontier
from aioum.core.transcript import (
    EMPTY_ROOT,
    Entry,
    append_leaf,
    canonical_request,
    entry_from_json,
    entry_leaf,
    entry_to_json,
    frontier_root,
    node_hash,
    transcript_root,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def entry(index: int, response: str = "ok") -> Entry:
    return Entry(index, "echo", canonical_request("echo", {"n": index}), response)


def entry_json(**changed: Any) -> dict[str, Any]:
    return {**entry_to_json(entry(0)), **changed}


def refusal_code(value: Any, expected_index: int | None = 0) -> str:
    with pytest.raises(InvalidInput) as caught:
        entry_from_json(value, expected_index)
    return caught.value.code


def test_a_request_is_the_canonical_text_of_arguments_and_tool() -> None:
    assert canonical_request("t", {"b": 1.0, "a": "é"}) == '{"arguments":{"a":"é","b":1},"tool":"t"}'


def test_arguments_may_nest_one_level_less_than_json_may() -> None:
    arguments: Any = {}
    for _ in range(62):
        arguments = {"a": arguments}
    assert parse_json(canonical_request("t", arguments), max_bytes=1000) == {
        "arguments": arguments,
        "tool": "t",
    }
    with pytest.raises(CanonicalError) as caught:
        canonical_request("t", {"a": arguments})
    assert caught.value.code == "json-too-deep"


def test_an_empty_transcript_has_the_zero_root() -> None:
    assert transcript_root([]) == frontier_root(Frontier()) == EMPTY_ROOT == bytes(32)


def test_a_leaf_commits_to_index_request_response_and_tool_in_this_order() -> None:
    words = [(7).to_bytes(32, "big"), keccak256(b"request"), keccak256(b"response"), keccak256(b"tool")]
    assert entry_leaf(Entry(7, "tool", "request", "response")) == keccak256(b"".join(words))


def test_changing_any_member_changes_the_leaf() -> None:
    base = Entry(1, "tool", "request", "response")
    others = [
        Entry(2, "tool", "request", "response"),
        Entry(1, "tooL", "request", "response"),
        Entry(1, "tool", "Request", "response"),
        Entry(1, "tool", "request", "response "),
        Entry(1, "tool", "response", "request"),
    ]
    assert len({entry_leaf(one) for one in [base, *others]}) == 6


def test_the_root_depends_on_every_entry_and_the_running_root_follows() -> None:
    entries = [entry(index) for index in range(5)]
    frontier = Frontier()
    for one in entries:
        frontier = append_leaf(frontier, entry_leaf(one))
    root = transcript_root(entries)
    assert frontier_root(frontier) == root
    for index in range(5):
        changed = [*entries[:index], entry(index, "other"), *entries[index + 1 :]]
        assert transcript_root(changed) != root


def test_two_entries_have_the_node_of_their_leaves_as_root() -> None:
    left, right = entry_leaf(entry(0)), entry_leaf(entry(1))
    assert transcript_root([entry(0), entry(1)]) == node_hash(left, right) == keccak256(left + right)


def test_a_transcript_with_a_gap_or_in_another_order_has_no_root() -> None:
    for entries in ([entry(1)], [entry(0), entry(2)], [entry(1), entry(0)], [entry(0), entry(0)]):
        with pytest.raises(InvalidInput) as caught:
            transcript_root(entries)
        assert caught.value.code == "entry-index-gap"


@given(st.integers(0, 2**53 - 1), texts.filter(bool), texts, st.dictionaries(texts, texts, max_size=3))
def test_an_entry_survives_json(index: int, tool_id: str, response: str, arguments: Any) -> None:
    made = Entry(index, tool_id, canonical_request(tool_id, arguments), response)
    value = parse_json(canonical_text(entry_to_json(made)), max_bytes=10_000)
    assert entry_from_json(value, index) == made
    assert entry_from_json(value, None) == made


def test_an_entry_has_exactly_four_members() -> None:
    assert list(entry_to_json(entry(0))) == ["index", "toolId", "request", "response"]
    short = entry_json()
    del short["response"]
    strangers: list[Any] = [short, entry_json(extra=1), [], None, "entry", {}]
    for value in strangers:
        assert refusal_code(value) == "entry-members-wrong"


@pytest.mark.parametrize("index", [True, 0.0, "0", None, -1])
def test_an_index_is_a_non_negative_integer(index: Any) -> None:
    assert refusal_code(entry_json(index=index), None) == "entry-members-wrong"


def test_an_index_that_is_not_the_position_is_a_gap() -> None:
    assert refusal_code(entry_json(), 1) == "entry-index-gap"
    assert refusal_code(entry_json(index=5), 0) == "entry-index-gap"


@pytest.mark.parametrize("member", ["toolId", "request", "response"])
@pytest.mark.parametrize("text", [1, None, {}, "\ud800"], ids=ascii)
def test_texts_are_text_that_utf8_can_carry(member: str, text: Any) -> None:
    assert refusal_code(entry_json(**{member: text})) == "entry-text-invalid"


def test_a_tool_has_a_name() -> None:
    assert refusal_code(entry_json(toolId="", request=canonical_request("", {}))) == "entry-text-invalid"


def test_an_entry_of_our_own_with_text_that_has_no_utf8_has_no_leaf() -> None:
    with pytest.raises(InvalidInput) as caught:
        entry_leaf(entry(0, "\ud800"))
    assert caught.value.code == "entry-text-invalid"


@pytest.mark.parametrize(
    "request_text",
    [
        "",
        "{}",
        "[]",
        '"echo"',
        "not json",
        '{"tool":"echo","arguments":{}}',
        '{"arguments":{}, "tool":"echo"}',
        '{"arguments":{"n":1.0},"tool":"echo"}',
        '{"arguments":{"a":1,"a":1},"tool":"echo"}',
        '{"arguments":{},"extra":1,"tool":"echo"}',
        '{"tool":"echo"}',
        '{"arguments":{"a":"\\ud800"},"tool":"echo"}',
        '{"arguments":{},"tool":"echo"}\n',
    ],
)
def test_a_request_that_is_not_its_own_canonical_form_is_refused(request_text: str) -> None:
    assert refusal_code(entry_json(request=request_text)) == "entry-request-not-canonical"


@pytest.mark.parametrize("tool", ['"other"', '"Echo"', "1", "null"])
def test_a_request_that_names_another_tool_is_refused(tool: str) -> None:
    assert refusal_code(entry_json(request=f'{{"arguments":{{}},"tool":{tool}}}')) == "entry-tool-mismatch"
