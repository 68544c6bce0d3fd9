"""Services of WebAssembly modules: what an operator declares, and what the card pins."""

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import ConfigError
from aioum_node.card_builder import build_card
from aioum_node.service import load_tools
from aioum_node.settings import DeterministicSettings, Settings, ToolSettings
from aioum_node.tools import tool
from tests.unit.kits.wat import ECHO, EXIT_3, binary
from tests.unit.node.test_card_builder import FACTS

DIGEST = sha256(ECHO).hexdigest()
WASM = DeterministicSettings(kind="wasm")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "echo.wasm").write_bytes(ECHO)
    (tmp_path / "exit.wasm").write_bytes(EXIT_3)
    return tmp_path


def module_tool(file: str = "echo.wasm", **changes: Any) -> ToolSettings:
    return ToolSettings(**{"wasm": Path(file), "id": file[:4], "price": 1, **changes})


@tool(price=1, deterministic=True)
def shout(text: str) -> str:
    """Another kind of tool."""
    return text.upper()


@tool(price=1)
def now() -> str:
    """A tool that nobody can run again."""
    return "noon"


async def card(folder: Path, *tools: ToolSettings, functions: tuple[Any, ...] = (), **changes: Any) -> Any:
    settings = Settings(**{"node_dir": folder, "tools": tools, "deterministic": WASM, **changes})
    async with load_tools(settings, functions) as box:
        return json.loads(build_card(settings, box.tools, FACTS).canonical)


async def refused(folder: Path, *tools: ToolSettings, **changes: Any) -> str:
    with pytest.raises(ConfigError) as refusal:
        await card(folder, *tools, **changes)
    return refusal.value.code


async def test_the_card_pins_the_module_that_answers(folder: Path) -> None:
    how = DeterministicSettings(kind="wasm", uri="https://shop.example/echo.wasm")

    made = await card(folder, module_tool(), deterministic=how)

    assert made["deterministic"] == {
        "kind": "wasm", "module": DIGEST, "uri": "https://shop.example/echo.wasm",
    }  # fmt: skip
    assert "deterministic" not in made["tools"][0]


async def test_tools_of_other_kinds_are_exempt_or_refused(folder: Path) -> None:
    made = await card(folder, module_tool(), functions=(now,))

    assert [tool.get("deterministic", True) for tool in made["tools"]] == [True, False]
    assert await refused(folder, module_tool(), functions=(shout,)) == "wasm-module-mismatched"


async def test_one_module_answers_for_all_tools_that_are_judged(folder: Path) -> None:
    assert await refused(folder, module_tool(), module_tool("exit.wasm")) == "wasm-module-mismatched"
    made = await card(folder, module_tool(), module_tool("exit.wasm", deterministic=False))
    assert made["deterministic"]["module"] == DIGEST


async def test_a_digest_that_is_written_down_must_be_the_modules(folder: Path) -> None:
    right = DeterministicSettings(kind="wasm", module=DIGEST)
    wrong = DeterministicSettings(kind="wasm", module="ab" * 32)
    no_digest = DeterministicSettings(kind="wasm", module="echo.wasm")

    assert (await card(folder, module_tool(), deterministic=right))["deterministic"]["module"] == DIGEST
    assert await refused(folder, module_tool(), deterministic=wrong) == "wasm-module-mismatched"
    assert (
        await refused(folder, module_tool(deterministic=False), deterministic=WASM) == "wasm-module-missing"
    )
    assert await refused(folder, module_tool(), deterministic=no_digest) == "wasm-module-mismatched"


async def test_a_module_file_must_be_there(folder: Path) -> None:
    assert await refused(folder, module_tool("none.wasm")) == "wasm-module-missing"


async def test_modules_need_wasmtime(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)

    assert await refused(folder, module_tool()) == "wasm-unavailable"


async def test_the_declared_entry_is_called(folder: Path) -> None:
    (folder / "echo.wasm").write_bytes(
        binary(
            '(module (memory (export "memory") 1)'
            ' (func (export "judge")) (func (export "_start") unreachable))'
        )
    )
    how = DeterministicSettings(kind="wasm", entry="judge")
    settings = Settings(node_dir=folder, tools=(module_tool(),), deterministic=how)

    async with load_tools(settings) as box:
        answer = await box.tools["echo"].upstream.run({}, b"{}", 30)

    assert (answer.failed, answer.response) == (False, b"")


def test_a_tool_is_of_one_kind_and_a_module_needs_an_id_and_a_price() -> None:
    for wrong in (
        {"wasm": Path("a"), "id": "a"},
        {"wasm": Path("a"), "price": 1},
        {"wasm": Path("a"), "id": "a", "price": 1, "http": "http://a"},
    ):
        with pytest.raises(ValueError) as refusal:
            ToolSettings(**wrong)  # type: ignore[arg-type]
        assert "tool" in str(refusal.value)
