"""Capsule files that were tampered with below the level of JSON, or that are no capsules."""

from collections import Counter
from typing import Any

import pytest

from aioum.core.errors import AioumError
from aioum.run import capsule as capsule_module
from aioum.run.capsule import read_capsule
from aioum.run.verification import Reason, verify_capsule
from tests.unit.run.samples import altered, sealed, trusting

CAPSULE = sealed(2)
DATA = CAPSULE.to_bytes()


def refused(data: bytes) -> str:
    with pytest.raises(AioumError) as caught:
        read_capsule(data)
    return caught.value.code


def with_event(old: bytes, new: bytes) -> bytes:
    assert DATA.count(old) >= 1
    return DATA.replace(old, new, 1)


def outcome(data: bytes) -> str:
    try:
        found = verify_capsule(data, trusting()).reason
    except AioumError as error:
        return error.code
    return "verified" if found is None else found.value


def test_a_capsule_reads_back_as_it_was_written() -> None:
    assert read_capsule(DATA) == CAPSULE
    assert read_capsule(DATA).to_bytes() == DATA


@pytest.mark.parametrize("bit", range(8))
def test_every_byte_of_a_small_capsule_matters(bit: int) -> None:
    data = sealed(1).to_bytes()
    outcomes: Counter[str] = Counter()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << bit
        outcomes[outcome(bytes(flipped))] += 1
    assert "verified" not in outcomes
    if bit == 7:
        # ASCII text with one such byte is not UTF-8.
        assert outcomes == {"json-not-utf8": len(data)}
    elif bit == 0:
        # Members, hex digits and base64 each fail where they are read or compared.
        assert outcomes.keys() >= {
            Reason.LEAF_HASH_MISMATCH,
            Reason.CHAIN_BREAK,
            Reason.SIGNATURE_MISSING,
            Reason.SIGNATURE_INVALID,
            "capsule-malformed",
            "dsse-base64-invalid",
            "dsse-malformed",
            "event-malformed",
            "json-syntax",
            "seal-malformed",
        }


def test_twins_of_two_to_the_fifty_third_are_refused() -> None:
    at = b'"at":1760000000001'
    # No double is this number, so two readers would hash two events.
    assert refused(with_event(at, b'"at":9007199254740993')) == "json-number-unsafe"
    # This one is a double's own text, and beyond what an event can hold.
    assert refused(with_event(at, b'"at":9007199254740992')) == "event-malformed"
    assert refused(with_event(at, b'"at":1760000000001.0')) == "event-malformed"
    assert refused(with_event(at, b'"at":1.760000000001e12')) == "event-malformed"


def test_surrogates_are_refused_in_keys_and_in_values() -> None:
    assert refused(with_event(b'"name":"step 0"', b'"\\ud800":"step 0"')) == "json-lone-surrogate"
    assert refused(with_event(b'"name":"step 0"', b'"name":"\\udfff"')) == "json-lone-surrogate"
    assert refused(with_event(b'"name":"step 0"', b'"name":"\xed\xa0\x80"')) == "json-not-utf8"


@pytest.mark.parametrize("member", [b"payload", b"payloadType", b"signatures", b"keyid", b"sig"])
def test_a_member_of_the_envelope_that_occurs_twice_is_refused(member: bytes) -> None:
    for spelling in (member, b"\\u%04x" % member[0] + member[1:]):
        twice = with_event(b'"%b":' % member, b'"%b":"AAAA","%b":' % (spelling, member))
        assert refused(twice) == "json-duplicate-key"


def test_a_member_of_an_event_that_occurs_twice_is_refused() -> None:
    assert refused(with_event(b'"kind":', b'"kind":"approval","kind":')) == "json-duplicate-key"


def test_bytes_after_the_capsule_are_refused() -> None:
    assert refused(DATA + b"{}") == "json-trailing-bytes"


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.update(note="unknown"),
        lambda file: file.pop("events"),
        lambda file: file.update(events={}),
        lambda file: file["events"].append([]),
        lambda file: file["events"][0].update(salt="0x00"),
        lambda file: file["events"][0].pop("chain"),
        lambda file: file["events"][0].update(leaf="0x00"),
        lambda file: file["events"][0].update(chain=file["events"][0]["chain"].upper()),
    ],
)
def test_a_file_with_wrong_members_is_no_capsule(change: Any) -> None:
    assert refused(altered(CAPSULE, change)) == "capsule-malformed"


def test_a_file_that_is_no_object_is_no_capsule() -> None:
    assert refused(b"[]") == "capsule-malformed"


def test_a_capsule_with_too_many_events_is_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capsule_module, "MAX_EVENTS", 1)
    assert refused(DATA) == "capsule-malformed"


def test_a_capsule_that_nobody_would_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capsule_module, "MAX_CAPSULE_BYTES", len(DATA) - 1)
    with pytest.raises(AioumError) as caught:
        CAPSULE.to_bytes()
    assert caught.value.code == "capsule-too-large"
    assert refused(DATA) == "json-too-large"
