"""Python functions as tools."""

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import Field

from aioum.core.ledger import Answer
from aioum.core.problem import problem_bytes, problem_code
from aioum.core.transcript import canonical_request
from aioum_node.tools import ToolError
from aioum_node.upstream.function import FunctionUpstream
from aioum_node.upstream.threads import FunctionThreads


async def run(function: Callable[..., Any], *, timeout_seconds: float = 30, **arguments: Any) -> Answer:
    threads = FunctionThreads(2)
    upstream = FunctionUpstream(function, tool_id="tested", threads=threads, max_response_bytes=100)
    request = canonical_request("tested", arguments).encode()
    try:
        return await upstream.run(arguments, request, timeout_seconds)
    finally:
        threads.close()


def code_of(answer: Answer) -> str | None:
    assert answer.failed == (problem_code(answer.response) is not None)
    return problem_code(answer.response)


async def test_text_that_a_function_returns_is_the_response_as_it_is() -> None:
    def shout(text: str) -> str:
        return text.upper() + " ü\n"

    answer = await run(shout, text="hey")

    assert answer == Answer("HEY ü\n".encode(), 200, "text/plain; charset=utf-8", failed=False)


async def test_bytes_that_a_function_returns_are_the_response_as_they_are() -> None:
    assert (await run(lambda: b"raw")).response == b"raw"


async def test_other_values_become_canonical_json() -> None:
    @dataclass
    class Count:
        words: int
        lines: tuple[int, ...]

    answer = await run(lambda: Count(2, (1, 2)))

    assert (answer.response, answer.content_type) == (b'{"lines":[1,2],"words":2}', "application/json")


async def test_coroutine_function_runs_on_the_event_loop() -> None:
    loop = asyncio.get_running_loop()

    async def here() -> bool:
        return asyncio.get_running_loop() is loop

    assert (await run(here)).response == b"true"


async def test_plain_function_runs_in_another_thread() -> None:
    caller = threading.get_ident()

    assert (await run(lambda: threading.get_ident() != caller)).response == b"true"


async def test_arguments_are_converted_to_the_type_hints() -> None:
    def double(count: int) -> int:
        assert type(count) is int
        return count * 2

    assert (await run(double, count=2.0)).response == b"4"


async def test_arguments_that_the_function_does_not_take_are_a_failed_call() -> None:
    def short(text: Annotated[str, Field(max_length=2)]) -> str:
        return text

    assert code_of(await run(short, text="long")) == "arguments-invalid"


async def test_exception_is_a_failed_call_that_does_not_tell_its_text() -> None:
    def broken() -> str:
        raise RuntimeError("/secret/path")

    answer = await run(broken)

    assert code_of(answer) == "tool-failed"
    assert b"secret" not in answer.response


async def test_a_function_gets_the_arguments_as_the_transcript_shows_them() -> None:
    def shown(value: Any) -> str:
        return repr(value)

    # What a client spells otherwise is recorded in canonical form; from that form it must be reproducible.
    answer = await run(shown, value={"b": 1.0, "a": -0.0, "c": 1e2})

    assert answer.response == b"{'a': 0, 'b': 1, 'c': 100}"


@pytest.mark.parametrize("awaited", [False, True])
async def test_a_function_that_exits_is_a_failed_call_and_the_node_lives_on(awaited: bool) -> None:
    def leave() -> None:
        sys.exit(3)

    async def leave_awaited() -> None:
        sys.exit(3)

    assert code_of(await run(leave_awaited if awaited else leave)) == "tool-failed"


async def test_timeout_error_of_the_function_itself_is_no_timeout_of_ours() -> None:
    def broken() -> str:
        raise TimeoutError("its own")

    assert code_of(await run(broken)) == "tool-failed"


async def test_tool_error_tells_the_client_why() -> None:
    def picky() -> str:
        raise ToolError("no such document")

    answer = await run(picky)

    assert code_of(answer) == "tool-failed"
    assert b"no such document" in answer.response


async def test_function_that_takes_too_long_is_a_timeout() -> None:
    release = threading.Event()
    threads = FunctionThreads(1)
    upstream = FunctionUpstream(release.wait, tool_id="tested", threads=threads, max_response_bytes=100)
    answer = await upstream.run({}, canonical_request("tested", {}).encode(), 0.01)
    release.set()
    threads.close()

    assert code_of(answer) == "tool-timeout"


async def test_calls_behind_a_stuck_function_leave_nothing_behind_and_a_free_thread_is_used_again() -> None:
    release, stuck, threads = threading.Event(), threading.Event(), FunctionThreads(1)
    runs: list[int] = []

    def hang() -> None:
        stuck.set()
        release.wait()

    hanging = asyncio.create_task(threads.run(hang))
    await asyncio.to_thread(stuck.wait)
    hanging.cancel()
    upstream = FunctionUpstream(
        lambda: runs.append(1), tool_id="tested", threads=threads, max_response_bytes=100
    )
    request = canonical_request("tested", {}).encode()
    late = [await upstream.run({}, request, 0.001) for _ in range(50)]
    patient = asyncio.create_task(upstream.run({}, request, 30))
    while threads.waiting == 0:
        await asyncio.sleep(0)
    patient.cancel()
    await asyncio.wait([patient])
    assert threads.waiting == 0
    release.set()
    after = await upstream.run({}, request, 30)
    threads.close()

    assert {code_of(answer) for answer in late} == {"tool-timeout"}
    assert after.response == b"null"
    assert runs == [1]


async def test_function_that_ends_after_its_loop_harms_nothing() -> None:
    release, ended = threading.Event(), threading.Event()

    def late() -> None:
        release.wait()
        ended.set()

    def leave() -> None:
        async def call() -> None:
            threads = FunctionThreads(1)
            upstream = FunctionUpstream(late, tool_id="tested", threads=threads, max_response_bytes=100)
            await upstream.run({}, canonical_request("tested", {}).encode(), 0.01)
            threads.close()

        asyncio.run(call())

    await asyncio.to_thread(leave)
    release.set()

    assert await asyncio.to_thread(ended.wait, 10)


async def test_coroutine_that_takes_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert code_of(await run(slow, timeout_seconds=0.01)) == "tool-timeout"
    assert cancelled.is_set()


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ("x" * 101, "response-too-large"),
        ("\ud800", "response-not-text"),
        ("\ufeffx", "response-not-text"),
        (b"\xff", "response-not-text"),
        (float("nan"), "tool-failed"),
        (2**53, "tool-failed"),
        (object(), "tool-failed"),
    ],
)
async def test_result_that_cannot_be_a_response_is_a_failed_call(result: object, code: str) -> None:
    assert code_of(await run(lambda: result)) == code


async def test_problem_document_of_our_own_form_is_a_failed_call() -> None:
    answer = await run(lambda: problem_bytes(200, "tool-failed", "gotcha"))

    assert code_of(answer) == "tool-failed"
    assert answer.status == 500
