"""Running a kit on an artifact: never in-process, always under limits (SUBMISSIONS 3.3).

A kit is somebody else's program. What it prints is a claim of that program, read strictly; where no runner
takes the kit the answer is `restricted`, and a verdict is never made up for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import AioumError, CanonicalError, InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.kits.kit import Kit

REQUEST_SCHEMA = "gaos.verifier-request.v1"
RESPONSE_SCHEMA = "gaos.verifier-response.v1"
KIT_DIRECTORY = "/kit"
REPLAY_PATH = "/replay/artifact.gaos-replay.jsonl"
NO_PATH = "-"
"""Stands in a request for a path where the kit sees no files: the artifact follows on stdin."""

MAX_ARTIFACT_BYTES = 67_108_864
MAX_DIAGNOSTICS = 1_000
MAX_DIAGNOSTIC_CHARACTERS = 4_096

Execution = Literal["not_run", "passed", "failed", "restricted"]
Verdict = Literal["trusted", "unverifiable", "rejected"]

_VERDICTS = ("trusted", "unverifiable", "rejected")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one run may use.

    Attributes:
        cpu_seconds: processor time, where the sandbox counts time.
        fuel: WebAssembly instructions, the same limit in a unit that every machine counts alike.
        wall_seconds: longest run by the clock.
        memory_bytes: most memory.
        processes: most processes at once.
        output_bytes: longest standard output.
    """

    cpu_seconds: float = 10.0
    fuel: int = 10_000_000_000
    wall_seconds: float = 15.0
    memory_bytes: int = 268_435_456
    processes: int = 1
    output_bytes: int = 1_048_576


@dataclass(frozen=True, slots=True)
class RunResult:
    """How one run ended.

    Attributes:
        output: standard output, at most `output_bytes` of it; meaningless where `stopped` is set.
        stopped: None after a normal end with status 0, else the reason code, such as `kit-run-timeout`.
        detail: one line for a person, such as the exit status.
    """

    output: bytes
    stopped: str | None = None
    detail: str = ""


class RunnerUnavailable(AioumError):
    """The sandbox cannot be used here, so nothing ran: no engine, an image that is not pinned."""

    default_code = "kit-runner-unavailable"


class Runner(Protocol):
    """One kind of sandbox."""

    @property
    def runtime_kinds(self) -> frozenset[str]:
        """The `runtime.kind` values of kits that it can run."""
        ...

    def run(self, kit: Kit, request: bytes, artifact: bytes, limits: RunLimits) -> RunResult:
        """Run a kit once, with no network and no files but its own, and return what it printed.

        Args:
            kit: the kit, its bytes already matched with its digest.
            request: one line, from `request_line`. It comes first on stdin.
            artifact: the bytes to judge; after the request on stdin (`wasi-preview1`), or in the file that
                the request names.
            limits: what the run may use; exceeding one is a `stopped` result.

        Raises:
            RunnerUnavailable: nothing was run.
        """
        ...


def request_line(kit: Kit) -> bytes:
    """The request to a kit: canonical JSON in one line, so that a reader knows where the artifact begins."""
    sees_files = kit.manifest.runtime.kind == "node-esm"
    request: JsonValue = {
        "schema": REQUEST_SCHEMA,
        "kitDigest": kit.digest,
        "kitDirectory": KIT_DIRECTORY if sees_files else NO_PATH,
        "replayPath": REPLAY_PATH if sees_files else NO_PATH,
    }
    return canonical_json(request) + b"\n"


@dataclass(frozen=True, slots=True)
class KitResponse:
    """What a kit said of an artifact.

    Attributes:
        verdict: the kit's own.
        diagnostics: its remarks, text of a foreign program.
    """

    verdict: Verdict
    diagnostics: tuple[str, ...]


def parse_response(output: bytes, *, max_bytes: int) -> KitResponse:
    """Read a response: exactly `schema`, `verdict` and `diagnostics`, white space around it tolerated.

    Raises:
        InvalidInput: `kit-response-invalid`.
    """
    try:
        value = parse_json(output, max_bytes=max_bytes)
    except CanonicalError as error:
        raise _bad_response(str(error)) from error
    if not isinstance(value, dict) or value.keys() != {"schema", "verdict", "diagnostics"}:
        raise _bad_response("expected exactly the members schema, verdict and diagnostics")
    if value["schema"] != RESPONSE_SCHEMA:
        raise _bad_response(f"its schema is not {RESPONSE_SCHEMA}")
    verdict, diagnostics = value["verdict"], value["diagnostics"]
    if verdict not in _VERDICTS:
        raise _bad_response(f"the verdict is {verdict!r:.80}, not one of {', '.join(_VERDICTS)}")
    if not isinstance(diagnostics, list) or len(diagnostics) > MAX_DIAGNOSTICS:
        raise _bad_response(f"diagnostics is not a list of at most {MAX_DIAGNOSTICS} texts")
    if not all(isinstance(line, str) and len(line) <= MAX_DIAGNOSTIC_CHARACTERS for line in diagnostics):
        raise _bad_response(f"a diagnostic is not a text of at most {MAX_DIAGNOSTIC_CHARACTERS} characters")
    return KitResponse(cast("Verdict", verdict), tuple(cast("list[str]", diagnostics)))


def _bad_response(why: str) -> InvalidInput:
    return InvalidInput(f"the kit gave no response: {why}", code="kit-response-invalid")


@dataclass(frozen=True, slots=True)
class KitRun:
    """What came of running a kit.

    Attributes:
        execution: `passed` where it gave a response, whatever that says; `failed` where it gave none;
            `restricted` where no sandbox here runs it.
        verdict: the kit's, or `unverifiable`.
        code: why it is not `passed`, or None.
        message: the same for a person.
        diagnostics: the kit's remarks, text of a foreign program.
    """

    execution: Execution
    verdict: Verdict = "unverifiable"
    code: str | None = None
    message: str = ""
    diagnostics: tuple[str, ...] = ()


def run_kit(kit: Kit, artifact: bytes, runners: Iterable[Runner], limits: RunLimits | None = None) -> KitRun:
    """Run a kit in the first sandbox that takes it. Whether it may run is the caller's to have decided.

    Args:
        kit: a kit that the caller authorized, see `judge` in `aioum.kits.resolution`.
        artifact: the bytes to judge, at most MAX_ARTIFACT_BYTES.
        runners: sandboxes in order of preference.
        limits: of the run.

    Raises:
        InvalidInput: `artifact-too-large`.
    """
    limits = limits or RunLimits()
    if len(artifact) > MAX_ARTIFACT_BYTES:
        raise InvalidInput(
            f"the artifact has {len(artifact)} bytes, kits are given at most {MAX_ARTIFACT_BYTES}",
            code="artifact-too-large",
        )
    kind = kit.manifest.runtime.kind
    code, message = "kit-runner-missing", f"no sandbox for {kind} was offered"
    for runner in runners:
        if kind not in runner.runtime_kinds:
            continue
        try:
            result = runner.run(kit, request_line(kit), artifact, limits)
        except RunnerUnavailable as unavailable:
            code, message = unavailable.code, str(unavailable)
            continue
        # A run that began is not repeated elsewhere: two sandboxes must not give two tries.
        return _judged(result, limits)
    return KitRun("restricted", code=code, message=message)


def _judged(result: RunResult, limits: RunLimits) -> KitRun:
    if result.stopped is not None:
        return KitRun("failed", code=result.stopped, message=result.detail)
    try:
        response = parse_response(result.output, max_bytes=limits.output_bytes)
    except InvalidInput as error:
        return KitRun("failed", code=error.code, message=str(error))
    return KitRun("passed", response.verdict, diagnostics=response.diagnostics)
