import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError
from aioum.core.merkle import root_of
from aioum.run.chain import RunChain
from aioum.run.event import Event, Header, SuiteNames
from aioum.run.seal import read_seal, seal_chain
from aioum.run.suite import checked, commitment, suite_named
from tests.unit.run.samples import OWNER


def test_the_run_of_the_vectors_gets_their_leaves_chain_and_roots(
    load_vectors: Callable[[str], Any],
) -> None:
    vectors = load_vectors("capsule.json")
    chain = RunChain(Header.from_json(vectors["header"]))
    assert "0x" + chain.head.hex() == vectors["chain_genesis"]
    expected = {case["eventCount"]: case for case in vectors["sealed"]}
    for value, leaf in zip(vectors["events"], vectors["leaves"], strict=True):
        event = Event.from_json(value)
        assert canonical_bytes(event.to_json()) == canonical_bytes(value)
        assert "0x" + chain.append(event).leaf.hex() == leaf
        case = expected.pop(len(chain.events), None)
        if case is not None:
            seal = read_seal(seal_chain(chain, [OWNER]).envelope.payload)
            assert seal.event_count == case["eventCount"]
            assert "0x" + seal.root.hex() == case["root"]
            assert "0x" + seal.chain_head.hex() == case["chainHead"]
    assert not expected
    assert (len(chain.events), len(vectors["sealed"])) == (102, 13)


def test_blake3_gives_its_authors_digests(shared_vectors_dir: Path) -> None:
    file = json.loads((shared_vectors_dir / "blake3" / "test_vectors.json").read_text(encoding="utf-8"))
    lengths = []
    suite = suite_named(SuiteNames())
    for case in file["cases"]:
        data = bytes(position % 251 for position in range(case["input_len"]))
        # The vectors give more output than the 32 bytes that are the hash.
        assert suite.hash(data).hex() == case["hash"][:64]
        lengths.append(len(data))
    assert (len(lengths), lengths[-1]) == (35, 102_400)


def test_batched_levels_give_the_one_tree_at_every_size() -> None:
    suite = suite_named(SuiteNames())
    leaves = [suite.leaf_hash(bytes((index,))) for index in range(70)]
    assert suite.root([]) is None
    for size in range(1, len(leaves) + 1):
        assert suite.root(leaves[:size]) == root_of(leaves[:size], suite.node_hash)


@pytest.mark.parametrize(
    "names",
    [
        ("jcs", "blake2b", "keccak256"),
        ("jcs", "BLAKE3", "keccak256"),
        ("jcs", "blake3", "sha3-256"),
        ("jcs", "blake3", "sha256"),
        ("json", "blake3", "keccak256"),
    ],
)
def test_a_suite_that_is_not_known_is_refused_and_never_replaced(names: tuple[str, str, str]) -> None:
    with pytest.raises(AioumError) as caught:
        suite_named(SuiteNames(*names))
    assert caught.value.code == "suite-unknown"


def test_the_suite_with_sha256_hashes_leaves_and_chain_with_it() -> None:
    suite = suite_named(SuiteNames("jcs", "sha256", "keccak256"))
    assert suite.leaf_hash(b"{}") == hashlib.sha256(b"\x00{}").digest()
    assert suite.chain_start(b"{}") == hashlib.sha256(b"\x03{}").digest()
    assert suite.chain_next(b"a" * 32, b"b" * 32) == hashlib.sha256(b"\x02" + b"a" * 32 + b"b" * 32).digest()


def test_a_library_that_computes_another_hash_stops_the_import() -> None:
    with pytest.raises(ImportError, match="keccak256"):
        checked("keccak256", lambda data: hashlib.sha3_256(data).digest())
    with pytest.raises(ImportError, match="blake3"):
        checked("blake3", lambda data: hashlib.blake2s(data).digest())
    with pytest.raises(ImportError, match="sha256"):
        checked("sha256", lambda data: hashlib.sha512(data).digest()[:32])


def test_a_commitment_is_blake3_of_salt_and_content_and_needs_a_whole_salt() -> None:
    salt = bytes(range(16))
    assert commitment(salt, b"content") == blake3(salt + b"content").digest()
    assert commitment(salt, b"") != commitment(bytes(16), b"")
    # A byte moved from the content to the salt would be the same commitment.
    with pytest.raises(AioumError) as caught:
        commitment(salt + b"c", b"ontent")
    assert caught.value.code == "commitment-salt-invalid"
