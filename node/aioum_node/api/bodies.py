"""Reading a request's body within limits of size and time."""

from __future__ import annotations

import asyncio

from aiohttp import web

from aioum.core.errors import InvalidInput, Refused


async def read_body(request: web.Request, timeout_seconds: float) -> bytes:
    """The whole body.

    Raises:
        Refused: `request-too-large`, over the application's limit, or `request-timeout`.
        InvalidInput: `body-malformed`, it is not encoded as its Content-Encoding says.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise Refused("the body is over the node's limit", code="request-too-large") from error
    except web.RequestPayloadError as error:
        raise InvalidInput(
            "the body is not encoded as its Content-Encoding says", code="body-malformed"
        ) from error
    except TimeoutError:
        raise Refused(f"the body did not come within {timeout_seconds:g} s", code="request-timeout") from None
