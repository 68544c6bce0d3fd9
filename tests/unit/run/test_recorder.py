"""Recording a run: order, spans, threads, tasks, and what is refused."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import AioumError, InvalidInput
from aioum.core.types import Bytes32, ChannelId
from aioum.run.capsule import read_capsule
from aioum.run.current import current_run
from aioum.run.event import Kind, PaidCall
from aioum.run.keys import ML_DSA_44
from aioum.run.recorder import Run
from aioum.run.verification import verify_capsule, verify_read_capsule
from tests.unit.run.samples import OWNER, OWNER_ML_DSA, trusting


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    ticks = count(1_760_000_000)
    with Run.start(tmp_path / "run", agent="agent://test", clock=lambda: next(ticks)) as run:
        yield run


def code(error: "pytest.ExceptionInfo[AioumError]") -> str:
    return error.value.code


def parents(run: Run) -> dict[str, int | None]:
    return {item.event.name: item.event.parent for item in run.seal(OWNER).events}


def test_a_recorded_run_seals_to_a_capsule_that_verifies(run: Run) -> None:
    assert run.record(Kind.LLM_CALL, "plan", input="what?", output="this") == 0
    assert run.record("retrieval", "look up", input={"q": [1, 2]}, output=b"\x00\xff") == 1
    capsule = run.seal(OWNER, OWNER_ML_DSA, file=run.folder / "capsule.json")
    written = (run.folder / "capsule.json").read_bytes()
    assert written == capsule.to_bytes()
    verdict = verify_capsule(written, trusting(OWNER, OWNER_ML_DSA, threshold=2, require=[ML_DSA_44]))
    assert verdict.reason is None
    first, second = (item.event for item in read_capsule(written).events)
    assert (first.kind, first.name, first.at) == (Kind.LLM_CALL, "plan", 1_760_000_001_000)
    assert (second.kind, second.name, second.parent) == (Kind.RETRIEVAL, "look up", None)


def test_equal_contents_have_different_commitments(run: Run) -> None:
    run.record(Kind.TOOL_CALL, "a", input="same", output="same")
    run.record(Kind.TOOL_CALL, "b", input="same", output="same")
    events = [item.event for item in run.seal(OWNER).events]
    assert len({event.input for event in events} | {event.output for event in events}) == 4


def test_an_event_inside_of_a_span_belongs_to_it_and_comes_after_it(run: Run) -> None:
    with run.span(Kind.SUB_AGENT, "outer") as outer:
        with run.span(Kind.LLM_CALL, "inner", input="q") as inner:
            run.record(Kind.TOOL_CALL, "innermost")
            inner.output("a")
        run.record(Kind.TOOL_CALL, "beside inner")
        outer.output("done")
    run.record(Kind.APPROVAL, "outside")
    assert parents(run) == {
        "outer": None, "inner": 0, "innermost": 1, "beside inner": 0, "outside": None
    }  # fmt: skip


def test_spans_that_overlap_end_in_any_order_and_the_chain_still_holds(run: Run) -> None:
    first, second = run.span(Kind.LLM_CALL, "first"), run.span(Kind.LLM_CALL, "second")
    first.__enter__()
    second.__enter__()
    run.record(Kind.TOOL_CALL, "third")
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    capsule = run.seal(OWNER)
    assert verify_read_capsule(capsule, trusting(OWNER)).reason is None
    assert [item.event.name for item in capsule.events] == ["first", "second", "third"]


def test_a_parent_can_be_named_and_has_to_have_begun(run: Run) -> None:
    index = run.record(Kind.SUB_AGENT, "agent")
    run.record(Kind.TOOL_CALL, "child", parent=index)
    with pytest.raises(InvalidInput) as error:
        run.record(Kind.TOOL_CALL, "orphan", parent=7)
    assert code(error) == "run-parent-unknown"
    with pytest.raises(InvalidInput) as error:
        run.record(Kind.TOOL_CALL, "orphan", parent=run.span(Kind.SUB_AGENT, "not entered"))
    assert code(error) == "run-span-not-open"
    assert parents(run) == {"agent": None, "child": 0}


def test_an_error_is_the_output_of_the_span_that_it_ends(tmp_path: Path) -> None:
    with Run.start(tmp_path / "run", agent="a", keep_contents=True) as run:
        with pytest.raises(ValueError, match="no"), run.span(Kind.TOOL_CALL, "fails") as span:
            span.output("never said")
            raise ValueError("no")
        with pytest.raises(InvalidInput), run.span(Kind.TOOL_CALL, "refuses"):
            raise InvalidInput("no", code="some-code")
        run.seal(OWNER)
    kept = (tmp_path / "run" / "contents").read_bytes()
    # Base64 of {"error":"ValueError"} and {"error":"some-code"}.
    assert b"eyJlcnJvciI6IlZhbHVlRXJyb3IifQ==" in kept
    assert b"eyJlcnJvciI6InNvbWUtY29kZSJ9" in kept


def test_many_threads_record_into_one_run_without_losing_or_mixing_events(run: Run) -> None:
    threads, each = 8, 100

    def work(worker: int) -> None:
        with run.attached(), run.span(Kind.SUB_AGENT, f"worker {worker}") as span:
            for step in range(each):
                run.record(Kind.TOOL_CALL, f"{worker}/{step}", input=str(step))
            span.output("done")

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    capsule = run.seal(OWNER)
    assert verify_read_capsule(capsule, trusting(OWNER)).reason is None
    events = [item.event for item in capsule.events]
    workers = {event.index: event.name.split()[1] for event in events if event.kind is Kind.SUB_AGENT}
    steps: dict[str, list[int]] = {worker: [] for worker in workers.values()}
    for event in events:
        if event.kind is Kind.TOOL_CALL:
            assert event.parent is not None
            worker, step = event.name.split("/")
            assert workers[event.parent] == worker
            steps[worker].append(int(step))
    assert steps == {str(worker): list(range(each)) for worker in range(threads)}


@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
async def test_tasks_inherit_run_and_span_from_the_task_that_made_them(
    tmp_path: Path, durability: str
) -> None:
    async def agent(run: Run, name: str) -> None:
        assert current_run() is run
        async with run.span(Kind.SUB_AGENT, name) as span:
            for step in range(5):
                await asyncio.sleep(0)
                async with run.span(Kind.TOOL_CALL, f"{name}.{step}"):
                    await asyncio.sleep(0)
            await asyncio.to_thread(run.record, Kind.RETRIEVAL, f"{name}.thread")
            span.output("done")

    with Run.start(tmp_path / "run", agent="a", durability=durability) as run:
        async with run.span(Kind.LLM_CALL, "plan"), asyncio.TaskGroup() as group:
            for name in ("a", "b", "c"):
                group.create_task(agent(run, name))
        capsule = run.seal(OWNER)
    assert verify_read_capsule(capsule, trusting(OWNER)).reason is None
    by_name = {item.event.name: item.event for item in capsule.events}
    assert len(by_name) == 1 + 3 * 7
    for name in ("a", "b", "c"):
        assert by_name[name].parent == by_name["plan"].index
        for inside in (*range(5), "thread"):
            assert by_name[f"{name}.{inside}"].parent == by_name[name].index


def test_a_thread_begins_without_a_run_and_is_attached_to_one(run: Run) -> None:
    seen: list[Any] = []

    def work(parent: int) -> None:
        seen.append(current_run())
        with run.attached(parent):
            seen.append(current_run())
            run.record(Kind.TOOL_CALL, "in the thread")
        seen.append(current_run())

    with run.span(Kind.SUB_AGENT, "agent") as span:
        thread = threading.Thread(target=work, args=(span.index,))
        thread.start()
        thread.join()
    assert seen == [None, run, None]
    assert parents(run) == {"agent": None, "in the thread": 0}


def test_runs_can_be_nested_and_the_inner_one_is_current(tmp_path: Path) -> None:
    with Run.start(tmp_path / "outer", agent="a") as outer:
        with outer.span(Kind.SUB_AGENT, "agent"), Run.start(tmp_path / "inner", agent="b") as inner:
            assert current_run() is inner
            inner.record(Kind.TOOL_CALL, "inside")
            outer.record(Kind.TOOL_CALL, "outside")
            assert parents(inner) == {"inside": None}
            assert current_run() is None, "a sealed run records nothing"
        assert current_run() is outer
        assert parents(outer) == {"agent": None, "outside": None}
    assert current_run() is None


def test_a_span_that_is_open_keeps_the_run_from_being_sealed(run: Run) -> None:
    with run.span(Kind.LLM_CALL, "open"), pytest.raises(AioumError) as error:
        run.seal(OWNER)
    assert code(error) == "run-span-open"
    assert run.seal(OWNER).events[0].event.name == "open"


def test_nothing_is_recorded_after_the_seal_and_sealing_again_gives_the_same(run: Run) -> None:
    run.record(Kind.TOOL_CALL, "one")
    capsule = run.seal(OWNER)
    for refused in (
        lambda: run.record(Kind.TOOL_CALL, "two"),
        lambda: run.span(Kind.TOOL_CALL, "two").__enter__(),
    ):
        with pytest.raises(AioumError) as error:
            refused()
        assert code(error) == "run-sealed"
    assert run.seal(OWNER) == capsule
    run.close()
    with Run.resume(run.folder) as resumed:
        assert resumed.seal(OWNER) == capsule
        with pytest.raises(AioumError) as error:
            resumed.record(Kind.TOOL_CALL, "two")
        assert code(error) == "run-sealed"


def test_a_seal_that_is_refused_leaves_the_run_open(run: Run) -> None:
    for keys, expected in (([], "run-signers-missing"), ([OWNER, OWNER], "run-signer-duplicate")):
        run.record(Kind.TOOL_CALL, "one")
        with pytest.raises(AioumError) as error:
            run.seal(*keys)
        assert code(error) == expected
    assert len(run.seal(OWNER).events) == 2


def test_a_run_without_events_cannot_be_sealed(run: Run) -> None:
    with pytest.raises(AioumError) as error:
        run.seal(OWNER)
    assert code(error) == "run-empty"


def test_a_closed_run_takes_nothing(run: Run) -> None:
    span = run.span(Kind.TOOL_CALL, "open")
    span.__enter__()
    run.close()
    run.close()
    for refused in (
        lambda: run.record(Kind.TOOL_CALL, "late"),
        lambda: span.__exit__(None, None, None),
        lambda: run.seal(OWNER),
        run.sync,
    ):
        with pytest.raises(AioumError) as error:
            refused()
        assert code(error) == "run-closed"


FORKING = """
import os, sys
from aioum.core.errors import AioumError
from aioum.run.recorder import Run

with Run.start(sys.argv[1], agent="a") as run:
    run.record("tool-call", "parent")
    if not os.fork():
        try:
            run.record("tool-call", "child")
        except AioumError as error:
            print(error.code, flush=True)
        os._exit(0)
    os.wait()
    run.record("tool-call", "parent again")
"""


def test_a_copy_of_the_process_cannot_record_into_the_same_run(tmp_path: Path) -> None:
    # In a process of its own: this one may have threads, which do not survive a fork.
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "run-other-process\n"
    with Run.resume(tmp_path / "run") as run:
        assert parents(run) == {"parent": None, "parent again": None}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"kind": "dance"}, "event-malformed"),
        ({"name": ""}, "event-malformed"),
        ({"name": "x" * 257}, "event-malformed"),
        ({"input": {1: 2}}, "content-unsupported"),
        ({"output": "\ud800"}, "content-unsupported"),
        ({"output": 2**53}, "content-unsupported"),
        ({"input": object()}, "content-unsupported"),
        ({"kind": Kind.APPROVAL, "call": PaidCall(ChannelId(bytes(32)), 0, Bytes32(bytes(32)))},
         "event-malformed"),
    ],
)  # fmt: skip
def test_what_no_event_can_be_is_refused_and_takes_no_index(
    run: Run, arguments: dict[str, Any], expected: str
) -> None:
    with pytest.raises(AioumError) as error:
        run.record(**({"kind": Kind.TOOL_CALL, "name": "tool"} | arguments))
    assert code(error) == expected
    assert run.record(Kind.TOOL_CALL, "fine") == 0


def test_contents_have_a_limit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioum.run.content.MAX_CONTENT_BYTES", 10)
    run.record(Kind.TOOL_CALL, "fits", input="x" * 10)
    with pytest.raises(InvalidInput) as error:
        run.record(Kind.TOOL_CALL, "does not", input="x" * 11)
    assert code(error) == "content-too-large"


def test_a_run_has_a_longest_length(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioum.run.order.MAX_EVENTS", 1)
    run.record(Kind.TOOL_CALL, "fits")
    with pytest.raises(AioumError) as error:
        run.record(Kind.TOOL_CALL, "does not")
    assert code(error) == "run-too-long"
    assert len(run.seal(OWNER).events) == 1


def test_a_folder_holds_one_run_and_one_recorder(run: Run) -> None:
    with pytest.raises(AioumError) as error:
        Run.start(run.folder, agent="another")
    assert code(error) == "run-journal-exists"
    with pytest.raises(AioumError) as error:
        Run.resume(run.folder)
    assert code(error) == "run-journal-in-use"


def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        Run.start(tmp_path / "run", agent="a", durability="eternal")
    assert code(error) == "run-durability-unknown"
    assert not (tmp_path / "run").exists()


def test_a_span_begins_and_ends_once(run: Run) -> None:
    span = run.span(Kind.TOOL_CALL, "once")
    with span:
        pass
    with pytest.raises(AioumError) as error:
        span.__enter__()
    assert code(error) == "run-span-not-open"
    with pytest.raises(AioumError) as error:
        run.end(span.index, "again")
    assert code(error) == "run-span-not-open"


def test_a_linked_call_is_in_the_event(run: Run) -> None:
    call = PaidCall(ChannelId(b"\x01" * 32), 3, Bytes32(b"\x02" * 32))
    with run.span(Kind.TOOL_CALL, "paid") as span:
        span.link(call)
    run.record(Kind.TOOL_CALL, "paid too", call=call)
    assert [item.event.call for item in run.seal(OWNER).events] == [call, call]
