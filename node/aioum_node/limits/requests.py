"""The first thing that a request of the public port meets: who asks, and whether it asks too often."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from aioum.core.errors import Refused
from aioum.core.payment import CloseRequest, Domain, SignedMessage
from aioum.core.types import Address
from aioum_node.access import ClientSignatures
from aioum_node.api.problems import refusal
from aioum_node.limits.addresses import ProxyTrust, counted_as
from aioum_node.limits.connections import Gate
from aioum_node.limits.rates import TokenBuckets

_CLIENT: Final = web.RequestKey("client", str)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def client_of(request: web.Request) -> str | None:
    """What limits count a request by; None where it is a trusted proxy's own."""
    return request.get(_CLIENT)


def request_limits(
    gate: Gate,
    trust: ProxyTrust,
    addresses: TokenBuckets,
    *,
    refused: Callable[[str], None],
) -> Middleware:
    """A middleware that goes before all others. Args: refused: told the reason code of each refusal."""

    @web.middleware
    async def limited(request: web.Request, handler: Handler) -> web.StreamResponse:
        gate.begun(request)
        try:
            client = trust.client(request.remote, request.headers.getall(trust.header, ()))
            if client is not None:
                request[_CLIENT] = counted = counted_as(client)
                try:
                    addresses.take(counted)
                except Refused as error:
                    refused(error.code)
                    return refusal(error, 429, retry_after_seconds=1)
            return await handler(request)
        finally:
            gate.handled(request)

    return limited


class MeteredSignatures(ClientSignatures):
    """Checks signatures, and counts those that hold against their session's rate.

    Only whoever can sign for a session uses up its rate: channel ids are public. A close is always heard.
    """

    def __init__(self, inner: ClientSignatures, sessions: TokenBuckets) -> None:
        self._inner = inner
        self._sessions = sessions

    @property
    def accepts_contracts(self) -> bool:
        """Whether contracts may sign."""
        return self._inner.accepts_contracts

    async def require(
        self, message: SignedMessage, domain: Domain, signature: bytes, signers: Sequence[Address]
    ) -> None:
        """As `ClientSignatures.require`.

        Raises:
            Refused: `rate-limited`.
        """
        await self._inner.require(message, domain, signature, signers)
        if not isinstance(message, CloseRequest):
            self._sessions.take(message.channel_id)
