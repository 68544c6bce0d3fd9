"""A process that finds no keccak but pycryptodome's, as where no faster one is installed.

    python -m benchmarks.evidence_slow FOLDER

Reads `COUNT NAME` on each line of standard input, does that of `same_in_both` so often and prints the
seconds; `digest` prints the digest of the capsules instead.
"""

from __future__ import annotations

import gc
import hashlib
import sys
from pathlib import Path
from typing import Any

_HASHLIB_NEW = hashlib.new


def _new_without_keccak(name: str, *arguments: Any, **options: Any) -> Any:
    if name == "keccak-256":
        raise ValueError(f"unsupported hash type {name}")
    return _HASHLIB_NEW(name, *arguments, **options)


def main(folder: Path) -> None:
    """Answer until standard input ends."""
    # None makes importing the module an ImportError.
    sys.modules["sha3"] = None  # type: ignore[assignment]
    hashlib.new = _new_without_keccak
    # Only now: aioum chooses its keccak at import.
    from aioum.core.hashing import keccak256, pycryptodome_keccak256
    from benchmarks.evidence_material import digest, same_in_both

    if keccak256 is not pycryptodome_keccak256:
        raise RuntimeError("another keccak than pycryptodome's was chosen")
    operations = same_in_both(folder)
    for line in sys.stdin:
        first, _, name = line.strip().partition(" ")
        gc.collect()
        answer = digest() if first == "digest" else operations[name](int(first))
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
