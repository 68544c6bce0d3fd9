"""HTTP to logs: what a person names may be anywhere, what a card or another operator names is on the public
Internet.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aioum.client.http import HttpAnswer, HttpTransport, Transport
from aioum.client.public_resolver import PublicResolver
from aioum.core.errors import OutcomeUnknown, PolicyRefused
from aioum.kits.fetch import require_public_address

READ_TIMEOUT_SECONDS: Final = 20.0
"""For each file of a log."""

_CONNECT_TIMEOUT_SECONDS: Final = 10.0
_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class Web:
    """Transports to logs and peers.

    Attributes:
        named: to addresses that the person who looks has named.
        found: to addresses that cards name.
    """

    named: Transport
    found: Transport


@asynccontextmanager
async def open_web(*, allow_private_addresses: bool = False) -> AsyncIterator[Web]:
    """Transports, closed at the end.

    Args:
        allow_private_addresses: cards may name machines of the own network, this one included. For
            development, and for operators that you trust.
    """
    named = HttpTransport(connect_timeout_seconds=_CONNECT_TIMEOUT_SECONDS)
    public = HttpTransport(connect_timeout_seconds=_CONNECT_TIMEOUT_SECONDS, resolver=PublicResolver())
    gate = asyncio.Semaphore(_AT_ONCE)
    gated = GatedTransport(named, gate)
    try:
        yield Web(gated, gated if allow_private_addresses else PublicTransport(GatedTransport(public, gate)))
    finally:
        await named.aclose()
        await public.aclose()


@dataclass(frozen=True, slots=True)
class GatedTransport:
    """Has so many requests under way at once; others wait in order, which does not count as their time.

    Attributes:
        inner: sends them.
        gate: as many as there may be.
    """

    inner: Transport
    gate: asyncio.Semaphore

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        max_bytes: int,
        timeout_seconds: float,
    ) -> HttpAnswer:
        """Send one request; see `Transport.request`."""
        async with self.gate:
            return await self.inner.request(
                method, url, headers=headers, body=body, max_bytes=max_bytes, timeout_seconds=timeout_seconds
            )

    async def aclose(self) -> None:
        """Close all connections."""
        await self.inner.aclose()


@dataclass(frozen=True, slots=True)
class PublicTransport:
    """Refuses addresses that are not of the public Internet, before anything is sent.

    Attributes:
        inner: resolves names with `PublicResolver`.
    """

    inner: Transport

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        max_bytes: int,
        timeout_seconds: float,
    ) -> HttpAnswer:
        """Send one request; see `Transport.request`.

        Raises:
            PolicyRefused: `log-address-refused`.
        """
        _require_public(url)
        try:
            return await self.inner.request(
                method, url, headers=headers, body=body, max_bytes=max_bytes, timeout_seconds=timeout_seconds
            )
        except OutcomeUnknown as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, PolicyRefused):
                    raise _refused(url, cause) from error
                cause = cause.__cause__
            raise

    async def aclose(self) -> None:
        """Close all connections."""
        await self.inner.aclose()


def _require_public(url: str) -> None:
    host = (urlsplit(url).hostname or "").partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name; its addresses are checked as it is looked up.
        return
    try:
        require_public_address(address)
    except PolicyRefused as refusal:
        raise _refused(url, refusal) from refusal


def _refused(url: str, refusal: PolicyRefused) -> PolicyRefused:
    return PolicyRefused(
        f"{url:.200}: {refusal}",
        code="log-address-refused",
        hint="allow private addresses if the log is meant to be there",
    )
