"""Whose request this is: the peer's, or that of the client whom a trusted proxy names."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, Literal

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
ForwardedHeader = Literal["x-forwarded-for", "forwarded"]

_MAX_HOPS: Final = 32
_NETWORK_BITS: Final = 64
"""What one customer is given at least: counting single IPv6 addresses would count nobody."""


class ProxyTrust:
    """Finds clients' addresses.

    Args:
        networks: of proxies whose header counts, as CIDR text.
        header: the one that they write. Another one comes from whoever sent the request, and is not read.
    """

    def __init__(self, networks: Sequence[str], header: ForwardedHeader) -> None:
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)
        self.header = header

    def trusts(self, address: IpAddress) -> bool:
        """Whether a proxy at this address is believed."""
        return any(address.version == network.version and address in network for network in self._networks)

    def client(self, peer: str | None, values: Sequence[str]) -> IpAddress | None:
        """Who asks. The right-most address that is no trusted proxy counts: left of it stands what it said.

        Args:
            peer: address of the connection's other end; None where it has none.
            values: of the header, in order.

        Returns:
            None where a trusted proxy names no client: then the request is its own.
        """
        address = None if peer is None else parsed_address(peer)
        if address is None or not self.trusts(address):
            return address
        for hop in reversed(self._hops(values)[-_MAX_HOPS:]):
            named = parsed_address(hop)
            if named is None:
                # Said by a proxy that is trusted, about somebody whom it cannot name: it answers for them.
                return address
            if not self.trusts(named):
                return named
            address = named
        return None

    def _hops(self, values: Sequence[str]) -> list[str]:
        hops = [hop.strip() for value in values for hop in value.split(",") if hop.strip()]
        return hops if self.header == "x-forwarded-for" else [_forwarded_for(hop) for hop in hops]


def _forwarded_for(hop: str) -> str:
    """The `for` parameter of one element of `Forwarded` (RFC 7239)."""
    for parameter in hop.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "for":
            return value.strip().strip('"')
    return ""


def parsed_address(text: str) -> IpAddress | None:
    """An address as proxies write it, with or without a port; IPv4 where it is IPv4 in IPv6."""
    text = text.partition("%")[0] if text.count(":") > 1 else text
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def counted_as(address: IpAddress) -> str:
    """What limits count by: an IPv4 address, or a /64 network of IPv6."""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, _NETWORK_BITS), strict=False))
