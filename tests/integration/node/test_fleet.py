"""Several node processes that serve the same sessions, on a PostgreSQL store."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from aioum.chain.client import Chain
from aioum.core.evidence_reading import EvidencePackage, parse_package
from aioum.core.hextext import to_hex
from aioum.core.problem import problem_code
from aioum.core.transcript import canonical_request
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode
from aioum_node.settings import Settings
from aioum_node.storage import check_shared
from tests.integration.conftest import FundedAccount
from tests.integration.node.crashing_node import CALL_STEPS, PRICE, SETTLEMENT_STEPS, STAND_STILL
from tests.integration.node.edge_client import Buyer, Opened, Reply
from tests.integration.node.fleet import PATIENT_SECONDS, Fleet
from tests.integration.node.test_visibility import (
    CARRIERS,
    LOOPS,
    SHARED_LOOPS,
    loop_series,
    node_tasks,
    scraped,
)
from tests.many import some_of
from tests.pens import ROSTER, Pen
from tests.postgres import PostgresServer

CORRUPT = ("aioum_settlement_failures_total", "store-corrupt")


@pytest.fixture
def fleet(
    tmp_path: Path,
    devnet: RunningDevnet,
    operator: FundedAccount,
    repository: Path,
    postgres: PostgresServer,
) -> Fleet:
    return Fleet(tmp_path, devnet, operator, repository, postgres)


@pytest.fixture
async def buyer(chain: Chain, payer: FundedAccount) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        yield Buyer(chain, payer, http)


async def call(
    fleet: Fleet, buyer: Buyer, node: RunningNode, session: Opened, amount: int, text: str, **how: Any
) -> Reply:
    arguments = {"text": text, "folder": str(fleet.folder)}
    return await buyer.pay(node, session, amount, "note", arguments, **how)


async def exported(node_dir: Path, session: Opened) -> EvidencePackage:
    """What the public command writes of a session in the shared store."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "verify-evidence"),
        *("--export", "--store", "multinode", "--session", to_hex(session.channel_id)),
        *("--node-dir", str(node_dir), "--claim", "quality"),
        stdout=asyncio.subprocess.PIPE,
    )
    written, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return parse_package(written)


async def transactions(fleet: Fleet, postgres: PostgresServer) -> list[tuple[str, str]]:
    """Purpose and state of every settlement in the journal."""
    sql = await asyncpg.connect(postgres.url, server_settings={"search_path": fleet.schema})
    sent = await sql.fetch(
        "SELECT purpose, state FROM transactions WHERE purpose LIKE 'settle:%' ORDER BY id"
    )
    await sql.close()
    return [(row["purpose"], row["state"]) for row in sent]


async def looked_up(fleet: Fleet, postgres: PostgresServer) -> list[tuple[str, str]]:
    """`transactions`, once the fate of the last one is known.

    The session may be found settled on the chain before the one who sent it, or its heir, has looked it up.
    """
    deadline = time.monotonic() + 60
    while (sent := await transactions(fleet, postgres))[-1][1] == "pending":
        assert time.monotonic() < deadline, "the transaction was not looked up in time"
        await asyncio.sleep(0.1)
    return sent


async def test_two_hundred_replays_of_one_voucher_over_three_processes_are_one_execution_and_one_charge(
    fleet: Fleet, buyer: Buyer, chain: Chain
) -> None:
    async with AsyncExitStack() as stack:
        async with fleet.running("first") as first:
            session = await buyer.open(first, 50_000)
            await call(fleet, buyer, first, session, PRICE, "opening", action="open")
        members = [
            await stack.enter_async_context(
                fleet.member(name, first, "slow-tool", process_silence_seconds=PATIENT_SECONDS)
            )
            for name in ("first", "second", "third")
        ]
        replies = await asyncio.gather(
            *(
                call(fleet, buyer, members[number % 3].node, session, 2 * PRICE, "replayed")
                for number in range(200)
            )
        )
        transcript = await buyer.read(members[0].node, session, "/calls")
        done = await buyer.close_until_settled(members[2].node, session, 2)
    assert {reply.status for reply in replies} == {200}
    assert len({(reply.body, reply.headers["Aioum-Receipt"]) for reply in replies}) == 1
    receipt = buyer.receipt(first, replies[0]).receipt
    assert (receipt.index, receipt.charge) == (1, PRICE)
    assert fleet.ran() == ["opening", "replayed"]
    assert [item["index"] for item in transcript.json["calls"]] == [0, 1]
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (2 * PRICE, 2)
    assert done.json["statement"]["root"] == to_hex(anchored.root)


@pytest.mark.parametrize("step", some_of(CALL_STEPS, 3, first=1))
async def test_call_of_a_process_that_is_killed_at_any_step_is_answered_once_and_goes_on_elsewhere(
    fleet: Fleet, buyer: Buyer, chain: Chain, step: str
) -> None:
    async with fleet.running("first") as first:
        session = await buyer.open(first, 50_000)
        await call(fleet, buyer, first, session, PRICE, "opening", action="open")
        async with fleet.member("second", first, step) as doomed:
            with pytest.raises(aiohttp.ClientError):
                await call(fleet, buyer, doomed.node, session, 2 * PRICE, "cut off")
            # At once: the other one does not know yet whether the call still runs.
            retry = await call(fleet, buyer, first, session, 2 * PRICE, "cut off")
        again = await call(fleet, buyer, first, session, 2 * PRICE, "cut off")
        third = await call(fleet, buyer, first, session, 3 * PRICE, "third")
        done = await buyer.close_until_settled(first, session, 3)
    interrupted = step in ("after-admit", "in-tool", "before-record")
    assert (problem_code(retry.body) == "interrupted") == interrupted
    assert (again.body, again.headers["Aioum-Receipt"]) == (retry.body, retry.headers["Aioum-Receipt"])
    receipts = [buyer.receipt(first, reply).receipt for reply in (retry, third)]
    charge = 0 if interrupted else PRICE
    assert [(receipt.index, receipt.charge) for receipt in receipts] == [(1, charge), (2, PRICE)]
    assert fleet.ran().count("cut off") == (0 if step == "after-admit" else 1)
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (2 * PRICE + charge, 3)
    assert done.json["statement"]["root"] == to_hex(anchored.root)


async def test_open_calls_of_a_killed_process_are_recorded_without_anybody_asking(
    fleet: Fleet, buyer: Buyer
) -> None:
    async with fleet.running("first") as first:
        session = await buyer.open(first, 50_000)
        await call(fleet, buyer, first, session, PRICE, "opening", action="open")
        async with fleet.member("second", first, "in-tool") as doomed:
            with pytest.raises(aiohttp.ClientError):
                await call(fleet, buyer, doomed.node, session, 2 * PRICE, "cut off")
        deadline = time.monotonic() + 60
        while not (await first.store.calls(session.channel_id, 1, 1))[0].recorded:
            assert time.monotonic() < deadline, "the call was not taken over in time"
            await asyncio.sleep(0.1)
        retry = await call(fleet, buyer, first, session, 2 * PRICE, "cut off")
        async with buyer.http.get(f"{first.admin_url}/metrics") as response:
            metrics = (await response.text()).splitlines()
    assert problem_code(retry.body) == "interrupted"
    assert {"aioum_calls_taken_over 1.0", "aioum_sending 1.0", "aioum_store_steps_waiting 0.0"} <= set(
        metrics
    )


async def test_process_that_only_stood_still_loses_and_gives_the_answer_that_was_recorded(
    fleet: Fleet, buyer: Buyer
) -> None:
    async with fleet.running("first") as first:
        session = await buyer.open(first, 50_000)
        await call(fleet, buyer, first, session, PRICE, "opening", action="open")
        async with fleet.member("second", first, "slow-tool") as second:
            late = asyncio.create_task(call(fleet, buyer, second.node, session, 2 * PRICE, "late"))
            deadline = time.monotonic() + 60
            while "late" not in fleet.ran():
                assert time.monotonic() < deadline, "the tool was not run in time"
                await asyncio.sleep(0.01)
            second.process.send_signal(signal.SIGSTOP)
            retry = await call(fleet, buyer, first, session, 2 * PRICE, "late")
            second.process.send_signal(signal.SIGCONT)
            overtaken = await late
            # It speaks again, as another one, and serves. On a busy machine it may be silent once more first.
            following = await call(fleet, buyer, second.node, session, 2 * PRICE + 1, "following")
            while following.status == 503:
                following = await call(fleet, buyer, second.node, session, 2 * PRICE + 1, "following")
    assert problem_code(retry.body) == "interrupted"
    assert (overtaken.body, overtaken.headers["Aioum-Receipt"]) == (
        retry.body,
        retry.headers["Aioum-Receipt"],
    )
    assert buyer.receipt(first, following).receipt.index == 2
    assert fleet.ran() == ["opening", "late", "following"]


async def test_roster_that_was_shown_to_one_process_is_known_to_the_others(
    fleet: Fleet, buyer: Buyer
) -> None:
    async with fleet.running("first") as first:
        session = await buyer.open(first, 50_000, roster_hash=ROSTER.hash)
        async with fleet.member("second", first) as second:
            pen = Pen(session.channel_id)
            arguments: dict[str, Any] = {"text": "a", "folder": str(fleet.folder)}
            for node in (first, second.node):
                draft = pen.draft(canonical_request("note", arguments).encode(), 0)
                early = await buyer.ask(
                    node, session, pen, 0, PRICE, "note", arguments, envelope=draft, action="open"
                )
                assert early.code == "roster-required"
            shown = await buyer.ask(
                first, session, pen, 0, PRICE, "note", arguments, action="open", roster=ROSTER.to_json()
            )
            other = await buyer.ask(second.node, session, pen, 1, 2 * PRICE, "note", arguments)
    assert (shown.status, other.status) == (200, 200)


@pytest.mark.parametrize("step", some_of(SETTLEMENT_STEPS, 3, first=1))
async def test_settlement_whose_process_is_killed_at_any_step_is_finished_by_another_one(
    fleet: Fleet, buyer: Buyer, chain: Chain, postgres: PostgresServer, step: str
) -> None:
    async with fleet.running("first") as first:
        session = await buyer.open(first, 50_000)
        await call(fleet, buyer, first, session, PRICE, "opening", action="open")
        await fleet.join("second")
    async with fleet.member("first", first, step) as doomed:
        with pytest.raises(aiohttp.ClientError):
            await buyer.close_until_settled(doomed.node, session, 1)
        await asyncio.wait_for(doomed.process.wait(), 60)
    async with fleet.member("second", first) as heir:
        done = await buyer.close_until_settled(heir.node, session, 1)
        sent = await looked_up(fleet, postgres)
    assert sent == [(f"settle:{to_hex(session.channel_id)}", "mined")]
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (PRICE, 1)
    assert done.json["statement"]["root"] == to_hex(anchored.root)


@pytest.mark.parametrize("step", some_of(["after-journal", "after-seal", "after-broadcast"], 3))
async def test_process_that_stood_still_while_it_settled_does_nothing_twice_when_it_goes_on(
    fleet: Fleet, buyer: Buyer, chain: Chain, postgres: PostgresServer, step: str
) -> None:
    """It holds the lease, loses it, and wakes up at this step while another one has settled."""
    async with fleet.running("first") as first:
        session = await buyer.open(first, 50_000)
        await call(fleet, buyer, first, session, PRICE, "opening", action="open")
        await fleet.join("second")
    async with fleet.member("first", first, STAND_STILL + step) as sleeper:
        closing = asyncio.create_task(buyer.close(sleeper.node, session, 1))
        assert sleeper.process.stdout is not None
        await asyncio.wait_for(sleeper.process.stdout.readline(), 60)
        async with fleet.member("second", first) as heir:
            done = await buyer.close_until_settled(heir.node, session, 1)
            sleeper.process.send_signal(signal.SIGCONT)
            again = await asyncio.wait_for(closing, 60)
            while again.status in (202, 503):
                await asyncio.sleep(0.1)
                again = await buyer.close(sleeper.node, session, 1)
            sent = await looked_up(fleet, postgres)
        assert sleeper.process.returncode is None
    assert sent == [(f"settle:{to_hex(session.channel_id)}", "mined")]
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (PRICE, 1)
    assert (done.status, again.status) == (200, 200)
    assert again.json["statement"] == done.json["statement"]


async def test_exactly_one_process_settles_and_when_it_dies_another_one_does(
    fleet: Fleet, buyer: Buyer, chain: Chain, postgres: PostgresServer
) -> None:
    sessions = []
    async with fleet.running("first") as first:
        for _ in range(3):
            session = await buyer.open(first, 50_000)
            await call(fleet, buyer, first, session, PRICE, "opening", action="open")
            sessions.append(session)
    async with AsyncExitStack() as stack:
        members = [
            await stack.enter_async_context(fleet.member(name, first))
            for name in ("first", "second", "third")
        ]
        await buyer.close_until_settled(members[2].node, sessions[0], 1)
        await members[0].kill()
        await buyer.close_until_settled(members[2].node, sessions[1], 1)
        await members[1].kill()
        await buyer.close_until_settled(members[2].node, sessions[2], 1)
        sent = await looked_up(fleet, postgres)
    assert sent == [(f"settle:{to_hex(session.channel_id)}", "mined") for session in sessions]
    for session in sessions:
        anchored = await chain.session(session.channel_id)
        assert anchored is not None
        assert (anchored.settled, anchored.call_count) == (PRICE, 1)


async def test_shared_store_is_checked_and_exported_while_it_is_served_and_a_flipped_bit_is_never_anchored(
    fleet: Fleet, buyer: Buyer, chain: Chain, postgres: PostgresServer
) -> None:
    async with fleet.running("first") as first:
        session = await buyer.open(first, 50_000)
        await call(fleet, buyer, first, session, PRICE, "opening", action="open")
        settings = Settings(**fleet.settings("first"))
        named = fleet.settings("first")
        (fleet.folder / "first" / "node.toml").write_text(
            f'database_url_file = "{named["database_url_file"]}"\ndatabase_schema = "{fleet.schema}"\n'
        )
        sound = await asyncio.to_thread(check_shared, settings)
        package = await exported(fleet.folder / "first", session)
        sql = await asyncpg.connect(postgres.url, server_settings={"search_path": fleet.schema})
        await sql.execute("UPDATE answers SET response = set_bit(response, 9, 1 - get_bit(response, 9))")
        flipped = await asyncio.to_thread(check_shared, settings)
        closing = await buyer.close(first, session, 1)
        async with asyncio.timeout(60):
            while not (await scraped(buyer.http, first)).get(CORRUPT):
                await asyncio.sleep(0.1)
        anchored = await chain.session(session.channel_id)
        await sql.execute(
            "INSERT INTO answers SELECT key + 1, response, 200, '', failed, leaf, charge, 0 FROM answers"
        )
        stray = await asyncio.to_thread(check_shared, settings)
        await sql.close()
    assert (sound.sessions, sound.calls, sound.findings) == (1, 1, ())
    assert (package.channel_id, len(package.calls)) == (session.channel_id, 1)
    assert closing.status == 202
    assert anchored is not None
    assert (anchored.has_root, anchored.is_finalized) == (False, False)
    assert {finding.code for finding in flipped.findings} == {"leaf-mismatch", "frontier-mismatch"}
    assert "file-damaged" in {finding.code for finding in stray.findings}


async def test_node_whose_database_is_away_says_so_and_goes_on_when_it_is_back(
    fleet: Fleet, buyer: Buyer, postgres: PostgresServer
) -> None:
    async def ready(node: RunningNode, wanted: bool) -> Any:
        deadline = time.monotonic() + 60
        while True:
            async with buyer.http.get(f"{node.admin_url}/readyz") as response:
                said = await response.json()
            if said["ready"] is wanted:
                return said
            assert time.monotonic() < deadline, f"readiness stayed {said}"
            await asyncio.sleep(0.1)

    async with fleet.running("first") as first:
        session = await buyer.open(first, 50_000)
        await call(fleet, buyer, first, session, PRICE, "opening", action="open")
        running, samples = set(node_tasks()), await scraped(buyer.http, first)
        await asyncio.to_thread(postgres.stop, mode="immediate")
        try:
            away = await ready(first, False)
            refused = await call(fleet, buyer, first, session, 2 * PRICE, "meanwhile")
        finally:
            await asyncio.to_thread(postgres.start)
        await ready(first, True)
        after = await call(fleet, buyer, first, session, 2 * PRICE, "after")
    loops = {**LOOPS, **SHARED_LOOPS}
    assert loops.keys() <= running <= loops.keys() | CARRIERS
    assert loop_series(samples) == set(loops.values())
    assert "store" in json.dumps(away)
    assert refused.status == 503
    assert buyer.receipt(first, after).receipt.index == 1
    assert fleet.ran() == ["opening", "after"]
