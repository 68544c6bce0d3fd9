"""Writing an artifact: one canonical line per object, the header first (SUBMISSIONS 1.6)."""

from __future__ import annotations

from collections.abc import Iterable

from aioum.core.submission.canonical import canonical_json
from aioum.replay.limits import DEFAULT_LIMITS, Limits
from aioum.replay.model import Artifact, JsonObject
from aioum.replay.reading import read_artifact


def write_artifact(artifact: Artifact) -> bytes:
    """The canonical bytes: a line per object, each with its LF. The version stays what it was.

    Reading them gives an equal artifact, and reading canonical bytes and writing them gives the same bytes.
    """
    return _lines(artifact.header.json, (line.json for line in artifact.lines))


def build_artifact(
    header: JsonObject, lines: Iterable[JsonObject], *, limits: Limits = DEFAULT_LIMITS
) -> Artifact:
    """A checked artifact from the JSON objects of its lines, as `write_artifact` takes it.

    Args:
        header: the first line. New artifacts declare version 1.3 (`WRITTEN_VERSION`).
        lines: what follows, numbered from 0.
        limits: most of what readers accept by default.

    Raises:
        ArtifactInvalid: the objects are no valid artifact.
        CanonicalError: some value has no canonical form.
    """
    return read_artifact(_lines(header, lines), limits=limits, refuse_duplicate_keys=True)


def _lines(header: JsonObject, lines: Iterable[JsonObject]) -> bytes:
    return b"".join(canonical_json(value) + b"\n" for value in (header, *lines))
