"""The check of signed calls: its verdict, its separate facts, and what it says where evidence is missing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from aioum.core.evidence import disclose
from aioum.core.problem import problem_bytes
from aioum.core.submission.framing import encode_base64
from aioum.core.transcript import Entry, canonical_request
from aioum.core.types import ZERO_BYTES32, Bytes32
from aioum.verify.package import verify_package
from aioum.verify.report import Check, Report, Status
from tests.unit.verify.honest import SEATS, TRUSTED, Honest, RecordedChain, edited, read, seat_envelopes

HONEST = Honest(seats=SEATS)
PENDING = canonical_request("uppercase", {"text": "anybody there?"})


async def report_on(
    package: Any, chain: RecordedChain | None, retained: Mapping[str, list[Bytes32]] | None = None
) -> Report:
    return await verify_package(
        read(package), chain=chain, trusted_payment_managers=TRUSTED, retained_heads=retained
    )


async def row(package: Any, chain: RecordedChain | None = None, **retained: list[Bytes32]) -> Check:
    report = await report_on(package, chain, retained)
    return next(check for check in report.checks if check.name == "submissions")


def heads(honest: Honest) -> dict[str, Bytes32]:
    """What the client kept: each seat's head after its last call."""
    signed = honest.submissions()
    assert signed is not None
    return {
        entry.envelope.seat: entry.envelope.submission(
            honest.channel_id, honest.calls[entry.index].request.encode()
        ).head()
        for entry in signed.entries
    }


async def test_an_honest_signed_session_is_trusted_with_each_fact_apart() -> None:
    check = await row(HONEST.package(), HONEST.chain())

    assert (check.status, check.codes) == (Status.PASS, ())
    details: Any = check.details
    assert details["verdict"] == "trusted"
    assert details["ok"] is True
    assert details["signatures"]["state"] == "signed"
    assert details["semantics"] == {"submissions": "verified", "timeouts": "not_applicable"}
    assert details["terms"] == "bound"
    assert details["completeness"] == "anchored"
    assert details["unanswered"] is None
    assert details["sessionId"] == "aioum:0x" + HONEST.channel_id.hex()
    assert [(seat["seat"], seat["submissions"]) for seat in details["signatures"]["seats"]] == [
        ("client", 3),
        ("researcher", 3),
    ]
    assert {seat["seat"]: seat["chainHead"] for seat in details["signatures"]["seats"]} == {
        seat: encode_base64(head) for seat, head in heads(HONEST).items()
    }


async def test_the_report_of_a_signed_session_follows_its_schema(repository: Any) -> None:
    schema = (repository / "docs" / "verify-report.schema.json").read_text(encoding="utf-8")
    validator = jsonschema_rs.validator_for(schema)

    for package in (HONEST.package(), disclose(HONEST.package(), [1]), edited(HONEST.package(), forge)):
        validator.validate((await report_on(package, HONEST.chain())).to_json())


def forge(package: dict[str, Any]) -> None:
    package["submissions"]["entries"][0]["clientTime"] += 1


async def test_without_an_anchor_or_retained_heads_the_report_says_that_completeness_was_not_checked() -> (
    None
):
    not_anchored = HONEST.session(root=ZERO_BYTES32, call_count=0, commit_required=False)

    for chain in (None, HONEST.chain(not_anchored)):
        check = await row(HONEST.package(), chain)

        assert check.status is Status.PASS
        assert "completeness-not-checked" in check.codes
        assert check.details["completeness"] == "not_checked"


async def test_retained_heads_prove_offline_that_nothing_was_cut_off() -> None:
    kept = {seat: [head] for seat, head in heads(HONEST).items()}

    check = await row(HONEST.package(), None, **kept)

    assert (check.status, check.codes) == (Status.PASS, ())
    assert check.details["completeness"] == "retained_heads"


async def test_a_tail_cut_off_before_anything_was_anchored_shows_by_the_retained_head_alone() -> None:
    shorter = replace(HONEST, calls=HONEST.calls[:5])
    kept = heads(HONEST)["researcher"]

    assert (await row(shorter.package())).status is Status.PASS
    assert (await row(shorter.package(), None, researcher=[kept])).codes == ("retained-head-missing",)


async def test_a_session_opened_with_a_roster_and_shown_without_its_submissions_is_unverifiable() -> None:
    check = await row(HONEST.package(submissions=None), HONEST.chain())

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("submissions-absent",))


@pytest.mark.parametrize("left_out", [("submissions",), ("submissions", "channel")])
async def test_leaving_all_signed_calls_out_does_not_hide_that_a_retained_head_is_missing(
    left_out: tuple[str, ...],
) -> None:
    package = {name: value for name, value in HONEST.package().items() if name not in left_out}

    check = await row(package, HONEST.chain(), researcher=[heads(HONEST)["researcher"]])

    assert (check.status, check.codes) == (Status.FAIL, ("retained-head-missing",))


async def test_an_unsigned_session_has_no_such_row() -> None:
    report = await report_on(Honest().package(), Honest().chain())

    assert "submissions" not in report.statuses()


async def test_submissions_of_a_session_that_was_opened_without_a_roster_are_rejected() -> None:
    unsigned = Honest()
    package = {**unsigned.package(), "submissions": HONEST.package()["submissions"]}

    assert "roster-mismatch" in (await row(package, unsigned.chain())).codes


async def test_without_channel_facts_nothing_binds_the_roster() -> None:
    package = HONEST.package(channel=None)
    package["channelId"] = "0x" + HONEST.channel_id.hex()

    check = await row(package, HONEST.chain())

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("session-terms-unproven",))
    assert check.details["signatures"]["state"] == "signed"  # type: ignore[index, call-overload]


async def test_without_a_channel_id_nothing_can_have_been_signed() -> None:
    check = await row(HONEST.package(channel=None))

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("submission-session-unknown",))


async def test_a_call_without_a_request_leaves_nothing_to_judge() -> None:
    package = edited(HONEST.package(), lambda package: package["calls"][2].pop("request"))

    check = await row(package, HONEST.chain())

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("transcript-invalid",))


async def test_a_signed_session_without_calls_proves_nothing_yet() -> None:
    empty = replace(HONEST, calls=(), settled=0)
    package = empty.package(receipts=(), statement=None, vouchers=())

    check = await row(package, None)

    assert check.status is Status.NOT_APPLICABLE
    assert check.codes[0] == "unsigned"


def second_call(index: int, *, signed: bool = True) -> dict[str, Any]:
    """Another call that the seat signed for a recorded call's place."""
    assert HONEST.roster is not None
    turns = [(HONEST.seats[call.index % 2], call.request) for call in HONEST.calls[:index]]
    turns.append((HONEST.seats[index % 2], PENDING))
    entry = seat_envelopes(HONEST.channel_id, HONEST.roster, turns)[index].to_json()
    del entry["cursor"]
    return {**entry, "clientTime": entry["clientTime"] if signed else 1, "index": index, "request": PENDING}


async def test_a_client_that_signed_twice_is_named_and_what_was_recorded_stays_trusted() -> None:
    def shown(package: dict[str, Any]) -> None:
        package["submissions"]["entries"].insert(3, second_call(2))

    check = await row(edited(HONEST.package(), shown), HONEST.chain())

    assert (check.status, check.codes) == (Status.PASS, ("submission-equivocation",))
    assert check.details["verdict"] == "trusted"
    assert check.details["equivocations"] == 1


async def test_a_second_call_that_the_client_did_not_sign_is_held_against_the_package() -> None:
    def shown(package: dict[str, Any]) -> None:
        package["submissions"]["entries"].insert(3, second_call(2, signed=False))

    check = await row(edited(HONEST.package(), shown), HONEST.chain())

    assert (check.status, check.codes) == (Status.FAIL, ("bad-signature",))


@pytest.mark.parametrize(("failure", "codes"), [("tool-unknown", ()), ("timeout", ("tool-unknown",))])
async def test_a_signed_call_of_a_tool_that_does_not_exist_is_recorded_as_exactly_that(
    failure: str, codes: tuple[str, ...]
) -> None:
    response = problem_bytes(404, failure, "there is no such tool").decode()
    stranger = Entry(6, "gold", canonical_request("gold", {}), response)
    honest = replace(HONEST, calls=(*HONEST.calls, stranger))

    check = await row(honest.package(), honest.chain())

    assert check.codes == codes


async def test_a_signed_call_without_answer_is_reported_as_the_claim_it_is() -> None:
    check = await row(HONEST.package(submissions=HONEST.submissions(PENDING)), HONEST.chain())

    assert (check.status, check.codes) == (Status.PASS, ("call-unanswered",))
    assert check.details["unanswered"] == 6
    assert check.details["completeness"] == "anchored"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"clientTime": 1}, "bad-signature"),
        ({"request": PENDING.replace("there", "here")}, "bad-signature"),
        ({"request": " " + PENDING}, "non-canonical-command"),
        ({"seat": "researcher"}, "chain-mismatch"),
        ({"index": 7}, "submission-call-unknown"),
    ],
)
async def test_a_signed_call_without_answer_is_judged_like_the_others(
    change: dict[str, Any], code: str
) -> None:
    package = edited(
        HONEST.package(submissions=HONEST.submissions(PENDING)),
        lambda package: package["submissions"]["entries"][6].update(change),
    )

    check = await row(package, HONEST.chain())

    assert check.status is Status.FAIL
    assert code in check.codes


async def test_disclosed_calls_prove_their_authorship_one_by_one_and_links_between_neighbors() -> None:
    check = await row(disclose(HONEST.package(), [0, 1, 2, 5]), HONEST.chain())

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("submissions-hidden",))
    assert check.details["verdict"] == "unverifiable"
    assert check.details["validSignatures"] == 4
    # The first of each seat follows its genesis, call 2 follows call 0, call 5 a hidden one.
    assert check.details["linked"] == 3


async def test_a_disclosed_call_whose_neighbor_is_another_than_the_seat_signed_breaks_the_link() -> None:
    """The client signed two histories, and the operator shows pieces of both."""
    other = replace(HONEST, calls=(*HONEST.calls[:2], replace(HONEST.calls[5], index=2), *HONEST.calls[3:]))
    package: Any = disclose(HONEST.package(), [2, 3, 4])
    package["submissions"]["entries"][2] = disclose(other.package(), [4])["submissions"]["entries"][0]  # type: ignore[index, call-overload]

    check = await row(package, HONEST.chain())

    assert check.status is Status.FAIL
    assert check.codes == ("chain-mismatch",)


async def test_a_disclosed_call_without_its_envelope_is_not_covered() -> None:
    package = edited(
        disclose(HONEST.package(), [0, 1]), lambda package: package["submissions"]["entries"].pop()
    )

    assert (await row(package, HONEST.chain())).codes == ("input-uncovered",)


async def test_a_disclosed_package_with_every_call_is_judged_as_a_whole() -> None:
    check = await row(disclose(HONEST.package(), range(6)), HONEST.chain())

    assert check.status is Status.PASS
    assert check.details["verdict"] == "trusted"


async def test_a_disclosed_package_whose_roster_nothing_binds_says_so() -> None:
    package = disclose(HONEST.package(channel=None), [1])
    package["channelId"] = "0x" + HONEST.channel_id.hex()

    assert (await row(package, HONEST.chain())).codes == ("submissions-hidden", "session-terms-unproven")


async def test_an_entry_that_repeats_the_recorded_call_is_no_contradiction() -> None:
    def repeat(package: dict[str, Any]) -> None:
        entries = package["submissions"]["entries"]
        entries.insert(3, {**entries[2], "request": HONEST.calls[2].request})

    assert (await row(edited(HONEST.package(), repeat))).codes == ("submission-repeated",)


async def test_a_second_call_of_an_index_that_nobody_signed_is_no_proof_against_the_client() -> None:
    def forge_second(package: dict[str, Any]) -> None:
        entries = package["submissions"]["entries"]
        entries.insert(3, {**entries[2], "request": PENDING})

    assert (await row(edited(HONEST.package(), forge_second))).codes == ("bad-signature",)


@pytest.mark.parametrize("shown", [[0, 1], [4]])
async def test_a_hidden_call_shown_as_a_second_one_is_no_proof_against_the_client(shown: list[int]) -> None:
    hidden = {**HONEST.package()["submissions"]["entries"][3], "request": HONEST.calls[3].request}
    package: Any = disclose(HONEST.package(), shown)
    entries = package["submissions"]["entries"]
    entries.append(hidden)
    entries.sort(key=lambda entry: entry["index"])

    check = await row(package, HONEST.chain())

    assert (check.status, check.codes) == (Status.FAIL, ("submission-call-unknown",))


async def test_a_signed_call_that_an_invented_one_displaced_is_no_proof_against_the_client() -> None:
    def displace(package: dict[str, Any]) -> None:
        entries = package["submissions"]["entries"]
        displaced = {**entries[4], "request": HONEST.calls[4].request}
        entries[4]["submissionId"] = "invented"
        entries.insert(5, displaced)

    check = await row(edited(HONEST.package(), displace), HONEST.chain())

    assert check.status is Status.FAIL
    assert "submission-displaced" in check.codes
    assert check.details["equivocations"] == 0


async def test_a_call_that_is_disclosed_twice_does_not_stand_for_a_hidden_one() -> None:
    package: Any = disclose(HONEST.package(), [0])
    package["calls"] *= 6

    check = await row(package)

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("submissions-hidden",))


@pytest.mark.parametrize(
    "request_text", ['"anybody there?"', '{"arguments":{}}', '{"arguments":{},"tool":1}']
)
async def test_a_signed_call_that_no_node_could_admit_is_no_unanswered_one(request_text: str) -> None:
    check = await row(HONEST.package(submissions=HONEST.submissions(request_text)), HONEST.chain())

    assert (check.status, check.codes) == (Status.FAIL, ("command-malformed",))


async def test_a_roster_of_more_seats_than_could_be_checked_is_refused() -> None:
    def crowd(package: dict[str, Any]) -> None:
        seat = package["submissions"]["roster"][0]
        package["submissions"]["roster"] = [{**seat, "id": f"seat-{number}"} for number in range(4_097)]

    assert (await row(edited(HONEST.package(), crowd))).codes == ("roster-invalid",)


async def test_two_entries_of_one_call_are_one_too_many() -> None:
    def repeat(package: dict[str, Any]) -> None:
        entries = package["submissions"]["entries"]
        entries.insert(3, entries[2])

    assert (await row(edited(HONEST.package(), repeat))).codes == ("submission-repeated",)


async def test_submissions_that_are_no_roster_and_entries_are_malformed() -> None:
    package = {**HONEST.package(), "submissions": {"roster": []}}

    assert (await row(package)).codes == ("submission-malformed",)
