"""Each rule of the format, broken alone."""

import base64
from typing import Any

import pytest

from aioum.replay.problems import ArtifactInvalid
from aioum.replay.reading import read_artifact
from tests.unit.replay import samples as s

ROSTER = s.signed_header()["seatKeys"]
SEAT = ROSTER[0]
RESULT = s.level(0)["result"]


def code_of(header: Any, *records: Any) -> str:
    with pytest.raises(ArtifactInvalid) as caught:
        read_artifact(s.artifact(header, *records))
    (problem,) = caught.value.problems
    return problem.code


def levels(**changes: Any) -> list[Any]:
    return [s.level(0) | changes, s.level(1)]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ([], "not-an-object"),
        (s.header(extra=1), "unknown-property"),
        (s.without(s.header(), "perm"), "missing-property"),
        (s.header(kind="head"), "bad-kind"),
        (s.header(format="gaos.replay2"), "bad-format"),
        (s.header("1.5"), "bad-version"),
        (s.header(formatVersion=1.3), "bad-version"),
        (s.header(formatVersion=["1.3"]), "bad-version"),
        (s.header(sessionId=""), "text-invalid"),
        (s.header(sessionId="x" * 65_537), "text-too-large"),
        (s.header(sessionId="é" * 32_769), "text-too-large"),
        (s.header(game={"id": "g", "version": "1"}), "missing-property"),
        (s.header(game={"id": "g", "version": 1, "adapter": {"id": "a", "version": "1"}}), "text-invalid"),
        (s.header(game={"id": "g", "version": "1", "adapter": {"id": None, "version": "1"}}), "text-invalid"),
        (s.header(game={"id": "g", "version": "1", "adapter": None}), "not-an-object"),
        (s.header(seed=-1), "integer-invalid"),
        (s.header(seed=2**32), "integer-invalid"),
        (s.header(seed=True), "integer-invalid"),
        (s.header(seed=1.0), "integer-invalid"),
        (s.header(seedPolicy="other"), "bad-seed-policy"),
        (s.header(seedPolicy="gaos.run-level-seed.v1"), "derived-seed-mismatch"),
        (s.header(perm=[1, 2]), "bad-permutation"),
        (s.header(perm=[0, 0]), "bad-permutation"),
        (s.header(perm=[0, True]), "bad-permutation"),
        (s.header(perm={"0": 0}), "bad-permutation"),
        (s.header(levels=[]), "levels-invalid"),
        (s.header(levels=None), "levels-invalid"),
        (s.header(levels=[None]), "not-an-object"),
        (s.header(levels=levels(index=1)), "bad-sequence"),
        (s.header(levels=levels(index=False)), "integer-invalid"),
        (s.header(levels=levels(id="level 1")), "duplicate-level-id"),
        (s.header(levels=levels(version=None)), "level-version-invalid"),
        (s.header(levels=levels(version=True)), "level-version-invalid"),
        (s.header(levels=levels(seed=2**32)), "integer-invalid"),
        (s.header(levels=levels(extensions=[])), "not-an-object"),
        (s.header(levels=levels(other=1)), "unknown-property"),
        (s.header(levels=[s.without(s.level(0), "level")]), "missing-property"),
        (s.header(levels=levels(result=RESULT | {"status": "lost"})), "bad-status"),
        (s.header("1.2", levels=levels(result=RESULT | {"status": "ended", "stars": None})), "bad-status"),
        (s.header(levels=levels(result=RESULT | {"status": "ended"})), "ended-with-stars"),
        (s.header(levels=levels(result=RESULT | {"stars": "1"})), "number-invalid"),
        (s.header(levels=levels(result=RESULT | {"stars": True})), "number-invalid"),
        (s.header(levels=levels(result=s.without(RESULT, "stars"))), "missing-property"),
        (s.header(levels=levels(result=RESULT | {"actionsUsed": -1})), "integer-invalid"),
        (s.header(levels=levels(result=RESULT | {"extensions": None})), "not-an-object"),
        (s.header(totals={"totalStars": None, "totalActionsUsed": 2}), "number-invalid"),
        (s.header(totals={"totalStars": 2, "totalActionsUsed": 2.0}), "integer-invalid"),
        (s.header(totals={"totalStars": 2, "totalActionsUsed": 2, "extensions": 0}), "not-an-object"),
        (s.header(visibility="seat:"), "bad-visibility"),
        (s.header(visibility="everyone"), "bad-visibility"),
        (s.header(visibility=None), "text-invalid"),
        (s.header(extensions=None), "not-an-object"),
        (s.header(seatKeys=ROSTER), "roster-without-policy"),
        (s.without(s.signed_header(), "seatKeys"), "policy-without-roster"),
        (s.signed_header(signaturePolicy={"scheme": "gaos.submission.ed25519.v2"}), "bad-signature-scheme"),
        (s.signed_header(signaturePolicy={"scheme": s.SIGNATURE, "N": 1}), "unknown-property"),
        (s.signed_header(signaturePolicy=None), "not-an-object"),
        (s.signed_header(seatKeys=[]), "roster-invalid"),
        (s.signed_header(seatKeys=None), "roster-invalid"),
        (s.signed_header(seatKeys=[SEAT, SEAT]), "roster-invalid"),
        (s.signed_header(seatKeys=[SEAT | {"alg": "ES256"}]), "roster-invalid"),
        (s.signed_header(seatKeys=[SEAT | {"signingTier": {"N": 0}}]), "roster-invalid"),
        (s.signed_header(seatKeys=[SEAT | {"signingTier": {"N": True}}]), "roster-invalid"),
        (s.signed_header(seatKeys=[SEAT | {"id": "x" * 65_537}]), "roster-invalid"),
        (s.signed_header(seatKeys=[SEAT | {"extra": 1}]), "roster-invalid"),
        (s.header(timeoutPolicy={"mode": "ticks", "windowTicks": 0}), "integer-invalid"),
        (s.header(timeoutPolicy={"mode": "seconds", "windowTicks": 1}), "bad-timeout-mode"),
        (s.header(timeoutPolicy={"mode": "ticks"}), "missing-property"),
        (s.header("1.0", timeoutPolicy={}), "needs-later-version"),
        (s.header("1.0", seatKeys=ROSTER), "needs-later-version"),
        (s.header("1.0", signaturePolicy={}), "needs-later-version"),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused(header: Any, code: str) -> None:
    assert code_of(header) == code


@pytest.mark.parametrize(
    "header",
    [
        s.header(sessionId="é" * 32_768),
        s.header(perm=[]),
        s.header(levels=levels(version=1.5)),
        s.header(levels=levels(version="")),
        s.header(levels=levels(level=None, extensions={"free": 1})),
        s.header(levels=levels(result=RESULT | {"status": "ended", "stars": None})),
        s.header(levels=levels(result=RESULT | {"stars": -1.5})),
        s.header(visibility="seat:alpha", extensions={}),
        s.header(
            seedPolicy="gaos.run-level-seed.v1",
            seed=42,
            levels=[s.level(0, seed=2_654_435_731), s.level(1, seed=1_013_904_216)],
        ),
        s.header("1.1", seatKeys="anything", signaturePolicy={"a": 1}, timeoutPolicy={"b": 2}),
    ],
)
def test_a_header_at_the_edge_of_the_rules_is_read(header: Any) -> None:
    artifact = read_artifact(s.artifact(header))
    assert artifact.header.json == header
    assert artifact.header.roster is None
    assert artifact.header.window_ticks is None


UNPADDED = s.HEAD.rstrip("=")
TRAILING_BITS = s.HEAD[:-2] + "9="
URL_ALPHABET = base64.urlsafe_b64encode(b"\xff" * 32).decode()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "not-an-object"),
        (s.given(extra=1), "unknown-property"),
        (s.given(tick=1), "unknown-property"),
        (s.without(s.given(), "wireId"), "missing-property"),
        (s.given(wireId="Action 0"), "action-id-invalid"),
        (s.given(wireId="Action 3"), "action-id-invalid"),
        (s.given(wireId="Action 01"), "action-id-invalid"),
        (s.given(wireId=["Action 1"]), "action-id-invalid"),
        (s.given(canonicalId="Action 3"), "action-id-invalid"),
        (s.given(canonicalId="Action 1"), "permutation-contradicted"),
        (s.given(seat=None), "text-invalid"),
        (s.given(seat="x" * 65_537), "text-too-large"),
        (s.given(x=1.0), "integer-invalid"),
        (s.given(y=None), "integer-invalid"),
        (s.given(index=False), "integer-invalid"),
        (s.given(boardId=""), "text-invalid"),
        (s.given(zoneId=1), "text-invalid"),
        (s.given(targets={}), "targets-invalid"),
        (s.given(targets=[{"container": "", "coord": 1}]), "targets-invalid"),
        (s.given(targets=[{"container": "c", "coord": [1]}]), "targets-invalid"),
        (s.given(targets=[{"container": "c", "coord": [1, 2.0]}]), "targets-invalid"),
        (s.given(targets=[{"container": "c", "coord": True}]), "targets-invalid"),
        (s.given(targets=[{"container": "c", "coord": 1, "extra": 1}]), "targets-invalid"),
        (s.without(s.signed(), "sig", "clientTime", "prevChainHash", "cursor"), "identity-incomplete"),
        (s.without(s.signed(), "canonicalCommand", "submissionId"), "identity-incomplete"),
        (s.given(sig=s.SIGNATURE), "chain-without-identity"),
        (s.given(clientTime=1, prevChainHash=s.HEAD), "chain-without-identity"),
        (s.without(s.signed(), "prevChainHash"), "signature-without-chain"),
        (s.without(s.signed(), "clientTime", "prevChainHash"), "signature-without-chain"),
        (s.without(s.signed(), "clientTime", "sig"), "chain-incomplete"),
        (s.signed(submissionId=""), "text-invalid"),
        (s.signed(submissionId="x" * 65_537), "text-too-large"),
        (s.signed(cursor=-1), "integer-invalid"),
        (s.signed(cursor=0.0), "integer-invalid"),
        (s.signed(cursor=False), "integer-invalid"),
        (s.signed(clientTime=None), "integer-invalid"),
        (s.signed(prevChainHash=None), "base64-invalid"),
        (s.signed(prevChainHash=UNPADDED), "base64-invalid"),
        (s.signed(prevChainHash=TRAILING_BITS), "base64-invalid"),
        (s.signed(prevChainHash=URL_ALPHABET), "base64-invalid"),
        (s.signed(prevChainHash=s.SIGNATURE), "base64-invalid"),
        (s.signed(sig=s.HEAD), "base64-invalid"),
        (s.signed(sig=None), "base64-invalid"),
        (s.signed(canonicalCommand={"amount": 1}), "text-invalid"),
        (s.signed(canonicalCommand=""), "non-canonical-command"),
        (s.signed(canonicalCommand='{"amount": 1}'), "non-canonical-command"),
        (s.signed(canonicalCommand='{"amount":-0}'), "non-canonical-command"),
        (s.signed(canonicalCommand='{"amount":1.0}'), "non-canonical-command"),
        (s.signed(canonicalCommand='{"amount":1e20}'), "non-canonical-command"),
        (s.signed(canonicalCommand='{"amount":1e-07}'), "non-canonical-command"),
        (s.signed(canonicalCommand='{"a":1,"a":1}'), "non-canonical-command"),
        (s.signed(canonicalCommand='{"b":1,"a":1}'), "non-canonical-command"),
        (s.signed(canonicalCommand='"\\u00e9"'), "non-canonical-command"),
        (s.signed(canonicalCommand='"\\ud800"'), "non-canonical-command"),
        (s.signed(canonicalCommand="[" * 65 + "]" * 65), "non-canonical-command"),
        (s.signed(canonicalCommand="nope"), "non-canonical-command"),
        (s.signed(canonicalCommand='"' + "x" * 65_535 + '"'), "command-too-large"),
        (s.signed(canonicalCommand='"' + "é" * 32_768 + '"'), "command-too-large"),
        (s.given(commit={}, reveal={}), "commit-and-reveal"),
        (s.given(verifiedPayload=1), "verified-payload-without-reveal"),
        (s.given(commit=None), "not-an-object"),
        (s.given(commit={"commitmentId": 0, "scheme": "x", "hash": "00" * 32}), "bad-commitment-scheme"),
        (
            s.given(commit={"commitmentId": 2**32, "scheme": "gaos.commit.sha256.v1", "hash": "00" * 32}),
            "integer-invalid",
        ),
        (
            s.given(commit={"commitmentId": 0, "scheme": "gaos.commit.sha256.v1", "hash": "AA" * 32}),
            "commitment-invalid",
        ),
        (s.given(reveal={"commitmentId": 0, "salt": "11" * 15, "payload": 1}), "commitment-invalid"),
        (s.given(reveal={"commitmentId": 0, "salt": "11" * 65, "payload": 1}), "commitment-invalid"),
        (s.given(reveal={"commitmentId": 0, "salt": "11" * 16}), "missing-property"),
    ],
)
def test_an_input_that_breaks_a_rule_is_refused(value: Any, code: str) -> None:
    assert code_of(s.signed_header(), s.resolution(value)) == code


@pytest.mark.parametrize(
    "value",
    [
        s.given(payload=None, x=-1, y=0, index=2**53 - 1, boardId="b", zoneId="z"),
        s.given(targets=[{"container": "c", "coord": each} for each in ([1, -2], 3, "")]),
        s.without(s.signed(), "sig"),
        s.without(s.signed(), "sig", "clientTime", "prevChainHash"),
        s.signed(canonicalCommand='"' + "x" * 65_534 + '"'),
        s.signed(canonicalCommand="[" * 64 + "]" * 64),
        s.signed(canonicalCommand='{"\ue000":0,"😀":1e-7}'),
        s.signed(submissionId="é" * 32_768),
        s.given(reveal={"commitmentId": 0, "salt": "11" * 64, "payload": None}, verifiedPayload=None),
    ],
)
def test_an_input_at_the_edge_of_the_rules_is_read(value: Any) -> None:
    artifact: Any = read_artifact(s.artifact(s.signed_header(), s.resolution(value)))
    assert artifact.lines[0].inputs[0].json == value


SYSTEM = s.given(seat="alpha")
TIMEOUT_POLICY = {"mode": "ticks", "windowTicks": 3}
UNDER_POLICY = s.header(timeoutPolicy=TIMEOUT_POLICY)


@pytest.mark.parametrize(
    ("header", "record", "code"),
    [
        (s.header(), None, "not-an-object"),
        (s.header(), s.record("unheard"), "bad-kind"),
        (s.header(), {"levelIndex": 0}, "bad-kind"),
        (s.header(), s.record("action") | {"kind": ["action"]}, "bad-kind"),
        (s.header(), s.checkpoint(n=1), "bad-sequence"),
        (s.header(), s.checkpoint(n=0.0), "bad-sequence"),
        (s.header(), s.checkpoint(n=False), "bad-sequence"),
        (s.header(), s.checkpoint(levelIndex=2), "bad-level-index"),
        (s.header(), s.checkpoint(levelIndex=-1), "integer-invalid"),
        (s.header(), s.checkpoint(levelIndex=False), "integer-invalid"),
        (s.header(), s.checkpoint(hostTime=None), "integer-invalid"),
        (s.header(), s.checkpoint(tick=-1), "integer-invalid"),
        (s.header(), s.checkpoint(digest=2**32), "integer-invalid"),
        (s.header(), s.resolution(cause="late"), "bad-cause"),
        (s.header(), s.resolution(inputs={}), "inputs-invalid"),
        (s.header(), s.resolution(SYSTEM, systemInput=SYSTEM), "system-input-unexpected"),
        (s.header(), s.resolution(SYSTEM, cause="timeout"), "system-input-missing"),
        (
            s.header(),
            s.resolution(SYSTEM, cause="timeout", systemInput=s.given(seat="beta")),
            "system-input-not-in-inputs",
        ),
        (
            s.header(),
            s.resolution(s.given(payload=1), cause="timeout", systemInput=s.given(payload=True)),
            "system-input-not-in-inputs",
        ),
        (s.header(), s.timeout(reason=""), "text-invalid"),
        (s.header(), s.timeout(timeoutId=None), "text-invalid"),
        (s.header(), s.timeout(windowRef=-1), "integer-invalid"),
        (s.header(), s.timeout(participantId=""), "text-invalid"),
        (s.header(), s.without(s.timeout(), "participantId"), "missing-property"),
        (s.header(), s.timeout(timeoutPolicyRef="header.timeoutPolicy"), "timeout-policy-ref"),
        (UNDER_POLICY, s.timeout(), "timeout-policy-ref"),
        (UNDER_POLICY, s.timeout(timeoutPolicyRef="other"), "timeout-policy-ref"),
        (UNDER_POLICY, s.timeout(timeoutPolicyRef="header.timeoutPolicy", tick=4), "timeout-tick"),
        (s.header(), s.without(s.interest(), "sig"), "interest-unsigned"),
        (s.header(), s.without(s.interest(), "cursor"), "missing-property"),
        (s.header(), s.interest(declaration=[2]), "interest-differs"),
        (s.header(), s.interest(scopeId="there"), "interest-differs"),
        (s.header(), s.interest(scopeId=""), "text-invalid"),
        (s.header("1.1"), s.interest(), "needs-later-version"),
        (s.header("1.3"), s.interaction(), "needs-later-version"),
        (s.header("1.4"), s.interaction(command={"amount": True}), "interaction-differs"),
        (s.header("1.4"), s.without(s.interaction(), "clientTime"), "signature-without-chain"),
        (s.header(), s.commit_mismatch(scheme="x"), "bad-commitment-scheme"),
        (s.header(), s.commit_mismatch(commitmentId=2**32), "integer-invalid"),
        (s.header(), s.commit_mismatch(attemptedReveal=None), "not-an-object"),
        (s.header(), s.commit_mismatch(attemptedReveal={"salt": "", "payload": 1}), "commitment-invalid"),
        (s.header(), s.without(s.commit_mismatch(), "canonicalCommand"), "identity-incomplete"),
        (s.header(), s.commit_mismatch(participantId=""), "text-invalid"),
        (s.header(), s.seat_signature(sig=s.HEAD), "base64-invalid"),
        (s.header(), s.without(s.seat_signature(), "prevChainHash"), "base64-invalid"),
        (s.header(), s.without(s.seat_signature(), "clientTime"), "integer-invalid"),
        (s.header(), s.seat_signature(submissionId="x"), "unknown-property"),
        (s.header(), s.extension(lane=""), "text-invalid"),
        (s.header(), s.extension(record=[]), "not-an-object"),
        (s.header(), s.extension(tick=1), "unknown-property"),
        (s.header(), s.action(tick=None), "integer-invalid"),
        (s.header("1.0"), s.action(hostTime=1), "needs-later-version"),
        (s.header("1.0"), s.action(submissionId="x"), "needs-later-version"),
        (s.header("1.0"), s.action(commit={}), "needs-later-version"),
    ],
)
def test_a_record_that_breaks_a_rule_is_refused(header: Any, record: Any, code: str) -> None:
    # With a diagnostic record behind it the artifact is grouped, unless the version has no records.
    after = [] if header["formatVersion"] == "1.0" else [s.checkpoint()]
    assert code_of(header, record, *after) == code


def test_levels_only_follow_each_other_and_ticks_only_grow_within_one() -> None:
    def step(tick: int, level_index: int = 0) -> Any:
        return s.resolution(s.given(), tick=tick, levelIndex=level_index)

    assert len(read_artifact(s.artifact(s.header(), step(3), step(3), step(0, 1))).lines) == 3
    assert code_of(s.header(), step(3), step(2)) == "tick-order"
    assert code_of(s.header(), step(3), s.action(tick=2)) == "tick-order"
    assert code_of(s.header(), s.action(tick=3), s.action(tick=2)) == "tick-order"
    assert code_of(s.header(), step(0, 1), step(0)) == "level-order"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (s.resolution(s.signed("one")), s.action(**s.signed("one"))),
        (s.resolution(s.signed("one")), s.commit_mismatch(submissionId="one")),
        (s.interest(submissionId="one"), s.resolution(s.signed("one"))),
        (s.interaction(submissionId="one"), s.interest(submissionId="one")),
    ],
)
def test_a_seat_uses_a_submission_id_once_in_a_level_over_all_kinds(first: Any, second: Any) -> None:
    assert code_of(s.signed_header("1.4"), first, second) == "duplicate-submission-id"
    second_level = second | {"levelIndex": 1}
    assert read_artifact(s.artifact(s.signed_header("1.4"), first, second_level))


def test_in_an_artifact_of_actions_only_ids_may_repeat_as_the_formats_tools_have_it() -> None:
    actions = [s.action(**s.signed("one"))] * 2
    assert len(read_artifact(s.artifact(s.signed_header(), *actions)).lines) == 2
    assert code_of(s.signed_header(), *actions, s.checkpoint()) == "duplicate-submission-id"


def test_two_seats_may_use_the_same_submission_id() -> None:
    both = s.resolution(s.signed("one"), s.signed("one", seat="beta"), s.without(s.signed("one"), "seat"))
    assert read_artifact(s.artifact(s.signed_header(), both))


def test_the_integrity_fields_of_version_1_1_are_opaque() -> None:
    opaque = s.given(
        seat="alpha", submissionId=[1], cursor="x", prevChainHash=0, sig=None, canonicalCommand=7
    )
    artifact: Any = read_artifact(s.artifact(s.header("1.1"), s.resolution(opaque)))
    assert artifact.lines[0].inputs[0].integrity is None
    assert artifact.has_signature_material
    assert code_of(s.header("1.1"), s.resolution(opaque | {"clientTime": -1})) == "integer-invalid"


def test_a_well_formed_identity_of_version_1_1_is_kept_without_its_chain() -> None:
    artifact: Any = read_artifact(s.artifact(s.header("1.1"), s.resolution(s.signed())))
    integrity = artifact.lines[0].inputs[0].integrity
    assert (integrity.submission_id, integrity.command) == ("alpha-0", b'{"amount":1}')
    assert (integrity.client_time, integrity.prev_head, integrity.signature) == (None, None, None)


def test_a_timeout_of_version_1_1_may_refer_to_any_policy() -> None:
    artifact: Any = read_artifact(s.artifact(s.header("1.1"), s.timeout(timeoutPolicyRef="mine", tick=0)))
    assert artifact.lines[0].policy_ref == "mine"


def test_the_system_input_is_one_of_the_inputs_however_it_is_spelled() -> None:
    system = dict(reversed(s.given(payload=1.0).items()))
    record = s.resolution(s.given(), s.given(payload=1), cause="timeout", systemInput=system)
    artifact: Any = read_artifact(s.artifact(s.header(), record))
    assert artifact.lines[0].system_input is artifact.lines[0].inputs[1]
