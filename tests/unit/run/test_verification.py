"""Attacks on sealed runs: each is refused, for its own reason (PROTOCOL 8)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError
from aioum.core.submission.framing import encode_base64
from aioum.run.capsule import Capsule, read_capsule
from aioum.run.chain import ChainedEvent
from aioum.run.dsse import Envelope, sign_envelope
from aioum.run.event import Event
from aioum.run.keys import ML_DSA_65, SigningKey
from aioum.run.policy import SealPolicy
from aioum.run.seal import PAYLOAD_TYPE, Seal, Signer, read_seal, seal_run
from aioum.run.suite import suite_named
from aioum.run.verification import CapsuleVerdict, Reason, verify_capsule
from tests.unit.run.samples import (
    HEADER,
    OWNER,
    OWNER_ML_DSA,
    STRANGER,
    altered,
    events,
    sealed,
    trusting,
    with_payload,
)

CAPSULE = sealed(5)
OTHER_HASH = "0x" + "ee" * 32


def verdict(data: bytes, policy: SealPolicy | None = None) -> CapsuleVerdict:
    return verify_capsule(data, policy or trusting())


def reasons(data: bytes, policy: SealPolicy | None = None) -> list[str]:
    return [reason.value for reason in verdict(data, policy).reasons]


def unreadable(data: bytes) -> str:
    with pytest.raises(AioumError) as caught:
        verdict(data)
    return caught.value.code


def test_an_untouched_capsule_verifies_and_says_who_sealed_what() -> None:
    found = verdict(CAPSULE.to_bytes())
    assert (found.reason, found.findings, found.pinned) == (None, (), False)
    assert found.seal == read_seal(CAPSULE.envelope.payload)
    assert [(fact.signer.public_key, fact.signed, fact.trusted) for fact in found.signers] == [
        (OWNER.public_key, True, True)
    ]
    assert found.to_json()["reason"] is None
    assert found.to_json()["eventCount"] == 5


def test_a_rewritten_output_is_not_what_its_leaf_was_made_of() -> None:
    def rewrite(file: Any) -> None:
        file["events"][2]["event"]["output"] = OTHER_HASH

    found = verdict(altered(CAPSULE, rewrite))
    assert found.reasons == ("leaf-hash-mismatch",)
    assert found.findings[0].positions == (2,)
    assert found.to_json()["reason"] == "leaf-hash-mismatch"


def test_a_rewritten_output_with_its_leaf_breaks_the_chain_and_the_root() -> None:
    forged = replace(events(5)[2], output=b"\xee" * 32)

    def rewrite(file: Any) -> None:
        file["events"][2] = seal_run(HEADER, [*events(2), forged], [OWNER]).events[2].to_json()

    assert reasons(altered(CAPSULE, rewrite)) == ["chain-break", "root-mismatch"]


def test_a_deleted_event_changes_the_count() -> None:
    found = verdict(altered(CAPSULE, lambda file: file["events"].pop(1)))
    assert found.reasons == ("event-count-mismatch", "chain-break", "root-mismatch")


def test_an_inserted_event_changes_the_count() -> None:
    def insert(file: Any) -> None:
        file["events"].insert(1, file["events"][0])

    assert reasons(altered(CAPSULE, insert))[0] == "event-count-mismatch"


def test_exchanged_events_break_the_chain() -> None:
    def exchange(file: Any) -> None:
        file["events"][1], file["events"][2] = file["events"][2], file["events"][1]

    found = verdict(altered(CAPSULE, exchange))
    assert found.reasons == ("chain-break", "root-mismatch")
    assert found.findings[0].positions == (1, 2, 3)


def test_an_event_at_another_position_than_it_says_breaks_the_chain() -> None:
    shifted = [replace(event, index=event.index + 1) for event in events(3)]
    assert reasons(consistent_with(shifted)) == ["chain-break"]


def consistent_with(listed: list[Event]) -> bytes:
    """A capsule whose hashes are all right for events that no honest recorder would have chained."""
    suite = suite_named(HEADER.suite)
    head = suite.chain_start(canonical_bytes(HEADER.to_json()))
    items = []
    for event in listed:
        leaf = suite.leaf_hash(canonical_bytes(event.to_json()))
        head = suite.chain_next(head, leaf)
        items.append(ChainedEvent(event, leaf, head))
    root = suite.root([item.leaf for item in items]) or bytes(32)
    seal = Seal(HEADER, len(items), head, root, (Signer(OWNER.alg, OWNER.public_key),))
    return Capsule(sign_envelope(PAYLOAD_TYPE, seal.to_bytes(), [OWNER]), tuple(items)).to_bytes()


def test_a_run_cut_short_with_its_count_has_another_chain_head() -> None:
    cut = Capsule(CAPSULE.envelope, CAPSULE.events[:3])
    data = with_payload(cut, lambda seal: seal.update(eventCount=3))
    assert reasons(data) == ["chain-head-mismatch", "root-mismatch", "signature-invalid"]


def test_a_tail_cut_to_nothing_has_another_chain_head() -> None:
    nothing = Capsule(CAPSULE.envelope, ())
    assert reasons(nothing.to_bytes()) == ["event-count-mismatch", "chain-head-mismatch", "root-mismatch"]
    adjusted = with_payload(nothing, lambda seal: seal.update(eventCount=0))
    assert reasons(adjusted) == ["chain-head-mismatch", "root-mismatch", "signature-invalid"]


def test_a_seal_over_nothing_never_verifies() -> None:
    assert reasons(consistent_with([])) == ["root-mismatch"]


def test_a_hash_downgraded_in_the_header_gives_other_leaves() -> None:
    def downgrade(seal: Any) -> None:
        seal["header"]["suite"]["leafHash"] = "sha256"

    found = verdict(with_payload(CAPSULE, downgrade))
    assert found.reason == "leaf-hash-mismatch"
    assert found.findings[0].positions == (0, 1, 2, 3, 4)
    assert Reason.SIGNATURE_INVALID in found.reasons


@pytest.mark.parametrize("member", ["canonicalization", "leafHash", "nodeHash"])
def test_a_suite_that_is_not_known_is_refused_and_its_hashes_are_not_judged(member: str) -> None:
    def rename(seal: Any) -> None:
        seal["header"]["suite"][member] = "sha3-256"

    assert reasons(with_payload(CAPSULE, rename, OWNER)) == ["suite-unknown"]
    assert reasons(with_payload(CAPSULE, rename)) == ["suite-unknown", "signature-invalid"]


def test_another_root_is_not_that_of_the_leaves() -> None:
    assert reasons(with_payload(CAPSULE, lambda seal: seal.update(root=OTHER_HASH), OWNER)) == [
        "root-mismatch"
    ]


def test_another_chain_head_is_not_that_of_the_events() -> None:
    data = with_payload(CAPSULE, lambda seal: seal.update(chainHead=OTHER_HASH), OWNER)
    assert reasons(data) == ["chain-head-mismatch"]


def test_the_seal_of_another_run_does_not_fit() -> None:
    other = sealed(5, header=replace(HEADER, run_id="run-0002"))
    swapped = Capsule(other.envelope, CAPSULE.events)
    assert reasons(swapped.to_bytes()) == ["chain-break", "chain-head-mismatch"]


def test_a_signature_by_another_key_under_the_owners_name_is_invalid() -> None:
    def sign(file: Any) -> None:
        message = CAPSULE.envelope.signed_bytes()
        file["seal"]["signatures"][0]["sig"] = encode_base64(STRANGER.sign(message))

    assert reasons(altered(CAPSULE, sign)) == ["signature-invalid"]


def test_a_signature_by_a_key_that_the_seal_does_not_name_is_no_signature() -> None:
    stranger = sign_envelope(PAYLOAD_TYPE, CAPSULE.envelope.payload, [STRANGER])
    assert reasons(Capsule(stranger, CAPSULE.events).to_bytes()) == ["signature-missing", "signature-invalid"]


def test_a_run_sealed_by_a_stranger_is_not_trusted() -> None:
    assert reasons(sealed(5, STRANGER).to_bytes()) == ["key-untrusted"]


def test_a_stripped_signature_is_missed_and_its_name_cannot_be_stripped() -> None:
    both = sealed(5, OWNER, OWNER_ML_DSA)
    kept = tuple(item for item in both.envelope.signatures if len(item.signature) == 64)
    stripped = Capsule(Envelope(PAYLOAD_TYPE, both.envelope.payload, kept), both.events)
    assert reasons(stripped.to_bytes()) == ["signature-missing"]

    def strip_name(seal: Any) -> None:
        seal["signers"] = [signer for signer in seal["signers"] if signer["alg"] == "Ed25519"]

    assert reasons(with_payload(stripped, strip_name)) == ["signature-invalid"]
    bare = Capsule(Envelope(PAYLOAD_TYPE, both.envelope.payload, ()), both.events)
    assert reasons(bare.to_bytes()) == ["signature-missing"]


def test_a_seal_that_names_no_key_is_not_signed() -> None:
    unsigned = Capsule(Envelope(PAYLOAD_TYPE, CAPSULE.envelope.payload, ()), CAPSULE.events)
    data = with_payload(unsigned, lambda seal: seal.update(signers=[]))
    assert reasons(data, SealPolicy()) == ["signature-missing"]


def test_a_key_cannot_pass_for_one_of_another_algorithm() -> None:
    def relabel(seal: Any) -> None:
        seal["signers"][0]["alg"] = ML_DSA_65

    assert reasons(with_payload(CAPSULE, relabel, OWNER)) == ["signature-invalid"]
    future = with_payload(CAPSULE, lambda seal: seal["signers"][0].update(alg="SLH-DSA-SHA2-128s"), OWNER)
    assert reasons(future) == ["signature-invalid"]


class IdentityKey:
    """The point that one signature fits every message under."""

    alg = "Ed25519"
    public_key = bytes((1,)) + bytes(31)

    def sign(self, message: bytes, /) -> bytes:
        return b"\x58" + b"\x66" * 31 + bytes((1,)) + bytes(31)


def test_a_key_of_small_order_seals_nothing_even_where_it_is_trusted() -> None:
    key = IdentityKey()
    capsule = sealed(5, key)
    assert reasons(capsule.to_bytes(), trusting(key)) == ["signature-invalid"]


def test_one_key_is_counted_once_however_often_it_signs() -> None:
    quorum = trusting(OWNER, STRANGER, threshold=2)
    assert reasons(CAPSULE.to_bytes(), quorum) == ["signature-missing"]
    signature = CAPSULE.envelope.signatures[0]

    def second(key_id: str) -> Any:
        renamed = replace(signature, key_id=key_id)
        envelope = replace(CAPSULE.envelope, signatures=(signature, renamed))
        return Capsule(envelope, CAPSULE.events).to_bytes()

    assert reasons(second("ab" * 32), quorum) == ["signature-missing", "signature-invalid"]
    assert unreadable(second(signature.key_id)) == "dsse-signature-duplicate"

    def name_twice(seal: Any) -> None:
        seal["signers"] *= 2

    assert unreadable(with_payload(CAPSULE, name_twice, OWNER)) == "seal-malformed"


def test_another_payload_type_is_unexpected_and_not_what_was_signed() -> None:
    def swap(file: Any) -> None:
        file["seal"]["payloadType"] = "application/vnd.in-toto+json"

    assert reasons(altered(CAPSULE, swap)) == ["payload-type-unexpected", "signature-invalid"]


def test_a_payload_of_another_type_that_is_no_seal_is_judged_no_further() -> None:
    envelope = sign_envelope("application/vnd.in-toto+json", b"hello", [OWNER])
    found = verify_capsule(Capsule(envelope, CAPSULE.events).to_bytes(), trusting(), pinned_root=bytes(32))
    assert found.reasons == ("payload-type-unexpected", "pinned-root-mismatch")
    assert (found.seal, found.signers, found.to_json()["root"]) == (None, (), None)


def test_many_altered_events_are_named_up_to_a_limit_and_counted() -> None:
    def rewrite(file: Any) -> None:
        for item in file["events"]:
            item["event"]["output"] = OTHER_HASH

    found = verdict(altered(sealed(40), rewrite))
    assert found.findings[0].positions == tuple(range(16))
    assert "39 more" in found.findings[0].message


def test_a_run_rebuilt_and_sealed_again_by_its_owner_verifies_and_only_a_pin_shows_it() -> None:
    pinned = read_seal(CAPSULE.envelope.payload).root
    forged = [*events(4), replace(events(5)[4], output=b"\xee" * 32)]
    rebuilt = seal_run(HEADER, forged, [OWNER]).to_bytes()
    assert verify_capsule(rebuilt, trusting()).reason is None
    caught = verify_capsule(rebuilt, trusting(), pinned_root=pinned)
    assert (caught.reasons, caught.pinned) == (("pinned-root-mismatch",), False)
    honest = verify_capsule(CAPSULE.to_bytes(), trusting(), pinned_root=pinned)
    assert (honest.reason, honest.pinned) == (None, True)


def test_the_order_of_reasons_is_the_protocols() -> None:
    assert [reason.value for reason in Reason] == [
        "payload-type-unexpected",
        "suite-unknown",
        "leaf-hash-mismatch",
        "event-count-mismatch",
        "chain-break",
        "chain-head-mismatch",
        "root-mismatch",
        "signature-missing",
        "signature-invalid",
        "key-untrusted",
        "pinned-root-mismatch",
    ]


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    def ruin(file: Any) -> None:
        file["seal"]["payloadType"] = "text/plain"
        file["events"].reverse()
        file["events"][0]["event"]["name"] = "other"
        del file["events"][1]
        file["seal"]["signatures"][0]["keyid"] = "ab" * 32

    assert reasons(altered(sealed(5, STRANGER), ruin)) == [
        "payload-type-unexpected",
        "leaf-hash-mismatch",
        "event-count-mismatch",
        "chain-break",
        "chain-head-mismatch",
        "root-mismatch",
        "signature-missing",
        "signature-invalid",
    ]


@pytest.mark.parametrize("keys", [(OWNER,), (OWNER_ML_DSA,), (OWNER, OWNER_ML_DSA)])
def test_a_capsule_survives_other_white_space_since_its_hashes_are_canonical(
    keys: tuple[SigningKey, ...],
) -> None:
    data = sealed(3, *keys).to_bytes()
    pretty = json.dumps(json.loads(data), indent=1).encode()
    assert reasons(pretty, trusting(*keys)) == []
    assert read_capsule(pretty).to_bytes() == data
