"""A run over two paid sessions of a real node: its calls link themselves, and fit the sessions' packages."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aioum.cli.main import main
from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError
from aioum.core.evidence import package_bytes
from aioum.core.transcript import entry_leaf
from aioum.devnet.running import RunningDevnet
from aioum.run.event import Kind
from aioum.run.keys import Ed25519Key
from aioum.run.opening import openings
from aioum.run.policy import SealPolicy, TrustedKey
from aioum.run.recorder import Run
from aioum.run.salts import Side
from aioum.run.verification import verify_read_capsule
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.real_node import StartNode, node_starter
from tests.integration.conftest import FundedAccount

OWNER = Ed25519Key(b"\x07" * 32)


@pytest.fixture
def start_node(devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> StartNode:
    return node_starter(devnet, operator, tmp_path / "node")


async def test_paid_calls_of_two_sessions_link_themselves_and_verify_against_the_packages(
    start_node: StartNode, marketplace: MakeMarketplace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    async with (
        start_node() as node,
        marketplace() as market,
        market.open(node.url, deposit=10_000) as signed,
        market.open(node.url, deposit=150, signed=False) as unsigned,
    ):
        await signed.call("wordcount", text="before the run")
        with Run.start(folder, agent="agent://composer", keep_contents=True) as run:
            run.record(Kind.LLM_CALL, "plan", input="count things", output="two tools")
            async with run.span(Kind.SUB_AGENT, "counter", input="count") as span:
                # Five at once in one session, beside one in the other.
                async with asyncio.TaskGroup() as group:
                    for number in range(5):
                        group.create_task(signed.call("wordcount", text="a " * number))
                    group.create_task(unsigned.call("wordcount", text="alone"))
                span.output("counted")
            assert not (await signed.call("broken", text="x")).ok
            with pytest.raises(AioumError):
                await unsigned.call("wordcount", no_such_argument=1)
            with pytest.raises(AioumError) as too_large:
                await signed.call("wordcount", text="x" * 10_000_000)
            with pytest.raises(AioumError) as refused:
                await unsigned.call("wordcount", text="for no money")
            capsule = run.seal(OWNER, file=tmp_path / "capsule.json")
        await signed.call("wordcount", text="after the run")
        packages = [session.evidence_package("quality", "") for session in (signed, unsigned)]
        sessions = {session.channel_id: session.calls for session in (signed, unsigned)}

    verdict = verify_read_capsule(capsule, SealPolicy((TrustedKey(OWNER.alg, OWNER.public_key),)))
    assert verdict.reason is None
    events = [item.event for item in capsule.events]
    linked = [event for event in events if event.call is not None]
    assert len(linked) == 7
    places = set()
    for event in linked:
        assert event.call is not None
        entry = sessions[event.call.channel_id][event.call.index]
        assert (event.kind, event.name, event.call.leaf) == (
            Kind.TOOL_CALL, entry.tool_id, entry_leaf(entry)
        )  # fmt: skip
        wanted = {(event.index, side): None for side in Side}
        opened = openings(folder, capsule, wanted)
        assert opened[event.index, Side.INPUT].content == entry.request.encode()
        assert opened[event.index, Side.OUTPUT].content == entry.response.encode()
        places.add((event.call.channel_id, event.call.index))
    assert places == {*((signed.channel_id, index) for index in range(1, 7)), (unsigned.channel_id, 0)}
    assert [event.parent for event in linked].count(1) == 6
    # What no session could ask for is no event; what the session refused is one without a link.
    assert too_large.value.code == "request-too-large"
    assert len(events) == 10
    assert (refused.value.code, events[-1].kind, events[-1].call) == (
        "deposit-exhausted",
        Kind.TOOL_CALL,
        None,
    )
    opened = openings(folder, capsule, {(9, Side.OUTPUT): None})
    assert opened[9, Side.OUTPUT].content == b'{"error":"deposit-exhausted"}'

    files = []
    for number, package in enumerate(packages):
        files += ["--package", str(tmp_path / f"session-{number}.json")]
        Path(files[-1]).write_bytes(package_bytes(package))
    await asyncio.to_thread(_verify_against_packages, tmp_path / "capsule.json", files, capsys)


def _verify_against_packages(capsule: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()

    def judged(*options: str) -> Any:
        code = main(["run", "verify", str(capsule), "--json", *options])
        found = json.loads(capsys.readouterr().out)
        assert code == (1 if found["reason"] else 0)
        return found

    whole = judged(*files)
    assert whole["reason"] is None
    assert {name: len(events) for name, events in whole["calls"].items()} == {
        "matched": 7, "different": 0, "unknown": 0
    }  # fmt: skip
    assert len(judged(*files[:2])["calls"]["unknown"]) == 1
    signed = Path(files[1])
    package = json.loads(signed.read_bytes())
    package["calls"][3]["response"] = "rewritten"
    signed.write_bytes(canonical_bytes(package))
    altered = judged(*files)
    assert altered["reason"] == "call-link-mismatch"
    assert len(altered["calls"]["different"]) == 1
