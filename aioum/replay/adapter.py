"""The contract between the judge and an adapter: `recheck_replay(artifact)` (docs/verify-run.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError, CanonicalError
from aioum.replay.facts import Lane, Profile, Semantics
from aioum.replay.model import Artifact, JsonObject
from aioum.replay.problems import Problem
from aioum.replay.semantics import answered_timeouts
from aioum.replay.signatures import Submitted, submissions

MAX_PROBLEMS: Final = 100_000
"""Most problems, and most diagnostics, taken from an adapter."""

_RESULT_CODE: Final = "adapter-result-invalid"


class AdapterArtifact(dict[str, Any]):
    """What an adapter is called with: the decoded artifact, and its checked form beside it.

    As a dictionary it is what the format's own Python tool hands over: `header`, `actions` and, where the
    artifact is grouped, `records`.

    Attributes:
        parsed: the artifact, its form checked.
        profile: the rules that judge.
    """

    def __init__(self, parsed: Artifact, profile: Profile = Profile.GAOS) -> None:
        super().__init__(parsed.decoded())
        self.parsed = parsed
        self.profile = profile


class AdapterFailed(AioumError):
    """An adapter gave no usable answer, so the artifact is not judged."""

    default_code = "adapter-failed"


RecheckReplay: TypeAlias = Callable[[AdapterArtifact], Mapping[str, Any]]
"""An adapter's function. Whatever it raises keeps the artifact from being judged."""


@dataclass(frozen=True, slots=True)
class AdapterResult:
    """What an adapter found.

    Attributes:
        ok: whether the artifact is consistent; None where the adapter does not know the game.
        facts: anything beside the verdict, by name.
        replayed: what the run ended with.
    """

    ok: bool | None
    problems: tuple[Problem, ...]
    semantics: Semantics
    diagnostics: tuple[Problem, ...] = ()
    facts: JsonObject = field(default_factory=dict)
    replayed: Any = None


def run_adapter(recheck_replay: RecheckReplay, artifact: Artifact, profile: Profile) -> AdapterResult:
    """Call an adapter and read its answer.

    Raises:
        AdapterFailed: `adapter-failed` or `adapter-result-invalid`.
    """
    try:
        answer: Any = recheck_replay(AdapterArtifact(artifact, profile))
    except (Exception, SystemExit) as error:
        # An adapter that leaves the process would leave with a verdict's exit code.
        raise AdapterFailed(f"recheck_replay raised {type(error).__name__}: {error}") from error
    if not isinstance(answer, Mapping):
        raise _invalid(f"recheck_replay gave {type(answer).__name__}, expected a mapping")
    ok = answer.get("ok", _ABSENT)
    if ok is not None and not isinstance(ok, bool):
        raise _invalid("ok must be True, False or None")
    facts = answer.get("facts")
    if facts is not None and not (isinstance(facts, dict) and all(isinstance(name, str) for name in facts)):
        raise _invalid("facts must be a dictionary with texts as keys")
    given = answer.get("semantics")
    return AdapterResult(
        ok,
        _problems(answer, "problems", "replay-inconsistent"),
        _default_semantics(artifact) if given is None else _semantics(given),
        _problems(answer, "diagnostics", "adapter-diagnostic"),
        _require_json(facts or {}, "facts"),
        _require_json(answer.get("replayed"), "replayed"),
    )


_ABSENT: Final = object()


def _semantics(given: Any) -> Semantics:
    if not isinstance(given, Mapping):
        raise _invalid("semantics must be a mapping")
    problems = list(_problems(given, "problems", "mapping-failed"))
    lanes = []
    for name in ("submissions", "timeouts"):
        state = given.get(name, Lane.UNAVAILABLE.value)
        try:
            lanes.append(Lane(state))
        except ValueError:
            lanes.append(Lane.FAILED)
            problems.append(Problem("lane-invalid", f"{state!r:.40} is no state of a lane", f"lane {name}"))
    return Semantics(lanes[0], lanes[1], tuple(problems))


def _default_semantics(artifact: Artifact) -> Semantics:
    # An adapter that says nothing about a lane has not looked at it.
    submitted = any(isinstance(item, Submitted) for item in submissions(artifact))
    timed_out = any(True for _ in answered_timeouts(artifact))
    return Semantics(
        Lane.UNAVAILABLE if submitted else Lane.NOT_APPLICABLE,
        Lane.UNAVAILABLE if timed_out else Lane.NOT_APPLICABLE,
    )


def _problems(source: Mapping[str, Any], name: str, default_code: str) -> tuple[Problem, ...]:
    given = source.get(name)
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or len(given) > MAX_PROBLEMS:
        raise _invalid(f"{name} must be a list of at most {MAX_PROBLEMS} entries")
    return tuple(_problem(each, name, default_code) for each in given)


def _problem(given: Any, name: str, default_code: str) -> Problem:
    if isinstance(given, str):
        return Problem(default_code, given, "replay")
    if isinstance(given, Problem):
        return given
    if isinstance(given, Mapping):
        code, text, where = given.get("code"), given.get("text"), given.get("where", "replay")
        if isinstance(code, str) and isinstance(text, str) and isinstance(where, str):
            return Problem(code, text, where)
    raise _invalid(f"an entry of {name} is a text, or has the texts code, text and maybe where")


def _require_json(value: Any, name: str) -> Any:
    try:
        canonical_bytes(value)
    except CanonicalError as error:
        raise _invalid(f"{name} must be JSON: {error}") from error
    return value


def _invalid(why: str) -> AdapterFailed:
    return AdapterFailed(f"the adapter's answer: {why}", code=_RESULT_CODE)
