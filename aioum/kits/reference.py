"""What an artifact says about its verifier: `extensions["gaos.verifier"]` of its header.

A reference is a hint where bytes may be found. It authorizes nothing: that is for the caller's own list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.kits.archive import MAX_ARCHIVE_BYTES
from aioum.kits.manifest import Identity, KitManifest, require_digest

REFERENCE_SCHEMA: Final = "gaos.verifier-reference.v1"
MEDIA_TYPE: Final = "application/vnd.gaos.verifier-kit.v1+tar"
EXTENSION: Final = "gaos.verifier"
MAX_MIRRORS: Final = 16
MAX_MIRROR_CHARACTERS: Final = 2_048
MAX_HEADER_BYTES: Final = 16_777_216

_CODE: Final = "kit-reference-invalid"


@dataclass(frozen=True, slots=True)
class KitReference:
    """Names a kit and where it may lie.

    Attributes:
        digest: `sha256:…` of the archive.
        size_bytes: of the archive.
        mirrors: where it may be had; not read before something is fetched.
    """

    digest: str
    size_bytes: int
    mirrors: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: JsonValue) -> KitReference:
        """Read exactly the members of a reference.

        Raises:
            InvalidInput: `kit-reference-invalid`.
        """
        if not isinstance(value, dict) or value.keys() != {
            "schema",
            "digest",
            "mediaType",
            "size",
            "mirrors",
        }:
            raise _invalid("expected exactly the members schema, digest, mediaType, size and mirrors")
        if value["schema"] != REFERENCE_SCHEMA or value["mediaType"] != MEDIA_TYPE:
            raise _invalid(f"expected the schema {REFERENCE_SCHEMA} and the media type {MEDIA_TYPE}")
        size, mirrors = value["size"], value["mirrors"]
        if type(size) is not int or not 0 <= size <= MAX_ARCHIVE_BYTES:
            raise _invalid(f"the size is not a whole number of at most {MAX_ARCHIVE_BYTES} bytes")
        if not isinstance(mirrors, list) or len(mirrors) > MAX_MIRRORS:
            raise _invalid(f"mirrors is not a list of at most {MAX_MIRRORS} addresses")
        places: list[str] = []
        for mirror in mirrors:
            if not isinstance(mirror, str) or not 0 < len(mirror) <= MAX_MIRROR_CHARACTERS:
                raise _invalid(f"a mirror is not a text of at most {MAX_MIRROR_CHARACTERS} characters")
            places.append(mirror)
        return cls(require_digest(value["digest"], code=_CODE), size, tuple(places))

    def to_json(self) -> dict[str, JsonValue]:
        """The members of a reference."""
        return {
            "schema": REFERENCE_SCHEMA,
            "digest": self.digest,
            "mediaType": MEDIA_TYPE,
            "size": self.size_bytes,
            "mirrors": list(self.mirrors),
        }


@dataclass(frozen=True, slots=True)
class ArtifactSubject:
    """What a `gaos.replay` artifact says it is, unverified.

    Attributes:
        game: the game, or the service of a paid session.
        adapter: the verifier's own name.
        replay_format: such as `gaos.replay@1.3`.
        reference: its kit, or None.
    """

    game: Identity
    adapter: Identity
    replay_format: str
    reference: KitReference | None

    def require_kit(self, manifest: KitManifest) -> None:
        """Refuse a kit that was made for something else.

        Raises:
            InvalidInput: `kit-for-another-game`, `kit-for-another-adapter`, `kit-format-unsupported`.
        """
        if manifest.game != self.game:
            raise InvalidInput(
                f"the kit judges {manifest.game.id!r:.80} {manifest.game.version!r:.40}",
                code="kit-for-another-game",
            )
        if manifest.adapter != self.adapter:
            raise InvalidInput(
                f"the kit is {manifest.adapter.id!r:.80} {manifest.adapter.version!r:.40}",
                code="kit-for-another-adapter",
            )
        if self.replay_format not in manifest.replay_formats:
            raise InvalidInput(
                f"the kit does not read {self.replay_format!r:.80}", code="kit-format-unsupported"
            )


def artifact_subject(artifact: bytes) -> ArtifactSubject:
    """Read the header line of an artifact, and of it no more than what concerns kits.

    Raises:
        InvalidInput: `artifact-header-invalid` or `kit-reference-invalid`.
    """
    line, _, _ = artifact[: MAX_HEADER_BYTES + 1].partition(b"\n")
    try:
        header = parse_json(line, max_bytes=MAX_HEADER_BYTES)
    except CanonicalError as error:
        raise _bad_header(str(error)) from error
    if not isinstance(header, dict) or (header.get("kind"), header.get("format")) != (
        "header",
        "gaos.replay",
    ):
        raise _bad_header("the first line is no header of gaos.replay")
    version, game = header.get("formatVersion"), header.get("game")
    if not isinstance(version, str) or not isinstance(game, dict) or "adapter" not in game:
        raise _bad_header("it names no version, game and adapter")
    try:
        return ArtifactSubject(
            game=Identity.from_json({name: game[name] for name in game.keys() - {"adapter"}}, "game"),
            adapter=Identity.from_json(game["adapter"], "game.adapter"),
            replay_format=f"gaos.replay@{version}",
            reference=reference_in(header.get("extensions")),
        )
    except InvalidInput as error:
        raise error if error.code == _CODE else _bad_header(str(error)) from error


def reference_in(extensions: JsonValue) -> KitReference | None:
    """The reference in a header's `extensions`, or None. Raises InvalidInput `kit-reference-invalid`."""
    if not isinstance(extensions, dict) or EXTENSION not in extensions:
        return None
    return KitReference.from_json(extensions[EXTENSION])


def _invalid(why: str) -> InvalidInput:
    return InvalidInput(f"not a reference to a kit: {why}", code=_CODE)


def _bad_header(why: str) -> InvalidInput:
    return InvalidInput(f"not an artifact whose header can be read: {why}", code="artifact-header-invalid")
