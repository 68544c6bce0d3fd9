"""Who may use the admin port: everybody on this machine, or whoever knows the token of a file."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from hashlib import sha256
from ipaddress import ip_address
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from aioum.core.errors import ConfigError, Refused
from aioum_node.api.problems import refusal
from aioum_node.secret_files import read_secret
from aioum_node.settings import Settings

MIN_TOKEN_CHARACTERS: Final = 16

_log = structlog.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def admin_token(settings: Settings) -> str | None:
    """The admin port's token; None, with a warning, where none is set and only this machine reaches the port.

    Raises:
        ConfigError: `admin-token-required`, `admin-token-too-short`, and those of `read_secret`.
    """
    if settings.admin_token_file is None:
        if _is_loopback(settings.admin_host):
            _log.warning(
                "admin-port-open", hint="set admin_token_file: every user of this host reads the metrics"
            )
            return None
        raise ConfigError(
            f"the admin port on {settings.admin_host} can be reached by others",
            code="admin-token-required",
            hint="set admin_token_file, or leave admin_host at 127.0.0.1",
        )
    token = read_secret(settings.path(settings.admin_token_file), "the admin token")
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ConfigError(
            f"the admin token has {len(token)} characters, at least {MIN_TOKEN_CHARACTERS} are needed",
            code="admin-token-too-short",
            hint='python3 -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        # A name leads wherever the system's resolver says.
        return host == "localhost"


def require_token(token: str) -> Middleware:
    """A middleware that asks for `Authorization: Bearer TOKEN`, and answers 401 without it."""
    expected = sha256(token.encode()).digest()

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        # Hashes have one length, and comparing them takes one time.
        known = hmac.compare_digest(sha256(given.strip().encode(errors="replace")).digest(), expected)
        if not known or scheme.lower() != "bearer":
            error = Refused("the admin port needs its token", code="admin-token-invalid")
            answer = refusal(error, 401, retry_after_seconds=1)
            answer.headers["WWW-Authenticate"] = 'Bearer realm="admin"'
            return answer
        return await handler(request)

    return guarded
