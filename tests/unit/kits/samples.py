"""Kits, artifacts and sandboxes for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from aioum.core.canonical import JsonValue
from aioum.core.submission.canonical import canonical_json
from aioum.kits.execution import RunLimits, RunnerUnavailable, RunResult
from aioum.kits.kit import Kit, pack_kit
from aioum.kits.manifest import KitManifest
from aioum.kits.reference import KitReference

GAME: JsonValue = {"id": "creator/demo", "version": "1.0.0"}


def description(kind: str = "wasi-preview1", **changes: JsonValue) -> dict[str, JsonValue]:
    """A manifest without its files."""
    node = kind == "node-esm"
    runtime: dict[str, JsonValue] = {"kind": kind}
    if node:
        runtime |= {"gaosVersion": "1.0.0", "nodeRange": ">=20.3"}
    return {
        "schema": "gaos.verifier-kit.v1",
        "game": GAME,
        "adapter": {
            "id": "creator/demo",
            "version": "1.0.0",
            "entrypoint": "adapter.bundle.mjs" if node else "verifier.wasm",
        },
        "runtime": runtime,
        "replayFormats": ["gaos.replay@1.3"],
        **changes,
    }


def make_kit(kind: str = "wasi-preview1", program: bytes = b"\0asm", **more: bytes) -> Kit:
    """A kit with one program and a page about it."""
    manifest = KitManifest.from_description(description(kind))
    return pack_kit(manifest, {manifest.entrypoint: program, "README.md": b"for tests\n", **more})


def reference_to(kit: Kit, *mirrors: str) -> KitReference:
    """A reference as an artifact's header carries it."""
    return KitReference(kit.digest, len(kit.archive), mirrors)


def make_artifact(reference: KitReference | None = None, **changes: JsonValue) -> bytes:
    """An artifact's header line, with as much as concerns kits, and one line more."""
    header: dict[str, JsonValue] = {
        "kind": "header",
        "format": "gaos.replay",
        "formatVersion": "1.3",
        "game": {
            "id": "creator/demo",
            "version": "1.0.0",
            "adapter": {"id": "creator/demo", "version": "1.0.0"},
        },
        **changes,
    }
    if reference is not None:
        header["extensions"] = {"gaos.verifier": reference.to_json()}
    return canonical_json(header) + b'\n{"kind":"action","n":0}\n'


def response(verdict: str = "trusted", *diagnostics: str) -> bytes:
    """What a kit prints."""
    return canonical_json(
        {"schema": "gaos.verifier-response.v1", "verdict": verdict, "diagnostics": list(diagnostics)}
    )


@dataclass
class ScriptedRunner:
    """A sandbox that runs nothing and answers as told.

    Attributes:
        answer: the result, or what it raises.
        seen: request and artifact of each run.
    """

    answer: RunResult | RunnerUnavailable
    runtime_kinds: frozenset[str] = frozenset({"wasi-preview1"})
    seen: list[tuple[bytes, bytes]] = field(default_factory=list)

    def run(self, kit: Kit, request: bytes, artifact: bytes, limits: RunLimits) -> RunResult:
        """Answer as told."""
        self.seen.append((request, artifact))
        if isinstance(self.answer, RunnerUnavailable):
            raise self.answer
        return self.answer
