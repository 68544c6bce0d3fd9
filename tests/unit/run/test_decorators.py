"""Functions that record themselves."""

from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import AioumError, InvalidInput
from aioum.run.capsule import Capsule
from aioum.run.decorators import recorded
from aioum.run.event import Kind
from aioum.run.opening import openings
from aioum.run.recorder import Run
from aioum.run.salts import Side
from tests.unit.run.samples import OWNER


@recorded(Kind.RETRIEVAL)
def look_up(what: str, /, *more: int, limit: int = 3, **rest: Any) -> dict[str, Any]:
    return {"found": [what] * limit}


@recorded("tool-call", "adder", input=lambda a, b: f"{a}+{b}", output=lambda total: str(total.real))
def add(a: complex, b: complex) -> complex:
    return a + b


@recorded(Kind.SUB_AGENT, "agent")
async def agent(task: str) -> str:
    look_up(task, limit=1)
    return f"did {task}"


class Guard:
    @recorded(Kind.GUARDRAIL)
    def check(self, amount: int) -> bool:
        return amount < 10


def contents(folder: Path, capsule: Capsule) -> list[tuple[str, int | None, bytes, bytes]]:
    wanted = {(index, side): None for index in range(len(capsule.events)) for side in Side}
    opened = openings(folder, capsule, wanted)
    return [
        (
            item.event.name,
            item.event.parent,
            opened[index, Side.INPUT].content,
            opened[index, Side.OUTPUT].content,
        )
        for index, item in enumerate(capsule.events)
    ]


async def test_calls_of_decorated_functions_are_events_with_their_arguments_and_results(
    tmp_path: Path,
) -> None:
    with Run.start(tmp_path / "run", agent="a", keep_contents=True) as run:
        assert look_up("x", 1, 2, also=True) == {"found": ["x", "x", "x"]}
        assert add(1, 2) == 3
        assert await agent("this") == "did this"
        assert Guard().check(5) is True
        capsule = run.seal(OWNER)
    assert contents(tmp_path / "run", capsule) == [
        ("look_up", None, b'{"limit":3,"more":[1,2],"rest":{"also":true},"what":"x"}',
         b'{"found":["x","x","x"]}'),
        ("adder", None, b"1+2", b"3"),
        ("agent", None, b'{"task":"this"}', b"did this"),
        ("look_up", 2, b'{"limit":1,"more":[],"rest":{},"what":"this"}', b'{"found":["this"]}'),
        ("check", None, b'{"amount":5}', b"true"),
    ]  # fmt: skip


async def test_outside_of_a_run_decorated_functions_are_only_called() -> None:
    assert look_up("x", limit=0) == {"found": []}
    assert await agent("this") == "did this"


def test_arguments_that_no_event_can_commit_to_are_refused_before_the_call(tmp_path: Path) -> None:
    called = []

    @recorded(Kind.TOOL_CALL)
    def take(thing: object) -> None:
        called.append(thing)

    with Run.start(tmp_path / "run", agent="a"), pytest.raises(InvalidInput) as error:
        take(object())
    assert error.value.code == "content-unsupported"
    assert called == []


def test_a_generator_has_no_one_output() -> None:
    with pytest.raises(AioumError) as error:

        @recorded(Kind.LLM_CALL)
        def stream() -> Any:
            yield 1

    assert error.value.code == "run-decorator-unsupported"
