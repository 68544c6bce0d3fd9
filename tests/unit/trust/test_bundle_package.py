"""Submissions as files: an exact set with canonical bytes, or they are no submission."""

import json
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.errors import InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.trust import package
from aioum.trust.bundle import Bundle, Replay
from aioum.trust.package import bundle_files, package_digest, read_package
from tests.unit.trust.comparisons import packed

BUNDLE = packed()
FILES = bundle_files(BUNDLE)
EPISODE = "episodes/count-seed-7-episode-0.gaos-replay.jsonl"


def refused(changes: dict[str, bytes | None]) -> str:
    files = {path: data for path, data in (FILES | changes).items() if data is not None}
    with pytest.raises(InvalidInput) as refusal:
        read_package(files)
    return refusal.value.code


def edited(path: str, edit: Any) -> dict[str, bytes | None]:
    value = json.loads(FILES[path])
    edit(value)
    return {path: canonical_json(value) + b"\n"}


def test_a_submission_is_read_from_its_files_as_it_was_written() -> None:
    found = read_package(FILES)

    assert found.bundle == BUNDLE
    assert found.digest_hex == package_digest(FILES)
    assert bundle_files(found.bundle) == FILES


def test_the_digest_covers_paths_sizes_and_contents() -> None:
    digests = {
        package_digest(files)
        for files in ({}, {"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {"a": b"bc", "d": b""})
    }
    assert len(digests) == 5


@pytest.mark.parametrize("path", [*package.DOCUMENTS, EPISODE])
def test_every_file_must_be_there(path: str) -> None:
    assert refused({path: None}) == "bundle-file-set"


@pytest.mark.parametrize(
    "path", ["notes.txt", ".hidden", "episodes/extra.gaos-replay.jsonl", "episodes/a/b", "../x", "episodes"]
)
def test_no_other_file_may_be_there(path: str) -> None:
    assert refused({path: b""}) == "bundle-file-set"


@pytest.mark.parametrize("path", ["manifest.json", "submission.json", "scores.json"])
def test_documents_must_have_their_canonical_bytes(path: str) -> None:
    pretty = json.dumps(json.loads(FILES[path]), indent=1).encode()

    assert refused({path: pretty}) == "bundle-not-canonical"
    assert refused({path: FILES[path].rstrip(b"\n")}) == "bundle-not-canonical"
    assert refused({path: FILES[path] + b"\n"}) == "bundle-not-canonical"
    assert refused({path: b"{}"[:1]}) == "json-syntax"


def test_a_number_that_readers_would_round_differently_is_refused() -> None:
    unsafe = FILES["scores.json"].replace(b'"score":2', b'"score":1e20')
    assert refused({"scores.json": unsafe}) == "bundle-not-canonical"


@pytest.mark.parametrize("tail", [b"", b"\n\n"])
def test_replays_end_with_one_line_feed(tail: bytes) -> None:
    assert refused({EPISODE: FILES[EPISODE].rstrip(b"\n") + tail}) == "bundle-not-canonical"


def test_replays_that_are_no_text_are_refused() -> None:
    assert refused({EPISODE: b"\xff\n"}) == "bundle-not-canonical"


def test_replays_of_one_json_value_are_canonical_too() -> None:
    episodes = (replace(BUNDLE.episodes[0], replay=Replay({"b": 1, "a": 2})), *BUNDLE.episodes[1:])
    files = bundle_files(replace(BUNDLE, episodes=episodes))

    assert files[EPISODE] == b'{"a":2,"b":1}\n'
    assert read_package(files).bundle.episodes == episodes
    for spelled in (b'{"a":2, "b":1}\n', b'{"a":2,"b":1}', b'"text"\n'):
        with pytest.raises(InvalidInput) as refusal:
            read_package(files | {EPISODE: spelled})
        assert refusal.value.code == "bundle-not-canonical"


def test_a_submitter_who_says_anything_of_verification_is_refused() -> None:
    boast = edited("verification.json", lambda facts: facts.update(replay="verified"))
    assert refused(boast) == "submitter-facts"


def test_the_readme_says_nothing_of_the_submitters_own() -> None:
    assert refused({"README.md": FILES["README.md"] + b"Verified!\n"}) == "bundle-not-canonical"


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        ("submission.json", lambda value: value.update(schema="gaos.benchmark-bundle.v2")),
        ("submission.json", lambda value: value.update(contentDigest="00")),
        ("submission.json", lambda value: value.update(agentKind="human")),
        ("submission.json", lambda value: value.update(more=1)),
        ("submission.json", lambda value: value.update(attestations=[{}])),
        ("submission.json", lambda value: value.pop("agentId")),
        ("scores.json", lambda value: value.update(more=1)),
        ("scores.json", lambda value: value.update(aggregate=1)),
        ("scores.json", lambda value: value["episodes"][0].update(more=1)),
        ("scores.json", lambda value: value["episodes"][0].update(score="2")),
        ("scores.json", lambda value: value["episodes"][0].update(score=True)),
        ("scores.json", lambda value: value["episodes"][0].update(replayEncoding="xml")),
        ("scores.json", lambda value: value["episodes"][0].update(replayDigest="AB" * 32)),
        ("scores.json", lambda value: value["episodes"][0]["plan"].update(more=1)),
        ("scores.json", lambda value: value["episodes"][0].update(selfReportedObservations={})),
        (
            "scores.json",
            lambda value: value["episodes"][0].update(selfReportedObservations={"steps": 1, "cost": -1}),
        ),
    ],
)
def test_documents_with_other_members_are_refused(path: str, edit: Any) -> None:
    assert refused(edited(path, edit)) == "bundle-invalid"


def test_two_episodes_with_one_file_are_refused() -> None:
    repeat = edited("scores.json", lambda value: value["episodes"].append(value["episodes"][0]))
    assert refused(repeat) == "bundle-file-set"


def test_a_document_that_is_no_object_is_refused() -> None:
    assert refused({"scores.json": b"[]\n"}) == "bundle-invalid"


def test_too_much_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MAX_PACKAGE_BYTES", sum(map(len, FILES.values())) - 1)
    assert refused({}) == "bundle-too-large"


def test_a_replay_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MAX_REPLAY_BYTES", len(FILES[EPISODE]) - 1)
    assert refused({}) == "bundle-too-large"


def test_a_bundle_in_one_piece_has_exactly_its_members() -> None:
    value: dict[str, Any] = BUNDLE.to_json()
    changes: list[dict[str, Any]] = [
        {"more": 1},
        {"schema": "other"},
        {"scores": []},
        {"episodes": {}},
        {"contentDigest": "x"},
        {"scores": {"aggregateScore": float("nan")}},
    ]

    assert Bundle.from_json(value) == BUNDLE
    for change in changes:
        with pytest.raises(InvalidInput) as refusal:
            Bundle.from_json(value | change)
        assert refusal.value.code == "bundle-invalid"
