import hashlib
from typing import Any

import pytest

from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError
from aioum.core.submission.chain import Submission, genesis, paid_session_id
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import decode_base64, text, u64
from aioum.core.submission.keys import SubmissionKey, VerifyingKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.types import Bytes32, ChannelId

KEY = SubmissionKey(hashlib.sha256(b"client").digest())
CHANNEL = ChannelId(bytes(range(32)))
REQUEST = b'{"arguments":{},"tool":"count"}'
ROSTER = Roster.of(RosterEntry("client", KEY.public_key))


def signed(**changes: Any) -> Envelope:
    arguments: dict[str, Any] = {
        "seat": "client",
        "submission_id": "call-0",
        "cursor": 0,
        "client_time": 1_785_032_000_000,
        "prev_head": genesis(paid_session_id(CHANNEL), "client", ROSTER.hash),
    }
    return Envelope.sign(KEY, CHANNEL, REQUEST, **(arguments | changes))


def code_of(act: Any) -> str:
    with pytest.raises(AioumError) as caught:
        act()
    return caught.value.code


def test_a_signed_call_survives_the_wire_and_verifies() -> None:
    envelope = Envelope.from_json(signed().to_json())
    assert envelope == signed()
    envelope.submission(CHANNEL, REQUEST).require_signed(envelope.signature, VerifyingKey(KEY.public_key))


@pytest.mark.parametrize(
    "changed",
    [
        {"channel": ChannelId(bytes(32))},
        {"request": REQUEST + b" "},
        {"seat": "other"},
        {"submissionId": "call-1"},
        {"cursor": 1},
        {"clientTime": 0},
        {"prevHead": "A" * 43 + "="},
    ],
)
def test_every_member_is_signed(changed: dict[str, Any]) -> None:
    members = {name: value for name, value in changed.items() if name not in ("channel", "request")}
    envelope = Envelope.from_json({**signed().to_json(), **members})
    submission = envelope.submission(changed.get("channel", CHANNEL), changed.get("request", REQUEST))
    key = VerifyingKey(KEY.public_key)
    assert code_of(lambda: submission.require_signed(envelope.signature, key)) == "bad-signature"


@pytest.mark.parametrize(
    "member, value",
    [
        ("seat", ""),
        ("seat", "a" * 129),
        ("seat", "a b"),
        ("seat", "é"),
        ("submissionId", None),
        ("submissionId", "line\n"),
        ("cursor", -1),
        ("cursor", 2**53),
        ("cursor", True),
        ("cursor", 0.0),
        ("clientTime", "0"),
        ("prevHead", "A" * 43),
        ("prevHead", "A" * 42 + "B="),
        ("sig", "A" * 86),
        ("sig", "-" * 86 + "=="),
        ("more", 1),
    ],
)
def test_anything_but_the_six_members_in_their_one_spelling_is_refused(member: str, value: Any) -> None:
    assert (
        code_of(lambda: Envelope.from_json({**signed().to_json(), member: value})) == "submission-malformed"
    )
    missing = {name: text for name, text in signed().to_json().items() if name != "sig"}
    assert code_of(lambda: Envelope.from_json(missing)) == "submission-malformed"


@pytest.mark.parametrize("spelling", ["AB==", "AA", "AA=", "AA===", " AA==", "AA==\n", "_w==", 7])
def test_base64_has_one_spelling(spelling: object) -> None:
    assert decode_base64("AA==", 1) == b"\0"
    assert code_of(lambda: decode_base64(spelling, 1)) == "base64-invalid"


def test_a_command_may_have_64_kib_and_not_one_byte_more() -> None:
    def submission(size: int) -> Submission:
        return Submission("s", "client", "id", 0, 0, 0, b"x" * size, Bytes32(bytes(32)))

    assert len(submission(65_536).preimage()) > 65_536
    assert code_of(submission(65_537).preimage) == "submission-command-too-large"
    assert code_of(lambda: signed(prev_head=Bytes32(b"short"))) == "submission-head-invalid"


def test_names_and_integers_have_their_limits() -> None:
    assert len(text("x" * 65_536)) == 65_536
    for wrong in ("", "x" * 65_537, "\ud800"):
        assert code_of(lambda wrong=wrong: text(wrong)) == "submission-text-invalid"
    assert u64(2**53 - 1).hex() == "001fffffffffffff"
    for number in (-1, 2**53, True, 1.0):
        assert code_of(lambda number=number: u64(number)) == "submission-integer-invalid"
    assert code_of(lambda: signed(seat="a b")) == "seat-invalid"
    assert code_of(lambda: signed(submission_id="")) == "submission-id-invalid"


def test_a_secret_seed_does_not_show() -> None:
    assert KEY.seed().hex() not in repr(KEY)
    assert code_of(lambda: SubmissionKey(b"short")) == "submission-key-invalid"


def test_the_order_of_a_roster_does_not_matter_and_everything_else_does() -> None:
    entries = [RosterEntry(name, hashlib.sha256(name.encode()).digest(), 1) for name in ("a", "b")]
    base = Roster.of(*entries).hash
    assert Roster.of(*reversed(entries)).hash == base
    assert Roster.of(entries[0]).hash != base
    assert Roster.of(entries[0], RosterEntry("b", entries[1].public_key, 2)).hash != base
    assert Roster.of(entries[0], RosterEntry("c", entries[1].public_key, 1)).hash != base
    assert Roster.of(entries[0], RosterEntry("b", entries[0].public_key, 1)).hash != base
    read = Roster.from_json(Roster.of(*entries).to_json())
    assert (read.hash, read.seats, read.entry("c")) == (base, ("a", "b"), None)


@pytest.mark.parametrize(
    "change",
    [
        {"alg": "ed25519"},
        {"signingTier": {"N": 0}},
        {"signingTier": {"N": True}},
        {"signingTier": {"N": 2**53}},
        {"signingTier": {"N": 1, "M": 1}},
        {"publicKey": "AA=="},
        {"id": ""},
        {"id": 1},
        {"more": 1},
    ],
)
def test_a_roster_entry_has_exactly_its_four_members(change: dict[str, Any]) -> None:
    entry = {**ROSTER.entries[0].to_json(), **change}
    assert code_of(lambda: Roster.from_json([entry])) == "roster-invalid"


def test_a_roster_is_a_list_of_distinct_seats() -> None:
    entry = ROSTER.entries[0].to_json()
    refused: list[JsonValue] = [[], [entry, entry], {}, None]
    for wrong in refused:
        assert code_of(lambda wrong=wrong: Roster.from_json(wrong)) == "roster-invalid"
    other = {**entry, "id": "other"}
    assert code_of(lambda: Roster.from_json([entry, other], max_seats=1)) == "roster-invalid"
