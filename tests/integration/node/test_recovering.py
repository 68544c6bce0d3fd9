"""A suspect session comes back from its client's evidence package, or is closed for nothing."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aioum.chain.client import Chain
from aioum.core.errors import AioumError, Refused
from aioum.core.evidence import disclose, package_bytes
from aioum.core.evidence_reading import read_package
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase
from aioum.core.types import Address
from aioum_node.cli import main
from aioum_node.fsck import check_store
from aioum_node.restored.recovered_calls import signed_calls, verified
from aioum_node.restored.recovering import opened_for_recovery
from aioum_node.store.sqlite import STORE_FILE
from aioum_node.tools import tool
from tests.integration.client.conftest import MakeMarketplace, marketplace  # noqa: F401 - a fixture
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode, fail, shout
from tests.integration.node.lost_calls import NOW_MS, Shop, restored, sell

ONE_OF_THEM = [pytest.param(True, id="signed"), pytest.param(False, id="unsigned", marks=pytest.mark.long)]


@pytest.fixture
def shop(start_node: StartNode, operator: FundedAccount, tmp_path: Path) -> Shop:
    return Shop(start_node, tmp_path / "node", operator.key.address)


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
async def test_recovered_session_goes_on_and_is_settled_with_equal_roots(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
    chain: Chain,
    signed: bool,
) -> None:
    before, channel_id = await restored(shop, marketplace, signed=signed)
    async with marketplace() as market:
        session = await market.resume(channel_id)
        async with shop.running():
            with pytest.raises(Refused) as suspect:
                await sell(session, 5)
        evidence = session.evidence_package("non-delivery", "")
        done = await shop.recovered(evidence)
        async with opened_for_recovery(shop.settings) as store:
            assert (await check_store(store)).findings == ()
        async with shop.running() as node:
            again = await session.recover()
            await sell(session, 6)
            closed = await session.close()
            stored = await node.store.session(session.channel_id)
        assert stored is not None
        on_chain = await chain.session(session.channel_id)

    assert suspect.value.code == "session-suspect"
    assert (done.imported, done.stored.state.phase, done.stored.state.admitted) == (3, Phase.OPEN, 5)
    # The call that was refused is nothing that anybody answered.
    assert evidence["calls"] == before["calls"]
    assert again is None or again.text == "CALL 5"
    assert on_chain is not None
    assert closed.root == session.root == on_chain.root
    assert on_chain.call_count == len(session.calls) == stored.state.admitted
    assert on_chain.settled == session.spent == stored.state.spent == (on_chain.call_count - 1) * PRICE


async def test_recovered_session_that_is_sealed_with_it_is_settled_by_itself(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
    chain: Chain,
) -> None:
    package, channel_id = await restored(shop, marketplace, signed=True)
    done = await shop.recovered(package, seal=True)
    async with shop.running() as node:
        final = await node.settle_loop.outcome(channel_id, 30)
    on_chain = await chain.session(channel_id)

    assert (done.stored.state.phase, done.stored.state.seal_reason) == (Phase.SEALED, "recovered")
    assert final.state.phase is Phase.FINAL
    assert on_chain is not None
    assert (to_hex(on_chain.root), on_chain.call_count) == (package["resultsRoot"], 5)
    assert on_chain.settled == 4 * PRICE


async def test_without_its_client_a_suspect_session_is_closed_for_nothing(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
    chain: Chain,
) -> None:
    _, channel_id = await restored(shop, marketplace, signed=True)
    arguments = ["recover", "--dir", str(shop.node_dir), "--abandon", to_hex(channel_id)]
    unsure = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    assert (unsure.exit_code, (await shop.sessions())[0].state.phase) == (2, Phase.SUSPECT)
    given_up = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, "--yes", "--json"])
    async with shop.running() as node:
        final = await node.settle_loop.outcome(channel_id, 30)
        async with marketplace() as market:
            session = await market.resume(channel_id)
            with pytest.raises(AioumError):
                await sell(session, 5)
    on_chain = await chain.session(channel_id)

    assert json.loads(given_up.stdout)["phase"] == "sealed"
    assert final.state.phase is Phase.FINAL
    assert on_chain is not None
    assert (on_chain.is_finalized, on_chain.settled, on_chain.refunded) == (True, 0, 100_000)
    assert not on_chain.has_root


@pytest.mark.parametrize("signed", ONE_OF_THEM)
async def test_session_that_the_store_does_not_have_at_all_comes_back_whole(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
    chain: Chain,
    signed: bool,
) -> None:
    async with shop.running():
        pass
    shop.keep()
    async with shop.running() as node, marketplace() as market:
        session = await market.open(node.url, deposit=100_000, signed=signed)
        await sell(session, 0, 1, 2)
        package: Any = session.evidence_package("non-delivery", "")
    shop.store_lies_back()
    async with shop.running():
        pass
    done = await shop.recovered(package)
    async with shop.running(), marketplace() as market:
        session = await market.resume(session.channel_id)
        await sell(session, 3)
        closed = await session.close()
    on_chain = await chain.session(session.channel_id)

    assert (done.imported, done.stored.state.spent) == (3, 2 * PRICE)
    assert on_chain is not None
    assert closed.root == session.root == on_chain.root
    assert (on_chain.call_count, on_chain.settled) == (4, 3 * PRICE)


async def test_package_that_does_not_prove_what_the_store_lacks_is_refused_and_changes_nothing(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
) -> None:
    package, _ = await restored(shop, marketplace, signed=True)

    def altered(change: Callable[[Any], object]) -> Any:
        copy = json.loads(package_bytes(package))
        change(copy)
        return copy

    for change, code in (
        (lambda p: p["calls"][4].update(response="other"), "package-refused"),
        (lambda p: p["receipts"][4].update(charge="0"), "package-refused"),
        # its client has more answers than it shows
        (lambda p: p["receipts"].append({**p["receipts"][4], "index": 9}), "package-refused"),
        (lambda p: p["vouchers"].pop(), "voucher-missing"),
        (lambda p: p["receipts"].pop(), "receipt-missing"),
        (lambda p: p.pop("receipts"), "package-insufficient"),
        (lambda p: p.pop("submissions"), "package-insufficient"),
        (lambda p: p.pop("channel"), "package-insufficient"),
    ):
        assert await shop.refusal(altered(change)) == code, code
    assert await shop.refusal(disclose(package, [4])) == "package-insufficient"
    # The whole one is taken, once; then there is nothing to recover.
    assert (await shop.recovered(package)).imported == 3
    assert await shop.refusal(package) == "session-not-suspect"


async def test_crash_between_the_import_and_the_trust_leaves_a_suspect_session_that_the_package_clears(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
) -> None:
    package, channel_id = await restored(shop, marketplace, signed=True)
    evidence = await verified(read_package(package))
    async with opened_for_recovery(shop.settings) as store:
        stored = await store.session(channel_id)
        assert stored is not None
        known = await store.calls(channel_id, 0, 99)
        await store.reimport(channel_id, signed_calls(evidence, stored.state, known), NOW_MS)
    (after,) = await shop.sessions()
    again = await shop.recovered(package)

    assert (after.state.phase, after.state.admitted) == (Phase.SUSPECT, 5)
    assert (again.imported, again.stored.state.phase) == (0, Phase.OPEN)


async def test_package_of_another_history_than_the_stores_is_refused(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
) -> None:
    async with marketplace() as market:
        async with shop.running() as node:
            session = await market.open(node.url, deposit=100_000, signed=False)
            await sell(session, 0)
        package: Any = session.evidence_package("non-delivery", "")
    connection = sqlite3.connect(shop.node_dir / STORE_FILE)
    connection.execute("UPDATE answers SET response = CAST('\"OTHER\"' AS BLOB)")
    connection.commit()
    connection.close()
    (shop.node_dir / "watermark").unlink()
    async with shop.running():
        pass

    assert await shop.refusal(package) == "recovery-conflict"


async def test_package_of_another_operators_session_is_not_taken_over(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
) -> None:
    async with shop.running() as node, marketplace() as market:
        session = await market.open(node.url, deposit=100_000, signed=True)
        unused: Any = session.evidence_package("non-delivery", "")
        await sell(session, 0)
        package: Any = session.evidence_package("non-delivery", "")
    (shop.node_dir / STORE_FILE).unlink()
    async with shop.running():
        pass
    assert await shop.refusal(unused) == "nothing-to-recover"
    shop.signer = Address(b"\x07" * 20)
    assert await shop.refusal(package) == "terms-not-ours"


async def test_command_lists_what_is_suspect_and_takes_a_package_from_a_file(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
    tmp_path: Path,
) -> None:
    package, channel_id = await restored(shop, marketplace, signed=False)
    file = tmp_path / "evidence.json"
    file.write_bytes(package_bytes(package))
    folder = ["--dir", str(shop.node_dir)]

    async def run(*arguments: str) -> tuple[int, str]:
        done = await asyncio.to_thread(CliRunner().invoke, main, ["recover", *folder, *arguments])
        return done.exit_code, done.output

    listed = await run()
    taken = await run("--from", str(file))
    empty = await run("--json")
    assert listed[0] == taken[0] == empty[0] == 0
    assert listed[1].startswith(f"{to_hex(channel_id)} session ")
    assert taken[1] == f"session {to_hex(channel_id)} is open with 5 calls, 3 of them imported\n"
    assert json.loads(empty[1]) == {"suspect": []}
    missing = await run("--from", str(tmp_path / "nothing.json"))
    assert (missing[0], "[package-unreadable]" in missing[1]) == (1, True)
    assert (await run("--from", str(file), "--abandon", to_hex(channel_id)))[0] == 2
    assert (await run("--seal"))[0] == 2
    async with shop.running():
        locked = await run()
    assert (locked[0], "[store-locked]" in locked[1]) == (1, True)


@pytest.mark.parametrize("signed", ONE_OF_THEM)
@pytest.mark.parametrize("lost", ["the calls of a day", "everything"])
async def test_client_shows_a_node_that_was_restored_with_its_watermark_what_it_has_lost(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
    signed: bool,
    lost: str,
) -> None:
    async with marketplace() as market:
        async with shop.running() as node:
            session = await market.open(node.url, deposit=100_000, signed=signed)
            await sell(session, 0, 1)
        files = ("watermark", STORE_FILE)
        backup = {name: (shop.node_dir / name).read_bytes() for name in files}
        async with shop.running():
            await sell(session, 2)
        for name in files:
            if lost == "everything":
                (shop.node_dir / name).unlink()
            else:
                (shop.node_dir / name).write_bytes(backup[name])
        async with shop.running() as node:
            with pytest.raises(Refused) as suspect:
                await sell(session, 3)
            stored = await node.store.session(session.channel_id)
        package: Any = session.evidence_package("non-delivery", "")
        recovered = await shop.recovered(package)
        async with shop.running():
            await sell(session, 4)
            closed = await session.close()

    assert suspect.value.code == "session-suspect"
    assert stored is not None
    assert (stored.state.phase, stored.state.admitted) == (Phase.SUSPECT, 0 if lost == "everything" else 2)
    assert recovered.stored.state.admitted == 3
    assert closed.root == session.root


async def test_answers_beyond_one_that_is_missing_are_not_given_again_after_a_recovery_without_them(
    shop: Shop,
    marketplace: MakeMarketplace,  # noqa: F811
) -> None:
    begun = asyncio.Event()

    async def stuck(text: str) -> str:
        begun.set()
        await asyncio.Event().wait()
        return text

    functions = (shout, fail, tool(price=PRICE)(stuck))
    async with marketplace() as market:
        async with shop.running(functions=functions) as node:
            session = await market.open(node.url, deposit=100_000)
            await sell(session, 0, 1)
        shop.keep()
        async with shop.running(functions=functions, shutdown_seconds=0):
            waiting = asyncio.create_task(session.call("stuck", text="never"))
            await begun.wait()
            await sell(session, 3)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        shop.store_lies_back()
        async with shop.running(functions=functions):
            pass
        # The package ends before the call that has no answer, so it cannot hold the one behind it.
        done = await shop.recovered(session.evidence_package("non-delivery", ""))
        async with shop.running(functions=functions) as node:
            # The client goes on with the call that has no answer, and shows the one behind it.
            with pytest.raises(AioumError):
                await sell(session, 4)
            stored = await node.store.session(session.channel_id)

    assert (done.stored.state.phase, done.stored.state.admitted) == (Phase.OPEN, 2)
    assert stored is not None
    assert (stored.state.phase, stored.state.admitted) == (Phase.SUSPECT, 2)
