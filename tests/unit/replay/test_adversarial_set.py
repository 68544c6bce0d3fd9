"""The adversarial set of SUBMISSIONS 6, by its numbers; what each attack gives under the paid profile."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import SignatureInvalid
from aioum.core.submission.keys import VerifyingKey
from aioum.replay.facts import Judgement, Profile, Verdict
from aioum.replay.problems import ArtifactInvalid
from aioum.replay.reading import read_artifact
from aioum.replay.signatures import check_signatures
from aioum.replay.verdict import judge
from tests.unit.replay.counter_adapter import recheck_replay
from tests.unit.replay.recorded import ACTION, Run, amount, heads, honest


def judged(run: Run, **changes: Any) -> Judgement:
    return judge(run.artifact(**changes), profile=Profile.PAID, recheck_replay=recheck_replay)


def inputs(run: Run, position: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.lines[position]["inputs"]
    return found


def fabricated() -> Run:
    run = Run(goals=(5,))
    run.step(ACTION | {"seat": "alpha", "payload": amount(5)})
    return run


def injected(**fields: Any) -> Run:
    run = honest()
    run.goals = (103,)
    inputs(run, 1).append(ACTION | {"payload": amount(100)} | fields)
    return run


def actions_that_differ() -> Run:
    run = Run(goals=(31,))
    run.action(1)
    run.action(2)["payload"] = amount(30)
    return run


def forged_timeout() -> Run:
    run = Run(goals=(3,), window_ticks=3)
    run.system_step(value=1)
    run.call(2)
    return run


def shifted_timeout() -> Run:
    run = Run(goals=(2,), window_ticks=3)
    run.time_out(window=100)
    run.call(2)
    return run


def suppressed_timeout() -> Run:
    run = Run(goals=(2,), window_ticks=3)
    run.call()
    run.step(run.given("alpha", 1, tick=50), tick=50)
    return run


def chosen_timeout_action() -> Run:
    run = Run(goals=(3,), window_ticks=3)
    run.time_out()
    inputs(run, 1)[0]["payload"] = run.lines[1]["systemInput"]["payload"] = amount(2)
    run.call()
    return run


def cursor_elsewhere() -> Run:
    run = Run(goals=(1,))
    run.call(cursor=50)
    return run


def merged_windows() -> Run:
    run = honest(calls=2)
    inputs(run, 0).extend(run.lines.pop()["inputs"])
    return run


def deleted(position: int) -> Run:
    run = honest(calls=4)
    del run.lines[position]
    run.goals = (3,)
    return run


def silent_for(gap: int) -> Run:
    run = Run(goals=(gap + 1,), seats={"alpha": 5})
    for _ in range(gap + 1):
        run.call(sign=False)
    run.sign_head()
    return run


def across_levels() -> Run:
    run = Run(goals=(1, 1))
    run.call(sign=False)
    run.next_level()
    run.call()
    return run


def confused_domains() -> Run:
    run = honest()
    run.sign_head()["sig"] = inputs(run, 2)[0]["sig"]
    return run


def of_another_session() -> Run:
    run = honest()
    run.session_id = "run-8"
    return run


def of_another_seat() -> Run:
    run = Run(goals=(2,), seats={"alpha": 1, "beta": 1})
    run.step(run.given("alpha", 1), run.given("beta", 1))
    first, second = inputs(run, 0)
    first["seat"], second["seat"] = "beta", "alpha"
    return run


def commitment_unsigned() -> Run:
    run = Run(goals=(1,))
    run.commit(run.commitment(7), sign=False)
    run.call()
    return run


def mismatch_deleted() -> Run:
    run = Run(goals=(1,))
    run.commit(run.commitment(7))
    run.mismatch(8)
    run.reveal(7)
    run.call()
    del run.lines[1]
    return run


def mismatch_that_matches() -> Run:
    run = Run(goals=(1,))
    run.commit(run.commitment(7))
    run.mismatch(7)
    run.call()
    return run


def commitment_replayed() -> Run:
    run = Run(goals=(1, 1))
    hash_hex = run.commitment(7)
    for _ in range(2):
        run.commit(hash_hex)
        run.reveal(7)
        run.call()
        run.next_level()
    return run


ATTACKS: dict[str, tuple[Callable[[], Run], str]] = {
    "1 fabricated under a victim's key": (fabricated, "input-uncovered"),
    "2 injected without a submission": (lambda: injected(seat="alpha"), "input-uncovered"),
    "2 injected without a seat": (
        lambda: injected(submissionId="x", canonicalCommand='{"amount":100}', cursor=1),
        "input-uncovered",
    ),
    "3 actions that differ from what was signed": (actions_that_differ, "command-maps-differently"),
    "5 timeout without its record": (forged_timeout, "timeout-record-missing"),
    "5 timeout of another window": (shifted_timeout, "timeout-window-wrong"),
    "5 timeout suppressed": (suppressed_timeout, "timeout-missing"),
    "5 timeout with a chosen action": (chosen_timeout_action, "timeout-maps-differently"),
    "6 cursor elsewhere": (cursor_elsewhere, "cursor-not-position"),
    "6 windows merged": (merged_windows, "cursor-not-position"),
    "7 first deleted": (lambda: deleted(0), "chain-mismatch"),
    "7 middle deleted": (lambda: deleted(2), "chain-mismatch"),
    "8 silent for N + 1": (lambda: silent_for(6), "tier-exceeded"),
    "8 level ends unsigned": (across_levels, "level-boundary-unsigned"),
    "10 submission signature as a periodic one": (confused_domains, "bad-signature"),
    "10 another session's": (of_another_session, "chain-mismatch"),
    "10 another seat's": (of_another_seat, "chain-mismatch"),
    "14 commitment unsigned": (commitment_unsigned, "direct-signature-required"),
    "14 refused reveal deleted": (mismatch_deleted, "chain-mismatch"),
    "14 refused reveal that matches": (mismatch_that_matches, "mismatch-actually-matches"),
    "14 commitment in another level": (commitment_replayed, "commitment-repeated"),
}


@pytest.mark.parametrize("make, code", ATTACKS.values(), ids=ATTACKS)
def test_attack_is_rejected_with_its_code(make: Callable[[], Run], code: str) -> None:
    found = judged(make())
    assert found.verdict is Verdict.REJECTED
    assert code in found.reasons


def test_4_the_same_signatures_under_other_terms_are_not_trusted() -> None:
    run = honest()
    game = {"id": "counter", "version": "2", "adapter": {"id": "counter", "version": "1"}}
    found = judged(run, game=game, seed=99)
    assert (found.verdict, found.reasons) == (Verdict.UNVERIFIABLE, ("session-terms-unbound",))


def test_7_a_deleted_end_shows_by_a_retained_head_only() -> None:
    run = deleted(3)
    assert judged(run).reasons == ("session-terms-unbound",)
    found = judge(run.artifact(), profile=Profile.PAID, retained_heads=heads(run))
    assert (found.verdict, found.reasons[0]) == (Verdict.REJECTED, "retained-head-missing")


def test_8_silence_of_exactly_n_is_covered() -> None:
    assert judged(silent_for(5)).reasons == ("session-terms-unbound",)


@pytest.mark.parametrize("change", ["key", "tier", "duplicate", "order"])
def test_9_a_roster_that_was_changed_breaks_every_chain_and_its_order_does_not_matter(change: str) -> None:
    run = Run(goals=(2,), seats={"alpha": 1, "beta": 1})
    run.step(run.given("alpha", 1), run.given("beta", 1))
    roster = run.header()["seatKeys"]
    if change == "duplicate":
        with pytest.raises(ArtifactInvalid) as caught:
            run.artifact(seatKeys=[*roster, roster[0]])
        assert caught.value.code == "roster-invalid"
        return
    if change == "order":
        assert judged(run, seatKeys=roster[::-1]).reasons == ("session-terms-unbound",)
        return
    if change == "key":
        roster[1]["publicKey"] = Run(seats={"mallory": 1}).header()["seatKeys"][0]["publicKey"]
    else:
        roster[1]["signingTier"] = {"N": 2}
    found = judged(run, seatKeys=roster)
    assert [each.code for each in found.signatures.problems].count("chain-mismatch") == 2


def test_11_keys_and_signatures_at_the_edges_are_those_that_the_stricter_tool_takes(
    shared_vectors_dir: Path,
) -> None:
    path = shared_vectors_dir / "gaos/generated/ed25519-edge.vectors.json"
    vectors = json.loads(path.read_text(encoding="utf-8"))
    assert len(vectors) == 21
    for vector in vectors:
        key, message, signature = (
            bytes.fromhex(vector[name]) for name in ("publicKeyHex", "messageHex", "signatureHex")
        )
        try:
            VerifyingKey(key).verify(message, signature)
            accepted = True
        except SignatureInvalid:
            accepted = False
        assert accepted is vector["gaosPython"], vector["name"]


@pytest.mark.parametrize("name", ["sig", "prevChainHash"])
@pytest.mark.parametrize("spelling", ["trailing bits", "url alphabet", "no padding"])
def test_12_base64_has_one_spelling(name: str, spelling: str) -> None:
    run = honest(calls=1)
    (given,) = inputs(run, 0)
    text: str = given[name]
    if spelling == "trailing bits":
        body, padding = text.rstrip("="), "=" * (len(text) - len(text.rstrip("=")))
        given[name] = body[:-1] + chr(ord(body[-1]) + 1) + padding
    elif spelling == "url alphabet":
        given[name] = base64.urlsafe_b64encode(b"\xff" * len(base64.b64decode(text))).decode()
    else:
        given[name] = text.rstrip("=")
    with pytest.raises(ArtifactInvalid) as caught:
        run.artifact()
    assert caught.value.code == "base64-invalid"


@pytest.mark.parametrize(
    "text", ['{"amount": 1}', '{"amount":-0}', '{"amount":1.0}', '{"amount":2,"amount":1}']
)
def test_12_a_command_has_one_spelling(text: str) -> None:
    run = honest(calls=1)
    inputs(run, 0)[0]["canonicalCommand"] = text
    with pytest.raises(ArtifactInvalid) as caught:
        run.artifact()
    assert caught.value.code == "non-canonical-command"


@pytest.mark.parametrize(
    "changes", [{"signed": False}, {"version": "1.1"}, {"version": "1.1", "signed": False}]
)
def test_13_a_downgraded_run_is_not_trusted_and_the_ignored_signatures_are_said(
    changes: dict[str, Any],
) -> None:
    found = judged(honest(), **changes)
    assert found.verdict is Verdict.UNVERIFIABLE
    assert "unsigned" in found.reasons
    assert "signature-material-ignored" in [each.code for each in found.diagnostics]


def test_14_a_salt_that_is_used_again_is_worth_a_note() -> None:
    assert "salt-reused" in [each.code for each in judged(commitment_replayed()).diagnostics]


def test_15_a_long_run_is_judged_whole() -> None:
    run = Run(goals=(3_000,), seats={"alpha": 3_000})
    for _ in range(3_000):
        run.call(sign=False)
    run.sign_head()
    report = check_signatures(run.artifact())
    assert (report.state, report.submissions) == ("signed", 3_000)


@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\x85", "\U0001f600", "\ue000", "\x7f"])
def test_15_separators_of_other_languages_do_not_end_a_line(text: str) -> None:
    run = Run(goals=(1,))
    command = amount(1) | {"note": text}
    run.step(ACTION | {"seat": "alpha", "payload": command} | run.submitted("alpha", command))
    assert text.encode() in run.data()
    assert judged(run).reasons == ("session-terms-unbound",)


def test_15_lines_may_end_with_crlf() -> None:
    data = honest().data().replace(b"\n", b"\r\n")
    assert judge(read_artifact(data)).signatures.state == "signed"
