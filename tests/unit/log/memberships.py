"""Proofs of entries of logs that were never written to a disk."""

from collections.abc import Sequence

from aioum.core.submission.keys import SubmissionKey
from aioum.log.checkpoint import Checkpoint, sign_checkpoint
from aioum.log.membership import Membership
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash
from tests.unit.log.samples import KEY, ORIGIN, session


def membership(
    entries: Sequence[bytes], index: int, *, origin: str = ORIGIN, key: SubmissionKey = KEY
) -> Membership:
    """The genuine proof of the entry at index in a log of these entries."""
    tree = LogTree(MemoryNodes())
    tree.extend([leaf_hash(entry) for entry in entries])
    note = sign_checkpoint(Checkpoint(origin, tree.size, tree.root()), key)
    return Membership(note, entries[index], index, tuple(tree.inclusion(index)))


def logged(entry: bytes, *, origin: str = ORIGIN, key: SubmissionKey = KEY) -> Membership:
    """The genuine proof of an entry as the sixth of eleven."""
    others = [session(number).to_bytes() for number in range(10)]
    return membership([*others[:5], entry, *others[5:]], 5, origin=origin, key=key)
