from pathlib import Path
from typing import Any

import click
import pytest

from aioum.cli.arguments import MAX_ARGUMENTS_BYTES, read_arguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "limit": {"type": "integer"},
        "words": {"type": "array"},
        "either": {"type": ["string", "null"]},
    },
}


def read(
    *pairs: str, json_text: str | bytes | None = None, file_pairs: tuple[str, ...] = ()
) -> dict[str, Any]:
    return read_arguments(json_text=json_text, pairs=pairs, file_pairs=file_pairs, input_schema=SCHEMA)


def test_nothing_given_is_the_empty_object() -> None:
    assert read() == {}


def test_a_value_is_text_where_the_tool_wants_text_or_says_nothing() -> None:
    assert read("text=12", "other=true", "either=null") == {"text": "12", "other": "true", "either": "null"}


def test_a_value_is_json_where_the_tool_wants_something_else() -> None:
    assert read("limit=12", 'words=["a", "b"]') == {"limit": 12, "words": ["a", "b"]}


def test_a_value_may_hold_equals_signs_and_be_empty() -> None:
    assert read("text=a=b=", "other=") == {"text": "a=b=", "other": ""}


def test_json_and_pairs_add_up() -> None:
    assert read("text=one", json_text='{"limit": 3}') == {"text": "one", "limit": 3}


def test_a_file_gives_the_text_of_one_argument(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Ähre = 1\n", encoding="utf-8")
    assert read(file_pairs=(f"text={page}",)) == {"text": "# Ähre = 1\n"}


def test_a_value_that_looks_like_a_path_is_never_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not send")
    assert read(f"text=@{secret}", f"other={secret}") == {"text": f"@{secret}", "other": str(secret)}


@pytest.mark.parametrize(
    "pairs, json_text",
    [
        (("text",), None),
        (("=value",), None),
        (("text=a", "text=b"), None),
        (("text=a",), '{"text": "b"}'),
        (("limit=twelve",), None),
        ((), "[1, 2]"),
        ((), '{"a": 1, "a": 2}'),
        ((), "not json"),
        ((), b"\xff"),
    ],
)
def test_arguments_that_cannot_be_meant_are_wrong_usage(
    pairs: tuple[str, ...], json_text: str | bytes | None
) -> None:
    with pytest.raises(click.UsageError):
        read(*pairs, json_text=json_text)


def test_a_file_that_is_missing_or_too_long_or_no_text_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * (MAX_ARGUMENTS_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", "long", "binary"):
        with pytest.raises(click.UsageError):
            read(file_pairs=(f"text={tmp_path / name}",))
