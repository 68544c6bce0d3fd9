"""The adapter of paid sessions: what makes an artifact inconsistent, and the facts beside the verdict."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.errors import ConfigError
from aioum.core.hextext import address_text, to_hex
from aioum.core.problem import problem_bytes
from aioum.core.transcript import Entry, canonical_request
from aioum.core.types import Bytes32
from aioum.replay.adapter import AdapterFailed
from aioum.replay.facts import Lane, Verdict
from aioum.replay.paid.adapter import PaidAdapter
from aioum.verify.ports import ReExecutionFailed
from tests.unit.replay.paid.artifacts import (
    HONEST,
    Edit,
    Lines,
    at,
    codes,
    diagnostics,
    edited,
    exported,
    judged,
    renumbered,
)
from tests.unit.verify.honest import STRANGER, Honest, card_json

SESSION = (0, "extensions", "aioum.session.v1")
FORGED_VOUCHER = HONEST.voucher(5_000, STRANGER)
ZEROS = "0x" + "00" * 32
RESULT = (0, "levels", 0, "result")
WON = {"status": "won", "stars": 3, "actionsUsed": 6}


def uppercase(request: bytes, _: int) -> bytes:
    """The deterministic service."""
    text: str = json.loads(request)["arguments"]["text"]
    return text.upper().encode() + b"\n"


def test_an_honest_session_is_trusted_and_every_fact_stands_beside_the_verdict() -> None:
    judgement = judged(exported())

    assert judgement.verdict is Verdict.TRUSTED
    assert judgement.replay_ok is True
    assert judgement.semantics.submissions is Lane.VERIFIED
    assert judgement.terms.value == "bound"
    assert judgement.facts == {
        "terms": "verified",
        "receipts": "verified",
        "payment": "verified",
        "reexecuted": "not_checked",
        "anchored": "not_checked",
        "logged": "not_checked",
    }
    assert judgement.replayed == {
        "calls": 6,
        "root": to_hex(HONEST.root),
        "spent": "5000",
        "reproduced": 0,
        "notReproducible": 0,
        "unanswered": None,
        "equivocations": 0,
    }


def test_an_unsigned_session_is_consistent_and_unverifiable() -> None:
    judgement = judged(exported(Honest()))

    assert judgement.verdict is Verdict.UNVERIFIABLE
    assert judgement.replay_ok is True
    assert judgement.reasons == ("unsigned",)


def test_a_session_without_calls_has_neither_receipts_nor_anything_to_pay() -> None:
    empty = replace(HONEST, calls=(), settled=0)

    judgement = judged(exported(empty, vouchers=(), receipts=(), statement=None))

    assert judgement.verdict is Verdict.UNVERIFIABLE
    assert judgement.replay_ok is True
    assert judgement.facts["receipts"] == judgement.facts["payment"] == "not_applicable"


def drop_result(lines: Lines) -> None:
    del lines[4]
    renumbered(lines)


def result_before_its_call(lines: Lines) -> None:
    lines[1], lines[2] = lines[2], lines[1]
    renumbered(lines)


def two_inputs(lines: Lines) -> None:
    lines[1]["inputs"].append(lines[1]["inputs"][0] | {"submissionId": "client-x"})


def tool_of_no_card(lines: Lines) -> None:
    request = canonical_request("gold", {})
    lines[1]["inputs"][0].update(canonicalCommand=request, payload=json.loads(request))


def no_command(lines: Lines) -> None:
    lines[1]["inputs"][0].update(canonicalCommand='{"tool":"uppercase"}', payload={"tool": "uppercase"})


def checkpoint(lines: Lines) -> None:
    lines.append({"kind": "checkpoint", "n": 12, "levelIndex": 0, "tick": 5, "digest": 0})


def first_call_dropped(lines: Lines) -> None:
    del lines[1:3]
    renumbered(lines)


RECHECKED: dict[str, tuple[Edit, str]] = {
    "deposit altered": (at(*SESSION, "deposit", value="4999"), "spent-above-deposit"),
    "nonce altered": (at(*SESSION, "channel", "nonce", value=ZEROS), "session-id-mismatch"),
    "terms altered": (at(*SESSION, "terms", "disputeBond", value="1"), "terms-hash-mismatch"),
    "price altered": (at(*SESSION, "card", "tools", 0, "price", value="1"), "card-hash-mismatch"),
    "roster altered": (at(0, "seatKeys", 0, "signingTier", "N", value=9), "roster-mismatch"),
    "other game": (at(0, "game", "id", value="2"), "game-mismatch"),
    "other version": (at(0, "game", "version", value="2"), "game-mismatch"),
    "other level": (at(0, "levels", 0, "level", value={}), "game-mismatch"),
    "other level id": (at(0, "levels", 0, "id", value="other"), "game-mismatch"),
    "other seed": (at(0, "seed", value=1), "game-mismatch"),
    "facts malformed": (at(*SESSION, "chainId", value="1"), "session-facts-malformed"),
    "result missing": (drop_result, "result-missing"),
    "last result missing": (lambda lines: lines.pop(), "result-missing"),
    "result before its call": (result_before_its_call, "result-unexpected"),
    "result with other members": (at(2, "record", "note", value=""), "result-malformed"),
    "result of another index": (at(2, "record", "index", value=1), "result-index-mismatch"),
    "response hash altered": (at(2, "record", "responseHash", value=ZEROS), "result-leaf-mismatch"),
    "charge is no price": (at(2, "record", "charge", value="999"), "charge-mismatch"),
    "two inputs in a call": (two_inputs, "call-form-wrong"),
    "tool of no card": (tool_of_no_card, "result-leaf-mismatch"),
    "command without arguments": (no_command, "command-malformed"),
    "record of another kind": (checkpoint, "call-form-wrong"),
    "root altered": (at(*RESULT, "extensions", "root", value=ZEROS), "root-mismatch"),
    "root missing": (at(*RESULT, "extensions", value={}), "outcome-malformed"),
    "spent altered": (at(*RESULT, "extensions", "spent", value="1"), "spent-mismatch"),
    "status altered": (at(*RESULT, "status", value="won"), "status-mismatch"),
    "stars given": (at(*RESULT, value=WON), "stars-mismatch"),
    "count altered": (at(*RESULT, "actionsUsed", value=5), "actions-used-mismatch"),
    "totals altered": (at(0, "totals", "totalActionsUsed", value=7), "totals-mismatch"),
    "first call dropped": (first_call_dropped, "result-index-mismatch"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECHECKED)
def test_what_does_not_add_up_is_rejected_with_its_code(name: str) -> None:
    edit, code = RECHECKED[name]

    judgement = judged(edited(exported(), edit))

    assert judgement.verdict is Verdict.REJECTED
    assert judgement.replay_ok is False
    assert code in [problem.code for problem in judgement.problems]


def test_an_action_that_is_not_that_of_its_command_is_rejected() -> None:
    def other_action(lines: Lines) -> None:
        lines[1]["inputs"][0].update(canonicalId="Action 2", wireId="Action 2")

    signed = judged(edited(exported(), other_action))
    unsigned = judged(edited(exported(Honest()), other_action))

    assert signed.semantics.submissions is Lane.FAILED
    assert "command-maps-differently" in codes(signed)
    assert codes(unsigned) == ["action-mismatch"]


@pytest.mark.parametrize(
    "edit",
    [
        at(0, "game", "adapter", "version", value="2"),
        at(0, "game", "adapter", "id", value="other"),
        lambda lines: lines[0].pop("extensions"),
    ],
)
def test_an_artifact_of_another_adapter_is_not_judged(edit: Edit) -> None:
    judgement = judged(edited(exported(), edit))

    assert judgement.verdict is Verdict.UNVERIFIABLE
    assert "adapter-version-unknown" in diagnostics(judgement)


def forged_receipt(lines: Lines) -> None:
    _, signature = HONEST.receipt(0, key=STRANGER)
    lines[2]["record"]["signature"] = to_hex(signature)


def statement(**replaced: Any) -> Callable[[], bytes]:
    return lambda: exported(statement=HONEST.statement(**replaced))


@pytest.mark.parametrize(
    ("data", "state", "code"),
    [
        (lambda: edited(exported(), forged_receipt), "failed", "receipt-signer-mismatch"),
        (statement(key=STRANGER), "failed", "statement-signer-mismatch"),
        (statement(root=b"\x01" * 32), "failed", "statement-root-mismatch"),
        (statement(spent=4_999), "failed", "statement-spent-mismatch"),
        (statement(call_count=7), "failed", "statement-count-mismatch"),
        (lambda: exported(receipts=[HONEST.receipt(0)]), "unverified", "receipt-missing"),
        (lambda: exported(receipts=(), statement=None), "not_checked", "receipt-missing"),
    ],
)
def test_what_the_operator_signed_is_a_fact_of_its_own(
    data: Callable[[], bytes], state: str, code: str
) -> None:
    judgement = judged(data())

    assert judgement.verdict is Verdict.TRUSTED
    assert judgement.facts["receipts"] == state
    assert code in diagnostics(judgement)


@pytest.mark.parametrize(
    ("data", "state", "code"),
    [
        (lambda: exported(vouchers=()), "not_checked", "voucher-missing"),
        (lambda: exported(vouchers=[HONEST.voucher(4_999)]), "failed", "spent-above-voucher"),
        (lambda: exported(vouchers=[HONEST.voucher(20_000)]), "failed", "voucher-above-deposit"),
        (lambda: exported(vouchers=[FORGED_VOUCHER]), "unverified", "voucher-signer-mismatch"),
        (lambda: exported(receipts=[HONEST.receipt(0)]), "unverified", "spent-unknown"),
    ],
)  # fmt: skip
def test_what_the_client_promised_to_pay_is_a_fact_of_its_own(
    data: Callable[[], bytes], state: str, code: str
) -> None:
    judgement = judged(data())

    assert judgement.verdict is Verdict.TRUSTED
    assert judgement.facts["payment"] == state
    assert code in diagnostics(judgement)


def test_deterministic_calls_are_run_again_and_the_others_counted() -> None:
    judgement = judged(exported(), PaidAdapter(uppercase).recheck_replay)

    assert judgement.facts["reexecuted"] == "verified"
    # The clock is exempt, and the failed call was charged nothing.
    assert (judgement.replayed["reproduced"], judgement.replayed["notReproducible"]) == (4, 2)


def test_another_response_is_a_failed_fact_and_the_clients_signatures_stay_trusted() -> None:
    judgement = judged(exported(), PaidAdapter(lambda request, _: request).recheck_replay)

    assert judgement.verdict is Verdict.TRUSTED
    assert judgement.facts["reexecuted"] == "failed"
    assert "re-execution-diverged" in diagnostics(judgement)


def test_a_runner_that_gives_nothing_leaves_the_calls_unverified() -> None:
    def too_slow(_: bytes, __: int) -> bytes:
        raise ReExecutionFailed("no response within 1 s", code="re-execution-timeout")

    judgement = judged(exported(), PaidAdapter(too_slow).recheck_replay)

    assert judgement.facts["reexecuted"] == "unverified"
    assert "re-execution-timeout" in diagnostics(judgement)


def test_a_runner_that_cannot_run_at_all_keeps_the_artifact_from_being_judged() -> None:
    def missing(_: bytes, __: int) -> bytes:
        raise ConfigError("no such program", code="re-execution-not-started")

    with pytest.raises(AdapterFailed) as refusal:
        judged(exported(), PaidAdapter(missing).recheck_replay)

    assert isinstance(refusal.value.__cause__, ConfigError)


def test_a_service_that_declares_nothing_is_never_judged_by_running_it_again() -> None:
    def forbidden(_: bytes, __: int) -> bytes:
        raise AssertionError("it was run")

    honest = replace(HONEST, card=card_json(deterministic=False))

    judgement = judged(exported(honest), PaidAdapter(forbidden).recheck_replay)

    assert judgement.facts["reexecuted"] == "not_applicable"


def test_an_anchor_proves_where_the_session_ends_or_that_it_is_another() -> None:
    anchored = judged(exported(), PaidAdapter(anchor=(HONEST.root, 6)).recheck_replay)
    other = judged(exported(), PaidAdapter(anchor=(HONEST.root, 7)).recheck_replay)

    assert anchored.facts["anchored"] == "verified"
    assert anchored.completeness.value == "anchored"
    assert other.facts["anchored"] == "failed"
    assert "anchored-root-mismatch" in diagnostics(other)


@pytest.mark.parametrize(("charge", "problems"), [(0, []), (500, ["charge-mismatch"])])
def test_a_signed_call_of_a_tool_that_does_not_exist_costs_nothing(charge: int, problems: list[str]) -> None:
    response = problem_bytes(404, "tool-unknown", "there is no such tool").decode()
    stranger = Entry(6, "gold", canonical_request("gold", {}), response)
    honest = replace(HONEST, calls=(*HONEST.calls, stranger))
    receipts = [
        honest.receipt(call.index, charge=charge if call is stranger else None) for call in honest.calls
    ]

    judgement = judged(exported(honest, receipts=receipts, statement=None))

    assert [each.code for each in judgement.problems if each.code != "spent-mismatch"] == problems


def test_a_free_call_that_gives_something_else_is_not_held_against_the_operator() -> None:
    """The artifact does not tell a failed call from a free one."""
    failed = Entry(0, "uppercase", canonical_request("uppercase", {"text": "x"}), "")
    failed = replace(failed, response=problem_bytes(504, "timeout", "too slow").decode())
    honest = replace(HONEST, calls=(failed,), settled=0)

    judgement = judged(exported(honest), PaidAdapter(uppercase).recheck_replay)

    assert judgement.facts["reexecuted"] == "not_applicable"
    assert judgement.replayed["notReproducible"] == 1


def test_a_retained_head_shows_the_tail_that_was_cut_off() -> None:
    signed = HONEST.submissions()
    assert signed is not None
    kept = signed.entries[5].envelope.submission(HONEST.channel_id, HONEST.calls[5].request.encode()).head()
    shorter = replace(HONEST, calls=HONEST.calls[:5], settled=0)

    assert judged(exported(shorter)).verdict is Verdict.TRUSTED
    assert "completeness-not-checked" in diagnostics(judged(exported(shorter)))
    assert codes(judged(exported(shorter), researcher=[Bytes32(kept)])) == ["retained-head-missing"]


def test_a_contract_wallets_voucher_is_left_to_the_chain() -> None:
    wallet = replace(HONEST, authorized_signer=STRANGER.address)

    judgement = judged(exported(wallet))

    assert judgement.facts["payment"] == "unverified"
    assert address_text(STRANGER.address) in str(judgement.diagnostics)
