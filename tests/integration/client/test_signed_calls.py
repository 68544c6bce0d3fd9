"""Sessions whose calls are signed: by default, wherever it is taken, and only what can be answered."""

import pytest

from aioum.chain.client import Chain
from aioum.client import CLIENT_SEAT, Policy, SubmissionKey
from aioum.core.canonical import JsonValue
from aioum.core.errors import (
    CanonicalError,
    InvalidInput,
    PolicyRefused,
)
from aioum.core.types import ZERO_BYTES32
from tests.integration.client.conftest import MakeMarketplace, unsigned
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.client.signed_record import RESEARCHER, code_of, heads_at, lone_envelopes


async def test_calls_are_signed_by_default_and_the_channel_binds_the_roster(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, chain: Chain
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        assert session.roster is not None
        assert session.roster.seats == (CLIENT_SEAT,)
        opening = await chain.find_opening(session.channel_id)
        assert opening is not None
        assert opening.roster_hash == session.roster.hash
        first, failed = await session.call("echo", text="1"), await session.call("fail", text="2")
        await session.call("echo", text="3")
        assert (first.seat, failed.seat, failed.ok) == (CLIENT_SEAT, CLIENT_SEAT, False)
        assert session.heads == heads_at(scripted, session.channel_id)
        # The voucher funds and does not name a call: nothing is given away for the one that failed.
        assert (session.spent, session.authorized) == (200, 200)
    assert lone_envelopes(scripted, session.channel_id) == 3


async def test_signing_can_be_declined_or_demanded(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, chain: Chain
) -> None:
    async with marketplace() as market:
        async with market.open(scripted.url, deposit=10_000, signed=False) as session:
            await session.call("echo", text="1")
            assert (session.roster, session.heads) == (None, {})
            opening = await chain.find_opening(session.channel_id)
            assert opening is not None
            assert opening.roster_hash == ZERO_BYTES32
            with pytest.raises(InvalidInput) as caught:
                session.seat(CLIENT_SEAT)
            assert code_of(caught) == "seat-unknown"
            assert "submissions" not in session.evidence_package("quality", "")
        with pytest.raises(InvalidInput) as caught:
            await market.open(scripted.url, deposit=10_000, signed=False, seats=[RESEARCHER])
        assert code_of(caught) == "seats-unsigned"
    async with marketplace(policy=Policy(require_signed=True)) as market:
        with pytest.raises(PolicyRefused) as refused:
            await market.open(scripted.url, deposit=10_000, signed=False)
        assert code_of(refused) == "signed-calls-required"
        async with market.open(scripted.url, deposit=10_000) as session:
            await session.call("echo", text="1")


@pytest.mark.parametrize(
    "scripted",
    [{"submissionsRequired": True, "limits": {"maxSeats": 2}}],
    indirect=True,
    ids=["required"],
)
async def test_what_the_service_would_refuse_is_not_opened(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        with pytest.raises(PolicyRefused) as refused:
            await market.open(scripted.url, deposit=10_000, signed=False)
        assert code_of(refused) == "signed-calls-required"
        with pytest.raises(InvalidInput) as caught:
            await market.open(scripted.url, deposit=10_000, seats=["a", "b"])
        assert code_of(caught) == "roster-too-large"
        assert await market.sessions() == []
        async with market.open(scripted.url, deposit=10_000, seats=["a"]) as session:
            await session.seat("a").call("echo", text="1")


@unsigned
async def test_a_service_without_signed_calls_is_used_unsigned_unless_the_policy_forbids_it(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        async with market.open(scripted.url, deposit=10_000) as session:
            assert (await session.call("echo", text="1")).seat is None
            assert session.roster is None
        keys = {CLIENT_SEAT: SubmissionKey(bytes(32))}
        for wanted in ({"seats": [RESEARCHER]}, {"seat_keys": keys}):
            with pytest.raises(InvalidInput) as caught:
                await market.open(scripted.url, deposit=10_000, **wanted)
            assert code_of(caught) == "seats-unsigned"
    async with marketplace(policy=Policy(require_signed=True)) as market:
        with pytest.raises(PolicyRefused) as refused:
            await market.open(scripted.url, deposit=10_000)
        assert code_of(refused) == "signed-calls-required"
        assert len(await market.sessions()) == 1


async def test_what_no_node_would_take_is_refused_before_it_is_signed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        await session.call("echo", text="x" * (65_536 - len('{"arguments":{"text":""},"tool":"echo"}')))
        with pytest.raises(InvalidInput) as caught:
            await session.call("echo", text="x" * 65_536)
        assert code_of(caught) == "request-too-large"
        assert not session.outstanding
        assert len(session.calls) == 1


OPEN_SCHEMA: JsonValue = {"type": "object"}


@pytest.mark.parametrize(
    "scripted",
    [{"tools": [{"id": "echo", "price": "100", "inputSchema": OPEN_SCHEMA, "timeoutSeconds": 5}]}],
    indirect=True,
    ids=["any-arguments"],
)
async def test_arguments_that_two_canonical_forms_spell_differently_are_refused(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        with pytest.raises(InvalidInput) as caught:
            await session.call("echo", {"text": "x", "\ufb01": 1, "\U0001f600": 2})
        assert code_of(caught) == "request-not-portable"
        with pytest.raises(CanonicalError) as number:
            await session.call("echo", {"text": "x", "n": 1e20})
        assert code_of(number) == "json-number-unsafe"
        await session.call("echo", {"text": "x", "\ufb01": 1, "n": 0.5, "\u00fc": 2})
        assert session.calls[0].request.startswith('{"arguments":{"n":0.5')


async def test_a_free_call_may_be_the_first_of_a_session(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        assert (await session.call("free", text="1")).charge == 0
        assert session.authorized == 0
        await session.call("echo", text="2")
        await session.call("free", text="3")
        assert (session.spent, session.authorized) == (100, 100)
