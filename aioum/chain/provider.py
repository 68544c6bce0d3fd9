"""JSON-RPC over one aiohttp session, as a web3 provider. Importing this loads web3.

web3's own HTTP provider takes a lock in a thread before every request. A task that is canceled at that moment
leaves it locked, and every later request on the connection then waits for ever, outside of all timeouts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from aiohttp import ClientSession, ServerDisconnectedError
from web3.providers.async_base import AsyncJSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from aioum.chain.endpoints import EndpointState
from aioum.chain.errors import shown_url, translated
from aioum.core.errors import ChainError

_REPEATS: Final = 2
_FIRST_PAUSE_SECONDS: Final = 0.05


class SessionProvider(AsyncJSONBaseProvider):
    """Posts each request on its own; safe to cancel at any moment.

    Args:
        rpc_url: the endpoint.
        session: its timeout bounds every request; closed by whoever made it.
        repeatable: methods that are sent again where an idle connection turns out to be closed.
    """

    def __init__(self, rpc_url: str, session: ClientSession, repeatable: Collection[str]) -> None:
        super().__init__()
        self._rpc_url = rpc_url
        self._session = session
        self._repeatable = frozenset(repeatable)

    async def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send one request and decode its answer. Raises what aiohttp raises, also for an error status."""
        data = self.encode_rpc_request(method, params)
        repeats = _REPEATS if method in self._repeatable else 0
        for repeat in range(repeats):
            try:
                return self.decode_rpc_response(await self._post(data))
            except (ServerDisconnectedError, ConnectionResetError):
                await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2**repeat)
        return self.decode_rpc_response(await self._post(data))

    async def _post(self, data: bytes) -> bytes:
        async with self._session.post(
            self._rpc_url, data=data, headers={"Content-Type": "application/json"}, raise_for_status=True
        ) as response:
            return await response.read()


class SingleProvider(AsyncJSONBaseProvider):
    """The only endpoint of a chain, with an account of its failures.

    Args:
        rpc_url, session, repeatable: as for SessionProvider.
    """

    def __init__(self, rpc_url: str, session: ClientSession, repeatable: Collection[str]) -> None:
        super().__init__()
        self._inner = SessionProvider(rpc_url, session, repeatable)
        self._rpc_url = rpc_url
        self._failures: Counter[str] = Counter()
        self._last_error_code: str | None = None

    def states(self) -> tuple[EndpointState, ...]:
        """What is known of the endpoint."""
        return (
            EndpointState(
                url=shown_url(self._rpc_url),
                head=None,
                resting_seconds=0.0,
                last_error_code=self._last_error_code,
                failures=dict(self._failures),
            ),
        )

    async def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """As SessionProvider, with its errors translated."""
        try:
            with translated(self._rpc_url):
                answer = await self._inner.make_request(method, params)
        except ChainError as error:
            self._failures[error.code] += 1
            self._last_error_code = error.code
            raise
        self._last_error_code = None
        return answer
