"""Kits that are WebAssembly modules, run for real."""

import sys
from dataclasses import replace

import pytest

from aioum.kits.execution import MAX_ARTIFACT_BYTES, KitRun, RunLimits, run_kit
from aioum.kits.wasi_runner import WasiKitRunner
from tests.unit.kits.samples import make_kit, response
from tests.unit.kits.wat import ECHO, EXIT_3, LOOP, TRAP, module

TRUSTED, REJECTED = response("trusted"), response("rejected", "no header")


def quoted(text: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in text)


# Reads everything, finds the end of the request line, and trusts an artifact that begins as an object does.
JUDGE = module(
    f"""(local $size i32) (local $at i32)
    (loop $all
      (local.set $at (call $read (i32.add (i32.const 4096) (local.get $size)) (i32.const 65536)))
      (local.set $size (i32.add (local.get $size) (local.get $at)))
      (br_if $all (local.get $at)))
    (local.set $at (i32.const 4096))
    (loop $line
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $line (i32.ne (i32.load8_u (i32.sub (local.get $at) (i32.const 1))) (i32.const 10))))
    (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 123))
      (then (call $print (i32.const 64) (i32.const {len(TRUSTED)})))
      (else (call $print (i32.const 1024) (i32.const {len(REJECTED)}))))""",
    more=f'(data (i32.const 64) "{quoted(TRUSTED)}") (data (i32.const 1024) "{quoted(REJECTED)}")',
    memory="16",
)


def run(program: bytes, artifact: bytes, limits: RunLimits | None = None) -> KitRun:
    return run_kit(make_kit(program=program), artifact, [WasiKitRunner()], limits)


def test_a_kit_judges_what_follows_the_request_line() -> None:
    trusted, rejected = run(JUDGE, b'{"kind":"header"}\n'), run(JUDGE, b"nothing")

    assert (trusted.execution, trusted.verdict) == ("passed", "trusted")
    assert (rejected.execution, rejected.verdict, rejected.diagnostics) == (
        "passed", "rejected", ("no header",),
    )  # fmt: skip


@pytest.mark.parametrize(
    "program, code",
    [
        (TRAP, "wasm-trap"),
        (EXIT_3, "kit-run-failed"),
        (ECHO, "kit-response-invalid"),
        (b"\0asm", "wasm-module-invalid"),
    ],
    ids=["trap", "exit", "echo", "nonsense"],
)
def test_a_kit_that_gives_no_response_failed_and_judges_nothing(program: bytes, code: str) -> None:
    result = run(program, b"{}")

    assert (result.execution, result.verdict, result.code) == ("failed", "unverifiable", code)


def test_a_kit_has_the_limits_of_its_run() -> None:
    few = replace(RunLimits(), fuel=1_000_000)
    memory = module("", memory="1025")

    assert run(LOOP, b"{}", few).code == "wasm-fuel-exhausted"
    assert run(memory, b"{}").code == "kit-response-invalid"
    assert run(memory, b"{}", replace(RunLimits(), memory_bytes=67_108_864)).code == "wasm-memory-exceeded"


def test_the_largest_artifact_reaches_a_kit() -> None:
    # It reads nothing, and so answers nothing.
    assert run(module(""), bytes(MAX_ARTIFACT_BYTES)).code == "kit-response-invalid"


def test_without_wasmtime_a_kit_is_restricted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)

    result = run(JUDGE, b"{}")

    assert (result.execution, result.verdict, result.code) == (
        "restricted",
        "unverifiable",
        "wasm-unavailable",
    )
