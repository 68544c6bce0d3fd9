"""The CIDs computed here are those that the importer of js-ipfs gives the same bytes."""

import hashlib
import json
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.client.publication.cid import DAG_PB, RAW, Cid
from aioum.client.publication.unixfs import PUBLISHED, Layout, file_cid, is_content_of
from tests.tools import missing

CHUNK = PUBLISHED.chunk_bytes
FULL_NODE = PUBLISHED.max_links * CHUNK

EDGES = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5_000_003, FULL_NODE - 1, FULL_NODE, FULL_NODE + 1)
KUBO_DEFAULT = Layout(raw_leaves=False, version=0)
PROFILE_2025 = Layout(chunk_bytes=1_048_576, max_links=1_024)
TINY = [
    Layout(chunk_bytes=7, max_links=3, raw_leaves=raw_leaves, version=version)
    for raw_leaves in (True, False)
    for version in (0, 1)
    # The importer gives raw leaves a version 1 root whatever it is asked for.
    if (raw_leaves, version) != (True, 0)
]


def content(size_bytes: int) -> bytes:
    """Bytes that differ from chunk to chunk, the same in every run."""
    return random.Random(size_bytes).randbytes(size_bytes)


def importer_cids(cases: list[tuple[int, Layout]], repository: Path, folder: Path) -> list[str]:
    """What ipfs-unixfs-importer says of files of these sizes."""
    node = shutil.which("node")
    if node is None:
        missing("Node.js is not installed")
    for package in ("ipfs-unixfs-importer", "blockstore-core"):
        if not (repository / "node_modules" / package).is_dir():
            missing(f"{package} is not in node_modules; scripts/setup installs it")
    jobs = []
    for size_bytes, layout in cases:
        file = folder / str(size_bytes)
        if not file.exists():
            file.write_bytes(content(size_bytes))
        jobs.append(
            {
                "file": str(file),
                "chunkBytes": layout.chunk_bytes,
                "maxLinks": layout.max_links,
                "rawLeaves": layout.raw_leaves,
                "version": layout.version,
            }
        )
    done = subprocess.run(
        [node, str(Path(__file__).with_name("importer_cids.mjs"))],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_published_cids_are_the_importer_s_at_every_edge_of_chunks_and_nodes(
    repository: Path, tmp_path: Path
) -> None:
    expected = importer_cids([(size, PUBLISHED) for size in EDGES], repository, tmp_path)
    assert [str(file_cid(content(size))) for size in EDGES] == expected
    assert len(set(expected)) == len(EDGES)


def test_other_layouts_and_deeper_trees_are_the_importer_s_too(repository: Path, tmp_path: Path) -> None:
    cases = [(size, layout) for layout in TINY for size in (0, 1, 7, 8, 21, 22, 63, 64, 189, 190, 1_000)]
    cases += [(size, KUBO_DEFAULT) for size in (0, 1, CHUNK, CHUNK + 1, 5_000_003)]
    cases += [(size, PROFILE_2025) for size in (1, 1_048_576, 1_048_577, 5_000_003)]
    expected = importer_cids(cases, repository, tmp_path)
    assert [str(file_cid(content(size), layout)) for size, layout in cases] == expected


@pytest.mark.parametrize(
    "data, layout, cid",
    [
        (b"", PUBLISHED, "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"),
        (b"", KUBO_DEFAULT, "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH"),
        (b"hello\n", PUBLISHED, "bafkreicysg23kiwv34eg2d7qweipxwosdo2py4ldv42nbauguluen5v6am"),
        (b"hello\n", KUBO_DEFAULT, "QmZULkCELmmk5XNfCgTnCyFgAVxBRBXyDHGGMVoLFLiXEN"),
        (b"hello world", KUBO_DEFAULT, "Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD"),
    ],
)
def test_well_known_files_have_their_well_known_cids(data: bytes, layout: Layout, cid: str) -> None:
    assert str(file_cid(data, layout)) == cid


@pytest.mark.parametrize("size_bytes", [0, 1, CHUNK, CHUNK + 1, 3_000_000])
@pytest.mark.parametrize(
    "layout", [PUBLISHED, KUBO_DEFAULT, replace(KUBO_DEFAULT, version=1), replace(PROFILE_2025)]
)
def test_bytes_are_recognized_under_the_cid_of_each_layout_in_use(size_bytes: int, layout: Layout) -> None:
    data = content(size_bytes)
    cid = file_cid(data, layout)
    assert is_content_of(data, cid)
    assert not is_content_of(data + b"\0", cid)
    if data:
        assert not is_content_of(data[:-1], cid)
        assert not is_content_of(data[:-1] + bytes((data[-1] ^ 1,)), cid)


def test_a_raw_cid_is_the_hash_of_one_block_of_any_size() -> None:
    data = content(CHUNK + 1)
    assert is_content_of(data, Cid(1, RAW, hashlib.sha256(data).digest()))


def test_a_cid_made_in_a_layout_that_nobody_uses_is_not_recognized() -> None:
    data = content(1_000)
    assert not is_content_of(data, file_cid(data, Layout(chunk_bytes=100)))
    assert not is_content_of(data, Cid(1, DAG_PB, hashlib.sha256(data).digest()))
