"""The first line of an artifact (SUBMISSIONS 1.6)."""

from __future__ import annotations

from typing import Any, Final

from aioum.core.errors import InvalidInput
from aioum.core.submission.framing import SCHEME
from aioum.core.submission.roster import Roster
from aioum.replay import fields
from aioum.replay.model import FORMAT, VERSIONS, Header, JsonObject, Level, LevelResult, Reference

EXPLICIT_SEEDS: Final = "explicit"
DERIVED_SEEDS: Final = "gaos.run-level-seed.v1"

_SEED_STEP: Final = 0x9E3779B9

_HEADER_REQUIRED: Final = frozenset(
    {
        "kind",
        "format",
        "formatVersion",
        "sessionId",
        "game",
        "seed",
        "seedPolicy",
        "perm",
        "levels",
        "totals",
    }
)
_INTEGRITY_DECLARATIONS: Final = ("seatKeys", "signaturePolicy", "timeoutPolicy")
_HEADER: Final = _HEADER_REQUIRED | {*_INTEGRITY_DECLARATIONS, "visibility", "extensions"}
_GAME: Final = frozenset({"id", "version", "adapter"})
_ADAPTER: Final = frozenset({"id", "version"})
_LEVEL_REQUIRED: Final = frozenset({"index", "id", "seed", "level", "result"})
_LEVEL: Final = _LEVEL_REQUIRED | {"version", "extensions"}
_RESULT_REQUIRED: Final = frozenset({"status", "stars", "actionsUsed"})
_RESULT: Final = _RESULT_REQUIRED | {"extensions"}
_TOTALS_REQUIRED: Final = frozenset({"totalStars", "totalActionsUsed"})
_TOTALS: Final = _TOTALS_REQUIRED | {"extensions"}
_SIGNATURE_POLICY: Final = frozenset({"scheme"})
_TIMEOUT_POLICY: Final = frozenset({"mode", "windowTicks"})


def derived_seed(seed: int, index: int) -> int:
    """The seed (u32) of the level at a position from 0, where the header's policy derives them."""
    return seed ^ (_SEED_STEP * (index + 1) & fields.MAX_U32)


def read_header(value: Any, *, max_seats: int) -> Header:
    """Check the first line.

    Args:
        value: its JSON.
        max_seats: most seats of a roster.

    Raises:
        InvalidInput: with a reason code. It tells of the first thing that is wrong.
    """
    header = fields.members(value, _HEADER, _HEADER_REQUIRED)
    fields.one_of(header, "kind", ("header",), "bad-kind")
    fields.one_of(header, "format", (FORMAT,), "bad-format")
    version = fields.one_of(header, "formatVersion", VERSIONS, "bad-version")
    session_id = fields.text(header, "sessionId")
    game = fields.members(header["game"], _GAME, _GAME)
    adapter = fields.members(game["adapter"], _ADAPTER, _ADAPTER)
    seed = fields.u32(header, "seed")
    seed_policy = fields.one_of(header, "seedPolicy", (EXPLICIT_SEEDS, DERIVED_SEEDS), "bad-seed-policy")
    totals = fields.members(header["totals"], _TOTALS, _TOTALS_REQUIRED)
    fields.optional_object(totals, "extensions")
    return Header(
        format_version=version,
        session_id=session_id,
        game=Reference(fields.text(game, "id"), fields.text(game, "version")),
        adapter=Reference(fields.text(adapter, "id"), fields.text(adapter, "version")),
        seed=seed,
        seed_policy=seed_policy,
        permutation=_permutation(header["perm"]),
        levels=_levels(header["levels"], version, seed if seed_policy == DERIVED_SEEDS else None),
        total_stars=fields.number(totals, "totalStars"),
        total_actions_used=fields.count(totals, "totalActionsUsed"),
        roster=_roster(header, version, max_seats),
        window_ticks=_window_ticks(header, version),
        visibility=_visibility(header),
        extensions=fields.optional_object(header, "extensions") or {},
        json=header,
    )


def _permutation(value: Any) -> tuple[int, ...]:
    if (
        type(value) is list
        and all(type(each) is int for each in value)
        and sorted(value) == list(range(len(value)))
    ):
        return tuple(value)
    raise InvalidInput("perm must hold each of 0 … n-1 once", code="bad-permutation")


def _levels(value: Any, version: str, run_seed: int | None) -> tuple[Level, ...]:
    if type(value) is not list or not value:
        raise InvalidInput("levels must be a non-empty list", code="levels-invalid")
    levels: list[Level] = []
    seen: set[str] = set()
    for index, each in enumerate(value):
        try:
            level = _level(each, index, version)
            if level.id in seen:
                raise InvalidInput(f"the id {fields.shown(level.id)} occurs twice", code="duplicate-level-id")
            if run_seed is not None and level.seed != derived_seed(run_seed, index):
                raise InvalidInput(
                    f"seed must be {derived_seed(run_seed, index)} by {DERIVED_SEEDS}, got {level.seed}",
                    code="derived-seed-mismatch",
                )
        except InvalidInput as error:
            raise InvalidInput(f"level {index}: {error}", code=error.code) from error
        seen.add(level.id)
        levels.append(level)
    return tuple(levels)


def _level(value: Any, index: int, version: str) -> Level:
    level = fields.members(value, _LEVEL, _LEVEL_REQUIRED)
    if fields.count(level, "index") != index:
        raise InvalidInput(f"index must be the position {index}, got {level['index']}", code="bad-sequence")
    level_version = level.get("version")
    if "version" in level and type(level_version) not in (str, int, float):
        raise InvalidInput("version must be a string or a number", code="level-version-invalid")
    fields.optional_object(level, "extensions")
    return Level(
        index=index,
        id=fields.text(level, "id"),
        version=level_version,
        seed=fields.u32(level, "seed"),
        level=level["level"],
        result=_result(level["result"], version),
        json=level,
    )


def _result(value: Any, version: str) -> LevelResult:
    result = fields.members(value, _RESULT, _RESULT_REQUIRED)
    statuses = ("won", "failed", "ended") if version >= "1.3" else ("won", "failed")
    status = fields.one_of(result, "status", statuses, "bad-status")
    stars = None if result["stars"] is None else fields.number(result, "stars")
    if status == "ended" and stars is not None:
        raise InvalidInput(
            f"stars must be null where the status is ended, got {stars}", code="ended-with-stars"
        )
    fields.optional_object(result, "extensions")
    return LevelResult(status, stars, fields.count(result, "actionsUsed"), result)


def _roster(header: JsonObject, version: str, max_seats: int) -> Roster | None:
    if version == "1.0":
        for name in _INTEGRITY_DECLARATIONS:
            if name in header:
                raise InvalidInput(f"{name} needs version 1.1 or later", code="needs-later-version")
    policy = fields.optional_object(header, "signaturePolicy")
    if version < "1.2":
        return None
    if ("seatKeys" in header) != (policy is not None):
        raise InvalidInput(
            "seatKeys and signaturePolicy must be declared together or not at all",
            code="roster-without-policy" if policy is None else "policy-without-roster",
        )
    if policy is None:
        return None
    fields.members(policy, _SIGNATURE_POLICY, _SIGNATURE_POLICY)
    fields.one_of(policy, "scheme", (SCHEME,), "bad-signature-scheme")
    return Roster.from_json(header["seatKeys"], max_seats=max_seats)


def _window_ticks(header: JsonObject, version: str) -> int | None:
    policy = fields.optional_object(header, "timeoutPolicy")
    if policy is None or version < "1.2":
        return None
    fields.members(policy, _TIMEOUT_POLICY, _TIMEOUT_POLICY)
    fields.one_of(policy, "mode", ("ticks",), "bad-timeout-mode")
    window_ticks = fields.count(policy, "windowTicks")
    if not window_ticks:
        raise InvalidInput("windowTicks must be at least 1", code="integer-invalid")
    return window_ticks


def _visibility(header: JsonObject) -> str | None:
    visibility = fields.optional_text(header, "visibility")
    if visibility in (None, "full") or (visibility.startswith("seat:") and visibility != "seat:"):
        return visibility
    raise InvalidInput(
        f"visibility must be full or seat:<id>, got {fields.shown(visibility)}", code="bad-visibility"
    )
