"""A node whose store is older than what it answered: noticed at start, and nothing is said a second time."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.errors import AioumError
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase
from aioum.core.types import Bytes32
from aioum.core.wire import RECEIPT_HEADER, SignedReceipt
from aioum_node.app import RunningNode
from aioum_node.keys.identity import Identity
from aioum_node.store.port import StoredSession
from aioum_node.store.sqlite import STORE_FILE
from aioum_node.tools import tool
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer, Opened

WATERMARK = "watermark"


class Unreadable(SignedReceipt):
    """What is shown for a receipt and is none."""

    def header(self) -> str:
        return "0"


class Folder:
    """The node's folder, and what an operator does with it while the node is stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._copies = 0

    def copied(self, *, without: str | None = None) -> Path:
        self._copies += 1
        copy = self.path.with_name(f"backup-{self._copies}")
        shutil.copytree(self.path, copy)
        if without is not None:
            (copy / without).unlink()
        return copy

    def restore(self, backup: Path, *names: str) -> None:
        """Put these files back, or everything."""
        if not names:
            shutil.rmtree(self.path)
            shutil.copytree(backup, self.path)
        for name in names:
            shutil.copy(backup / name, self.path / name)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "node")


async def stored(node: RunningNode, session: Opened) -> StoredSession:
    found = await node.store.session(session.channel_id)
    assert found is not None
    return found


async def bought(start_node: StartNode, buyer: Buyer, *more: Callable[[], object]) -> Opened:
    """A session with two calls; then `more` happens while the node is stopped; then it has two calls more."""
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
        await buyer.pay(node, session, 2 * PRICE)
    for step in more:
        step()
    async with start_node() as node:
        await buyer.pay(node, session, 3 * PRICE)
        await buyer.pay(node, session, 4 * PRICE)
    return session


async def suspects_counted(buyer: Buyer, node: RunningNode) -> float:
    async with buyer.http.get(f"{node.admin_url}/metrics") as response:
        lines = (await response.text()).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("aioum_suspect_sessions "))


async def refusals(buyer: Buyer, node: RunningNode, session: Opened) -> set[str]:
    """What a client gets who calls, retries, reads and closes."""
    replies = [
        await buyer.pay(node, session, 5 * PRICE),
        await buyer.pay(node, session, 2 * PRICE),
        await buyer.enter(node, session, 5 * PRICE),
        await buyer.enter(node, session),
        await buyer.read(node, session, "/statement"),
        await buyer.read(node, session, "/calls"),
        await buyer.close(node, session, 2),
        await buyer.close(node, session, 4),
    ]
    assert not any(RECEIPT_HEADER in reply.headers for reply in replies)
    assert {reply.status for reply in replies} == {409}
    return {reply.code for reply in replies}


@pytest.mark.parametrize(
    "names", [(STORE_FILE,), ()], ids=["the store alone", "everything but the watermark"]
)
async def test_restored_store_is_noticed_and_serves_and_signs_nothing_of_open_sessions(
    start_node: StartNode, buyer: Buyer, folder: Folder, chain: Chain, names: tuple[str, ...]
) -> None:
    backups: list[Path] = []
    session = await bought(start_node, buyer, lambda: backups.append(folder.copied(without=WATERMARK)))
    watermark = (folder.path / WATERMARK).read_bytes()
    folder.restore(backups[0], *names)
    (folder.path / WATERMARK).write_bytes(watermark)

    async with start_node(session_idle_seconds=1) as node:
        refused = await refusals(buyer, node, session)
        read = await buyer.read(node, session)
        fresh = await buyer.open(node)
        served = await buyer.enter(node, fresh, PRICE)
        await node.settle_loop.run_once()
        before = await stored(node, session)
        on_chain = await chain.session(session.channel_id)

    assert refused == {"session-suspect"}
    assert (read.status, read.json["phase"], read.json["callCount"]) == (200, "suspect", 2)
    assert served.status == 200
    assert before.state.phase is Phase.SUSPECT
    assert on_chain is not None
    assert (on_chain.has_root, on_chain.is_finalized) == (False, False)
    # Still so after another start, which finds nothing new.
    async with start_node() as node:
        assert await refusals(buyer, node, session) == {"session-suspect"}
        assert (await buyer.pay(node, fresh, 2 * PRICE)).status == 200


async def test_copy_of_a_store_that_was_run_elsewhere_and_comes_back_is_noticed(
    start_node: StartNode, buyer: Buyer, folder: Folder
) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
    copy = folder.copied()
    async with start_node() as node:
        await buyer.pay(node, session, 2 * PRICE)
    own = folder.copied()
    folder.restore(copy)
    async with start_node() as node:
        for calls_made in (2, 3, 4):
            await buyer.pay(node, session, calls_made * PRICE)
    elsewhere = folder.copied()
    # It stands above the node's own watermark, so only the name of its life tells.
    folder.restore(own)
    folder.restore(elsewhere, STORE_FILE)

    with capture_logs() as entries:
        async with start_node() as node:
            refused = await refusals(buyer, node, session)
            doubted = await stored(node, session)

    assert [entry["log_level"] for entry in entries if entry["event"] == "store-forked"] == ["error"]
    assert (refused, doubted.state.phase) == ({"session-suspect"}, Phase.SUSPECT)


async def test_call_that_a_restored_store_has_under_way_is_not_recorded_as_interrupted(
    start_node: StartNode, buyer: Buyer, folder: Folder
) -> None:
    backup = folder.path.with_name("backup")

    async def copying(text: str) -> str:
        backup.mkdir()
        for name in (STORE_FILE, f"{STORE_FILE}-wal"):
            shutil.copy(folder.path / name, backup / name)
        return text

    async with start_node([tool(price=PRICE, tool_id="shout")(copying)]) as node:
        session = await buyer.open(node)
        reply = await buyer.enter(node, session, PRICE)
    folder.restore(backup, STORE_FILE, f"{STORE_FILE}-wal")
    async with start_node() as node:
        waiting = await node.store.calls(session.channel_id, 0, 9)
        retry = await buyer.pay(node, session, PRICE)

    assert reply.status == 200
    assert [(call.index, call.recorded) for call in waiting] == [(0, False)]
    assert retry.code == "session-suspect"


async def test_session_that_the_restored_store_does_not_have_is_suspect_when_it_comes_back(
    start_node: StartNode, buyer: Buyer, folder: Folder
) -> None:
    async with start_node():
        pass
    backup = folder.copied()
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
    folder.restore(backup, STORE_FILE)

    async with start_node() as node:
        again = await buyer.enter(node, session, PRICE)
        state = (await stored(node, session)).state
        fresh = await buyer.open(node)
        served = await buyer.enter(node, fresh, PRICE)

    assert (again.status, again.code) == (409, "session-suspect")
    assert (state.phase, state.admitted) == (Phase.SUSPECT, 0)
    assert served.status == 200


async def test_keys_of_another_time_speak_for_no_session_of_the_present_terms(
    start_node: StartNode, buyer: Buyer, payer: FundedAccount
) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
    former = Identity(payer.key, payer.key)
    with pytest.raises(AioumError) as unregistered:
        async with start_node(register=False, identity=former):
            pass
    async with start_node(identity=former) as node:
        refused = await buyer.pay(node, session, PRICE)

    assert unregistered.value.code == "registration-outdated"
    assert refused.code == "terms-not-ours"


async def test_whole_folder_restored_is_found_out_by_the_clients_newest_receipt(
    start_node: StartNode, buyer: Buyer, folder: Folder
) -> None:
    backups: list[Path] = []
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
    backups.append(folder.copied())
    async with start_node() as node:
        newest = await buyer.pay(node, session, 2 * PRICE)
    folder.restore(backups[0])

    async with start_node() as node:
        receipt = buyer.receipt(node, newest)
        with capture_logs() as log:
            known = await buyer.pay(node, session, PRICE, newest=receipt)
            after = await stored(node, session)
            again = await buyer.pay(node, session, 3 * PRICE, newest=receipt)

    assert known.code == again.code == "session-suspect"
    assert [entry["event"] for entry in log].count("receipt-beyond-store") == 1
    assert after.state.phase is Phase.SUSPECT


async def test_whole_folder_restored_is_found_out_by_what_the_chain_holds_said_once_and_counted(
    start_node: StartNode, buyer: Buyer, folder: Folder, operator: FundedAccount, chain: Chain
) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
    backup = folder.copied()
    async with start_node() as node:
        await buyer.pay(node, session, 2 * PRICE)
    commit = calls.commit_results(chain.payment_manager, session.channel_id, Bytes32(b"\x07" * 32), 2)
    folder.restore(backup)

    with capture_logs() as log:
        async with start_node() as node:
            before = await suspects_counted(buyer, node)
            await operator.sender.send(commit, "anchor")
            async with asyncio.timeout(30):
                while await suspects_counted(buyer, node) == before:
                    await asyncio.sleep(0.05)
            refused = await buyer.pay(node, session, PRICE)
            await node.watcher.look()
            state = (await stored(node, session)).state
            counted = await suspects_counted(buyer, node)

    assert refused.code == "session-suspect"
    assert state.phase is Phase.SUSPECT
    assert (before, counted) == (0, 1)
    (said,) = [entry for entry in log if entry["event"] == "chain-beyond-store"]
    assert said["log_level"] == "error"
    assert said["channel"] == to_hex(session.channel_id)
    assert (said["stored_calls"], said["anchored_calls"]) == (1, 2)


async def test_suspect_sessions_are_counted_for_whoever_watches_the_node(
    start_node: StartNode, buyer: Buyer, folder: Folder
) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
        before = await suspects_counted(buyer, node)
    (folder.path / WATERMARK).unlink()
    async with start_node() as node:
        assert (before, await suspects_counted(buyer, node)) == (0, 1)


async def test_receipt_of_another_answer_than_the_stores_makes_its_session_suspect(
    start_node: StartNode, buyer: Buyer, folder: Folder
) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        told = buyer.receipt(node, await buyer.enter(node, session, PRICE))
    connection = sqlite3.connect(folder.path / STORE_FILE)
    connection.execute("UPDATE answers SET leaf = zeroblob(32)")
    connection.commit()
    connection.close()
    async with start_node() as node:
        refused = await buyer.pay(node, session, 2 * PRICE, newest=told)

    assert refused.code == "session-suspect"


async def test_receipts_that_say_nothing_of_this_node_or_session_change_nothing(
    start_node: StartNode, buyer: Buyer, payer: FundedAccount
) -> None:
    async with start_node() as node:
        session, other = await buyer.open(node), await buyer.open(node)
        own = buyer.receipt(node, await buyer.enter(node, session, PRICE))
        await buyer.enter(node, other, PRICE)
        forged = replace(own.receipt, index=7)
        signature = payer.key.sign_digest(forged.digest(buyer.chain.domain))
        replies = [
            await buyer.pay(node, session, 2 * PRICE, newest=SignedReceipt(forged, signature)),
            await buyer.pay(node, other, 2 * PRICE, newest=own),
            await buyer.pay(node, session, 3 * PRICE, newest=own),
            await buyer.pay(node, session, 4 * PRICE, newest=SignedReceipt(own.receipt, b"")),
            await buyer.pay(node, session, 5 * PRICE, newest=Unreadable(own.receipt, b"")),
        ]

    assert [reply.status for reply in replies] == [200] * 5
