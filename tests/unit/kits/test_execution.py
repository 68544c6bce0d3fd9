"""What goes into a kit and what is believed of what comes out."""

import json

import pytest

from aioum.core.errors import InvalidInput
from aioum.kits.execution import (
    MAX_ARTIFACT_BYTES,
    RunLimits,
    RunResult,
    parse_response,
    request_line,
    run_kit,
)
from aioum.kits.wasi_runner import WasiKitRunner
from tests.unit.kits.samples import ScriptedRunner, make_artifact, make_kit, response
from tests.unit.kits.wat import EXIT_3, LOOP, TRAP, module

ARTIFACT = make_artifact()


def saying(output: bytes) -> bytes:
    """A module that prints some bytes."""
    text = "".join(f"\\{byte:02x}" for byte in output)
    return module(
        f"(call $print (i32.const 1024) (i32.const {len(output)}))", more=f'(data (i32.const 1024) "{text}")'
    )


def test_the_request_is_one_line_that_names_paths_only_where_the_kit_sees_files() -> None:
    wasi, node = make_kit(), make_kit("node-esm")
    assert request_line(wasi).endswith(b"\n")
    assert request_line(wasi).count(b"\n") == 1
    assert json.loads(request_line(wasi)) == {
        "schema": "gaos.verifier-request.v1",
        "kitDigest": wasi.digest,
        "kitDirectory": "-",
        "replayPath": "-",
    }
    told = json.loads(request_line(node))
    assert (told["kitDirectory"], told["replayPath"]) == ("/kit", "/replay/artifact.gaos-replay.jsonl")


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"trusted",
        b"[]",
        b"{}",
        response() + b"{}",
        response("maybe"),
        response().replace(b"v1", b"v2"),
        response()[:-1] + b',"more":1}',
        b'{"schema":"gaos.verifier-response.v1","verdict":"trusted"}',
        b'{"schema":"gaos.verifier-response.v1","verdict":"rejected","verdict":"trusted","diagnostics":[]}',
        b'{"schema":"gaos.verifier-response.v1","verdict":"trusted","diagnostics":[1]}',
        b'{"schema":"gaos.verifier-response.v1","verdict":"trusted","diagnostics":"none"}',
        b'{"schema":"gaos.verifier-response.v1","verdict":["trusted"],"diagnostics":[]}',
        response("trusted", "x" * 4_097),
        response("trusted", *["x"] * 1_001),
        b"\xff",
        b"[" * 500,
    ],
)
def test_a_response_in_any_other_form_is_no_response(output: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_response(output, max_bytes=RunLimits().output_bytes)
    assert caught.value.code == "kit-response-invalid"
    run = run_kit(make_kit(), ARTIFACT, [ScriptedRunner(RunResult(output))])
    assert (run.execution, run.verdict, run.code) == ("failed", "unverifiable", "kit-response-invalid")


def test_a_line_feed_after_the_response_is_tolerated() -> None:
    assert parse_response(response("rejected", "why") + b"\n", max_bytes=1_000).diagnostics == ("why",)


def test_an_artifact_beyond_the_limit_is_not_given_to_a_kit() -> None:
    runner = ScriptedRunner(RunResult(response()))
    with pytest.raises(InvalidInput) as caught:
        run_kit(make_kit(), bytes(MAX_ARTIFACT_BYTES + 1), [runner])
    assert caught.value.code == "artifact-too-large"
    assert runner.seen == []


@pytest.mark.parametrize("verdict", ["trusted", "rejected"])
def test_a_webassembly_kit_judges(verdict: str) -> None:
    run = run_kit(make_kit(program=saying(response(verdict, "seen"))), ARTIFACT, [WasiKitRunner()])
    assert (run.execution, run.verdict, run.diagnostics) == ("passed", verdict, ("seen",))


PRINTS_ALL_IT_READ = module(
    """(local $size i32) (local $all i32)
    (local.set $all (i32.const 4096))
    (loop $more
      (local.set $size (call $read (local.get $all) (i32.const 4096)))
      (local.set $all (i32.add (local.get $all) (local.get $size)))
      (br_if $more (local.get $size)))
    (call $print (i32.const 4096) (i32.sub (local.get $all) (i32.const 4096)))"""
)


def test_a_webassembly_kit_reads_the_request_and_then_the_artifact() -> None:
    kit = make_kit(program=PRINTS_ALL_IT_READ)
    result = WasiKitRunner().run(kit, request_line(kit), ARTIFACT, RunLimits())
    assert result.stopped is None
    assert result.output == request_line(kit) + ARTIFACT


@pytest.mark.parametrize(
    "program, code",
    [
        (EXIT_3, "kit-run-failed"),
        (TRAP, "wasm-trap"),
        (LOOP, "wasm-fuel-exhausted"),
        (b"\0asm\1\0\0\0?", "wasm-module-invalid"),
        (saying(b"x" * 2_000), "wasm-output-exceeded"),
    ],
)
def test_a_webassembly_kit_that_does_not_end_well_gives_no_verdict(program: bytes, code: str) -> None:
    limits = RunLimits(fuel=1_000_000, output_bytes=1_000)
    run = run_kit(make_kit(program=program), ARTIFACT, [WasiKitRunner()], limits)
    assert (run.execution, run.verdict, run.code) == ("failed", "unverifiable", code)


def test_a_module_too_large_for_the_sandbox_is_restricted() -> None:
    run = run_kit(make_kit(program=bytes(16_777_217)), ARTIFACT, [WasiKitRunner()])
    assert (run.execution, run.code) == ("restricted", "wasm-input-too-large")
