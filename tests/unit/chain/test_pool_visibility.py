"""What a pool tells of its endpoints: counts, rests, failures, and whose an error is, without secrets."""

from collections.abc import Callable
from contextlib import AsyncExitStack

import aiohttp
import pytest
from aiohttp import web

from aioum.chain.endpoints import PooledEndpoint, PoolPolicy
from aioum.chain.errors import translated
from aioum.chain.rpc import Rpc
from aioum.core.errors import AioumError, ChainError
from tests.unit.chain.scripted_endpoint import RpcRefusal, scripted_endpoint
from tests.unit.chain.test_pool import Clock, Replica, ask, pool_of, refusal


@pytest.mark.parametrize("order", [1, -1], ids=["the first knows more", "the second knows more"])
async def test_the_pending_count_is_that_of_the_endpoint_that_knows_most(order: int) -> None:
    less = Replica(answers={"eth_getTransactionCount": 3})
    more = Replica(answers={"eth_getTransactionCount": 5})
    behind = Replica(head=8, answers={"eth_getTransactionCount": 9})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), *[less, more][::order], behind)
        answer = await ask(pool, "eth_getTransactionCount", "0xaa", "pending")
        assert int(answer["result"], 16) == 5
        assert behind.seen["eth_getTransactionCount"] == 0


async def test_an_endpoint_that_cannot_count_leaves_it_to_the_others() -> None:
    failing = Replica(answers={"eth_getTransactionCount": lambda: web.Response(status=500)})
    refusing = Replica(answers={"eth_getTransactionCount": RpcRefusal(-32000, "not today")})
    counting = Replica(answers={"eth_getTransactionCount": 4})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), failing, refusing, counting)
        answer = await ask(pool, "eth_getTransactionCount", "0xaa", "pending")
        assert int(answer["result"], 16) == 4
        assert pool.states()[0].failures == {"rpc-unreachable": 1}

    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), failing)
        assert (await refusal(pool, "eth_getTransactionCount", "0xaa", "pending")).code == "rpc-unreachable"


async def test_the_policy_says_how_long_an_endpoint_rests() -> None:
    clock = Clock()
    endpoint = PooledEndpoint("http://rpc.test", clock, PoolPolicy(rest_seconds=3, max_rest_seconds=10))
    rests = []
    for _ in range(3):
        endpoint.failed(ChainError("away", code="rpc-timeout"))
        rests.append(endpoint.state().resting_seconds)
    assert rests == [3, 6, 10]
    assert endpoint.state().failures == {"rpc-timeout": 3}
    assert not endpoint.state().is_in_use


async def test_a_refusal_names_the_endpoint_that_gave_it_and_none_of_its_secrets() -> None:
    broken = Replica(answers={"eth_gasPrice": lambda: web.Response(status=500)})
    refusing = Replica(answers={"eth_gasPrice": RpcRefusal(-32000, "not today")})
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(scripted_endpoint(replica)) for replica in (broken, refusing)]
        host = urls[1].removeprefix("http://").rstrip("/")
        secret = [url.replace("http://", "http://user:hunter2@") for url in urls]
        rpc = await stack.enter_async_context(Rpc(" ".join(secret), chain_id=7))
        with pytest.raises(AioumError) as caught:
            await rpc.request("eth_gasPrice")
        assert caught.value.code == "rpc-error"
        assert f"http://{host}" in str(caught.value)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "raised, code",
    [
        (aiohttp.InvalidURL, "rpc-unreachable"),
        (lambda url: aiohttp.ConnectionTimeoutError(f"Connection timeout to host {url}"), "rpc-timeout"),
        (lambda url: aiohttp.ClientPayloadError(f"broken answer of {url}"), "rpc-unreachable"),
        (lambda url: ValueError(f"no JSON from {url}"), "rpc-response-invalid"),
    ],
)
@pytest.mark.parametrize("secret", ["user:hunter2@rpc.test", "rpc.test/v3/hunter2", "rpc.test/?key=hunter2"])
def test_what_may_be_a_key_in_an_address_is_in_no_error(
    raised: Callable[[str], Exception], code: str, secret: str
) -> None:
    url = f"https://{secret}"
    with pytest.raises(ChainError) as caught, translated(url):
        raise raised(url)
    assert caught.value.code == code
    assert "https://rpc.test" in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_a_single_endpoint_keeps_an_account_of_its_failures_too() -> None:
    fails = True

    def script(_method: str, _parameters: list[object]) -> object:
        return web.Response(status=503) if fails else "0x7"

    async with scripted_endpoint(script) as url, Rpc(url) as rpc:
        with pytest.raises(AioumError):
            await rpc.chain_id()
        (state,) = rpc.endpoints
        assert (state.last_error_code, state.failures) == ("rpc-unreachable", {"rpc-unreachable": 1})
        assert not state.is_in_use
        fails = False
        assert await rpc.chain_id() == 7
        (state,) = rpc.endpoints
        assert state.is_in_use
        assert state.failures == {"rpc-unreachable": 1}
