from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import SignatureInvalid
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash
from aioum.run.verification import verify_capsule
from benchmarks.evidence_forms import FORMS, chosen_values
from benchmarks.evidence_hashing import keccaks
from benchmarks.evidence_material import LONG, POLICY, SHORT, digest, events, recorded, recording, sealed
from benchmarks.evidence_proofs import lengths, places
from benchmarks.evidence_runs import Slow
from benchmarks.evidence_signatures import ML_DSA_87, P256, schemes
from benchmarks.result import Result


def test_a_process_with_pycryptodome_alone_seals_the_same_bytes_and_times_the_same_operations(
    tmp_path: Path,
) -> None:
    with Slow(tmp_path) as slow:
        assert slow.digest() == digest()
        for name in ("record", f"seal {SHORT}", f"seal {LONG}", f"verify {SHORT}"):
            assert slow.timed(name)(2) > 0


@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_events_that_are_timed_are_in_journals_of_a_thousand(tmp_path: Path, durability: str) -> None:
    assert recording(tmp_path, durability)(LONG + 5 if durability == "buffered" else 5) > 0
    lines = [len(path.read_bytes().splitlines()) for path in sorted(tmp_path.glob("*/journal"))]
    # Each has a header before its events.
    assert lines == ([LONG + 1, 6] if durability == "buffered" else [6])


def test_the_capsule_that_is_verified_is_sealed_by_whom_the_policy_trusts() -> None:
    verdict = verify_capsule(sealed(SHORT).to_bytes(), POLICY)
    assert verdict.reason is None
    assert [fact.trusted for fact in verdict.signers] == [True]
    assert len(recorded(events(SHORT)).events) == SHORT


def test_only_naive_json_has_another_spelling_than_jcs_and_only_where_the_page_says_so() -> None:
    different = {
        name: [
            form
            for form, encode in FORMS.items()
            if form != "CBOR" and encode(value) != canonical_bytes(value)
        ]
        for name, value in chosen_values().items()
    }
    assert different == {
        "event of a run": [],
        "table of 200 rows": [],
        "keys and floats of the slow path": ["json.dumps"],
    }


def test_every_keccak_that_is_timed_gives_the_same_hashes() -> None:
    functions = keccaks()
    assert len(functions) >= 3
    for data in (b"", b"a" * 65, b"a" * 136, b"a" * 1_000):
        assert len({function(data) for function in functions.values()}) == 1


@pytest.mark.parametrize("name", ["Ed25519", P256, "ML-DSA-44", "ML-DSA-65", ML_DSA_87])
def test_every_scheme_accepts_its_own_signature_and_refuses_it_for_another_message(name: str) -> None:
    scheme = schemes()[name]
    signature = scheme.sign(b"message")
    scheme.verify(b"message", signature)
    with pytest.raises((InvalidSignature, SignatureInvalid)):
        scheme.verify(b"another", signature)


def test_sizes_of_keys_and_signatures_are_those_of_their_standards() -> None:
    assert {name: (scheme.key_bytes, scheme.signature_bytes) for name, scheme in schemes().items()} == {
        "Ed25519": (32, 64),
        P256: (33, 64),
        "ML-DSA-44": (1_312, 2_420),
        "ML-DSA-65": (1_952, 3_309),
        ML_DSA_87: (2_592, 4_627),
    }


def test_longest_proofs_are_found_among_the_places_that_are_tried() -> None:
    leaves = [leaf_hash(bytes((number % 256,))) for number in range(1 << 12)]
    tree = LogTree(MemoryNodes())
    tree.extend(leaves)
    found = {(count.name, count.unit): count.value for count in lengths(tree, leaves, "some").counts}
    assert found["inclusion", "hashes"] == max(len(tree.inclusion(place)) for place in range(len(leaves)))
    assert found["consistency", "hashes"] == max(
        len(tree.consistency(earlier)) for earlier in range(1, len(leaves) + 1)
    )
    assert found["hash list", "bytes"] == 32 * len(leaves)
    assert {place % 2 for place in places(1 << 20)} == {0, 1}


def test_kept_proofs_are_of_all_sizes_and_none_is_longer_than_it_may_be(repository: Path) -> None:
    kept = Result.load(repository / "docs" / "bench" / "evidence" / "evidence-proofs.json")
    counted = {case.name: case for case in kept.cases if case.counts}
    assert list(counted) == [f"2^{exponent} entries" for exponent in range(10, 21, 2)]
    (consistency,) = (
        count
        for count in counted["2^20 entries"].counts
        if (count.name, count.unit) == ("consistency", "hashes")
    )
    assert (consistency.value, consistency.at_most) == (21, 21)


def test_kept_parts_are_of_one_machine_and_complete(repository: Path) -> None:
    results = [Result.load(path) for path in (repository / "docs" / "bench" / "evidence").glob("*.json")]
    assert len({(item.environment.cpu, item.environment.python) for item in results}) == 1
    assert not any(item.quick for item in results)
