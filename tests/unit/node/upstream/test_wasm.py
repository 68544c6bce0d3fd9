"""A WebAssembly module as a tool."""

import asyncio
from hashlib import sha256

import pytest

from aioum.core.problem import problem_code
from aioum.core.transcript import canonical_request
from aioum.kits.wasm import WasmLimits, run_module
from aioum_node.upstream.wasm import FUEL, WasmUpstream
from tests.unit.kits.wat import ECHO, EXIT_3, LOOP, TRAP, binary, module

REQUEST = canonical_request("echo", {"text": "één"}).encode()


def upstream(wasm: bytes, *, processes: int = 4, max_response_bytes: int = 10_000) -> WasmUpstream:
    return WasmUpstream(
        wasm,
        tool_id="echo",
        entry="_start",
        content_type="application/json",
        processes=asyncio.Semaphore(processes),
        max_response_bytes=max_response_bytes,
    )


async def failure(wasm: bytes, **options: int) -> str | None:
    answer = await upstream(wasm, **options).run({}, REQUEST, 30)
    assert answer.failed
    return problem_code(answer.response)


async def test_module_gets_the_canonical_request_and_its_output_is_the_response() -> None:
    tool = upstream(ECHO)

    answer = await tool.run({"text": "één"}, REQUEST, 30)

    assert (answer.response, answer.failed, answer.content_type) == (REQUEST, False, "application/json")
    assert tool.module_digest == sha256(ECHO).hexdigest()


async def test_answers_of_several_calls_at_once_are_each_ones_own() -> None:
    tool = upstream(ECHO, processes=2)
    requests = [canonical_request("echo", {"text": str(number)}).encode() for number in range(5)]

    answers = await asyncio.gather(*(tool.run({}, request, 60) for request in requests))

    assert [answer.response for answer in answers] == requests


@pytest.mark.parametrize(
    "wasm, code",
    [(EXIT_3, "tool-failed"), (TRAP, "tool-failed"), (LOOP, "tool-failed"), (b"no module", "tool-failed")],
    ids=["exit", "trap", "loop", "nonsense"],
)
async def test_a_module_that_ends_without_an_answer_is_a_failed_call(wasm: bytes, code: str) -> None:
    assert await failure(wasm) == code


async def test_too_much_output_is_a_failed_call() -> None:
    endless = module("(loop $on (call $print (i32.const 0) (i32.const 65536)) (br $on))")

    assert await failure(endless) == "response-too-large"
    assert await failure(ECHO, max_response_bytes=5) == "response-too-large"


async def test_output_that_is_no_text_is_a_failed_call() -> None:
    wasm = module("(i32.store (i32.const 64) (i32.const -1)) (call $print (i32.const 64) (i32.const 4))")

    assert await failure(wasm) == "response-not-text"


async def test_time_spent_waiting_for_another_module_counts() -> None:
    answer = await upstream(ECHO, processes=0).run({}, REQUEST, 0.05)

    assert problem_code(answer.response) == "tool-timeout"


async def test_a_module_that_is_still_running_at_the_timeout_is_a_failed_call() -> None:
    answer = await upstream(ECHO).run({}, REQUEST, 0.001)

    assert problem_code(answer.response) == "tool-timeout"


def test_the_node_stops_a_module_before_a_verifier_would() -> None:
    # An empty loop of 4 instructions a turn, between the two limits.
    wasm = binary(
        """(module (memory (export "memory") 1) (func (export "_start") (local $left i32)
        (local.set $left (i32.const 190000000))
        (loop $on (br_if $on (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"""
    )

    used = run_module(wasm, b"").fuel_used

    assert FUEL < used < WasmLimits().fuel
    assert asyncio.run(failure(wasm)) == "tool-failed"
