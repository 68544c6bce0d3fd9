"""A store against itself: what was written is sound; what differs later is named and never anchored."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.core.errors import AioumError, ConfigError
from aioum.core.hextext import to_hex
from aioum.core.ledger import Admitted, CallRequest, Limits, Phase, SessionState
from aioum.core.payment import Domain, Voucher, compute_channel_id, session_salt
from aioum.core.seats import Seats
from aioum.core.signing import LocalKey
from aioum.core.transcript import canonical_request
from aioum.core.types import ZERO_ADDRESS
from aioum_node.fsck import Report, fsck, require_sound
from aioum_node.store.port import SessionFacts
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.integration.conftest import FundedAccount, RegisteredService
from tests.integration.node.books import PRICE, open_session, opened_books
from tests.pens import ROSTER, Pen, roster_of
from tests.unit.node.store.samples import DEPOSIT, NOW_MS, answer, facts

KEY = LocalKey(b"\x21" * 32)
FRONTIER = (None, "frontier-mismatch")
FOUND = [
    # the bits that the money rests on
    ("UPDATE answers SET response = x'6f6a' WHERE seq = 1", {(0, "leaf-mismatch"), FRONTIER}),
    ("UPDATE answers SET leaf = zeroblob(32) WHERE seq = 3", {(2, "leaf-mismatch")}),
    ("UPDATE answers SET charge = zeroblob(16) WHERE seq = 3", {(2, "charge-mismatch")}),
    (
        "UPDATE answers SET failed = 1 WHERE seq = 3",
        {(2, "charge-mismatch"), (None, "spent-mismatch"), (None, "failures-mismatch")},
    ),
    ("UPDATE answers SET response = x'ff' WHERE seq = 3", {(2, "request-not-canonical"), FRONTIER}),
    ("UPDATE calls SET request = CAST(request || ' ' AS BLOB) WHERE seq = 4", {(3, "request-not-canonical")}),
    ("UPDATE calls SET tool_id = 'other' WHERE seq = 4", {(3, "request-not-canonical")}),
    ("UPDATE calls SET signature = zeroblob(65) WHERE seq = 2", {(1, "voucher-signature-invalid")}),
    ("UPDATE calls SET price = zeroblob(16) WHERE seq = 4", {(None, "reserved-mismatch")}),
    ("DELETE FROM calls WHERE seq = 2", {(2, "call-out-of-place")}),
    ("DELETE FROM calls WHERE seq = 5", {(None, "admitted-mismatch"), (None, "ahead-mismatch")}),
    ("UPDATE calls SET tool_id = CAST(x'ff' AS TEXT) WHERE seq = 2", {(None, "calls-unreadable")}),
    # who asked
    ("UPDATE submissions SET signature = zeroblob(64) WHERE seq = 2", {(1, "envelope-signature-invalid")}),
    ("UPDATE submissions SET client_time = 1 WHERE seq = 2", {(1, "envelope-signature-invalid")}),
    ("UPDATE submissions SET prev_head = zeroblob(32) WHERE seq = 2", {(1, "envelope-out-of-chain")}),
    ("DELETE FROM submissions WHERE seq = 5", {(4, "envelope-missing"), (None, "heads-mismatch")}),
    ("UPDATE accounts SET signed = 0", {(0, "envelope-unexpected")}),
    # the account
    ("UPDATE accounts SET spent = zeroblob(16)", {(None, "spent-mismatch")}),
    ("UPDATE accounts SET reserved = zeroblob(16)", {(None, "reserved-mismatch")}),
    ("UPDATE accounts SET failures = 0", {(None, "failures-mismatch")}),
    ("UPDATE accounts SET admitted = 9", {(None, "admitted-mismatch")}),
    ("UPDATE accounts SET accepted = zeroblob(16)", {(None, "accepted-mismatch")}),
    ("UPDATE accounts SET accepted_signature = zeroblob(65)", {(None, "accepted-mismatch")}),
    ("UPDATE accounts SET frontier = zeroblob(8)", {FRONTIER}),
    ("UPDATE accounts SET ahead = x''", {(None, "ahead-mismatch")}),
    ("UPDATE accounts SET seats = x''", {(None, "heads-mismatch")}),
    ("UPDATE accounts SET frontier = x'00'", {(None, "sessions-unreadable")}),
    ("UPDATE accounts SET phase = 77", {(None, "file-damaged")}),
    # what the chain fixed
    ("UPDATE sessions SET nonce = zeroblob(32)", {(None, "channel-id-mismatch")}),
    ("UPDATE sessions SET payer = zeroblob(20)", {(0, "voucher-signature-invalid")}),
]  # fmt: skip


def signed_facts() -> SessionFacts:
    base = replace(facts(1, signed=True, roster=ROSTER), payer=KEY.address, authorized_signer=ZERO_ADDRESS)
    salt = session_salt(base.nonce, base.terms_hash, base.roster_hash)
    domain = Domain(base.chain_id, base.payment_manager)
    channel_id = compute_channel_id(base.payer, base.payee, base.token, salt, ZERO_ADDRESS, domain)
    return replace(base, channel_id=channel_id)


async def written(folder: Path) -> SessionFacts:
    """A store with a signed session: an answer, a failure, an answer, one call in flight, an answer ahead."""
    session = signed_facts()
    channel_id = session.channel_id
    seats = Seats.at_genesis(channel_id, ROSTER)
    pens = (Pen(channel_id), Pen(channel_id, "researcher"))
    async with SqliteStore(folder / STORE_FILE, Limits()) as store:
        await store.open(session, SessionState(channel_id, DEPOSIT, signed=True, seats=seats), NOW_MS)
        for index in range(5):
            asked = canonical_request("echo", {"n": index}).encode()
            amount = (index + 1) * PRICE
            digest = Voucher(channel_id, amount).digest(Domain(session.chain_id, session.payment_manager))
            envelope = pens[index % 2].sign(asked, index)
            request = CallRequest("echo", asked, PRICE, amount, KEY.sign_digest(digest), envelope)
            assert isinstance(await store.admit(channel_id, request, NOW_MS), Admitted)
        for index in (0, 1, 2, 4):
            await store.record(channel_id, index, answer(failed=index == 1), NOW_MS)
    return session


def change(folder: Path, statement: str, *values: object) -> None:
    """What a bad disk, or a hand, does to the file."""
    connection = sqlite3.connect(folder / STORE_FILE, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    assert connection.execute(statement, values).rowcount != 0
    connection.close()


async def checked(folder: Path) -> Report:
    return await asyncio.to_thread(fsck, folder)


async def test_what_a_node_wrote_is_sound_and_checking_changes_nothing(tmp_path: Path) -> None:
    await written(tmp_path)
    before = (tmp_path / STORE_FILE).read_bytes()
    assert await checked(tmp_path) == Report(1, 5, ())
    assert (tmp_path / STORE_FILE).read_bytes() == before


@pytest.mark.parametrize(("statement", "expected"), FOUND)
async def test_whatever_differs_is_named(
    tmp_path: Path, statement: str, expected: set[tuple[int | None, str]]
) -> None:
    await written(tmp_path)
    change(tmp_path, statement)
    report = await checked(tmp_path)
    assert expected <= {(finding.index, finding.code) for finding in report.findings}


async def test_each_flipped_bit_of_a_response_and_of_a_request_is_found(tmp_path: Path) -> None:
    await written(tmp_path)
    for table, column in (("answers", "response"), ("calls", "request")):
        connection = sqlite3.connect(tmp_path / STORE_FILE)
        (kept,) = connection.execute(f"SELECT {column} FROM {table} WHERE seq = 1").fetchone()
        connection.close()
        for bit in range(8 * len(kept)):
            flipped = bytearray(kept)
            flipped[bit // 8] ^= 1 << bit % 8
            change(tmp_path, f"UPDATE {table} SET {column} = ? WHERE seq = 1", bytes(flipped))
            report = await checked(tmp_path)
            assert (0, "leaf-mismatch") in {(item.index, item.code) for item in report.findings}, bit
        change(tmp_path, f"UPDATE {table} SET {column} = ? WHERE seq = 1", kept)
    assert (await checked(tmp_path)).findings == ()


async def test_another_roster_than_the_session_was_opened_with_is_found(tmp_path: Path) -> None:
    session = await written(tmp_path)
    other = json.dumps(roster_of(("client", "stranger")).to_json()).encode()
    change(tmp_path, "UPDATE rosters SET roster = ?", other)
    report = await checked(tmp_path)
    assert ("roster-mismatch", session.channel_id) in {
        (finding.code, finding.channel_id) for finding in report.findings
    }


async def test_what_sqlite_finds_in_its_own_file_is_named_too(tmp_path: Path) -> None:
    await written(tmp_path)
    with (tmp_path / STORE_FILE).open("r+b") as file:
        # Of the file's header: how many pages are free.
        file.seek(36)
        file.write(b"\x00\x00\x00\x09")
    assert [finding.code for finding in (await checked(tmp_path)).findings] == ["file-damaged"]


async def test_an_answer_whose_call_is_gone_is_named(tmp_path: Path) -> None:
    await written(tmp_path)
    change(tmp_path, "DELETE FROM calls WHERE seq = 2")
    (damage, *_) = (await checked(tmp_path)).findings
    assert (damage.code, damage.message) == ("file-damaged", "1 answers of no call")


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / STORE_FILE).write_bytes(b"not a database, " * 64)
    with pytest.raises(AioumError) as caught:
        await checked(tmp_path)
    assert caught.value.code == "store-failed"


async def test_a_store_that_is_in_use_missing_or_outdated_is_not_checked(tmp_path: Path) -> None:
    async def refusal() -> str:
        with pytest.raises(ConfigError) as caught:
            await checked(tmp_path)
        return caught.value.code

    assert await refusal() == "store-missing"
    async with SqliteStore(tmp_path / STORE_FILE, Limits()):
        assert await refusal() == "store-locked"
    change(
        tmp_path,
        "DELETE FROM _sqlite_migrations WHERE name = (SELECT max(name) FROM _sqlite_migrations)",
    )
    assert await refusal() == "store-outdated"


async def test_a_flipped_bit_is_found_before_anything_is_anchored(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path
) -> None:
    operator, service = registered_service.operator.key, registered_service.service
    async with opened_books(chain, operator, tmp_path) as books:
        channel_id = await books.adopt(await open_session(payer.sender, service), service)
        for _ in range(3):
            await books.call(payer.key, channel_id)
        await books.settling.close(channel_id)
        before = await books.transactions_sent()
        change(tmp_path, "UPDATE answers SET response = x'223022' WHERE seq = 3")

        await books.settling.run_once()

        assert books.observer.failures == ["store-corrupt"]
        assert books.observer.captured == []
        assert await books.transactions_sent() == before
        assert not (await books.on_chain(channel_id)).is_finalized
        with pytest.raises(AioumError) as caught:
            await require_sound(books.store, await books.stored(channel_id))
        assert caught.value.code == "store-corrupt"
        assert [item["code"] for item in caught.value.details["findings"]] == [
            "leaf-mismatch",
            "frontier-mismatch",
        ]

        change(tmp_path, "UPDATE answers SET response = x'223222' WHERE seq = 3")
        books.settling.wake(channel_id)
        await books.settling.run_once()

        assert (await books.stored(channel_id)).state.phase is Phase.FINAL
        assert books.observer.captured == [3 * PRICE]


async def test_a_voucher_that_its_payer_did_not_sign_is_found_before_settling(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path
) -> None:
    operator, service = registered_service.operator.key, registered_service.service
    async with opened_books(chain, operator, tmp_path) as books:
        channel_id = await books.adopt(await open_session(payer.sender, service), service)
        await books.call(operator, channel_id)
        with pytest.raises(AioumError) as caught:
            await require_sound(books.store, await books.stored(channel_id))
    assert [item["code"] for item in caught.value.details["findings"]] == ["voucher-signature-invalid"]


async def test_command_lists_what_differs_and_fails(tmp_path: Path) -> None:
    program = str(Path(sys.executable).parent / "aioum-node")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AIOUM_")}
        return subprocess.run(
            [program, "fsck", "--dir", str(tmp_path), *arguments],
            capture_output=True,
            text=True,
            env={**environment, "PYTHONWARNINGS": "error"},
            timeout=120,
            check=False,
        )

    session = await written(tmp_path)
    sound = run()
    change(tmp_path, "UPDATE answers SET leaf = zeroblob(32) WHERE seq = 3")
    listed, as_json = run(), run("--json")

    assert (sound.returncode, sound.stdout) == (0, "checked 1 sessions with 5 calls: no findings\n")
    assert (listed.returncode, as_json.returncode) == (1, 1)
    channel = to_hex(session.channel_id)
    assert f"channel {channel} call 2: leaf-mismatch: " in listed.stdout
    (finding,) = json.loads(as_json.stdout)["findings"]
    assert (finding["channelId"], finding["index"], finding["code"]) == (channel, 2, "leaf-mismatch")
