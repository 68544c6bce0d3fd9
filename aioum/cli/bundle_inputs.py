"""What `aioum bundle` is told beside the submission: manifest, adapter, plugin and pinned keys."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aioum.cli.python_file import import_file
from aioum.cli.verify_run_inputs import read_bytes
from aioum.core.canonical import parse_json
from aioum.core.errors import ConfigError, InvalidInput
from aioum.replay.facts import Profile
from aioum.replay.paid import recheck_replay
from aioum.trust.attestation import ExternalKeyRef
from aioum.trust.bundle_verdict import OutsideTrust
from aioum.trust.keys import KeyMaterial
from aioum.trust.manifest import MAX_MANIFEST_BYTES, Manifest
from aioum.trust.policy import KeyPin, KnownKeys, Resolvers
from aioum.trust.reading import items, placed
from aioum.trust.replay_episodes import ReplayEpisodes
from aioum.trust.scoring import BUILT_IN, FunctionPlugin, ScoringPlugin

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from aioum.core.canonical import JsonValue

MAX_PINS_BYTES: Final = 1024 * 1024
MAX_PINS: Final = 1_000

_PINS_CODE: Final = "pins-invalid"


def read_manifest(file: Path) -> Manifest:
    """The organizer's manifest. Raises InvalidInput `file-unusable` or as `Manifest.from_bytes`."""
    return Manifest.from_bytes(read_bytes(file, MAX_MANIFEST_BYTES))


def episode_judge(manifest: Manifest, adapter_file: Path | None, profile: Profile) -> ReplayEpisodes:
    """The judge of a comparison's episodes.

    Args:
        manifest: names the plugin.
        adapter_file: with `recheck_replay`, or with `SCORING` and `score_episode`, or with all of them.
        profile: the rules.

    Raises:
        ConfigError: `adapter-unusable`; `scoring-plugin-missing`.
    """
    module = None if adapter_file is None else import_file(adapter_file, "aioum_bundle_adapter")
    recheck, score = _function(module, "recheck_replay"), _function(module, "score_episode")
    if module is not None and recheck is None and score is None:
        raise ConfigError(
            f"{adapter_file} has neither recheck_replay(artifact) nor score_episode(artifact, episode)",
            code="adapter-unusable",
        )
    scoring = getattr(module, "SCORING", None)
    return ReplayEpisodes(
        _plugin(manifest.plugin, scoring, score),
        recheck_replay=recheck,
        paid_recheck=recheck_replay,
        profile=profile,
    )


def outside_trust(pins_file: Path | None) -> OutsideTrust:
    """The pinned keys of a JSON file, and the time.

    Raises:
        InvalidInput: `pins-invalid`, `file-unusable`, or a code of the JSON loader.
    """
    now = datetime.now(UTC)
    if pins_file is None:
        return OutsideTrust(now)
    value = parse_json(read_bytes(pins_file, MAX_PINS_BYTES), max_bytes=MAX_PINS_BYTES)
    with placed(str(pins_file), _PINS_CODE):
        if not isinstance(value, dict) or value.keys() != {"keys"}:
            raise InvalidInput('expected {"keys": […]}', code=_PINS_CODE)
        found = items(value["keys"], "keys", _pin, most=MAX_PINS, code=_PINS_CODE)
    keys = dict(found)
    if len(keys) != len(found):
        raise InvalidInput(f"{pins_file} has two keys of one reference", code=_PINS_CODE)
    pins = tuple(KeyPin(reference, frozenset({key.digest_hex})) for reference, key in keys.items())
    return OutsideTrust(now, pins, Resolvers(KnownKeys(keys)))


def _function(module: ModuleType | None, name: str) -> Callable[..., Any] | None:
    found = getattr(module, name, None)
    return found if callable(found) else None


def _plugin(name: str, scoring: object, function: Callable[..., Any] | None) -> ScoringPlugin:
    if scoring == name and function is not None:
        return FunctionPlugin(name, function)
    if name in BUILT_IN:
        return BUILT_IN[name]
    raise ConfigError(
        f"nothing here scores by {name!r:.100}, which the manifest asks for",
        code="scoring-plugin-missing",
        hint=f"--adapter FILE with SCORING = {name!r:.100} and score_episode(artifact, episode)",
    )


def _pin(value: JsonValue) -> tuple[ExternalKeyRef, KeyMaterial]:
    if not isinstance(value, dict) or "key" not in value:
        raise InvalidInput("a pin has authorityId, keyId, purpose and key", code=_PINS_CODE)
    reference = {name: member for name, member in value.items() if name != "key"}
    return ExternalKeyRef.from_json(reference), KeyMaterial.from_json(value["key"])
