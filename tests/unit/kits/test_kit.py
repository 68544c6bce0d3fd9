"""Kits: the manifest accounts for every file, and the digest for every byte."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import InvalidInput
from aioum.kits.archive import read_archive, write_archive
from aioum.kits.kit import pack_kit, read_kit
from aioum.kits.manifest import MANIFEST_PATH, KitManifest
from tests.unit.kits.samples import description, make_kit

CODES = {
    "content-bitflip": "kit-file-mismatch",
    "padding-bitflip": "kit-not-canonical",
    "traversal-name": "kit-path-unsafe",
    "absolute-name": "kit-path-unsafe",
    "symlink-entry": "kit-entry-not-regular",
    "hardlink-entry": "kit-entry-not-regular",
    "directory-entry": "kit-entry-not-regular",
    "mode-bits-changed": "kit-not-canonical",
    "mtime-changed": "kit-not-canonical",
    "checksum-wrong": "kit-archive-malformed",
    "trailing-block": "kit-archive-malformed",
    "one-zero-block": "kit-archive-malformed",
    "truncated": "kit-archive-malformed",
    "not-block-aligned": "kit-archive-malformed",
    "empty": "kit-archive-malformed",
    "padding-nonzero": "kit-not-canonical",
}


@pytest.fixture(scope="module")
def vectors(shared_vectors_dir: Path) -> dict[str, Any]:
    file = shared_vectors_dir / "gaos" / "generated" / "verifier-kit.cases.json"
    vectors: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return vectors


def test_of_the_17_published_cases_the_valid_one_is_accepted_and_16_are_refused(
    vectors: dict[str, Any],
) -> None:
    outcomes: dict[str, str] = {}
    for case in vectors["cases"]:
        try:
            outcomes[case["name"]] = read_kit(base64.b64decode(case["base64"])).digest
        except InvalidInput as error:
            outcomes[case["name"]] = error.code
    assert outcomes == {"valid": vectors["digest"]} | CODES
    print(f"{len(outcomes)} kit cases: 1 accepted, {len(CODES)} refused")


def test_packing_the_files_of_the_published_kit_gives_its_bytes(vectors: dict[str, Any]) -> None:
    archive = base64.b64decode(vectors["cases"][0]["base64"])
    files = {path: content for path, content in read_archive(archive).items() if path != MANIFEST_PATH}
    written = {name: member for name, member in vectors["manifest"].items() if name != "files"}
    assert pack_kit(KitManifest.from_description(written), files).archive == archive


def refused(archive_files: dict[str, bytes]) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_kit(write_archive(archive_files))
    return caught.value.code


def test_a_file_more_or_less_than_listed_is_refused() -> None:
    files = dict(make_kit().files)
    assert refused(files | {"extra.txt": b""}) == "kit-file-mismatch"
    assert refused({path: files[path] for path in files if path != "README.md"}) == "kit-file-mismatch"
    assert refused({path: files[path] for path in files if path != MANIFEST_PATH}) == "kit-manifest-missing"


def test_a_manifest_in_another_spelling_is_refused() -> None:
    files = dict(make_kit().files)
    manifest = json.loads(files[MANIFEST_PATH])
    assert refused(files | {MANIFEST_PATH: files[MANIFEST_PATH] + b"\n"}) == "kit-not-canonical"
    assert refused(files | {MANIFEST_PATH: json.dumps(manifest).encode()}) == "kit-not-canonical"
    manifest["files"].reverse()
    reordered = KitManifest.from_json(manifest).to_bytes()
    assert refused(files | {MANIFEST_PATH: reordered}) == "kit-file-mismatch"


def test_a_kit_without_its_program_is_refused() -> None:
    manifest = KitManifest.from_description(description())
    with pytest.raises(InvalidInput) as caught:
        pack_kit(manifest, {"README.md": b""})
    assert caught.value.code == "kit-entrypoint-missing"


@pytest.mark.parametrize("files", [{}, {MANIFEST_PATH: b"{}", "verifier.wasm": b""}])
def test_packing_writes_the_manifest_itself_and_needs_a_file(files: dict[str, bytes]) -> None:
    with pytest.raises(InvalidInput) as caught:
        pack_kit(KitManifest.from_description(description()), files)
    assert caught.value.code == "kit-manifest-invalid"


IDENTITY = {"id": "a", "version": "1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "gaos.verifier-kit.v2"},
        {"game": {"id": "a"}},
        {"game": IDENTITY | {"name": "a"}},
        {"game": {"id": "", "version": "1"}},
        {"game": {"id": 1, "version": "1"}},
        {"adapter": IDENTITY},
        {"adapter": IDENTITY | {"entrypoint": "verifier.js"}},
        {"adapter": IDENTITY | {"entrypoint": None}},
        {"runtime": {"kind": "python"}},
        {"runtime": {"kind": "wasi-preview1", "nodeRange": ">=20"}},
        {"runtime": {"kind": "node-esm"}},
        {"runtime": {"kind": "node-esm", "gaosVersion": "1", "nodeRange": "1"}},
        {"runtime": None},
        {"replayFormats": []},
        {"replayFormats": ["a", "a"]},
        {"replayFormats": [1]},
        {"replayFormats": "gaos.replay@1.3"},
        {"more": 1},
    ],
)
def test_manifests_that_say_something_else_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        KitManifest.from_description(description(**changes))
    assert caught.value.code == "kit-manifest-invalid"


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "a", "size": 1},
        {"path": "a", "size": True, "digest": "sha256:" + "0" * 64},
        {"path": "a", "size": -1, "digest": "sha256:" + "0" * 64},
        {"path": "a", "size": 1.5, "digest": "sha256:" + "0" * 64},
        {"path": "a", "size": 1, "digest": "sha256:" + "A" * 64},
        {"path": "a", "size": 1, "digest": "0" * 64},
        {"path": 1, "size": 1, "digest": "sha256:" + "0" * 64},
    ],
)
def test_malformed_entries_of_files_are_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        KitManifest.from_json({**description(), "files": [entry]})
    assert caught.value.code == "kit-manifest-invalid"


def test_a_listed_path_is_held_to_the_rules_of_paths() -> None:
    with pytest.raises(InvalidInput) as caught:
        KitManifest.from_json(
            {**description(), "files": [{"path": "../a", "size": 1, "digest": "sha256:" + "0" * 64}]}
        )
    assert caught.value.code == "kit-path-unsafe"


def test_the_bytes_of_a_kit_are_not_in_its_repr() -> None:
    assert len(repr(make_kit(program=bytes(10_000)))) < 2_000
