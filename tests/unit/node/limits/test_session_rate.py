"""How often one session may ask, over HTTP."""

from pathlib import Path

from aioum_node.tools import tool
from tests.unit.node.api.shop import CLIENT, STRANGER, running_shop

PRICE = 10


@tool(price=PRICE)
def shout(text: str) -> str:
    return text.upper()


async def test_session_over_its_rate_waits_and_its_calls_and_other_sessions_are_untouched(
    tmp_path: Path,
) -> None:
    async with running_shop(
        tmp_path, [shout], session_requests_per_second=0.01, session_request_burst=2
    ) as shop:
        busy, other = await shop.open_session(), await shop.open_session()
        paid = [await shop.pay(busy, PRICE * number) for number in (1, 2)]
        refused = await shop.pay(busy, PRICE * 3)
        beside = await shop.pay(other, PRICE)
        stored = await shop.store.session(busy)

    assert [reply.status for reply in paid] == [200, 200]
    assert (refused.status, refused.code) == (429, "rate-limited")
    assert 1 <= int(refused.headers["Retry-After"]) <= 100
    assert beside.status == 200
    assert stored is not None
    assert (stored.state.admitted, stored.state.spent, stored.state.accepted) == (2, 2 * PRICE, 2 * PRICE)


async def test_strangers_cannot_use_up_a_session_s_rate(tmp_path: Path) -> None:
    async with running_shop(
        tmp_path, [shout], session_requests_per_second=0.01, session_request_burst=1
    ) as shop:
        session = await shop.open_session()
        for _ in range(5):
            await shop.pay(session, PRICE, key=STRANGER)

        reply = await shop.pay(session, PRICE, key=CLIENT)

    assert reply.status == 200


async def test_session_over_its_rate_can_still_be_closed_but_not_read(tmp_path: Path) -> None:
    async with running_shop(
        tmp_path, [shout], session_requests_per_second=0.01, session_request_burst=1
    ) as shop:
        session = await shop.open_session()
        await shop.pay(session, PRICE)

        read = await shop.read(session)
        closed = await shop.close(session, 1)

    assert (read.status, read.code) == (429, "rate-limited")
    assert closed.status == 202


async def test_arguments_that_nest_too_deep_are_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    deep = b'{"text":' + b"[" * 64 + b"]" * 64 + b"}"
    async with running_shop(tmp_path, [shout]) as shop:
        session = await shop.open_session()
        reply = await shop.pay(session, PRICE, body=deep)
        stored = await shop.store.session(session)

    assert (reply.status, reply.code) == (400, "json-too-deep")
    assert stored is not None
    assert stored.state.admitted == 0
