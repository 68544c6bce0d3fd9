from dataclasses import replace
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError
from aioum.core.types import Bytes32, ChannelId
from aioum.run.event import Event, Header, Kind, PaidCall, SuiteNames
from tests.unit.run.samples import HEADER, events

CALL = PaidCall(ChannelId(b"\xaa" * 32), 7, Bytes32(b"\xbb" * 32))
PAID = replace(events(2)[1], call=CALL, parent=0)


@pytest.mark.parametrize("event", [*events(6), PAID], ids=lambda event: event.kind)
def test_an_event_reads_back_as_it_was_written(event: Event) -> None:
    assert Event.from_json(event.to_json()) == event


def test_a_paid_call_and_a_parent_are_written_only_where_there_are_some() -> None:
    assert events(1)[0].to_json().keys() == {"index", "kind", "at", "name", "input", "output"}
    assert PAID.to_json()["call"] == {"channelId": "0x" + "aa" * 32, "index": 7, "leaf": "0x" + "bb" * 32}
    assert PAID.to_json()["parent"] == 0


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("index", -1),
        ("index", True),
        ("index", 1.0),
        ("index", "1"),
        ("index", 2**53),
        ("kind", "tool call"),
        ("kind", None),
        ("at", -1),
        ("at", 2.0**53),
        ("name", ""),
        ("name", "n" * 257),
        ("name", "é" * 129),
        ("name", 5),
        ("name", "\ud800"),
        ("input", "0x" + "AA" * 32),
        ("input", "0x" + "aa" * 31),
        ("input", "aa" * 33),
        ("input", "0x" + "a " * 32),
        ("input", "0x" + "gg" * 32),
        ("output", None),
        ("parent", None),
        ("parent", 1),
        ("parent", -1),
        ("call", None),
        ("call", {}),
        ("call", {**CALL.to_json(), "charge": "1"}),
        ("call", {**CALL.to_json(), "index": True}),
        ("call", {**CALL.to_json(), "leaf": "0x"}),
        ("note", "unknown"),
    ],
)
def test_an_event_with_a_wrong_member_is_malformed(member: str, value: Any) -> None:
    with pytest.raises(AioumError) as caught:
        Event.from_json({**PAID.to_json(), member: value})
    assert caught.value.code == "event-malformed"


@pytest.mark.parametrize("member", ["index", "kind", "at", "name", "input", "output"])
def test_an_event_without_a_required_member_is_malformed(member: str) -> None:
    value = events(1)[0].to_json()
    del value[member]
    with pytest.raises(AioumError) as caught:
        Event.from_json(value)
    assert caught.value.code == "event-malformed"


def test_only_a_tool_call_can_be_a_paid_call() -> None:
    for kind in Kind:
        if kind is Kind.TOOL_CALL:
            continue
        with pytest.raises(AioumError) as caught:
            replace(PAID, kind=kind)
        assert caught.value.code == "event-malformed"


def test_a_commitment_of_another_length_is_malformed() -> None:
    with pytest.raises(AioumError) as caught:
        replace(PAID, input=b"\x00" * 31)
    assert caught.value.code == "event-malformed"


def test_a_header_reads_back_as_it_was_written() -> None:
    assert Header.from_json(HEADER.to_json()) == HEADER
    other = replace(HEADER, suite=SuiteNames("jcs", "sha256", "keccak256"))
    assert Header.from_json(other.to_json()) == other
    assert canonical_bytes(other.to_json()) != canonical_bytes(HEADER.to_json())


@pytest.mark.parametrize(
    "change",
    [
        {"type": "aioum.run.v2"},
        {"runId": ""},
        {"runId": 1},
        {"agent": "a" * 257},
        {"agent": "\udfff"},
        {"startedAt": -1},
        {"startedAt": True},
        {"startedAt": "0"},
        {"suite": "jcs"},
        {"suite": {"canonicalization": "jcs", "leafHash": "blake3"}},
        {"suite": {"canonicalization": "jcs", "leafHash": 3, "nodeHash": "keccak256"}},
        {"note": "unknown"},
    ],
)
def test_a_header_with_a_wrong_member_is_malformed(change: dict[str, Any]) -> None:
    with pytest.raises(AioumError) as caught:
        Header.from_json({**HEADER.to_json(), **change})
    assert caught.value.code == "header-malformed"
