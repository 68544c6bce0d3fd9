"""Files that prove an entry of a transparency log, and what is printed of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from aioum.cli.verify_run_inputs import read_bytes
from aioum.core.canonical import canonical_bytes, parse_json
from aioum.log.checkpoint import MAX_NOTE_BYTES, parse_checkpoint
from aioum.log.membership import Membership, read_membership

MAX_PROOF_BYTES: Final = 2 * MAX_NOTE_BYTES
"""Most bytes of a proof file; without many witnesses it has some 4,000."""


def read_proof(file: Path) -> Membership:
    """A proof as it was written; nothing is proven by that.

    Raises:
        InvalidInput: `file-unusable`, `artifact-too-large`, a code of the JSON loader, or as
            `read_membership`.
    """
    return read_membership(parse_json(read_bytes(file, MAX_PROOF_BYTES), max_bytes=MAX_PROOF_BYTES))


def proof_bytes(membership: Membership) -> bytes:
    """The file: the `log` member of evidence packages, as canonical JSON."""
    return canonical_bytes(membership.to_json()) + b"\n"


def proof_json(membership: Membership) -> dict[str, Any]:
    """A proof for a program."""
    checkpoint = parse_checkpoint(membership.checkpoint)
    return {
        "origin": checkpoint.origin,
        "index": membership.index,
        "size": checkpoint.size,
        "root": "0x" + checkpoint.root.hex(),
        "log": membership.to_json(),
    }


def proof_facts(membership: Membership) -> list[tuple[str, str]]:
    """A proof for print."""
    checkpoint = parse_checkpoint(membership.checkpoint)
    return [
        ("log", checkpoint.origin),
        ("entry", f"{membership.index} of {checkpoint.size}"),
        ("log root", "0x" + checkpoint.root.hex()),
    ]
