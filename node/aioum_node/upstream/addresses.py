"""Which addresses an HTTP tool may be at: those of the public Internet, and hosts that the operator trusts.

A name is whatever its owner's name server says at the moment. Unless the operator says that a host is meant
to be inside, it must not lead into the own network: to this machine, its neighbours, or a cloud's metadata.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from aioum.core.errors import ConfigError, PolicyRefused
from aioum.kits.fetch import require_public_address


def require_upstream_url(url: str, *, tool_id: str, trusted_host: str | None) -> None:
    """Check the URL of an HTTP tool. A name is looked up again, and checked, for every connection.

    Args:
        url: of the service.
        tool_id: for the error.
        trusted_host: the host that may be inside the own network; must be the URL's.

    Raises:
        ConfigError: `upstream-url-invalid`, `upstream-host-untrusted` (`trusted_host` is another host),
            `upstream-address-refused`.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or not url.isascii() or any(character <= " " or character in "\\\x7f" for character in url):
        raise ConfigError(f"tool {tool_id}: not the URL of a service: {url!r}", code="upstream-url-invalid")
    if trusted_host is not None:
        if trusted_host.lower().strip("[]") != host:
            raise ConfigError(
                f"tool {tool_id} trusts {trusted_host}, and its URL is at {host}",
                code="upstream-host-untrusted",
            )
        return
    try:
        require_public_address(ipaddress.ip_address(host.partition("%")[0]))
    except PolicyRefused as error:
        raise ConfigError(
            f"tool {tool_id}: {error}",
            code="upstream-address-refused",
            hint=f'write trusted_host = "{host}" in its table if the service is meant to be there',
        ) from error
    except ValueError:
        # A name.
        return
