import json
from typing import Any

import pytest

from aioum.replay.limits import Limits
from aioum.replay.model import Artifact
from aioum.replay.problems import ArtifactInvalid
from aioum.replay.reading import read_artifact
from tests.unit.replay import samples as s


def codes(data: bytes, **options: Any) -> list[str]:
    with pytest.raises(ArtifactInvalid) as caught:
        read_artifact(data, **options)
    assert caught.value.code == caught.value.problems[0].code
    return [problem.code for problem in caught.value.problems]


def lines(*texts: str) -> bytes:
    return "\n".join(texts).encode()


HEADER = json.dumps(s.header())
ACTION = json.dumps(s.action(n=0))


# Lines


def test_lines_end_with_lf_or_crlf_and_trailing_blank_lines_are_nothing() -> None:
    plain = read_artifact(lines(HEADER, ACTION))
    assert read_artifact(lines(HEADER, ACTION, "")) == plain
    assert read_artifact(lines(HEADER + "\r", ACTION + "\r", "", " \t\r", "")) == plain
    assert len(plain.lines) == 1


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\x1c", "\x0b"])
def test_no_other_character_ends_a_line(mark: str) -> None:
    # Written raw where JSON allows it inside a string.
    spelled = mark if mark > "\x1f" else json.dumps(mark)[1:-1]
    artifact: Any = read_artifact(lines(HEADER, ACTION.replace('"amount": 1', f'"amount": "a{spelled}b"')))
    assert artifact.lines[0].input.json["payload"] == {"amount": f"a{mark}b"}


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t\n"])
def test_nothing_is_no_artifact(data: bytes) -> None:
    assert codes(data) == ["artifact-empty"]


def test_a_blank_line_inside_is_refused() -> None:
    assert codes(lines(HEADER, "", ACTION)) == ["blank-line"]
    assert codes(lines("", HEADER, ACTION)) == ["blank-line"]
    assert codes(lines(HEADER, " \t\r", ACTION)) == ["blank-line"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff", "artifact-not-utf8"),
        (b"\xed\xa0\x80", "artifact-not-utf8"),
        (b"\xef\xbb\xbf{}", "artifact-bom"),
    ],
)
def test_an_artifact_is_utf_8_without_a_byte_order_mark(data: bytes, code: str) -> None:
    assert codes(data) == [code]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(artifact_bytes=len(HEADER)), "artifact-too-large"),
        (Limits(line_characters=len(ACTION) - 1), "line-too-large"),
        (Limits(lines=1), "too-many-lines"),
    ],
)
def test_size_has_limits(limits: Limits, code: str) -> None:
    assert codes(lines(HEADER, ACTION, ACTION), limits=limits)[0] == code


def test_an_artifact_of_exactly_the_limits_is_read() -> None:
    data = lines(HEADER, ACTION)
    limits = Limits(artifact_bytes=len(data), line_characters=max(len(HEADER), len(ACTION)), lines=1)
    assert read_artifact(data, limits=limits).lines


# JSON


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ("", "json-syntax"),
        ("nope", "json-syntax"),
        ('"open', "json-syntax"),
        ("1}, {", "json-syntax"),
        ("01", "json-syntax"),
        ("NaN", "json-number-not-finite"),
        ("-Infinity", "json-number-not-finite"),
        ("1e400", "json-number-not-finite"),
        ("9007199254740992", "json-number-unsafe"),
        ("-9007199254740992", "json-number-unsafe"),
        ("1" * 5000, "json-number-unsafe"),
        ("1e20", "json-number-unsafe"),
        ('"\\ud800"', "json-lone-surrogate"),
        ('{"\\uDFFF": 1}', "json-lone-surrogate"),
        ('"\\ude00\\ud83d"', "json-lone-surrogate"),
        ("[" * 64 + "]" * 64, "json-too-deep"),
        ("[" * 500 + "]" * 500, "json-too-deep"),
        ("[" * 100_000, "json-too-deep"),
    ],
)
def test_json_is_strict(payload: str, code: str) -> None:
    assert codes(lines(HEADER, ACTION.replace('{"amount": 1}', payload))) == [code]


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ("9007199254740991", 2**53 - 1),
        ("-9007199254740991", -(2**53) + 1),
        ("1.0", 1.0),
        ("-0.0", 0.0),
        ('"\\ud83d\\ude00"', "😀"),
        ('"' + "[" * 100 + '"', "[" * 100),
        ("[" * 63 + "]" * 63, None),
    ],
)
def test_opaque_values_may_be_any_json_within_these_rules(payload: str, value: Any) -> None:
    artifact: Any = read_artifact(lines(HEADER, ACTION.replace('{"amount": 1}', payload)))
    if value is not None:
        assert artifact.lines[0].input.json["payload"] == value


def test_of_a_repeated_key_the_last_value_counts_unless_repeating_is_refused() -> None:
    data = lines(HEADER, ACTION.replace('"levelIndex": 0', '"levelIndex": 7, "level\\u0049ndex": 0'))
    assert read_artifact(data).lines[0].level_index == 0
    assert codes(data, refuse_duplicate_keys=True) == ["json-duplicate-key"]


@pytest.mark.parametrize("repeated", ["header", "line"])
def test_in_what_says_it_is_a_paid_session_no_key_is_repeated_unless_that_is_asked_for(repeated: str) -> None:
    header, action = json.dumps(s.header(sessionId="aioum:0x" + "ab" * 32)), ACTION
    assert read_artifact(lines(header, action))
    if repeated == "header":
        header = header.replace('"seed": 1', '"seed": 2, "seed": 1', 1)
    else:
        action = action.replace('{"amount": 1}', '{"amount": 2, "amount": 1}')
    assert codes(lines(header, action)) == ["json-duplicate-key"]
    assert read_artifact(lines(header, action), refuse_duplicate_keys=False)


def test_a_roster_has_a_limit_for_each_key_takes_time() -> None:
    data = s.artifact(s.signed_header())
    assert read_artifact(data, limits=Limits(seats=1))
    assert codes(data, limits=Limits(seats=0)) == ["roster-invalid"]


def test_bytes_need_not_be_canonical() -> None:
    spread = json.dumps(dict(reversed(s.header().items())), indent=1).replace("\n", " ")
    assert read_artifact(lines("  " + spread + "\t", ACTION)).header == read_artifact(lines(HEADER)).header


def test_every_bad_line_is_reported_up_to_the_limit() -> None:
    bad = [s.action(n=0, extra=1), s.action(), s.action(levelIndex=9), 7]
    data = s.artifact(s.header(), *bad)
    assert codes(data) == ["unknown-property", "bad-level-index", "not-an-object"]
    assert codes(data, limits=Limits(problems=2)) == ["unknown-property", "bad-level-index"]
    assert codes(lines(HEADER, "x", "y", "z"), limits=Limits(problems=2)) == ["json-syntax", "json-syntax"]


def test_a_problem_says_where_it_is() -> None:
    with pytest.raises(ArtifactInvalid) as caught:
        read_artifact(s.artifact(s.header(), s.checkpoint(), s.resolution(s.given(), s.given(seat=""))))
    (problem,) = caught.value.problems
    assert problem.where == "resolution 1"
    assert "input 1" in problem.message
    assert caught.value.details == {"problems": [{"code": "text-invalid", "where": "resolution 1"}]}


# Grouping


def test_actions_alone_are_ungrouped_and_numbered_from_zero_or_one() -> None:
    for first in (0, 1):
        artifact = read_artifact(s.artifact(s.header(), s.action(n=first), s.action(n=first + 1)))
        assert not artifact.is_grouped
        assert artifact.records is None
        assert [each["n"] for each in artifact.actions] == [first, first + 1]
    assert codes(s.artifact(s.header(), s.action(n=2))) == ["bad-sequence"]
    assert codes(s.artifact(s.header(), s.action(n=1), s.action(n=1))) == ["bad-sequence"]
    assert codes(s.artifact(s.header(), s.action(n=False))) == ["bad-sequence"]


def test_records_are_numbered_from_zero_and_their_actions_anew() -> None:
    records = [s.checkpoint(), s.action(tick=1), s.resolution(s.given(x=1), s.given(x=2), tick=4)]
    artifact = read_artifact(s.artifact(s.header(), *records))
    assert artifact.records == artifact.lines
    assert [(each["n"], each.get("x"), each["tick"]) for each in artifact.actions] == [
        (0, None, 1),
        (1, 1, 4),
        (2, 2, 4),
    ]
    assert artifact.decoded().keys() == {"header", "actions", "records"}
    assert codes(s.artifact(s.header(), s.checkpoint(n=1))) == ["bad-sequence"]


def test_version_1_0_has_actions_only() -> None:
    assert read_artifact(s.artifact(s.header("1.0"), s.action())).format_version == "1.0"
    assert codes(s.artifact(s.header("1.0"), s.checkpoint())) == ["bad-kind"]


def test_a_run_without_any_line_is_read() -> None:
    artifact: Artifact = read_artifact(lines(HEADER))
    assert artifact.lines == ()
    assert artifact.actions == []


def test_every_kind_of_record_is_read_with_its_members() -> None:
    artifact: Any = read_artifact(s.artifact(s.signed_header(), *s.every_kind()))
    interest, resolution, action, mismatch, seat_signature, timeout, checkpoint, extension = artifact.lines
    assert (interest.scope_id, interest.declaration, interest.integrity.cursor) == ("here", [1], 0)
    assert interest.integrity.signature == bytes(range(64))
    assert resolution.inputs[0].integrity.prev_head == bytes(range(32))
    assert (resolution.cause, resolution.system_input) == ("complete", None)
    assert (action.tick, action.input.seat, action.input.integrity) == (0, "alpha", None)
    assert mismatch.attempted_reveal.salt == b"\x11" * 16
    assert (seat_signature.head, seat_signature.signature) == (bytes(range(32)), bytes(range(64)))
    assert (timeout.participant_id, timeout.window_ref, timeout.policy_ref) == (None, 0, None)
    assert checkpoint.digest == 7
    assert extension.record == {"free": [None, {"form": 1.5}]}
    assert artifact.has_signature_material


def test_interactions_are_read_in_version_1_4() -> None:
    artifact: Any = read_artifact(s.artifact(s.signed_header("1.4"), s.interaction()))
    assert artifact.lines[0].command == {"amount": 1}
    assert artifact.lines[0].integrity.command == b'{"amount":1}'
