"""Signed calls that are no steps: without an answer, or second ones of an index."""

from dataclasses import replace

import pytest

from aioum.core.evidence_submissions import SubmissionEntry
from aioum.core.submission.envelope import Envelope
from aioum.core.transcript import Entry, canonical_request
from aioum.replay.facts import Verdict
from tests.unit.replay.paid.artifacts import HONEST, Edit, Lines, at, codes, edited, exported, judged
from tests.unit.verify.honest import seat_key

PENDING = canonical_request("uppercase", {"text": "anybody there?"})


def test_a_signed_call_without_answer_is_proven_beside_the_steps() -> None:
    judgement = judged(exported(submissions=HONEST.submissions(PENDING)))

    assert judgement.verdict is Verdict.TRUSTED
    assert judgement.replayed["unanswered"] == 6


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (at(13, "record", "clientTime", value=0), "bad-signature"),
        (at(13, "record", "note", value=0), "submission-malformed"),
        (at(13, "record", "index", value=9), "submission-call-unknown"),
        (at(13, "record", "seat", value="mallory"), "unknown-seat"),
        (lambda lines: lines[13]["record"].pop("request"), "submission-call-unknown"),
        (lambda lines: lines.append({**lines[13], "n": 13}), "submission-call-unknown"),
        (lambda lines: [lines[0].pop(name) for name in ("seatKeys", "signaturePolicy")], "roster-missing"),
    ],
)
def test_a_signed_call_without_answer_is_judged_like_the_others(edit: Edit, code: str) -> None:
    judgement = judged(edited(exported(submissions=HONEST.submissions(PENDING)), edit))

    assert judgement.verdict is Verdict.REJECTED
    assert code in [problem.code for problem in judgement.problems]


def test_a_signed_call_that_follows_a_dropped_one_does_not_follow_the_last_that_is_shown() -> None:
    shorter = replace(HONEST, calls=HONEST.calls[:5], settled=0)
    # Call 5 was the researcher's, and so is the claimed call behind it.
    longer = replace(HONEST, calls=(*HONEST.calls, Entry(6, "uppercase", PENDING, "")))
    signed = longer.submissions(PENDING)
    assert signed is not None
    claimed = replace(signed.entries[-1])
    shown = replace(signed, entries=(*signed.entries[:5], claimed))

    judgement = judged(exported(shorter, submissions=shown))

    assert judgement.verdict is Verdict.REJECTED
    assert codes(judgement) == ["submission-call-unknown"]


def test_a_signed_call_without_answer_follows_its_seats_last_call() -> None:
    signed = HONEST.submissions()
    assert signed is not None
    envelope = Envelope.sign(
        seat_key("client"),
        HONEST.channel_id,
        PENDING.encode(),
        seat="client",
        submission_id="client-6",
        cursor=6,
        client_time=0,
        prev_head=signed.entries[4].envelope.prev_head,
    )
    claimed = SubmissionEntry(6, envelope, PENDING.encode())

    judgement = judged(exported(submissions=replace(signed, entries=(*signed.entries, claimed))))

    assert judgement.verdict is Verdict.REJECTED
    assert codes(judgement) == ["chain-mismatch"]


def test_two_signed_calls_of_one_index_are_proof_against_the_client() -> None:
    other = replace(HONEST, calls=(*HONEST.calls[:4], Entry(4, "uppercase", PENDING, ""), *HONEST.calls[5:]))
    signed, second = HONEST.submissions(), other.submissions()
    assert signed is not None
    assert second is not None
    contradicting = replace(second.entries[4], request=PENDING.encode())
    both = replace(signed, entries=(*signed.entries, contradicting))

    judgement = judged(exported(submissions=both))

    assert judgement.diagnostics[0].code == "submission-equivocation"
    assert judgement.verdict is Verdict.TRUSTED


def test_a_signed_call_that_an_invented_one_displaced_is_no_proof_against_the_client() -> None:
    """The operator drops a call, records another that nobody signed, and shows the first as a second one."""

    def displace(lines: Lines) -> None:
        given = lines[9]["inputs"][0]
        recorded = {name: given[name] for name in ("seat", "submissionId", "clientTime", "sig")}
        envelope = recorded | {"index": 4, "prevHead": given["prevChainHash"]}
        record = envelope | {"request": given["canonicalCommand"]}
        lines.append(
            {"kind": "extension", "n": 12, "levelIndex": 0, "lane": "aioum.submission.v1", "record": record}
        )
        given["submissionId"] = "invented"

    judgement = judged(edited(exported(), displace))

    assert judgement.verdict is Verdict.REJECTED
    assert "submission-displaced" in codes(judgement)
    assert judgement.replayed["equivocations"] == 0


def test_a_call_that_was_signed_for_another_place_is_no_proof_against_the_client() -> None:
    """The operator swaps two calls that the researcher signed, and shows the first as a second one."""

    def move(lines: Lines) -> None:
        given = lines[3]["inputs"][0]
        envelope = {name: given[name] for name in ("seat", "submissionId", "clientTime", "sig")}
        record = envelope | {"index": 1, "prevHead": given["prevChainHash"]}
        record["request"] = given["canonicalCommand"]
        lines.append(
            {"kind": "extension", "n": 12, "levelIndex": 0, "lane": "aioum.submission.v1", "record": record}
        )
        lines[3]["inputs"], lines[7]["inputs"] = lines[7]["inputs"], lines[3]["inputs"]

    judgement = judged(edited(exported(), move))

    assert judgement.verdict is Verdict.REJECTED
    assert "submission-displaced" in codes(judgement)
    assert judgement.replayed["equivocations"] == 0


@pytest.mark.parametrize(
    ("request_text", "code"),
    [
        (" " + PENDING, "non-canonical-command"),
        ('{"a":1,"a":1}', "non-canonical-command"),
        ('"anybody there?"', "command-malformed"),
        ('{"arguments":{},"tool":7}', "command-malformed"),
    ],
)
def test_a_signed_call_that_no_node_could_admit_is_no_unanswered_one(request_text: str, code: str) -> None:
    judgement = judged(exported(submissions=HONEST.submissions(request_text)))

    assert judgement.verdict is Verdict.REJECTED
    assert codes(judgement) == [code]
