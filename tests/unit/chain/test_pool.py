"""A pool asks an endpoint that can answer, lets the others rest, and never mixes chains."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientSession, web
from structlog.testing import capture_logs
from web3.types import RPCEndpoint

from aioum.chain.endpoints import PooledEndpoint, PoolPolicy, urls_in
from aioum.chain.pool import PoolProvider
from aioum.chain.rpc import Rpc
from aioum.core.errors import AioumError, ChainError, InvalidInput
from tests.serving import served_posts
from tests.unit.chain.scripted_endpoint import RpcRefusal, scripted_endpoint

POLICY = PoolPolicy()


@dataclass(slots=True)
class Replica:
    """What one endpoint says: `answers` by method, an exception raised, a response sent as it is."""

    head: int = 10
    chain_id: int = 7
    answers: dict[str, Any] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, method: str, _parameters: list[Any]) -> Any:
        self.seen[method] += 1
        answer = self.answers.get(
            method, {"eth_chainId": self.chain_id, "eth_blockNumber": self.head}.get(method)
        )
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return answer()
        return hex(answer) if isinstance(answer, int) else answer


@dataclass(slots=True)
class Clock:
    """Seconds that pass when the test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


async def pool_of(
    stack: AsyncExitStack, clock: Clock, *replicas: Replica, chain_id: int | None = 7
) -> PoolProvider:
    urls = [await stack.enter_async_context(scripted_endpoint(replica)) for replica in replicas]
    session = await stack.enter_async_context(ClientSession(raise_for_status=True))
    return PoolProvider(urls, session, (), chain_id=chain_id, clock=clock)


async def ask(pool: PoolProvider, method: str, *params: Any) -> Any:
    return await pool.make_request(RPCEndpoint(method), list(params))


async def refusal(pool: PoolProvider, method: str, *params: Any) -> AioumError:
    with pytest.raises(AioumError) as caught:
        await ask(pool, method, *params)
    return caught.value


def unavailable() -> web.Response:
    return web.Response(status=503)


BALANCE = ("eth_getBalance", "0x" + "00" * 20, "latest")


async def test_an_endpoint_of_another_chain_is_asked_nothing_but_its_chain() -> None:
    wrong, right = Replica(chain_id=8, answers={"eth_getBalance": 1}), Replica(answers={"eth_getBalance": 2})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), wrong, right)
        with capture_logs() as logs:
            assert (await ask(pool, *BALANCE))["result"] == "0x2"
        assert wrong.seen == {"eth_chainId": 1}
        assert [state.last_error_code for state in pool.states()] == ["endpoint-wrong-chain", None]
        assert [(log["event"], log["code"]) for log in logs] == [("endpoint-resting", "endpoint-wrong-chain")]


async def test_without_an_endpoint_of_the_chain_there_is_no_answer() -> None:
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), Replica(chain_id=8), Replica(chain_id=9))
        error = await refusal(pool, *BALANCE)
        assert (error.code, error.details) == (
            "endpoint-wrong-chain",
            {"chain_id": 9, "expected_chain_id": 7},
        )
        send = await refusal(pool, "eth_sendRawTransaction", "0x00")
        assert send.code == "endpoint-wrong-chain"


async def test_without_a_chain_that_is_meant_the_first_endpoint_says_which_it_is() -> None:
    first, second = Replica(answers={"eth_getBalance": 1}), Replica(chain_id=8)
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second, chain_id=None)
        assert (await ask(pool, *BALANCE))["result"] == "0x1"
        assert [state.last_error_code for state in pool.states()] == [None, "endpoint-wrong-chain"]


@pytest.mark.parametrize(
    "answer, seconds",
    [
        (lambda: web.Response(status=429, headers={"Retry-After": "7"}), 7),
        (lambda: web.Response(status=429, headers={"Retry-After": "86400"}), POLICY.max_rest_seconds),
        (lambda: web.Response(status=429, headers={"Retry-After": "soon"}), 1),
        (RpcRefusal(-32005, "too many requests"), 1),
    ],
)
async def test_an_endpoint_that_limits_the_rate_rests_as_long_as_it_asks_within_a_bound(
    answer: Any, seconds: float
) -> None:
    limited, other = Replica(answers={"eth_getBalance": answer}), Replica(answers={"eth_getBalance": 2})
    clock = Clock()
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, clock, limited, other)
        for _ in range(3):
            assert (await ask(pool, *BALANCE))["result"] == "0x2"
        assert limited.seen["eth_getBalance"] == 1
        state = pool.states()[0]
        assert (state.last_error_code, state.resting_seconds) == ("rpc-rate-limited", seconds)
        clock.now += seconds + 1
        limited.answers["eth_getBalance"] = 1
        assert (await ask(pool, *BALANCE))["result"] == "0x1"
        assert pool.states()[0].last_error_code is None


async def test_where_all_limit_the_rate_nobody_is_asked_before_its_time() -> None:
    limits = {"eth_getBalance": RpcRefusal(-32005, "too many requests")}
    first, second = Replica(answers=dict(limits)), Replica(answers=dict(limits))
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second)
        for _ in range(3):
            assert (await refusal(pool, *BALANCE)).code == "rpc-rate-limited"
        assert first.seen["eth_getBalance"] == second.seen["eth_getBalance"] == 1


async def test_a_search_with_too_many_results_is_no_rate_limit() -> None:
    answers = {"eth_getLogs": RpcRefusal(-32005, "query returned more than 10000 results")}
    first, second = Replica(answers=answers), Replica()
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second)
        answer = await ask(pool, "eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"})
        assert answer["error"]["code"] == -32005
        assert second.seen["eth_getLogs"] == 0
        assert pool.states()[0].resting_seconds == 0


async def test_the_rest_grows_twice_as_long_each_time_up_to_a_minute() -> None:
    clock = Clock()
    endpoint = PooledEndpoint("http://user:secret@rpc.test/key", clock)
    rests = []
    for _ in range(9):
        endpoint.failed(ChainError("away", code="rpc-unreachable"))
        rests.append(endpoint.state().resting_seconds)
        clock.now += rests[-1]
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert endpoint.state().url == "http://rpc.test"


async def test_an_endpoint_that_only_tells_its_head_rests_longer_each_time() -> None:
    useless, other, clock = Replica(answers={"eth_getBalance": unavailable}), Replica(), Clock()
    other.answers["eth_getBalance"] = 2
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, clock, useless, other)
        for seconds in (1, 2, 4):
            assert (await ask(pool, *BALANCE))["result"] == "0x2"
            assert pool.states()[0].resting_seconds == seconds
            clock.now += seconds


async def test_where_all_failed_they_are_tried_before_their_time_and_the_last_error_is_told() -> None:
    first, second = (
        Replica(answers={"eth_getBalance": unavailable}),
        Replica(answers={"eth_getBalance": unavailable}),
    )
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second)
        error = await refusal(pool, *BALANCE)
        assert (error.code, error.details) == ("rpc-unreachable", {"status": 503})
        second.answers["eth_getBalance"] = 2
        assert (await ask(pool, *BALANCE))["result"] == "0x2"


async def test_an_answer_that_is_no_json_rpc_sends_the_question_elsewhere() -> None:
    first = Replica(answers={"eth_getBalance": lambda: web.Response(text="[]")})
    second = Replica(answers={"eth_getBalance": 2})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second)
        assert (await ask(pool, *BALANCE))["result"] == "0x2"
        assert pool.states()[0].last_error_code == "rpc-response-invalid"


async def test_an_endpoint_that_keeps_silent_about_its_head_holds_nobody_up() -> None:
    other, silence = Replica(answers={"eth_getBalance": 2}), asyncio.Event()

    async def keep_silent(_request: web.Request) -> web.Response:
        await silence.wait()
        return web.Response()

    async with AsyncExitStack() as stack:
        silent = await stack.enter_async_context(served_posts(keep_silent))
        stack.callback(silence.set)
        answering = await stack.enter_async_context(scripted_endpoint(other))
        session = await stack.enter_async_context(ClientSession())
        pool = PoolProvider(
            [silent, answering], session, (), chain_id=7, policy=PoolPolicy(probe_timeout_seconds=0.05)
        )
        assert (await ask(pool, *BALANCE))["result"] == "0x2"
        assert [state.last_error_code for state in pool.states()] == ["rpc-timeout", None]


@pytest.mark.parametrize("head", ["soon", None, RpcRefusal(-32000, "not now")])
async def test_an_endpoint_that_tells_no_head_is_passed_over(head: Any) -> None:
    first, second = Replica(answers={"eth_blockNumber": head}), Replica(answers={"eth_getBalance": 2})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second)
        assert (await ask(pool, *BALANCE))["result"] == "0x2"
        assert first.seen["eth_getBalance"] == 0
        assert pool.states()[0].last_error_code == "rpc-response-invalid"


async def test_the_newest_state_comes_from_whoever_has_it_and_an_older_block_from_anybody() -> None:
    behind = Replica(head=7, answers={"eth_getBalance": 1})
    ahead = Replica(head=10, answers={"eth_getBalance": 2})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), behind, ahead)
        assert (await ask(pool, *BALANCE))["result"] == "0x2"
        assert (await ask(pool, *BALANCE[:2], "0x8"))["result"] == "0x2"
        assert (await ask(pool, *BALANCE[:2], "0x7"))["result"] == "0x1"
        assert (await ask(pool, "eth_blockNumber"))["result"] == "0xa"


async def test_the_head_never_goes_back_to_a_lagging_replica_until_patience_is_over() -> None:
    behind, ahead, clock = Replica(head=7, answers={"eth_getBalance": 1}), Replica(head=10), Clock()
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, clock, behind, ahead)
        assert (await ask(pool, "eth_blockNumber"))["result"] == "0xa"
        clock.now += 1
        ahead.answers["eth_blockNumber"] = unavailable
        error = await refusal(pool, *BALANCE)
        assert (error.code, error.details) == ("endpoint-lagging", {"head": 7, "needed": 10})
        assert behind.seen["eth_getBalance"] == 0
        # A chain that was reset is another matter: nobody has the old head any more.
        clock.now += POLICY.head_patience_seconds + 1
        assert (await ask(pool, *BALANCE))["result"] == "0x1"


async def test_a_replica_that_has_caught_up_is_used_at_once() -> None:
    behind, ahead, clock = Replica(head=7, answers={"eth_getBalance": 1}), Replica(head=10), Clock()
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, clock, behind, ahead)
        await ask(pool, "eth_blockNumber")
        behind.head = 10
        ahead.answers["eth_getBalance"] = unavailable
        assert (await ask(pool, *BALANCE))["result"] == "0x1"


async def test_none_is_believed_only_when_nobody_knows_better() -> None:
    first, second = Replica(), Replica(answers={"eth_getTransactionReceipt": lambda: {"blockNumber": "0xb"}})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second)
        found = await ask(pool, "eth_getTransactionReceipt", "0x00")
        assert found["result"] == {"blockNumber": "0xb"}
        # Its block is known from now on: the other one is not asked for the newest state until it has it.
        second.answers["eth_getBalance"] = 2
        assert (await ask(pool, *BALANCE))["result"] == "0x2"
        assert first.seen["eth_getBalance"] == 0
        second.answers.pop("eth_getTransactionReceipt")
        assert (await ask(pool, "eth_getTransactionReceipt", "0x00"))["result"] is None


async def test_a_replica_without_the_state_sends_the_question_elsewhere_and_does_not_rest() -> None:
    first = Replica(answers={"eth_getBalance": RpcRefusal(-32000, "header not found")})
    second = Replica(answers={"eth_getBalance": 2})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second)
        assert (await ask(pool, *BALANCE))["result"] == "0x2"
        assert pool.states()[0].resting_seconds == 0
        second.answers = dict(first.answers)
        assert (await ask(pool, *BALANCE))["error"]["message"] == "header not found"


async def test_a_revert_is_an_answer_and_is_not_asked_twice() -> None:
    first, second = Replica(answers={"eth_call": RpcRefusal(3, "execution reverted", "0x")}), Replica()
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), first, second)
        assert (await ask(pool, "eth_call", {}, "latest"))["error"]["code"] == 3
        assert second.seen["eth_call"] == 0


SEND = "eth_sendRawTransaction"
NO_FUNDS = RpcRefusal(-32000, "insufficient funds for gas")
LOW = RpcRefusal(-32000, "nonce too low")
KNOWN = RpcRefusal(-32000, "already known")


async def test_a_transaction_goes_to_every_endpoint_and_one_yes_is_enough() -> None:
    for first, second in ((NO_FUNDS, "0x01"), ("0x01", LOW), (unavailable, "0x01")):
        replicas = Replica(answers={SEND: first}), Replica(answers={SEND: second})
        async with AsyncExitStack() as stack:
            pool = await pool_of(stack, Clock(), *replicas)
            assert (await ask(pool, SEND, "0x00"))["result"] == "0x01"
            assert [replica.seen[SEND] for replica in replicas] == [1, 1]


async def test_a_transaction_that_one_endpoint_may_have_is_not_refused() -> None:
    async with AsyncExitStack() as stack:
        pool = await pool_of(
            stack, Clock(), Replica(answers={SEND: unavailable}), Replica(answers={SEND: LOW})
        )
        assert (await refusal(pool, SEND, "0x00")).code == "rpc-unreachable"


async def test_a_transaction_that_one_endpoint_knows_already_is_not_refused() -> None:
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), Replica(answers={SEND: LOW}), Replica(answers={SEND: KNOWN}))
        assert (await ask(pool, SEND, "0x00"))["error"]["message"] == "already known"


async def test_a_transaction_that_all_refuse_is_refused_in_the_words_of_the_furthest() -> None:
    replicas = Replica(head=7, answers={SEND: NO_FUNDS}), Replica(head=10, answers={SEND: LOW})
    async with AsyncExitStack() as stack:
        pool = await pool_of(stack, Clock(), *replicas)
        assert (await ask(pool, SEND, "0x00"))["error"]["message"] == "nonce too low"


def test_endpoints_are_named_by_commas_or_spaces_each_once() -> None:
    assert urls_in(" http://a.test,http://b.test http://a.test,") == ("http://a.test", "http://b.test")
    with pytest.raises(InvalidInput) as caught:
        urls_in(" , ")
    assert caught.value.code == "endpoint-missing"


async def test_a_connection_shows_its_endpoints_without_their_secrets() -> None:
    async with Rpc("http://u:p@a.test/key, http://b.test/?token=1") as rpc:
        assert [state.url for state in rpc.endpoints] == ["http://a.test", "http://b.test"]
    async with Rpc("http://u:p@a.test/key") as rpc:
        assert [(state.url, state.head) for state in rpc.endpoints] == [("http://a.test", None)]
