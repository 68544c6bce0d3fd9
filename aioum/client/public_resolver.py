"""Connections to the public Internet alone, whatever a name's owner says of it."""

from __future__ import annotations

import ipaddress
from socket import AddressFamily

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from aioum.core.errors import PolicyRefused
from aioum.kits.fetch import require_public_address


class PublicResolver(AbstractResolver):
    """Looks names up, and refuses addresses. The connection goes to what was checked: no second look-up."""

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AddressFamily.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses of a name; one refused address refuses the name."""
        results = await aiohttp.ThreadedResolver().resolve(host, port, family)
        for result in results:
            try:
                require_public_address(ipaddress.ip_address(result["host"].partition("%")[0]))
            except PolicyRefused as refusal:
                # aiohttp passes OSErrors of a resolver on as its own.
                raise OSError(str(refusal)) from refusal
        return results

    async def close(self) -> None:
        """Nothing is held open."""
