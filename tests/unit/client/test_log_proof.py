"""A client fetches, verifies and keeps the proof that its session is in the log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aioum.client.book import Book
from aioum.client.journal import JOURNAL_FILE, SqliteJournal
from aioum.client.log_proof import keep_log_proof
from aioum.client.node import NodeClient
from aioum.client.packaging import package_of
from aioum.client.records import SessionFacts, SessionPhase, SessionRecord
from aioum.client.settings import ClientSettings
from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError, Divergence, Refused
from aioum.core.hextext import to_hex
from aioum.core.problem import problem_bytes
from aioum.core.purse import PurseState
from aioum.core.types import Bytes32
from aioum.log.membership import Membership, read_membership
from aioum.log.monitor import LogIdentity
from aioum.verify.report import Status
from tests.unit.client.test_http import transport_to
from tests.unit.log.memberships import logged
from tests.unit.log.samples import KEY, ORIGIN, OTHER_KEY, session
from tests.unit.verify.honest import Honest, RecordedChain, judge
from tests.unit.verify.logged import entry, in_log, log_member

HONEST = in_log(calls=(), settled=0)
"""Nothing was bought, so the record is whole without calls."""

GENUINE = log_member(HONEST)


@dataclass
class Client:
    """A client with one closed session, and a node that answers as it is told."""

    journal: SqliteJournal
    book: Book
    node: NodeClient
    answer: list[web.Response | Any]
    asked: list[str]

    async def keep(self, chain: RecordedChain | None = None) -> Membership:
        return await keep_log_proof(chain or HONEST.chain(), self.node, self.book)

    async def reloaded(self) -> Book:
        return await Book.load(self.journal, HONEST.channel_id, lambda: 0)


def record_of(honest: Honest) -> SessionRecord:
    facts = SessionFacts(
        honest.channel_id, honest.domain, "http://127.0.0.1:1", honest.channel, honest.service,
        canonical_bytes(honest.card),
    )  # fmt: skip
    purse = PurseState(honest.channel_id, deposit=honest.deposit, signed=False)
    return SessionRecord(facts, SessionPhase.CLOSED, purse, 1_800_000_000_000, session_id=honest.session_id)


@asynccontextmanager
async def client_of(honest: Honest, folder: Path) -> AsyncIterator[Client]:
    answer: list[Any] = [GENUINE]
    asked: list[str] = []

    async def proof(request: web.Request) -> web.StreamResponse:
        asked.append(request.match_info["channel"])
        found = answer[0]
        return found if isinstance(found, web.StreamResponse) else web.json_response(found)

    app = web.Application()
    app.router.add_get("/log/proof/{channel}", proof)
    journal = SqliteJournal(folder / JOURNAL_FILE)
    await journal.create(record_of(honest))
    book = await Book.load(journal, honest.channel_id, lambda: 0)
    async with transport_to(app) as (transport, url):
        yield Client(journal, book, NodeClient(transport, url, ClientSettings()), answer, asked)
    await journal.aclose()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with client_of(HONEST, tmp_path) as client:
        yield client


async def test_a_genuine_proof_is_kept_and_goes_into_packages(client: Client) -> None:
    kept = await client.keep()
    assert kept == read_membership(GENUINE)
    assert client.asked == [to_hex(HONEST.channel_id)]
    book = await client.reloaded()
    assert book.record.logged == kept
    package = package_of(book, "quality", "")
    assert package["log"] == GENUINE
    row = next(check for check in (await judge(package, HONEST.chain())).checks if check.name == "log")
    assert row.status is Status.PASS


async def test_a_kept_proof_is_not_fetched_again(client: Client) -> None:
    kept = await client.keep()
    assert await client.keep() == kept
    assert len(client.asked) == 1


async def test_without_a_proof_packages_are_as_before(client: Client) -> None:
    assert "log" not in package_of(client.book, "quality", "")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({}, "log-proof-malformed"),
        (GENUINE | {"proof": GENUINE["proof"] | {"hashes": GENUINE["proof"]["hashes"][:-1]}},
         "proof-length-wrong"),
        (logged(entry(HONEST).to_bytes(), key=OTHER_KEY).to_json(), "checkpoint-key-mismatch"),
        (logged(entry(HONEST).to_bytes(), origin="elsewhere").to_json(), "checkpoint-origin-unexpected"),
        (logged(session(77).to_bytes()).to_json(), "log-session-mismatch"),
    ],
)  # fmt: skip
async def test_what_proves_nothing_is_refused_and_not_kept(client: Client, answer: Any, code: str) -> None:
    client.answer[0] = answer
    with pytest.raises(AioumError) as caught:
        await client.keep()
    assert caught.value.code == code
    record = (await client.reloaded()).record
    # Whoever is on the way can have answered this: it accuses nobody.
    assert (record.logged, record.evidence) == (None, ())
    client.answer[0] = GENUINE
    assert (await client.keep()).to_json() == GENUINE


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        ({"results_root": Bytes32(b"\x66" * 32), "call_count": 1}, "log-root-mismatch"),
        ({"captured": 5}, "log-entry-contradicts-chain"),
    ],
)
async def test_a_signed_entry_that_contradicts_the_chain_is_kept_as_evidence(
    client: Client, lie: dict[str, Any], code: str
) -> None:
    client.answer[0] = log_member(HONEST, **lie)
    for _ in range(2):
        with pytest.raises(Divergence) as caught:
            await client.keep()
        assert caught.value.code == code
    record = (await client.reloaded()).record
    assert record.logged is None
    (evidence,) = record.evidence
    assert (evidence.code, evidence.detail) == (code, {"log": client.answer[0]})
    read_membership(evidence.detail["log"]).verify(ORIGIN, KEY.public_key)


async def test_a_session_that_is_not_logged_yet_is_said_to_be_promised(client: Client) -> None:
    client.answer[0] = web.Response(
        status=404, body=problem_bytes(404, "session-not-logged", "not in the log, or not yet")
    )
    with pytest.raises(Refused) as caught:
        await client.keep()
    assert caught.value.code == "session-not-logged"
    assert caught.value.hint is not None
    assert "3600 seconds" in caught.value.hint


async def test_a_key_that_was_exchanged_has_to_be_named(client: Client) -> None:
    client.answer[0] = logged(entry(HONEST).to_bytes(), key=OTHER_KEY).to_json()
    known = LogIdentity(ORIGIN, OTHER_KEY.public_key)
    kept = await keep_log_proof(HONEST.chain(), client.node, client.book, known)
    assert kept.to_json() == client.answer[0]
    assert (await client.reloaded()).record.logged == kept


async def test_nothing_is_fetched_for_a_session_that_is_open_or_unknown(client: Client) -> None:
    for chain, code in (
        (HONEST.chain(HONEST.session(finalized_at=0)), "session-not-final"),
        (replace(HONEST.chain(), sessions={}), "session-not-on-chain"),
    ):
        with pytest.raises(AioumError) as caught:
            await client.keep(chain)
        assert caught.value.code == code
    assert client.asked == []


async def test_an_operator_that_promised_no_log_is_not_asked(tmp_path: Path) -> None:
    honest = Honest(calls=(), settled=0)
    async with client_of(honest, tmp_path) as client:
        with pytest.raises(Refused) as caught:
            await client.keep(honest.chain())
    assert (caught.value.code, client.asked) == ("log-not-promised", [])
