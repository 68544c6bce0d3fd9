import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.errors import CanonicalError
from aioum.replay.model import WRITTEN_VERSION
from aioum.replay.problems import ArtifactInvalid
from aioum.replay.reading import read_artifact
from aioum.replay.writing import build_artifact, write_artifact
from tests.unit.replay import samples as s

EVERY_KIND = s.artifact(s.signed_header(WRITTEN_VERSION), *s.every_kind())


def test_what_is_read_is_written_canonically_with_a_line_feed_after_each_line() -> None:
    data = write_artifact(read_artifact(EVERY_KIND))
    assert data != EVERY_KIND
    lines = data.split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == [json.loads(line) for line in EVERY_KIND.splitlines()]
    for line in lines:
        assert line == json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")).encode()
    assert write_artifact(read_artifact(data)) == data


def test_an_ungrouped_artifact_is_written_as_actions() -> None:
    data = write_artifact(read_artifact(s.artifact(s.header("1.0"), s.action(n=1), s.action(n=2))))
    assert [json.loads(line)["kind"] for line in data.splitlines()] == ["header", "action", "action"]
    assert not read_artifact(data).is_grouped


def test_keys_are_written_by_code_point_and_numbers_as_ecmascript_writes_them() -> None:
    payload = {"😀": 1.0, "\ue000": 1e-7, "\u2028": -0.0}
    data = write_artifact(read_artifact(s.artifact(s.header(), s.action(payload=payload))))
    assert '"payload":{"\u2028":0,"\ue000":1e-7,"😀":1}'.encode() in data


def test_an_artifact_is_built_from_the_objects_of_its_lines() -> None:
    artifact = build_artifact(s.signed_header(), s.numbered(s.every_kind()))
    assert artifact == read_artifact(EVERY_KIND)
    assert artifact.format_version == "1.3"


def test_building_refuses_what_readers_would_refuse() -> None:
    with pytest.raises(ArtifactInvalid) as caught:
        build_artifact(s.header(), s.numbered([s.action(seat="")]))
    assert caught.value.code == "text-invalid"
    with pytest.raises(CanonicalError) as unserializable:
        build_artifact(s.header(), s.numbered([s.action(payload=2**53)]))
    assert unserializable.value.code == "json-number-unsafe"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**54) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "seat", "n", "x"]), inner)
    ),
    max_leaves=6,
)


@given(data=st.data())
def test_whatever_stands_in_a_member_an_artifact_comes_out_or_a_reason(data: st.DataObject) -> None:
    lines: list[Any] = [s.signed_header("1.4"), *s.numbered([*s.every_kind(), s.interaction()])]
    target: Any = data.draw(st.sampled_from(lines))
    while True:
        places = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not places:
            break
        place = data.draw(st.sampled_from(places))
        if isinstance(target[place], dict | list) and data.draw(st.booleans()):
            target = target[place]
            continue
        target[place] = data.draw(json_values)
        break
    text = "\n".join(json.dumps(line) for line in lines)
    try:
        artifact = read_artifact(text.encode())
    except ArtifactInvalid:
        return
    assert read_artifact(write_artifact(artifact)) == artifact


@given(st.integers(0, len(EVERY_KIND)), st.binary(max_size=4), st.integers(0, 40))
def test_damaged_bytes_give_an_artifact_or_a_reason(position: int, patch: bytes, cut: int) -> None:
    damaged = EVERY_KIND[:position] + patch + EVERY_KIND[position + cut :]
    with contextlib.suppress(ArtifactInvalid):
        read_artifact(damaged)
