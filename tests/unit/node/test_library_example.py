"""The example service: its folder works as a template, and its tools answer."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioum.core.problem import problem_code
from aioum.core.signing import LocalKey
from aioum.core.transcript import canonical_request
from aioum_node.card_builder import build_card
from aioum_node.init import init_node
from aioum_node.service import ServiceTool, load_tools
from aioum_node.settings import Settings, ToolSettings, load_settings
from tests.unit.node.test_card_builder import FACTS


@pytest.fixture
def template(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's folder; what it imports is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "library_tools", raising=False)
    return repository / "examples" / "services" / "library"


@pytest.fixture
async def tools(template: Path) -> AsyncIterator[dict[str, ServiceTool]]:
    async with load_tools(load_settings(template / "node.toml")) as box:
        yield dict(box.tools)
    sys.modules.pop("library_tools", None)


async def test_folder_is_a_template_for_a_node(template: Path, tmp_path: Path) -> None:
    made = init_node(Settings(node_dir=tmp_path / "node"), key=LocalKey(b"\x11" * 32), template=template)

    settings = load_settings(made.config_file)
    async with load_tools(settings) as box:
        card = build_card(settings, box.tools, FACTS).card
    sys.modules.pop("library_tools", None)

    assert card.name == "Library"
    assert [tool.id for tool in card.tools if card.reexecutable(tool.id)] == ["word-frequencies"]
    assert (tmp_path / "node" / "documents" / "deposits.md").exists()


async def answer(tools: dict[str, ServiceTool], tool_id: str, **arguments: Any) -> bytes:
    request = canonical_request(tool_id, arguments).encode()
    return (await tools[tool_id].upstream.run(arguments, request, 20)).response


async def test_documents_are_listed_outlined_quoted_and_searched(tools: dict[str, ServiceTool]) -> None:
    assert json.loads(await answer(tools, "documents")) == ["deposits.md", "receipts.md"]
    outline = json.loads(await answer(tools, "outline", document="deposits.md"))
    assert outline[0] == {"level": 1, "line": 1, "title": "Deposits and vouchers"}
    assert len(outline) == 3
    assert (await answer(tools, "sentence", document="deposits.md", number=3)).startswith(b"Nothing moves")
    matches = json.loads(await answer(tools, "search", query="GRACE period"))
    assert [match["document"] for match in matches] == ["deposits.md"]


async def test_wordcount_counts(tools: dict[str, ServiceTool]) -> None:
    assert await answer(tools, "wordcount", text="a b\nc") == b'{"characters":5,"lines":2,"words":3}'


@pytest.mark.parametrize("document", ["nothing.md", "../node.toml", "/etc/passwd"])
async def test_only_documents_of_the_library_are_read(tools: dict[str, ServiceTool], document: str) -> None:
    assert problem_code(await answer(tools, "outline", document=document)) == "tool-failed"


async def test_sentence_beyond_the_end_is_a_failed_call(tools: dict[str, ServiceTool]) -> None:
    assert problem_code(await answer(tools, "sentence", document="deposits.md", number=999)) == "tool-failed"


@pytest.mark.skipif(shutil.which("python3") is None, reason="the command is started as python3")
async def test_command_gives_the_same_bytes_again(tools: dict[str, ServiceTool]) -> None:
    first = await answer(tools, "word-frequencies", text="b a b", top=1)

    assert first == await answer(tools, "word-frequencies", text="b a b", top=1) == b'{"b":2}'


async def test_service_behind_a_url_answers(template: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(template / "reading_time_service.py"),
        "0",
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip()
        entry = ToolSettings(http=url + "/", trusted_host="127.0.0.1", id="reading-time", price=1)
        async with load_tools(Settings(tools=(entry,))) as box:
            read = await answer(dict(box.tools), "reading-time", text="a " * 220)
            nonsense = await answer(dict(box.tools), "reading-time", words="none")
    finally:
        process.terminate()
        await process.wait()

    assert read == b'{"seconds":60,"words":220}'
    assert problem_code(nonsense) == "tool-failed"
