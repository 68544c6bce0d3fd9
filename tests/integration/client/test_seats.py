"""Seats of a session and their keys: made or brought along, kept apart, lost."""

import asyncio
import logging
import os
import shutil
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.client import CLIENT_SEAT, SubmissionKey
from aioum.client.journal import JOURNAL_FILE
from aioum.client.seat_keys import SEAT_KEYS_FOLDER
from aioum.core.errors import (
    ConfigError,
    InvalidInput,
    OutcomeUnknown,
    PolicyRefused,
)
from aioum.core.hextext import to_hex
from aioum.core.submission.framing import encode_base64
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.client.signed_record import RESEARCHER, code_of, heads_at


async def test_sub_agents_sign_with_keys_of_their_own_and_share_one_order(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        async with market.open(scripted.url, deposit=10_000, seats=(RESEARCHER, "writer")) as session:
            researcher = session.seat(RESEARCHER)
            assert session.roster is not None
            assert session.roster.seats == (CLIENT_SEAT, RESEARCHER, "writer")
            assert len({entry.public_key for entry in session.roster.entries}) == 3
            callers = (session, researcher, session.seat("writer"))
            results = await asyncio.gather(*(callers[n % 3].call("cheap", text=str(n)) for n in range(21)))
            assert sorted(result.index for result in results) == list(range(21))
            assert all(session.calls[result.index].response == result.text for result in results)
            assert [result.seat for result in results[:3]] == [CLIENT_SEAT, RESEARCHER, "writer"]
            assert session.heads == heads_at(scripted, session.channel_id)
        # A process of its own goes on with the same seats.
        async with marketplace() as second:
            other = await second.open(scripted.url, deposit=10_000, seats=(RESEARCHER,))
            await other.seat(RESEARCHER).call("cheap", text="1")
            async with marketplace() as third, third.resume(other.channel_id) as resumed:
                result = await resumed.seat(RESEARCHER).call("cheap", text="2")
                assert (result.index, result.seat) == (1, RESEARCHER)
                assert resumed.heads == heads_at(scripted, other.channel_id)


async def test_an_unknown_seat_is_named_and_nothing_is_signed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        with pytest.raises(InvalidInput) as caught:
            session.seat(RESEARCHER)
        assert code_of(caught) == "seat-unknown"
        for names, code in (
            (["spaced name"], "seat-invalid"),
            ([f"agent-{number}" for number in range(100)], "roster-too-large"),
        ):
            with pytest.raises(InvalidInput) as caught:
                await market.open(scripted.url, deposit=10_000, seats=names)
            assert code_of(caught) == code
        assert len(await market.sessions()) == 1


async def test_keys_of_the_caller_are_used_and_never_kept(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, tmp_path: Path
) -> None:
    keys = {CLIENT_SEAT: SubmissionKey(b"\x31" * 32), RESEARCHER: SubmissionKey(b"\x32" * 32)}
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000, seat_keys=keys)
        await session.call("echo", text="1")
        assert session.seat(RESEARCHER).public_key == keys[RESEARCHER].public_key
    assert not (tmp_path / "client" / SEAT_KEYS_FOLDER).exists()
    async with marketplace() as market:
        without = await market.resume(session.channel_id)
        with pytest.raises(PolicyRefused) as caught:
            await without.call("echo", text="2")
        assert code_of(caught) == "seat-key-lost"
        assert not without.outstanding
        swapped = {CLIENT_SEAT: keys[RESEARCHER]}
        for wrong, code in ((swapped, "seat-key-mismatch"), ({"nobody": keys[RESEARCHER]}, "seat-unknown")):
            with pytest.raises(InvalidInput) as refused:
                await market.resume(session.channel_id, seat_keys=wrong)
            assert code_of(refused) == code
        async with market.resume(session.channel_id, seat_keys=keys) as resumed:
            assert (await resumed.seat(RESEARCHER).call("echo", text="2")).index == 1


async def test_a_lost_seat_key_ends_its_calls_and_the_session_still_closes(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, tmp_path: Path, chain: Chain
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        scripted.lies.refuse_unrecorded = [("node-busy", {})] * 6
        with pytest.raises(OutcomeUnknown):
            await session.call("echo", text="2")
    shutil.rmtree(tmp_path / "client" / SEAT_KEYS_FOLDER)
    async with marketplace() as market:
        resumed = await market.resume(session.channel_id)
        # What was signed already needs no key.
        recovered = await resumed.recover()
        assert recovered is not None
        assert recovered.text == "2"
        with pytest.raises(PolicyRefused) as caught:
            await resumed.call("echo", text="3")
        assert code_of(caught) == "seat-key-lost"
        closed = await resumed.close()
        assert (closed.call_count, closed.settled) == (2, 200)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
async def test_keys_that_may_not_be_used_end_the_calls_and_no_money_stays_behind(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, tmp_path: Path
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000, seats=[RESEARCHER])
        await session.call("echo", text="1")
    path = tmp_path / "client" / SEAT_KEYS_FOLDER / f"{to_hex(session.channel_id)}.json"
    kept = path.read_bytes()
    async with marketplace() as market:
        for code, content in (("seat-keys-exposed", kept), ("seat-keys-damaged", b"{")):
            path.write_bytes(content)
            path.chmod(0o644 if content == kept else 0o600)
            resumed = await market.resume(session.channel_id)
            with pytest.raises(ConfigError) as caught:
                await resumed.call("echo", text="2")
            assert code_of(caught) == code
            assert not resumed.outstanding
        closed = await resumed.close()
        assert (closed.call_count, closed.settled) == (1, 100)


async def test_secret_keys_stand_in_their_own_file_and_nowhere_else(
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000, seats=[RESEARCHER])
        scripted.lies.refuse_unrecorded = [("node-busy", {})]
        await session.seat(RESEARCHER).call("echo", text="1")
        path = tmp_path / "client" / SEAT_KEYS_FOLDER / f"{to_hex(session.channel_id)}.json"
        keys = await session._context.seat_keys.load(session.channel_id)
        said = "".join(map(repr, (session, session.seat(RESEARCHER), keys, market, session._context)))
        said += caplog.text + "".join(capfd.readouterr())
        assert keys.keys() == {CLIENT_SEAT, RESEARCHER}
        files = [file for file in (tmp_path / "client").rglob("*") if file.is_file() and file != path]
        assert JOURNAL_FILE in [file.name for file in files]
        for key in keys.values():
            secret = key.seed()
            assert encode_base64(secret) in path.read_text()
            for spelled in (encode_base64(secret), secret.hex(), repr(secret)):
                assert spelled not in said
            for file in files:
                content = file.read_bytes()
                assert secret not in content
                assert encode_base64(secret).encode() not in content
