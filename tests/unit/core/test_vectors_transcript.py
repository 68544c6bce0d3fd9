from collections.abc import Callable
from typing import Any

import pytest

from aioum.core.errors import ProofInvalid
from aioum.core.hashing import keccak256
from aioum.core.merkle import Frontier, inclusion_proof, verify_inclusion
from aioum.core.transcript import (
    EMPTY_ROOT,
    Entry,
    append_leaf,
    entry_from_json,
    entry_leaf,
    frontier_root,
    leaf_hash,
    node_hash,
    transcript_root,
)


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


@pytest.fixture
def vectors(load_vectors: Callable[[str], Any]) -> Any:
    return load_vectors("transcript.json")


@pytest.fixture
def entries(vectors: Any) -> list[Entry]:
    members = ("index", "toolId", "request", "response")
    return [
        entry_from_json({name: case[name] for name in members}, position)
        for position, case in enumerate(vectors["entries"])
    ]


def test_each_entry_has_its_hashes_and_its_leaf(vectors: Any, entries: list[Entry]) -> None:
    assert len(entries) == 100
    for case, entry in zip(vectors["entries"], entries, strict=True):
        request, response, tool_id = (
            text.encode() for text in (entry.request, entry.response, entry.tool_id)
        )
        assert keccak256(request) == unhex(case["requestHash"])
        assert keccak256(response) == unhex(case["responseHash"])
        assert keccak256(tool_id) == unhex(case["toolIdHash"])
        assert leaf_hash(entry.index, request, response, tool_id) == unhex(case["leaf"])
        assert entry_leaf(entry) == unhex(case["leaf"])


def test_each_size_has_its_root_rebuilt_and_running(vectors: Any, entries: list[Entry]) -> None:
    assert unhex(vectors["empty_root"]) == EMPTY_ROOT
    roots = {int(size): unhex(root) for size, root in vectors["roots"].items()}
    assert len(roots) == 18
    frontier = Frontier()
    for size in range(101):
        assert frontier.size == size
        assert frontier_root(frontier) == transcript_root(entries[:size])
        if size in roots:
            assert frontier_root(frontier) == roots.pop(size)
        if size < 100:
            frontier = append_leaf(frontier, entry_leaf(entries[size]))
    assert not roots


def test_each_proof_is_what_we_make_and_verifies(vectors: Any, entries: list[Entry]) -> None:
    leaves = [entry_leaf(entry) for entry in entries]
    assert len(vectors["proofs"]) == 36
    for case in vectors["proofs"]:
        size, index = case["size"], case["index"]
        siblings = [unhex(text) for text in case["siblings"]]
        root = unhex(vectors["roots"][str(size)])
        assert inclusion_proof(leaves[:size], index, node_hash) == siblings
        verify_inclusion(leaves[index], index, size, siblings, root, node_hash)
        with pytest.raises(ProofInvalid):
            verify_inclusion(leaves[index], index, size, siblings, EMPTY_ROOT, node_hash)
