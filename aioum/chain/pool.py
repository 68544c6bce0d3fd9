"""Several endpoints of one chain as one web3 provider. Importing this loads web3.

Endpoints are asked in the order in which they are named, the first one that is in use and far enough. One
that fails rests; one that lies behind the newest block known is passed over until it has caught up; one of
another chain is never asked anything but its chain id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

import structlog
from aiohttp import ClientResponseError, ClientSession
from web3.providers.async_base import AsyncJSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from aioum.chain.endpoints import (
    EndpointState,
    PooledEndpoint,
    PoolPolicy,
    is_elsewhere,
    is_rate_limit,
    lagging,
    rate_limited,
    wrong_chain,
)
from aioum.chain.errors import ANSWERED_BY, shown_url, translated
from aioum.chain.provider import SessionProvider
from aioum.chain.refusals import is_already_known
from aioum.core.errors import ChainError

_SEND: Final = "eth_sendRawTransaction"
_COUNT: Final = "eth_getTransactionCount"
_HEAD_MAX_AGE_SECONDS: Final = 0.25
_HTTP_TOO_MANY_REQUESTS: Final = 429
# Where a request names the block that it is about.
_BLOCK_POSITION: Final = {
    "eth_call": 1,
    "eth_getBalance": 1,
    "eth_getBlockByNumber": 0,
    "eth_getCode": 1,
    "eth_getTransactionCount": 1,
}
# "There is none" of one endpoint says little; only all of them together are believed.
_ABSENCE_IS_ASKED_ELSEWHERE: Final = (
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getTransactionReceipt",
)


class PoolProvider(AsyncJSONBaseProvider):
    """Answers each request by an endpoint that can; safe to cancel at any moment.

    Args:
        urls: the endpoints, the preferred one first.
        session: its timeout bounds every request; closed by whoever made it.
        repeatable: as for SessionProvider.
        chain_id: the chain that is meant; None: that of the first endpoint that tells of one.
        policy: how patient it is.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        urls: Sequence[str],
        session: ClientSession,
        repeatable: Collection[str],
        *,
        chain_id: int | None = None,
        policy: PoolPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._chain_id = chain_id
        self._policy = policy or PoolPolicy()
        self._head = 0
        self._head_missed_since: float | None = None
        self._probing = asyncio.Lock()
        self._pooled = [PooledEndpoint(url, clock, self._policy) for url in urls]
        self._providers = {url: SessionProvider(url, session, repeatable) for url in urls}

    def states(self) -> tuple[EndpointState, ...]:
        """What is known of each endpoint, in order."""
        return tuple(endpoint.state() for endpoint in self._pooled)

    async def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Ask the endpoints one after the other; hand a signed transaction to all of them.

        Raises:
            ChainError: the last endpoint's error, where none could answer.
        """
        await self._probe(is_forced=method == "eth_estimateGas")
        if method == _SEND:
            return await self._send(params)
        if method == _COUNT and params[1:] == ["pending"]:
            return await self._highest_count(params)
        try:
            return await self._read(method, params)
        except ChainError as error:
            if error.code != "endpoint-lagging":
                raise
        # Those that were behind a moment ago may have caught up.
        await self._probe(is_forced=True)
        return await self._read(method, params)

    async def _read(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        error: ChainError | None = None
        behind: ChainError | None = None
        refusal: RPCResponse | None = None
        absence: RPCResponse | None = None
        for endpoint in self._askable():
            # Again for each one: what was asked before may have told of a newer block.
            needed = self._needed(method, params)
            if endpoint.head is None or endpoint.head < needed:
                behind = lagging(endpoint.url, endpoint.head, needed)
                continue
            try:
                answer = await self._ask(endpoint, method, params)
            except ChainError as failure:
                error = failure
                continue
            self._answered(endpoint)
            if "error" in answer:
                if not is_elsewhere(answer["error"]):
                    return answer
                refusal = answer
            elif answer.get("result") is None and method in _ABSENCE_IS_ASKED_ELSEWHERE:
                absence = answer
            else:
                self._observe(endpoint, method, answer.get("result"))
                return answer
        if absence is not None or refusal is not None:
            return cast(RPCResponse, absence or refusal)
        raise behind or error or self._last_error()

    async def _highest_count(self, params: Any) -> RPCResponse:
        """Each endpoint counts the transactions of its own pool only, so the one that knows most is right."""
        targets = [endpoint for endpoint in self._askable() if (endpoint.head or 0) >= self._head]
        if not targets:
            return await self._read(RPCEndpoint(_COUNT), params)
        outcomes = await asyncio.gather(
            *(self._ask(endpoint, RPCEndpoint(_COUNT), params) for endpoint in targets),
            return_exceptions=True,
        )
        error: BaseException | None = None
        answers: list[RPCResponse] = []
        for endpoint, outcome in zip(targets, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                error = outcome
                continue
            self._answered(endpoint)
            answers.append(outcome)
        counts = [answer for answer in answers if isinstance(answer.get("result"), str)]
        if counts:
            return max(counts, key=lambda answer: int(cast(str, answer["result"]), 16))
        if answers:
            return answers[0]
        raise error or self._last_error()

    async def _send(self, params: Any) -> RPCResponse:
        targets = self._askable()
        if not targets:
            raise self._last_error()
        outcomes = await asyncio.gather(
            *(self._ask(endpoint, RPCEndpoint(_SEND), params) for endpoint in targets), return_exceptions=True
        )
        refusals: list[tuple[int, RPCResponse]] = []
        unknown: BaseException | None = None
        known: RPCResponse | None = None
        for endpoint, outcome in zip(targets, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                unknown = outcome
            elif "error" not in outcome:
                return outcome
            elif is_already_known(str(outcome["error"])):
                known = outcome
            else:
                refusals.append((endpoint.head or 0, outcome))
        # One endpoint's no does not outweigh that another has it, or may have it.
        if known is not None:
            return known
        if unknown is not None:
            raise unknown
        # The one that is furthest judges best: a lagging one does not see the account's newest funds.
        return max(refusals, key=lambda judged: judged[0])[1]

    async def _ask(self, endpoint: PooledEndpoint, method: RPCEndpoint, params: Any) -> RPCResponse:
        try:
            with translated(endpoint.url):
                answer = await self._providers[endpoint.url].make_request(method, params)
                # What is no JSON-RPC answer fails here, and not in web3.
                failure = answer.get("error")
                if failure is None:
                    answer["result"]
        except ChainError as error:
            raise self._failed(endpoint, error) from error
        if failure is not None:
            # For whoever translates it: web3 does not know which endpoint was asked.
            cast(dict[str, Any], answer)[ANSWERED_BY] = shown_url(endpoint.url)
        if is_rate_limit(method, failure):
            message = failure.get("message") if isinstance(failure, Mapping) else None
            raise self._failed(endpoint, rate_limited(endpoint.url, {"rpc_message": message}))
        return answer

    def _answered(self, endpoint: PooledEndpoint) -> None:
        # Not for a probe: an endpoint that tells its head and fails at all else has to rest ever longer.
        if endpoint.last_error is not None:
            structlog.get_logger(__name__).info("endpoint-in-use", url=endpoint.state().url)
        endpoint.answered()

    def _failed(self, endpoint: PooledEndpoint, error: ChainError) -> ChainError:
        rest_seconds: float | None = None
        cause = error.__cause__
        if isinstance(cause, ClientResponseError) and cause.status == _HTTP_TOO_MANY_REQUESTS:
            rest_seconds = _retry_after(cause)
            error = rate_limited(endpoint.url, {"status": cause.status})
        if error.code == "endpoint-wrong-chain":
            rest_seconds = self._policy.max_rest_seconds
        endpoint.failed(error, rest_seconds)
        state = endpoint.state()
        structlog.get_logger(__name__).warning(
            "endpoint-resting",
            url=state.url,
            code=error.code,
            seconds=round(state.resting_seconds, 1),
            failures=endpoint.failures,
        )
        return error

    async def _probe(self, *, is_forced: bool) -> None:
        """Learn how far every endpoint in use is, unless that was learned a moment ago."""
        asked_at = self._clock()
        async with self._probing:
            oldest = asked_at if is_forced else asked_at - _HEAD_MAX_AGE_SECONDS
            due = [
                endpoint
                for endpoint in self._askable()
                if endpoint.head is None or not endpoint.is_verified or endpoint.head_read_at <= oldest
            ]
            if self._chain_id is None:
                # The first that answers says which chain is meant.
                for endpoint in due:
                    await self._probe_one(endpoint)
            else:
                await asyncio.gather(*map(self._probe_one, due))
            self._judge_head(
                [e.head for e in self._pooled if e.head is not None and e.head_read_at >= oldest]
            )

    def _judge_head(self, heads: Sequence[int]) -> None:
        if not heads or max(heads) >= self._head:
            self._head_missed_since = None
        elif self._head_missed_since is None:
            self._head_missed_since = self._clock()
        elif self._clock() - self._head_missed_since > self._policy.head_patience_seconds:
            structlog.get_logger(__name__).warning("chain-head-went-back", known=self._head, now=max(heads))
            self._head, self._head_missed_since = max(heads), None

    async def _probe_one(self, endpoint: PooledEndpoint) -> None:
        try:
            with translated(endpoint.url):
                async with asyncio.timeout(self._policy.probe_timeout_seconds):
                    number = await self._progress(endpoint)
        except ChainError as error:
            if error is not endpoint.last_error:
                self._failed(endpoint, error)
            return
        endpoint.saw_head(number)
        self._head = max(self._head, number)

    async def _progress(self, endpoint: PooledEndpoint) -> int:
        if not endpoint.is_verified:
            found = await self._number(endpoint, "eth_chainId")
            if self._chain_id not in (None, found):
                raise wrong_chain(endpoint.url, self._chain_id or 0, found)
            self._chain_id = found
            endpoint.is_verified = True
        return await self._number(endpoint, "eth_blockNumber")

    async def _number(self, endpoint: PooledEndpoint, method: str) -> int:
        return int(str((await self._ask(endpoint, RPCEndpoint(method), []))["result"]), 16)

    def _askable(self) -> list[PooledEndpoint]:
        usable = [endpoint for endpoint in self._pooled if not endpoint.is_resting]
        # With nobody else left, one that failed is tried before its time; one that asked for rest is not.
        return usable or [endpoint for endpoint in self._pooled if not endpoint.has_to_rest]

    def _needed(self, method: str, params: Any) -> int:
        position = _BLOCK_POSITION.get(method)
        if position is not None and len(params) > position:
            return _at_most(params[position], self._head)
        if method == "eth_getLogs" and params:
            return _at_most(params[0].get("toBlock"), self._head)
        return 0 if method == "eth_chainId" else self._head

    def _observe(self, endpoint: PooledEndpoint, method: str, result: Any) -> None:
        field = {"eth_getTransactionReceipt": "blockNumber", "eth_getBlockByNumber": "number"}.get(method)
        number = result if method == "eth_blockNumber" else result.get(field) if field else None
        if isinstance(number, str) and number.startswith("0x"):
            height = int(number, 16)
            if height > (endpoint.head or 0):
                endpoint.saw_head(height)
            self._head = max(self._head, height)

    def _last_error(self) -> ChainError:
        # Asked for only where every endpoint rests, each for an error of its own.
        return [endpoint.last_error for endpoint in self._pooled if endpoint.last_error is not None][-1]


def _at_most(block: Any, head: int) -> int:
    if isinstance(block, str) and block.startswith("0x"):
        block = int(block, 16)
    return min(block, head) if isinstance(block, int) else head


def _retry_after(error: ClientResponseError) -> float | None:
    text = "" if error.headers is None else error.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
