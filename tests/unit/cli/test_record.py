import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.cli.main import main
from aioum.cli.record import all_records, choose
from aioum.client.journal import JOURNAL_FILE, SqliteJournal
from aioum.client.records import SessionFacts, SessionPhase, SessionRecord
from aioum.core.canonical import canonical_bytes
from aioum.core.errors import InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.purse import PurseState
from aioum.core.types import Bytes32
from tests.unit.verify.honest import Honest


def record(session_id: int, number: int) -> SessionRecord:
    """A session that was opened and not used; `number` makes its channel id another one."""
    honest = Honest(nonce=Bytes32(number.to_bytes(32, "big")))
    facts = SessionFacts(
        channel_id=honest.channel_id,
        domain=honest.domain,
        node_url="https://node.example",
        channel=honest.channel,
        service=honest.service,
        card_json=canonical_bytes(honest.card),
    )
    purse = PurseState(honest.channel_id, deposit=honest.deposit)
    return SessionRecord(
        facts, SessionPhase.OPEN, purse, opened_at_ms=1_800_000_000_000, session_id=session_id
    )


RECORDS = [record(1, 1), record(2, 2), record(1, 3)]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A record with three sessions, two of which have the same number (the devnet was reset between)."""

    async def write() -> None:
        journal = SqliteJournal(tmp_path / JOURNAL_FILE)
        for each in RECORDS:
            await journal.create(each)
        await journal.aclose()

    asyncio.run(write())
    return tmp_path


def test_a_session_is_found_by_its_channel_id_and_by_a_number_that_only_it_has() -> None:
    assert choose(RECORDS, RECORDS[2].channel_id, Path()) is RECORDS[2]
    assert choose(RECORDS, 2, Path()) is RECORDS[1]


def test_a_number_that_two_sessions_have_is_refused_with_their_channel_ids() -> None:
    with pytest.raises(InvalidInput) as caught:
        choose(RECORDS, 1, Path())
    channels = [to_hex(RECORDS[0].channel_id), to_hex(RECORDS[2].channel_id)]
    assert caught.value.code == "session-ambiguous"
    assert caught.value.details == {"channelIds": channels}
    assert all(channel in str(caught.value) for channel in channels)


@pytest.mark.parametrize("reference", [3, bytes(32)])
def test_a_session_that_nobody_opened_is_unknown(reference: int | bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        choose(RECORDS, reference, Path())
    assert caught.value.code == "session-unknown"


def test_a_session_without_a_number_yet_is_not_found_by_one() -> None:
    with pytest.raises(InvalidInput):
        choose([replace(RECORDS[0], session_id=0)], 1, Path())


def test_looking_at_an_empty_folder_makes_no_record_in_it(tmp_path: Path) -> None:
    assert asyncio.run(all_records(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["show", "1"], ["export", "1"], ["close", "1", "--devnet-account", "1"]])
def test_every_command_refuses_an_ambiguous_number(
    command: list[str], data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["session", *command, "--data-dir", str(data_dir)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "[session-ambiguous]" in printed.err
    assert to_hex(RECORDS[2].channel_id) in printed.err


def test_sessions_are_listed_oldest_first(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["session", "list", "--data-dir", str(data_dir)]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == [
        "session",
        "service",
        "phase",
        "calls",
        "spent",
        "deposit",
        "opened",
        "channel",
    ]
    assert [row.split()[0] for row in rows] == ["1", "2", "1"]
    assert [row.split()[-1] for row in rows] == [to_hex(each.channel_id) for each in RECORDS]
    assert "2027-01-15 08:00:00Z" in rows[0]
