"""A kit's manifest `gaos.verifier-kit.v1`: whose verifier it is, how it runs, and what it consists of."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue, parse_json
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.kits.archive import require_safe_path

MANIFEST_SCHEMA: Final = "gaos.verifier-kit.v1"
MANIFEST_PATH: Final = "verifier-manifest.json"
MAX_MANIFEST_BYTES: Final = 1_048_576
MAX_TEXT_CHARACTERS: Final = 1_024
MAX_REPLAY_FORMATS: Final = 64

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")

RuntimeKind = Literal["node-esm", "wasi-preview1"]
"""`node-esm` is the public system's: a module for Node. `wasi-preview1` is ours: a WebAssembly program."""

_NODE_ENTRYPOINT: Final = "adapter.bundle.mjs"


@dataclass(frozen=True, slots=True)
class Identity:
    """The id and version of a game, or of an adapter."""

    id: str
    version: str

    @classmethod
    def from_json(cls, value: JsonValue, what: str) -> Identity:
        """Read exactly `id` and `version`. Raises InvalidInput `kit-manifest-invalid`."""
        members = _members(value, {"id", "version"}, what)
        return cls(_text(members["id"], f"{what}.id"), _text(members["version"], f"{what}.version"))


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a kit runs in.

    Attributes:
        kind: the runtime.
        gaos_version: of `node-esm` alone.
        node_range: of `node-esm` alone.
    """

    kind: RuntimeKind
    gaos_version: str | None = None
    node_range: str | None = None

    @classmethod
    def from_json(cls, value: JsonValue) -> Runtime:
        """Read a runtime with exactly the members of its kind. Raises InvalidInput `kit-manifest-invalid`."""
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind == "wasi-preview1":
            _members(value, {"kind"}, "runtime")
            return cls("wasi-preview1")
        if kind == "node-esm":
            members = _members(value, {"kind", "gaosVersion", "nodeRange"}, "runtime")
            return cls(
                "node-esm",
                _text(members["gaosVersion"], "runtime.gaosVersion"),
                _text(members["nodeRange"], "runtime.nodeRange"),
            )
        raise _invalid(f"runtime.kind is {kind!r:.80}, expected node-esm or wasi-preview1")

    def to_json(self) -> dict[str, JsonValue]:
        """The members of its kind."""
        if self.kind == "wasi-preview1":
            return {"kind": self.kind}
        return {"kind": self.kind, "gaosVersion": self.gaos_version, "nodeRange": self.node_range}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a kit as its manifest lists it; the digest is `sha256:…` text."""

    path: str
    size_bytes: int
    digest: str

    @classmethod
    def from_json(cls, value: JsonValue) -> FileEntry:
        """Read exactly `path`, `size` and `digest`. Raises InvalidInput."""
        members = _members(value, {"path", "size", "digest"}, "an entry of files")
        path, size, digest = members["path"], members["size"], members["digest"]
        if not isinstance(path, str):
            raise _invalid("a path is not text")
        require_safe_path(path)
        if type(size) is not int or not 0 <= size <= MAX_SAFE_INTEGER:
            raise _invalid(f"the size of {path!r} is no whole number")
        return cls(path, size, require_digest(digest, code="kit-manifest-invalid"))


@dataclass(frozen=True, slots=True)
class KitManifest:
    """What a kit says of itself.

    Attributes:
        game: whose sessions it judges; for a paid session the service.
        adapter: the verifier's own name.
        entrypoint: path of the program.
        runtime: how it runs.
        replay_formats: such as `gaos.replay@1.3`, unique.
        files: every file but the manifest, by path.
    """

    game: Identity
    adapter: Identity
    entrypoint: str
    runtime: Runtime
    replay_formats: tuple[str, ...]
    files: tuple[FileEntry, ...] = ()

    @classmethod
    def from_json(cls, value: JsonValue) -> KitManifest:
        """Read a manifest; unknown members are refused.

        Raises:
            InvalidInput: `kit-manifest-invalid` or `kit-path-unsafe`.
        """
        members = _members(
            value, {"schema", "game", "adapter", "runtime", "replayFormats", "files"}, "the manifest"
        )
        files = members["files"]
        if not isinstance(files, list) or not files:
            raise _invalid("files is not a list of at least one file")
        head = cls.from_description({name: members[name] for name in members.keys() - {"files"}})
        return replace(head, files=tuple(map(FileEntry.from_json, files)))

    @classmethod
    def from_description(cls, value: JsonValue) -> KitManifest:
        """Read what the author of a kit writes: a manifest without `files`, which packing adds.

        Raises:
            InvalidInput: `kit-manifest-invalid` or `kit-path-unsafe`.
        """
        members = _members(value, {"schema", "game", "adapter", "runtime", "replayFormats"}, "the manifest")
        if members["schema"] != MANIFEST_SCHEMA:
            raise _invalid(f"the schema is {members['schema']!r:.80}, expected {MANIFEST_SCHEMA}")
        adapter = _members(members["adapter"], {"id", "version", "entrypoint"}, "adapter")
        entrypoint = _text(adapter["entrypoint"], "adapter.entrypoint")
        require_safe_path(entrypoint)
        runtime = Runtime.from_json(members["runtime"])
        if runtime.kind == "node-esm" and entrypoint != _NODE_ENTRYPOINT:
            raise _invalid(f"the entrypoint of node-esm is {_NODE_ENTRYPOINT}, not {entrypoint!r}")
        if runtime.kind == "wasi-preview1" and not entrypoint.endswith(".wasm"):
            raise _invalid(f"the entrypoint of wasi-preview1 is a .wasm file, not {entrypoint!r}")
        return cls(
            game=Identity.from_json(members["game"], "game"),
            adapter=Identity.from_json(
                {name: adapter[name] for name in adapter.keys() - {"entrypoint"}}, "adapter"
            ),
            entrypoint=entrypoint,
            runtime=runtime,
            replay_formats=_formats(members["replayFormats"]),
        )

    def to_json(self) -> dict[str, JsonValue]:
        """The manifest's members."""
        return {
            "schema": MANIFEST_SCHEMA,
            "game": {"id": self.game.id, "version": self.game.version},
            "adapter": {
                "id": self.adapter.id,
                "version": self.adapter.version,
                "entrypoint": self.entrypoint,
            },
            "runtime": self.runtime.to_json(),
            "replayFormats": list(self.replay_formats),
            "files": [
                {"path": file.path, "size": file.size_bytes, "digest": file.digest} for file in self.files
            ],
        }

    def to_bytes(self) -> bytes:
        """Canonical JSON and a line feed, as it lies in the archive."""
        return canonical_json(self.to_json()) + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> KitManifest:
        """Read the file of an archive.

        Raises:
            InvalidInput: `kit-manifest-invalid`, `kit-path-unsafe`, or `kit-not-canonical` where the same
                manifest is written as other bytes.
        """
        try:
            value = parse_json(data, max_bytes=MAX_MANIFEST_BYTES)
        except AioumError as error:
            raise _invalid(str(error)) from error
        manifest = cls.from_json(value)
        if manifest.to_bytes() != data:
            raise InvalidInput("the manifest is not canonical JSON and a line feed", code="kit-not-canonical")
        return manifest


def require_digest(value: JsonValue, *, code: str) -> str:
    """Read `sha256:` and 64 lower-case hex digits. Raises InvalidInput with `code`."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise InvalidInput(f"expected sha256: and 64 lower-case hex digits, got {value!r:.100}", code=code)
    return value


def _formats(value: JsonValue) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_REPLAY_FORMATS:
        raise _invalid(f"replayFormats is not a list of 1 to {MAX_REPLAY_FORMATS} texts")
    formats = tuple(_text(item, "a replay format") for item in value)
    if len(set(formats)) != len(formats):
        raise _invalid("a replay format occurs twice")
    return formats


def _members(value: JsonValue, names: set[str], what: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict) or value.keys() != names:
        raise _invalid(f"{what} must have exactly the members {', '.join(sorted(names))}")
    return value


def _text(value: JsonValue, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT_CHARACTERS:
        raise _invalid(f"{what} is not a text of 1 to {MAX_TEXT_CHARACTERS} characters")
    return value


def _invalid(why: str) -> InvalidInput:
    return InvalidInput(f"not a kit's manifest: {why}", code="kit-manifest-invalid")
