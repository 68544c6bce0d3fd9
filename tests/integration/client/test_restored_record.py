"""Records older than their session: they learn what they lack, and never sign twice on one head."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from aioum.client.seat_keys import SEAT_KEYS_FOLDER
from aioum.core.errors import (
    PolicyRefused,
    Refused,
)
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.client.signed_record import RESEARCHER, code_of, heads_at, lone_envelopes


async def test_a_record_from_a_backup_learns_what_it_lacks_before_it_signs(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, tmp_path: Path
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000, seats=[RESEARCHER])
        await session.call("echo", text="1")
    shutil.copytree(tmp_path / "client", tmp_path / "backup")
    async with marketplace() as market:
        lost = await market.resume(session.channel_id)
        await lost.call("fail", text="2")
        await lost.seat(RESEARCHER).call("echo", text="3")
        await lost.call("cheap", text="4")
        package: Any = lost.evidence_package("quality", "")
    async with marketplace(data_dir=tmp_path / "backup") as market:
        async with market.resume(session.channel_id) as restored:
            await restored.call("echo", text="5")
            assert [entry.response for entry in restored.calls][2:] == ["3", "4", "5"]
            assert restored.heads == heads_at(scripted, session.channel_id)
            now: Any = restored.evidence_package("quality", "")
        # What was taken over is what the lost record had, vouchers included: signatures are deterministic.
        for part in ("calls", "vouchers", "receipts"):
            assert now[part][: len(package[part])] == package[part]
        assert now["submissions"]["entries"][:4] == package["submissions"]["entries"]
    assert lone_envelopes(scripted, session.channel_id) == 5


async def test_a_restored_record_closes_with_the_calls_that_it_lacks(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, tmp_path: Path
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
    shutil.copytree(tmp_path / "client", tmp_path / "backup")
    shutil.rmtree(tmp_path / "backup" / SEAT_KEYS_FOLDER)
    async with marketplace() as market:
        await (await market.resume(session.channel_id)).call("echo", text="1")
    async with marketplace(data_dir=tmp_path / "backup") as market:
        restored = await market.resume(session.channel_id)
        closed = await restored.close()
        assert (closed.call_count, closed.settled, len(restored.calls)) == (1, 100, 1)


async def test_two_copies_of_one_record_that_signed_on_one_head_stop(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, tmp_path: Path
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        shutil.copytree(tmp_path / "client", tmp_path / "copy")
        async with marketplace(data_dir=tmp_path / "copy") as second:
            copy = await second.resume(session.channel_id)
            scripted.lies.refuse_unrecorded = [("store-full", {})]
            with pytest.raises(Refused):
                await copy.call("echo", text="2")
            # The same words, and all the same another call: the other copy's.
            await session.call("echo", text="2")
            with pytest.raises(PolicyRefused) as caught:
                await copy.recover()
            # Our own key signed both, so the operator is accused of nothing.
            assert code_of(caught) == copy.stopped == "record-outdated"
            assert copy.evidence == ()
