import json
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError
from aioum.run.chain import MAX_EVENTS, RunChain
from aioum.run.event import SuiteNames
from aioum.run.keys import Ed25519Key, SigningKey
from aioum.run.seal import PAYLOAD_TYPE, read_seal, seal_chain, seal_run
from tests.unit.run.samples import HEADER, OWNER, OWNER_ML_DSA, STRANGER, events, sealed


class FutureKey:
    """Signs by an algorithm that nobody here can check."""

    alg = "SLH-DSA-SHA2-128s"
    public_key = b"\x05" * 32

    def sign(self, message: bytes, /) -> bytes:
        return message[:16]


def refused(keys: list[SigningKey], count: int = 1) -> str:
    with pytest.raises(AioumError) as caught:
        seal_run(HEADER, events(count), keys)
    return caught.value.code


def test_a_seal_names_its_run_and_its_keys_in_the_order_of_their_bytes() -> None:
    capsule = sealed(3, OWNER, STRANGER, OWNER_ML_DSA)
    seal = read_seal(capsule.envelope.payload)
    assert capsule.envelope.payload_type == PAYLOAD_TYPE
    assert (seal.header, seal.event_count) == (HEADER, 3)
    given: list[SigningKey] = [OWNER, STRANGER, OWNER_ML_DSA]
    keys = sorted(given, key=lambda key: key.public_key)
    assert [(signer.alg, signer.public_key) for signer in seal.signers] == [
        (key.alg, key.public_key) for key in keys
    ]
    assert [item.key_id for item in capsule.envelope.signatures] == [item.key_id for item in seal.signers]
    assert json.loads(capsule.envelope.payload).keys() == {
        "type",
        "header",
        "eventCount",
        "chainHead",
        "root",
        "signers",
    }


def test_sealing_a_recorded_run_gives_the_same_bytes_as_sealing_its_events() -> None:
    chain = RunChain(HEADER)
    for event in events(7):
        chain.append(event)
    assert seal_chain(chain, [OWNER]).to_bytes() == sealed(7).to_bytes()


def test_the_sealed_root_of_a_growing_run_is_that_of_the_tree_over_its_leaves_at_every_size() -> None:
    chain = RunChain(HEADER)
    leaves = []
    for event in events(70):
        leaves.append(chain.append(event).leaf)
        assert read_seal(seal_chain(chain, [OWNER]).envelope.payload).root == chain.suite.root(leaves)


def test_a_recorded_run_can_be_sealed_and_go_on() -> None:
    chain = RunChain(HEADER)
    for event in events(2):
        chain.append(event)
    first = seal_chain(chain, [OWNER])
    chain.append(events(3)[2])
    assert first.to_bytes() == sealed(2).to_bytes()
    assert seal_chain(chain, [OWNER]).to_bytes() == sealed(3).to_bytes()


def test_a_run_that_cannot_be_sealed_is_refused_by_its_own_reason() -> None:
    assert refused([OWNER], count=0) == "run-empty"
    assert refused([]) == "run-signers-missing"
    assert refused([Ed25519Key(bytes((seed,)) * 32) for seed in range(17)]) == "run-signers-too-many"
    assert refused([OWNER, Ed25519Key(b"\x01" * 32)]) == "run-signer-duplicate"
    assert refused([OWNER, FutureKey()]) == "run-signer-algorithm-unknown"


def test_an_event_out_of_turn_is_refused() -> None:
    for wrong in (events(2)[1], replace(events(1)[0], index=7)):
        with pytest.raises(AioumError) as caught:
            RunChain(HEADER).append(wrong)
        assert caught.value.code == "event-index-wrong"


def test_a_run_of_a_suite_that_is_not_known_is_not_begun() -> None:
    with pytest.raises(AioumError) as caught:
        RunChain(replace(HEADER, suite=SuiteNames("jcs", "blake3", "sha3-256")))
    assert caught.value.code == "suite-unknown"


def test_a_run_has_an_end() -> None:
    chain = RunChain(HEADER)
    first = chain.append(events(1)[0])
    chain.events.extend([first] * (MAX_EVENTS - 1))
    with pytest.raises(AioumError) as caught:
        chain.append(replace(first.event, index=MAX_EVENTS))
    assert caught.value.code == "run-too-long"


def changed_seal(**change: Any) -> bytes:
    return canonical_bytes({**json.loads(sealed().envelope.payload), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"type": "aioum.capsule.v2"},
        {"eventCount": -1},
        {"eventCount": True},
        {"eventCount": "5"},
        {"eventCount": 1.5},
        {"chainHead": "0x"},
        {"root": "0x" + "AB" * 32},
        {"signers": None},
        {"signers": [1]},
        {"signers": [{"alg": "Ed25519"}]},
        {"signers": [{"alg": "", "publicKey": "AAAA"}]},
        {"signers": [{"alg": "Ed25519", "publicKey": ""}]},
        {"signers": [{"alg": "Ed25519", "publicKey": "AAAB=="}]},
        {"signers": [{"alg": "Ed25519", "publicKey": "AAAA", "keyid": "1"}]},
        {"signers": [{"alg": "Ed25519", "publicKey": "BBBB"}, {"alg": "Ed25519", "publicKey": "AAAA"}]},
        {"signers": [{"alg": "Ed25519", "publicKey": "AAAA"}, {"alg": "ML-DSA-44", "publicKey": "AAAA"}]},
        {"signers": [{"alg": "Ed25519", "publicKey": "AAAA"}] * 17},
        {"note": "unknown"},
    ],
)
def test_a_seal_with_a_wrong_member_is_malformed(change: dict[str, Any]) -> None:
    with pytest.raises(AioumError) as caught:
        read_seal(changed_seal(**change))
    assert caught.value.code == "seal-malformed"


def test_a_seal_with_a_malformed_header_is_refused_for_it() -> None:
    with pytest.raises(AioumError) as caught:
        read_seal(changed_seal(header={}))
    assert caught.value.code == "header-malformed"


def test_a_seal_in_another_spelling_is_refused() -> None:
    with pytest.raises(AioumError) as caught:
        read_seal(sealed().envelope.payload + b" ")
    assert caught.value.code == "seal-not-canonical"
