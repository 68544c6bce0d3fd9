"""The `submissions` of a package: written and read strictly, disclosed call by call."""

from typing import Any

import pytest

from aioum.core.errors import InvalidInput
from aioum.core.evidence import disclose, package_bytes
from aioum.core.evidence_reading import parse_package
from aioum.core.evidence_submissions import SubmissionEntry, Submissions
from aioum.core.submission.framing import MAX_COMMAND_BYTES
from aioum.core.transcript import canonical_request
from tests.unit.verify.honest import SEATS, Honest, edited

HONEST = Honest(seats=SEATS)
PENDING = canonical_request("uppercase", {"text": "anybody there?"})


def submissions(unanswered: str | None = None) -> Submissions:
    found = HONEST.submissions(unanswered)
    assert found is not None
    return found


def code_of(value: Any) -> str:
    with pytest.raises(InvalidInput) as refusal:
        Submissions.from_json(value)
    return refusal.value.code


def test_submissions_are_read_as_they_were_written() -> None:
    written = submissions(PENDING)

    assert Submissions.from_json(written.to_json()) == written
    package = parse_package(package_bytes(HONEST.package(submissions=written)))
    assert Submissions.from_json(package.submissions) == written


def test_an_entry_has_the_documented_members_and_a_request_only_where_no_call_shows_it() -> None:
    entries: Any = submissions(PENDING).to_json()["entries"]

    assert entries[0].keys() == {"index", "seat", "submissionId", "clientTime", "prevHead", "sig"}
    assert entries[6].keys() == {*entries[0].keys(), "request"}
    assert entries[6]["request"] == PENDING


@pytest.mark.parametrize(
    "edit",
    [
        lambda value: value.pop("entries"),
        lambda value: value.update(note=""),
        lambda value: value.update(entries={}),
        lambda value: value["entries"][0].update(cursor=0),
        lambda value: value["entries"][0].pop("sig"),
        lambda value: value["entries"][0].update(index=-1),
        lambda value: value["entries"][0].update(index=True),
        lambda value: value["entries"][0].update(index=0.0),
        lambda value: value["entries"][0].update(seat="ü"),
        lambda value: value["entries"][0].update(submissionId=""),
        lambda value: value["entries"][0].update(prevHead=value["entries"][0]["prevHead"].rstrip("=")),
        lambda value: value["entries"][0].update(sig="_" * 86 + "=="),
        lambda value: value["entries"][0].update(request=None),
        lambda value: value["entries"][0].update(request="\ud800"),
        lambda value: value["entries"][0].update(request="x" * (MAX_COMMAND_BYTES + 1)),
    ],
)
def test_anything_else_is_malformed(edit: Any) -> None:
    assert code_of(edited(submissions().to_json(), edit)) == "submission-malformed"


def test_a_roster_is_read_as_strictly() -> None:
    value = edited(submissions().to_json(), lambda value: value["roster"].append(value["roster"][0]))

    assert code_of(value) == "roster-invalid"


def test_an_entry_stands_at_the_index_that_its_envelope_signs() -> None:
    with pytest.raises(InvalidInput) as refusal:
        SubmissionEntry(1, submissions().entries[0].envelope)

    assert refusal.value.code == "submission-malformed"


def test_a_disclosed_package_keeps_the_envelopes_of_its_calls_alone() -> None:
    package: Any = disclose(HONEST.package(), [4, 1])

    assert [entry["index"] for entry in package["submissions"]["entries"]] == [1, 4]
    assert package["submissions"]["roster"] == submissions().roster.to_json()


def test_a_signed_call_without_answer_is_disclosed_only_where_its_index_is_chosen() -> None:
    whole = HONEST.package(submissions=submissions(PENDING))

    hidden: Any = disclose(whole, [1])
    shown: Any = disclose(whole, [1, 6])

    assert [entry["index"] for entry in hidden["submissions"]["entries"]] == [1]
    assert [entry["index"] for entry in shown["submissions"]["entries"]] == [1, 6]
    assert [call["index"] for call in shown["calls"]] == [1]
    for indexes, code in (([6], "disclosure-empty"), ([0, 7], "disclosure-out-of-range")):
        with pytest.raises(InvalidInput) as refusal:
            disclose(whole, indexes)
        assert refusal.value.code == code
    with pytest.raises(InvalidInput) as refusal:
        disclose(HONEST.package(), [0, 6])
    assert refusal.value.code == "disclosure-out-of-range"
