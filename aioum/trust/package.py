"""A bundle as files: an exact set of them with canonical bytes, and the digest over all (SUBMISSIONS 3.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.replay import fields
from aioum.trust.bundle import (
    BUNDLE_CODE,
    SCHEMA,
    Bundle,
    Episode,
    Submitter,
    digest_hex,
    read_scores,
)
from aioum.trust.manifest import MAX_EPISODES, MAX_MANIFEST_BYTES, Manifest, percent_encoded
from aioum.trust.reading import items, placed
from aioum.trust.submission_facts import NOTHING_OBSERVED

MIB: Final = 1024 * 1024
MAX_DOCUMENT_BYTES: Final = 16 * MIB
"""Most bytes of submission.json, and of scores.json."""

MAX_REPLAY_BYTES: Final = 64 * MIB
MAX_PACKAGE_BYTES: Final = 512 * MIB
"""Most bytes of all files together. Judging takes a multiple of the largest replay in memory beside them."""

MANIFEST: Final = "manifest.json"
SUBMISSION: Final = "submission.json"
SCORES: Final = "scores.json"
VERIFICATION: Final = "verification.json"
README: Final = "README.md"
EPISODES: Final = "episodes"
DOCUMENTS: Final = (MANIFEST, SUBMISSION, SCORES, VERIFICATION, README)
MAX_FILES: Final = MAX_EPISODES + len(DOCUMENTS)

_NOT_CANONICAL: Final = "bundle-not-canonical"
_FILE_SET: Final = "bundle-file-set"
_NO_DIGEST: Final = "0" * 64
_PUBLIC_README: Final = "8ace68b3884e8a7a0eb0167c0df987d5eb3429596b9e07eaa4d6b60699412183"
"""SHA-256 of the public system's README.md, its content digest replaced by zeros."""

_SUBMISSION_DIGESTS: Final = frozenset({"schema", "contentDigest", "manifestDigest"})


@dataclass(frozen=True, slots=True)
class Package:
    """A bundle that was read from files.

    Attributes:
        digest_hex: hex SHA-256 over paths and contents: what a publication names the submission by.
    """

    bundle: Bundle
    digest_hex: str


def episode_path(episode_id: str) -> str:
    """The path of an episode's file."""
    return f"{EPISODES}/{percent_encoded(episode_id)}.gaos-replay.jsonl"


def package_digest(files: Mapping[str, bytes]) -> str:
    """Hex SHA-256 over the files: of each path, in order, the path, its size in bytes and its content."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path}\0{len(files[path])}\0".encode())
        digest.update(files[path])
    return digest.hexdigest()


def bundle_files(bundle: Bundle, readme: bytes | None = None) -> dict[str, bytes]:
    """The files of a bundle, by path.

    Args:
        bundle: of which two episodes with one id leave one file.
        readme: the text for people; None for aioum's own.
    """
    scores: list[JsonValue] = [
        episode.entry() | {"replayEncoding": episode.replay.encoding} for episode in bundle.episodes
    ]
    submission = bundle.submitter.to_json() | {
        "schema": SCHEMA,
        "contentDigest": bundle.content_digest,
        "manifestDigest": bundle.manifest_digest,
    }
    files = {
        MANIFEST: _line(bundle.manifest.to_json()),
        SUBMISSION: _line(submission),
        SCORES: _line({"aggregate": bundle.scores, "episodes": scores}),
        VERIFICATION: _line(NOTHING_OBSERVED.to_json()),
        README: _readme(bundle.content_digest) if readme is None else readme,
    }
    return files | {episode_path(each.id): each.replay.data for each in bundle.episodes}


def read_package(files: Mapping[str, bytes]) -> Package:
    """Read a bundle from its files: just these, with just these bytes.

    Args:
        files: by path, with `/` between folders.

    Raises:
        InvalidInput: `bundle-file-set`; `bundle-not-canonical`; `bundle-too-large`; `bundle-invalid`;
            `manifest-invalid`; `submitter-facts`, where `verification.json` says anything; or a code of
            `parse_json`.
    """
    if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_PACKAGE_BYTES:
        raise InvalidInput(
            f"at most {MAX_FILES} files of {MAX_PACKAGE_BYTES} bytes together are read",
            code="bundle-too-large",
        )
    missing = [name for name in DOCUMENTS if name not in files]
    if missing:
        raise InvalidInput(f"the bundle lacks {missing[0]}", code=_FILE_SET)
    manifest = Manifest.from_json(_document(files, MANIFEST, MAX_MANIFEST_BYTES))
    submission = _members(files, SUBMISSION)
    with placed(SUBMISSION, BUNDLE_CODE):
        fields.one_of(submission, "schema", (SCHEMA,), BUNDLE_CODE)
        content_digest, manifest_digest = (
            digest_hex(submission, name) for name in ("contentDigest", "manifestDigest")
        )
    names = {name: value for name, value in submission.items() if name not in _SUBMISSION_DIGESTS}
    episodes, scores = _scores(files)
    if files[VERIFICATION] != _line(NOTHING_OBSERVED.to_json()):
        raise InvalidInput(
            f"{VERIFICATION} must say that nothing was observed: a submitter's facts count for nothing",
            code="submitter-facts",
        )
    _require_readme(files[README], content_digest)
    bundle = Bundle(manifest, manifest_digest, Submitter.from_json(names), episodes, scores, content_digest)
    return Package(bundle, package_digest(files))


def _scores(files: Mapping[str, bytes]) -> tuple[tuple[Episode, ...], dict[str, JsonValue]]:
    document = _members(files, SCORES)
    with placed(SCORES, BUNDLE_CODE):
        required = frozenset({"aggregate", "episodes"})
        scores = read_scores(fields.members(document, required, required), "aggregate")
        entries = items(document["episodes"], "episodes", _entry, most=MAX_EPISODES, code=BUNDLE_CODE)
    _require_files(files, [path for path, _, _ in entries])
    replays = [_replay(path, files[path], encoding) for path, encoding, _ in entries]
    with placed(SCORES, BUNDLE_CODE):
        return tuple(
            Episode.of_entry(entry, replay) for (_, _, entry), replay in zip(entries, replays, strict=True)
        ), scores


def _entry(value: Any) -> tuple[str, str, dict[str, JsonValue]]:
    """An episode's path, its replay's encoding, and its other members."""
    entry = fields.optional_object({"entry": value}, "entry") or {}
    encoding = fields.one_of(entry, "replayEncoding", ("json", "jsonl"), BUNDLE_CODE)
    others = {name: member for name, member in entry.items() if name != "replayEncoding"}
    return episode_path(fields.text(entry, "id")), encoding, others


def _replay(path: str, data: bytes, encoding: str) -> JsonValue:
    if len(data) > MAX_REPLAY_BYTES:
        raise InvalidInput(f"{path} has over {MAX_REPLAY_BYTES} bytes", code="bundle-too-large")
    if encoding == "json":
        value = parse_json(data, max_bytes=MAX_REPLAY_BYTES)
        if not isinstance(value, str) and _line(value) == data:
            return value
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path} is not UTF-8", code=_NOT_CANONICAL) from error
        if text.endswith("\n") and not text.endswith("\n\n"):
            return text
    raise InvalidInput(f"{path} has not its canonical bytes", code=_NOT_CANONICAL)


def _require_files(files: Mapping[str, bytes], episodes: list[str]) -> None:
    if len(set(episodes)) != len(episodes):
        raise InvalidInput("two episodes have one id, and so one file", code=_FILE_SET)
    expected = {*DOCUMENTS, *episodes}
    for what, paths in (("lacks", expected - files.keys()), ("has too much", files.keys() - expected)):
        if paths:
            raise InvalidInput(f"the bundle {what}: {min(paths)!r:.300}", code=_FILE_SET)


def _members(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    document = _document(files, name, MAX_DOCUMENT_BYTES)
    if not isinstance(document, dict):
        raise InvalidInput(f"{name} must hold an object", code=BUNDLE_CODE)
    return document


def _document(files: Mapping[str, bytes], name: str, max_bytes: int) -> JsonValue:
    value = parse_json(files[name], max_bytes=max_bytes)
    try:
        if _line(value) == files[name]:
            return value
    except CanonicalError as error:
        raise InvalidInput(f"{name}: {error}", code=_NOT_CANONICAL) from error
    raise InvalidInput(f"{name} has not its canonical bytes", code=_NOT_CANONICAL)


def _line(value: JsonValue) -> bytes:
    return canonical_json(value) + b"\n"


def _require_readme(readme: bytes, content_digest: str) -> None:
    # Free text beside a score would be the one place where a submitter could speak as if verified.
    blank = readme.replace(content_digest.encode(), _NO_DIGEST.encode())
    if readme != _readme(content_digest) and hashlib.sha256(blank).hexdigest() != _PUBLIC_README:
        raise InvalidInput(f"{README} has not its canonical bytes", code=_NOT_CANONICAL)


def _readme(content_digest: str) -> bytes:
    return (
        "# Submission to a published comparison\n\n"
        f"Content digest: `{content_digest}`\n\n"
        "Nothing in this folder is verified by being here. Judge it with the organizer's manifest:\n\n"
        "    aioum bundle verify . --manifest manifest-of-the-organizer.json\n"
    ).encode()
