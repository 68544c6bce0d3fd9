import json
from pathlib import Path

import pytest

from aioum.core.errors import AioumError, Refused
from aioum.core.wire import JsonObject
from aioum_node.disputes.control import CONTROL_FILE, NodeRefused, ask_node, serving_control


async def echo(command: JsonObject) -> JsonObject:
    if command.get("refuse"):
        raise Refused("not now", code="lease-held", hint="later")
    if command.get("break"):
        raise RuntimeError("a bug")
    return {"asked": command}


async def test_command_reaches_the_running_node_and_its_answer_comes_back(tmp_path: Path) -> None:
    async with serving_control(tmp_path, echo):
        file = tmp_path / CONTROL_FILE
        assert file.stat().st_mode & 0o777 == 0o600
        assert await ask_node(tmp_path, {"action": "x"}) == {"asked": {"action": "x"}}
    assert not file.exists()


async def test_where_no_node_runs_nobody_answers(tmp_path: Path) -> None:
    assert await ask_node(tmp_path, {}) is None
    async with serving_control(tmp_path, echo):
        left_behind = (tmp_path / CONTROL_FILE).read_bytes()
    (tmp_path / CONTROL_FILE).write_bytes(left_behind)
    assert await ask_node(tmp_path, {}) is None
    (tmp_path / CONTROL_FILE).write_bytes(b"[]")
    assert await ask_node(tmp_path, {}) is None


async def test_token_of_another_run_opens_nothing(tmp_path: Path) -> None:
    async with serving_control(tmp_path, echo):
        file = tmp_path / CONTROL_FILE
        named = json.loads(file.read_text())
        file.write_text(json.dumps({**named, "token": "0" * 64}))
        assert await ask_node(tmp_path, {}) is None


async def test_refusal_keeps_its_code_and_hint(tmp_path: Path) -> None:
    async with serving_control(tmp_path, echo):
        with pytest.raises(NodeRefused) as refused:
            await ask_node(tmp_path, {"refuse": True})
        with pytest.raises(AioumError) as broken:
            await ask_node(tmp_path, {"break": True})
    assert (refused.value.code, refused.value.hint) == ("lease-held", "later")
    assert broken.value.code == "internal-error"
