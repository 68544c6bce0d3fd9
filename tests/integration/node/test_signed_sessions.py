"""Signed sessions of a whole node on a real chain: rosters, heads, closing, the package of it all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.client import Chain
from aioum.core.evidence import package_bytes
from aioum.core.evidence_reading import parse_package
from aioum.core.evidence_submissions import Submissions
from aioum.core.hextext import to_hex
from aioum.core.seats import Seats
from aioum.core.submission.framing import SCHEME
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.transcript import canonical_request
from aioum_node.app import RunningNode
from aioum_node.export import export_package
from aioum_node.rosters import accepted_keys
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer, Opened
from tests.pens import ROSTER, Pen, key_of, roster_of

HEY = canonical_request("shout", {"text": "hey"}).encode()
HO: Any = {"text": "ho"}


async def opened_signed(
    buyer: Buyer, node: RunningNode, roster: Roster = ROSTER, deposit: int = 50_000
) -> tuple[Opened, Pen]:
    session = await buyer.open(node, deposit, roster_hash=roster.hash)
    return session, Pen(session.channel_id, roster=roster)


async def export(session: Opened, folder: Path) -> Any:
    return await asyncio.to_thread(
        export_package, session=to_hex(session.channel_id), node_dir=folder, claim="quality", narrative=""
    )


async def test_signed_session_is_opened_used_by_two_seats_closed_and_settled(
    start_node: StartNode, buyer: Buyer, chain: Chain
) -> None:
    async with start_node() as node:
        session, client = await opened_signed(buyer, node)
        researcher = Pen(session.channel_id, "researcher")
        replies = [
            await buyer.ask(node, session, client, 0, PRICE, action="open", roster=ROSTER.to_json()),
            await buyer.ask(node, session, researcher, 1, 2 * PRICE, "fail", HO),
            await buyer.ask(node, session, client, 2, 2 * PRICE, "nothing", {}),
            await buyer.ask(node, session, client, 3, 2 * PRICE),
        ]
        statement = (await buyer.read(node, session, "/statement")).json
        done = await buyer.close_until_settled(node, session, 4)
        card = node.offering.offer.card

    assert [reply.status for reply in replies] == [200, 500, 404, 200]
    receipts = [buyer.receipt(node, reply).receipt for reply in replies]
    assert [(receipt.index, receipt.charge) for receipt in receipts] == [
        (0, PRICE), (1, 0), (2, 0), (3, PRICE)
    ]  # fmt: skip
    assert done.json["statement"] == statement
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (2 * PRICE, 4)
    assert to_hex(anchored.root) == statement["root"]
    assert (card.submissions, card.submissions_required) == (SCHEME, False)


async def test_package_of_a_signed_session_proves_who_asked_for_what_and_who_contradicted_himself(
    start_node: StartNode, buyer: Buyer, tmp_path: Path
) -> None:
    async with start_node() as node:
        session, client = await opened_signed(buyer, node)
        researcher = Pen(session.channel_id, "researcher")
        genesis = client.head
        await buyer.ask(node, session, client, 0, PRICE, action="open", roster=ROSTER.to_json())
        await buyer.ask(node, session, researcher, 1, 2 * PRICE)
        other = client.draft(canonical_request("shout", HO).encode(), 0, prev_head=genesis)
        conflict = await buyer.ask(node, session, client, 0, 2 * PRICE, "shout", HO, envelope=other)
        # The package does not show the index that this one was signed for.
        beyond = client.draft(HEY, 9, prev_head=genesis)
        await buyer.ask(node, session, client, 9, 2 * PRICE, envelope=beyond)
        await buyer.ask(node, session, client, 2, 3 * PRICE)
        kept = (await buyer.read(node, session)).json["equivocations"]
        package = await export(session, tmp_path / "node")

    assert conflict.code == "submission-conflict"
    assert [item["cursor"] for item in kept] == [0, 9]
    signed = Submissions.from_json(parse_package(package_bytes(package)).submissions)
    assert signed.roster == ROSTER
    assert [(entry.index, entry.request is not None) for entry in signed.entries] == [
        (0, False), (0, True), (1, False), (2, False)
    ]  # fmt: skip
    keys = accepted_keys(signed.roster)
    seats = Seats.at_genesis(session.channel_id, signed.roster)
    for entry in signed.entries:
        request = entry.request or package["calls"][entry.index]["request"].encode()
        submission = entry.envelope.submission(session.channel_id, request)
        submission.require_signed(entry.envelope.signature, keys[entry.envelope.seat])
        if entry.request is None:
            seats.require_turn(entry.envelope, entry.index)
            seats = seats.after(submission)
    assert seats.head("client") == client.head
    assert seats.head("researcher") == researcher.head


async def test_session_opened_without_showing_its_roster_waits_for_it_through_a_restart(
    start_node: StartNode, buyer: Buyer
) -> None:
    async with start_node() as node:
        session, pen = await opened_signed(buyer, node)
        envelope = pen.sign(HEY, 0)
        entered = await buyer.enter(node, session)
        early = await buyer.ask(node, session, pen, 0, PRICE, envelope=envelope)
    async with start_node() as node:
        session.challenge = None
        still = await buyer.ask(node, session, pen, 0, PRICE, envelope=envelope)
        wrong = await buyer.enter(node, session, roster=roster_of(["client"]).to_json())
        shown = await buyer.enter(node, session, roster=ROSTER.to_json())
        paid = await buyer.ask(node, session, pen, 0, PRICE, envelope=envelope)
    async with start_node() as node:
        session.challenge = None
        following = await buyer.ask(node, session, pen, 1, 2 * PRICE)

    assert entered.code == shown.code == "payment-required"
    assert [(reply.status, reply.code) for reply in (early, still)] == [(409, "roster-required")] * 2
    assert (wrong.status, wrong.code) == (409, "roster-mismatch")
    assert (paid.status, following.status) == (200, 200)


async def test_session_whose_roster_was_never_shown_is_closed_and_refunded(
    start_node: StartNode, buyer: Buyer, chain: Chain
) -> None:
    async with start_node() as node:
        session, _ = await opened_signed(buyer, node)
        await buyer.enter(node, session)
    async with start_node() as node:
        done = await buyer.close_until_settled(node, session, 0)

    assert done.json["phase"] == "final"
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.refunded) == (0, 50_000)


WEAK = Roster.of(RosterEntry("client", key_of("client").public_key), RosterEntry("weak", b"\x01" + bytes(31)))


@pytest.mark.parametrize(
    ("opened", "shown", "status", "code"),
    [
        (ROSTER, roster_of(["client"]), 409, "roster-mismatch"),
        (WEAK, WEAK, 403, "submission-key-invalid"),
        (roster_of([f"seat-{number}" for number in range(5)]), None, 400, "roster-invalid"),
    ],
    ids=["another", "weak-key", "too-many-seats"],
)
async def test_opening_with_a_roster_that_is_not_taken_adopts_nothing(
    start_node: StartNode, buyer: Buyer, opened: Roster, shown: Roster | None, status: int, code: str
) -> None:
    async with start_node(max_seats=4) as node:
        session, _ = await opened_signed(buyer, node, opened)

        reply = await buyer.enter(node, session, roster=(shown or opened).to_json())
        read = await buyer.read(node, session)

    assert (reply.status, reply.code) == (status, code)
    assert (read.status, read.code) == (410, "channel-not-found")


async def test_roster_for_an_unsigned_session_is_refused(start_node: StartNode, buyer: Buyer) -> None:
    async with start_node() as node:
        session = await buyer.open(node)

        reply = await buyer.enter(node, session, roster=ROSTER.to_json())

    assert (reply.status, reply.code) == (409, "roster-unexpected")


async def test_node_that_requires_signed_calls_takes_no_other_sessions(
    start_node: StartNode, buyer: Buyer
) -> None:
    async with start_node() as node:
        before = await buyer.open(node)
        await buyer.enter(node, before, PRICE)
    async with start_node(require_signed=True) as node:
        before.challenge = None
        unsigned = await buyer.open(node)
        refused = await buyer.enter(node, unsigned)
        session, pen = await opened_signed(buyer, node)
        accepted = await buyer.ask(node, session, pen, 0, PRICE, action="open", roster=ROSTER.to_json())
        # What was agreed on under an earlier card holds.
        earlier = await buyer.pay(node, before, 2 * PRICE)
        card = node.offering.offer.card

    assert (refused.status, refused.code) == (403, "signed-session-required")
    assert (accepted.status, earlier.status) == (200, 200)
    assert card.submissions_required


async def test_submission_of_one_session_is_worth_nothing_in_another(
    start_node: StartNode, buyer: Buyer
) -> None:
    async with start_node() as node:
        mine, pen = await opened_signed(buyer, node)
        other, other_pen = await opened_signed(buyer, node)
        for session in (mine, other):
            await buyer.enter(node, session, roster=ROSTER.to_json())
        foreign = other_pen.sign(HEY, 0)

        replayed = await buyer.ask(node, mine, pen, 0, PRICE, envelope=foreign)
        moved = await buyer.ask(
            node, mine, pen, 0, PRICE, envelope=other_pen.draft(HEY, 0, prev_head=pen.head)
        )

    assert (replayed.status, replayed.code) == (409, "head-mismatch")
    assert (moved.status, moved.code) == (403, "bad-signature")
