import base64
from typing import Any

import pytest

from aioum.core.submission.chain import genesis
from aioum.core.types import Bytes32
from aioum.replay.facts import SignatureReport, SignatureState
from aioum.replay.signatures import SignatureRules, check_signatures
from tests.unit.replay.recorded import Run, heads, honest

SIGNED, PARTIAL, UNSIGNED = SignatureState.SIGNED, SignatureState.PARTIAL, SignatureState.UNSIGNED


def checked(run: Run, **options: Any) -> SignatureReport:
    return check_signatures(run.artifact(), **options)


def codes(report: SignatureReport) -> list[str]:
    return [problem.code for problem in report.problems]


def input_of(run: Run, position: int) -> dict[str, Any]:
    given: dict[str, Any] = run.lines[position]["inputs"][0]
    return given


def test_an_honest_run_is_signed_and_its_head_is_the_one_that_the_seat_kept() -> None:
    run = honest()
    report = checked(run)
    assert (report.state, report.problems) == (SIGNED, ())
    (seat,) = report.seats
    assert (seat.seat, seat.submissions, seat.valid_signatures) == ("alpha", 3, 3)
    assert (seat.chain_reproduced, seat.policy_satisfied) == (True, True)
    assert seat.chain_head == run.heads["alpha"]


def test_a_run_without_a_roster_is_unsigned_whatever_it_carries() -> None:
    report = check_signatures(honest().artifact(signed=False))
    assert (report.state, report.problems, report.seats) == (UNSIGNED, (), ())


@pytest.mark.parametrize("version", ["1.2", "1.3", "1.4"])
def test_signatures_count_from_version_1_2_on(version: str) -> None:
    assert check_signatures(honest().artifact(version=version)).state is SIGNED


def test_an_altered_command_is_a_bad_signature_and_breaks_the_chain_behind_it() -> None:
    run = honest()
    input_of(run, 1)["canonicalCommand"] = '{"amount":9}'
    report = checked(run)
    assert codes(report) == ["bad-signature", "chain-mismatch", "uncovered-submission"]
    assert report.state is PARTIAL


@pytest.mark.parametrize(
    "position, expected",
    [
        (0, ["chain-mismatch", "chain-broken", "uncovered-submission"]),
        (1, ["chain-mismatch", "uncovered-submission"]),
        (2, []),
    ],
)
def test_a_deleted_submission_shows_except_at_the_end(position: int, expected: list[str]) -> None:
    run = honest()
    del run.lines[position]
    assert codes(checked(run)) == expected


def test_a_retained_head_shows_that_the_end_is_missing() -> None:
    run = honest()
    del run.lines[2]
    report = checked(run, retained_heads=heads(run))
    assert codes(report) == ["retained-head-missing"]


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_every_head_that_the_chain_passed_through_is_found(which: int) -> None:
    run = honest()
    assert codes(checked(run, retained_heads=heads(run, which=which))) == []


def test_a_retained_head_of_a_seat_outside_of_the_roster_is_missing() -> None:
    report = checked(honest(), retained_heads={"beta": [Bytes32(bytes(32))]})
    assert codes(report) == ["retained-head-missing"]


def test_a_retained_head_is_missing_where_the_roster_was_stripped() -> None:
    run = honest()
    report = check_signatures(run.artifact(signed=False), retained_heads=heads(run))
    assert (report.state, codes(report)) == (UNSIGNED, ["retained-head-missing"])


def test_submissions_that_change_places_break_the_chain() -> None:
    run = honest()
    run.lines[0]["inputs"], run.lines[1]["inputs"] = run.lines[1]["inputs"], run.lines[0]["inputs"]
    assert codes(checked(run)) == ["chain-mismatch", "chain-broken", "chain-broken", "uncovered-submission"]


def test_a_submission_of_an_unknown_seat_is_said() -> None:
    run = honest()
    input_of(run, 2)["seat"] = "mallory"
    assert codes(checked(run)) == ["unknown-seat"]


def test_a_submission_that_is_given_to_another_seat_fits_neither_chain() -> None:
    run = Run(seats={"alpha": 1, "beta": 1}, goals=(2,))
    run.call(seat="alpha")
    run.call(seat="beta")
    input_of(run, 0)["seat"] = "beta"
    assert "chain-mismatch" in codes(checked(run))
    assert checked(run).state is PARTIAL


def test_a_submission_without_chain_fields_breaks_the_chain() -> None:
    run = honest()
    for name in ("clientTime", "prevChainHash", "sig"):
        del input_of(run, 0)[name]
    assert codes(checked(run)) == [
        "missing-chain-fields",
        "chain-broken",
        "chain-broken",
        "uncovered-submission",
    ]


def test_a_run_without_any_signature_is_partial() -> None:
    run = Run(goals=(1,))
    run.call(sign=False)
    report = checked(run)
    assert (report.state, codes(report)) == (PARTIAL, ["uncovered-submission"])


def test_a_later_signature_covers_the_unsigned_submissions_before_it() -> None:
    run = Run(goals=(3,))
    run.call(sign=False)
    run.call(sign=False)
    run.call()
    assert checked(run).state is SIGNED


def test_a_bad_signature_is_a_problem_even_where_a_later_one_covers_it() -> None:
    run = honest()
    signature = bytearray(base64.b64decode(input_of(run, 1)["sig"]))
    signature[0] ^= 1
    input_of(run, 1)["sig"] = base64.b64encode(signature).decode()
    report = checked(run)
    assert (report.state, codes(report)) == (PARTIAL, ["bad-signature"])
    assert report.seats[0].chain_reproduced


@pytest.mark.parametrize("gap, expected", [(5, []), (6, ["tier-exceeded"])])
def test_a_head_is_signed_within_n_ticks(gap: int, expected: list[str]) -> None:
    run = Run(seats={"alpha": 5}, goals=(1,))
    run.call(sign=False)
    run.sign_head(tick=gap)
    assert codes(checked(run)) == expected


def test_a_level_ends_with_a_signed_head() -> None:
    run = Run(goals=(1, 1))
    run.call(sign=False)
    run.next_level()
    run.call()
    assert codes(checked(run)) == ["level-boundary-unsigned"]


def test_a_level_that_ends_with_a_signed_head_is_covered() -> None:
    run = Run(goals=(1, 1))
    run.call(sign=False)
    run.sign_head()
    run.next_level()
    run.call()
    assert checked(run).state is SIGNED


def test_a_periodic_signature_over_another_head_is_said() -> None:
    run = Run(goals=(2,))
    run.call(sign=False)
    early = run.sign_head()
    run.call(sign=False)
    run.lines.append(dict(early))
    assert codes(checked(run)) == ["head-mismatch", "uncovered-submission"]


def test_a_periodic_signature_of_an_unknown_seat_is_said() -> None:
    run = honest()
    run.sign_head()["participantId"] = "mallory"
    assert codes(checked(run)) == ["unknown-seat"]


def test_a_submission_signature_is_no_periodic_one() -> None:
    run = Run(goals=(1,))
    run.call()
    run.sign_head()["sig"] = input_of(run, 0)["sig"]
    assert codes(checked(run)) == ["bad-signature"]


def test_a_periodic_signature_is_no_submission_signature() -> None:
    run = Run(goals=(1,))
    run.call()
    input_of(run, 0)["sig"] = run.sign_head()["sig"]
    assert "bad-signature" in codes(checked(run))


@pytest.mark.parametrize("kind", ["commit", "reveal", "commit-mismatch"])
def test_commitments_carry_their_own_signature(kind: str) -> None:
    run = Run()
    run.commit(run.commitment(7))
    if kind == "commit-mismatch":
        del run.mismatch(8)["sig"]
    run.reveal(7)
    if kind != "commit-mismatch":
        del input_of(run, 0 if kind == "commit" else 1)["sig"]
    run.call(3)
    assert codes(checked(run)) == ["direct-signature-required"]


def test_interest_is_part_of_the_chain() -> None:
    run = Run(goals=(1,))
    run.interest()
    run.call()
    assert checked(run).state is SIGNED
    assert checked(run).submissions == 2
    del run.lines[0]
    assert codes(checked(run)) == ["chain-mismatch", "uncovered-submission"]


def test_an_interaction_is_part_of_the_chain() -> None:
    run = Run(goals=(1,))
    run.interaction({"look": 1})
    run.call()
    assert checked(run).state is SIGNED
    del run.lines[0]
    assert codes(checked(run)) == ["chain-mismatch", "uncovered-submission"]


def test_a_signature_for_another_session_does_not_count() -> None:
    run = honest()
    assert codes(check_signatures(run.artifact(sessionId="run-8")))[:1] == ["chain-mismatch"]


def test_a_roster_with_another_key_or_tier_breaks_every_chain() -> None:
    run = Run(seats={"alpha": 1, "beta": 1}, goals=(2,))
    run.call(seat="alpha")
    run.call(seat="beta")
    changed = run.header()["seatKeys"]
    changed[1]["signingTier"] = {"N": 2}
    report = check_signatures(run.artifact(seatKeys=changed))
    assert codes(report) == ["chain-mismatch"] * 2 + ["uncovered-submission"] * 2


def test_the_order_of_the_roster_does_not_matter() -> None:
    run = Run(seats={"alpha": 1, "beta": 1}, goals=(2,))
    run.call(seat="alpha")
    run.call(seat="beta")
    report = check_signatures(run.artifact(seatKeys=run.header()["seatKeys"][::-1]))
    assert report.state is SIGNED
    assert [seat.seat for seat in report.seats] == ["beta", "alpha"]


IDENTITY_KEY = base64.b64encode(b"\x01" + bytes(31)).decode()


def test_no_signature_counts_under_a_key_that_would_accept_any() -> None:
    run = honest(calls=1)
    roster = run.header()["seatKeys"]
    roster[0]["publicKey"] = IDENTITY_KEY
    report = check_signatures(run.artifact(seatKeys=roster))
    assert report.seats[0].valid_signatures == 0
    assert report.state is PARTIAL


def test_a_key_that_nobody_used_is_a_problem_only_where_sound_keys_are_asked_for() -> None:
    run = Run(goals=(1,), seats={"alpha": 1})
    run.roster = type(run.roster).from_json(
        [
            *run.roster.to_json(),
            {"id": "idle", "publicKey": IDENTITY_KEY, "alg": "Ed25519", "signingTier": {"N": 1}},
        ]
    )
    run.heads["alpha"] = genesis(run.session_id, "alpha", run.roster.hash)
    run.call()
    assert checked(run).state is SIGNED
    strict = checked(run, rules=SignatureRules(sound_keys=True))
    assert codes(strict) == ["submission-key-invalid"]


def test_seats_that_never_submit_count_as_signed_unless_submissions_are_needed() -> None:
    run = Run(goals=(0,))
    assert checked(run).state is SIGNED
    assert checked(run, rules=SignatureRules(submissions_needed=True)).state is UNSIGNED


def test_a_later_signature_does_not_do_where_all_have_to_be_direct() -> None:
    run = Run(goals=(2,))
    run.call(sign=False)
    run.call()
    report = checked(run, rules=SignatureRules(all_direct=True))
    assert codes(report) == ["direct-signature-required"]
    assert report.state is PARTIAL
