"""That one entry is in a log, as an evidence package carries it (PROTOCOL 7, 9).

The size comes from the signed checkpoint; the rest proves itself against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue, canonical_bytes, parse_json
from aioum.core.errors import InvalidInput
from aioum.core.hextext import bytes32, to_hex
from aioum.core.merkle import verify_inclusion
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.entry import MAX_ENTRY_BYTES, Entry, read_entry
from aioum.log.tree import leaf_hash, node_hash

MAX_HASHES: Final = 64
"""Most hashes of a proof; a log of 2^63 entries needs 63."""

_MALFORMED: Final = "log-proof-malformed"


@dataclass(frozen=True, slots=True)
class Membership:
    """An entry, its place, and what leads from it to a checkpoint.

    Attributes:
        checkpoint: the signed note.
        entry: canonical JSON of the entry.
        index: of the entry, 0 to 2^53-1.
        hashes: the inclusion proof, 32 bytes each, at most MAX_HASHES.
    """

    checkpoint: bytes
    entry: bytes
    index: int
    hashes: tuple[bytes, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """The package's `log` member."""
        return {
            "checkpoint": self.checkpoint.decode(),
            "proof": {
                "entry": parse_json(self.entry, max_bytes=MAX_ENTRY_BYTES),
                "hashes": [to_hex(value) for value in self.hashes],
                "index": self.index,
            },
        }

    def verify(self, origin: str, public_key: bytes) -> tuple[Checkpoint, Entry]:
        """Return checkpoint and entry if the log's key signed a state that has the entry at this place.

        Args:
            origin: the log's name.
            public_key: its Ed25519 key, 32 bytes.

        Raises:
            CheckpointInvalid: as `read_checkpoint`.
            InvalidInput, CanonicalError: as `read_entry`.
            ProofInvalid: as `verify_inclusion`.
        """
        checkpoint = read_checkpoint(self.checkpoint, origin, public_key)
        entry = read_entry(self.entry)
        verify_inclusion(
            leaf_hash(self.entry), self.index, checkpoint.size, self.hashes, checkpoint.root, node_hash
        )
        return checkpoint, entry


def read_membership(value: JsonValue) -> Membership:
    """Read what `Membership.to_json` gives; nothing is proven by that.

    Raises:
        InvalidInput: `log-proof-malformed`, naming what is wrong.
    """
    whole = _members(value, "the log member", {"checkpoint", "proof"})
    proof = _members(whole["proof"], "the log's proof", {"entry", "hashes", "index"})
    note, index, hashes = whole["checkpoint"], proof["index"], proof["hashes"]
    if not isinstance(note, str):
        raise InvalidInput("the log's checkpoint is not text", code=_MALFORMED)
    if type(index) is not int or not 0 <= index <= MAX_SAFE_INTEGER:
        raise InvalidInput(f"the log's index is {index!r:.40}", code=_MALFORMED)
    if not isinstance(hashes, list) or len(hashes) > MAX_HASHES:
        raise InvalidInput(f"the log's hashes are no list of at most {MAX_HASHES}", code=_MALFORMED)
    if not isinstance(proof["entry"], dict):
        raise InvalidInput("the log's entry is no object", code=_MALFORMED)
    try:
        found = tuple(bytes32(item) for item in hashes)
    except InvalidInput as error:
        raise InvalidInput(f"a hash of the log's proof: {error}", code=_MALFORMED) from error
    return Membership(note.encode(), canonical_bytes(proof["entry"]), index, found)


def _members(value: JsonValue, what: str, expected: set[str]) -> dict[str, JsonValue]:
    if not isinstance(value, dict) or value.keys() != expected:
        raise InvalidInput(f"{what} is no object of {sorted(expected)}", code=_MALFORMED)
    return value
