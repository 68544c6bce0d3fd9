"""Proofs that an entry is in a log: each way to be wrong has its own code."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.errors import AioumError, InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.types import Bytes32
from aioum.log.entry import CapsuleEntry
from aioum.log.membership import MAX_HASHES, Membership, read_membership
from aioum.log.tree import leaf_hash, node_hash
from tests.unit.log.memberships import logged, membership
from tests.unit.log.samples import KEY, ORIGIN, OTHER_KEY, session

ENTRIES = [session(number).to_bytes() for number in range(11)]
GENUINE = membership(ENTRIES, 5)


def text(note: bytes, old: str, new: str) -> bytes:
    assert note.count(old.encode()) == 1
    return note.replace(old.encode(), new.encode())


def raised_leaf(genuine: Membership) -> Membership:
    """Claims that the parent of two leaves is a leaf."""
    pair = leaf_hash(ENTRIES[4]) + leaf_hash(ENTRIES[5])
    assert node_hash(pair[:32], pair[32:]) != leaf_hash(pair)
    return replace(genuine, entry=pair, index=2, hashes=genuine.hashes[1:])


@pytest.mark.parametrize("index", range(11))
def test_every_entry_is_proven_and_comes_back_from_its_json(index: int) -> None:
    found = read_membership(membership(ENTRIES, index).to_json())
    checkpoint, entry = found.verify(ORIGIN, KEY.public_key)
    assert (checkpoint.origin, checkpoint.size, entry) == (ORIGIN, 11, session(index))


def test_runs_are_proven_as_sessions_are() -> None:
    entry = CapsuleEntry(Bytes32(b"\x07" * 32))
    assert logged(entry.to_bytes()).verify(ORIGIN, KEY.public_key)[1] == entry


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda it: replace(it, hashes=it.hashes[:-1]), "proof-length-wrong"),
        (lambda it: replace(it, hashes=it.hashes[1:]), "proof-length-wrong"),
        (lambda it: replace(it, hashes=(*it.hashes, bytes(32))), "proof-length-wrong"),
        (lambda it: replace(it, hashes=(bytes(32), *it.hashes[1:])), "proof-root-mismatch"),
        (lambda it: replace(it, index=4), "proof-root-mismatch"),
        (lambda it: replace(it, index=11), "proof-index-out-of-range"),
        (lambda it: replace(it, entry=ENTRIES[6]), "proof-root-mismatch"),
        (raised_leaf, "json-not-utf8"),
        (lambda it: replace(it, entry=it.entry + b" "), "log-entry-not-canonical"),
        (lambda it: replace(it, checkpoint=text(it.checkpoint, "\n11\n", "\n12\n")),
         "checkpoint-signature-invalid"),
        (lambda it: replace(it, checkpoint=text(it.checkpoint, "\n11\n", "\n1_1\n")),
         "checkpoint-size-malformed"),
        (lambda it: replace(it, checkpoint=membership(ENTRIES[:8], 5).checkpoint), "proof-length-wrong"),
        (lambda it: replace(it, checkpoint=membership(ENTRIES, 5, key=OTHER_KEY).checkpoint),
         "checkpoint-key-mismatch"),
        (lambda it: replace(it, checkpoint=membership(ENTRIES, 5, origin="elsewhere").checkpoint),
         "checkpoint-origin-unexpected"),
    ],
)  # fmt: skip
def test_what_is_not_the_logs_proof_of_the_entry_is_refused(
    change: Callable[[Membership], Membership], code: str
) -> None:
    with pytest.raises(AioumError) as caught:
        change(GENUINE).verify(ORIGIN, KEY.public_key)
    assert caught.value.code == code


def proof(**members: Any) -> Callable[[Any], Any]:
    return lambda whole: {**whole, "proof": {**whole["proof"], **members}}


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: [],
        lambda whole: {"checkpoint": whole["checkpoint"]},
        lambda whole: {**whole, "more": 1},
        lambda whole: {**whole, "checkpoint": 7},
        lambda whole: {**whole, "proof": None},
        proof(more=1),
        proof(size=11),
        proof(index=-1),
        proof(index=True),
        proof(index=2**53),
        proof(index=5.0),
        proof(index="5"),
        proof(entry="text"),
        proof(hashes={}),
        proof(hashes=[to_hex(bytes(32))] * (MAX_HASHES + 1)),
        proof(hashes=[to_hex(bytes(31))]),
        proof(hashes=[to_hex(bytes(64))]),
        proof(hashes=[7]),
    ],
)
def test_what_is_written_otherwise_is_no_proof(change: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_membership(change(GENUINE.to_json()))
    assert caught.value.code == "log-proof-malformed"
