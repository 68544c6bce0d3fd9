"""A client of a log on a static host: takes the hashes home, then proves entries without the network.

A process of its own, so that its memory is measured alone: `ADDRESS ORIGIN KEY FOLDER PROOFS`. Its first line
says that the network is no longer needed, its second has the figures.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter
from typing import Final

from aioum.core.merkle import verify_consistency, verify_inclusion
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.errors import ResourceMissing
from aioum.log.files import static_files
from aioum.log.paths import TILE_WIDTH, bundle_path
from aioum.log.static import new_paths
from aioum.log.tiles import MAX_BUNDLE_BYTES, TileReader
from aioum.log.tree import leaf_hash, node_hash

_SEED: Final = 6
_MONTHS: Final = 12


class Host:
    """A static host; counts what it was asked for."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.requests = 0
        self.received_bytes = 0

    async def fetch(self, path: str) -> bytes:
        """The file at a path."""
        connection = HTTPConnection(self._address, timeout=30)
        try:
            connection.request("GET", f"/{path}")
            response = connection.getresponse()
            if response.status != 200:
                raise ResourceMissing(f"{path}: {response.status}")
            data = response.read(MAX_BUNDLE_BYTES + 1)
        finally:
            connection.close()
        self.requests += 1
        self.received_bytes += len(data)
        return data


async def one_proof(address: str, checkpoint: Checkpoint) -> dict[str, float]:
    """What a client pays that proves one entry in the middle of the log and keeps nothing."""
    host = Host(address)
    tiles = TileReader(host.fetch)
    start = perf_counter()
    await prove(tiles, checkpoint, checkpoint.size // 2)
    return {
        "requests": host.requests,
        "receivedBytes": host.received_bytes,
        "seconds": perf_counter() - start,
    }


async def prove(tiles: TileReader, checkpoint: Checkpoint, index: int) -> int:
    """Prove that the entry at index is in the log; give the number of hashes that it took."""
    entry = await tiles.entry(index, checkpoint.size)
    proof = await tiles.inclusion(index, checkpoint.size)
    verify_inclusion(leaf_hash(entry), index, checkpoint.size, proof, checkpoint.root, node_hash)
    return len(proof)


async def prove_months(tiles: TileReader, checkpoint: Checkpoint) -> int:
    """Prove that the log grew from each month to the end; give the most hashes that one of them took."""
    most = 0
    for month in range(1, _MONTHS):
        first = checkpoint.size * month // _MONTHS
        proof = await tiles.consistency(first, checkpoint.size)
        root = await tiles.root(first, checkpoint.size)
        verify_consistency(first, checkpoint.size, root, checkpoint.root, proof, node_hash)
        most = max(most, len(proof))
    return most


async def take_home(address: str, checkpoint: Checkpoint, indexes: Sequence[int], home: Path) -> Host:
    """Copy all tiles of hashes, and the bundles of some entries, into a folder."""
    host = Host(address)
    bundles = {bundle_path(index // TILE_WIDTH, checkpoint.size) for index in indexes}
    for path in new_paths(0, checkpoint.size):
        if path.level is not None or path in bundles:
            file = home / path.text()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(await host.fetch(path.text()))
    return host


def peak_bytes() -> int:
    """The most memory that this program had so far."""
    # Not getrusage, which counts the program that started this one as well.
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1_024
    raise RuntimeError("the system does not say how much memory a program had")


async def main(address: str, origin: str, key_hex: str, folder: str, proofs: str) -> None:
    """Run the client."""
    home = Path(folder)
    note = await Host(address).fetch("checkpoint")
    checkpoint = read_checkpoint(note, origin, bytes.fromhex(key_hex))
    indexes = random.Random(_SEED).choices(range(checkpoint.size), k=int(proofs))  # noqa: S311
    before = peak_bytes()
    alone = await one_proof(address, checkpoint)
    start = perf_counter()
    taken = await take_home(address, checkpoint, indexes, home)
    taken_seconds = perf_counter() - start
    sys.stdout.write("offline\n")
    sys.stdout.flush()
    sys.stdin.readline()

    tiles = TileReader(static_files(home))
    start = perf_counter()
    hashes = [await prove(tiles, checkpoint, index) for index in indexes]
    proven_seconds = perf_counter() - start
    months = await prove_months(tiles, checkpoint)
    figures = {
        "oneProof": alone,
        "copy": {
            "requests": taken.requests,
            "receivedBytes": taken.received_bytes,
            "seconds": taken_seconds,
        },
        "offline": {
            "inclusionProofs": len(hashes),
            "inclusionSeconds": proven_seconds,
            "mostInclusionHashes": max(hashes),
            "mostConsistencyHashes": months,
            "memoryBeforeBytes": before,
            "memoryPeakBytes": peak_bytes(),
        },
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
