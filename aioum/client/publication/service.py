"""Services that the caller names: where they are, the token they want, and what they answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aiohttp

from aioum.client.publication.cid import Cid, parse_cid
from aioum.client.publication.exchange import (
    ExchangeFailed,
    Reach,
    exchange,
    is_loopback,
    origin_of,
    within,
)
from aioum.client.publication.published import PublishFailed
from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import AioumError, ConfigError, InvalidInput, PolicyRefused

MAX_TOKEN_FILE_BYTES: Final = 8_192
_MAX_ANSWER_BYTES: Final = 1_048_576
_CODES: Final = {
    "unreachable": "publish-service-unreachable",
    "timeout": "publish-service-timeout",
    "too-large": "publish-service-answer-invalid",
}


def service_url(text: str, reach: Reach) -> str:
    """The base URL of a service that the caller names, without a slash at its end.

    Raises:
        InvalidInput: `service-url-invalid`.
        PolicyRefused: `plain-http-refused`: no TLS, although it is not on this machine.
    """
    origin = origin_of(text)
    if origin is None or "?" in text:
        raise InvalidInput(
            f"not the URL of a service: {text!r:.200}",
            code="service-url-invalid",
            hint="write it like https://files.example/evidence",
        )
    if origin.scheme == "http" and not reach.allow_plain_http and not is_loopback(origin.host):
        raise PolicyRefused(
            f"{origin.host} is not this machine, and plain HTTP lets everybody on the way read and alter",
            code="plain-http-refused",
            hint="use https, or allow plain HTTP",
        )
    return text.rstrip("/")


def read_token(path: Path) -> str:
    """The access token in a file that its owner alone may read.

    Raises:
        ConfigError: `publish-token-exposed` or `publish-token-unusable`.
    """
    try:
        with path.open("rb") as file:
            exposed = os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077
            content = file.read(MAX_TOKEN_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the token file {path} cannot be read: {error.strerror}", code="publish-token-unusable"
        ) from error
    if exposed:
        raise ConfigError(
            f"the token file {path} can be read by others",
            code="publish-token-exposed",
            hint=f"chmod 600 {path}",
        )
    token = content.strip()
    if not 0 < len(content) <= MAX_TOKEN_FILE_BYTES or not token or any(not 0x21 <= c <= 0x7E for c in token):
        # What it holds is not shown: it may be a secret all the same.
        raise ConfigError(
            f"the token file {path} does not hold one line of printable ASCII, at most "
            f"{MAX_TOKEN_FILE_BYTES} bytes",
            code="publish-token-unusable",
        )
    return token.decode("ascii")


async def ask(
    method: str,
    url: str,
    *,
    what: str,
    reach: Reach,
    token: str | None = None,
    body: aiohttp.FormData | bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Send one request to a service and return the body of its answer.

    Args:
        method: of HTTP.
        url: below a `service_url`.
        what: the service, for messages.
        reach: times; the service may be in the own network.
        token: sent as a bearer token.
        body: to send.
        headers: to send.

    Raises:
        PublishFailed: `publish-service-unreachable`, `publish-service-timeout`,
            `publish-service-unauthorized`, `publish-service-refused` or `publish-service-answer-invalid`.
    """
    sent = dict(headers or {}) | ({} if token is None else {"Authorization": f"Bearer {token}"})
    try:
        async with within(reach.timeout_seconds):
            answer = await exchange(
                method,
                url,
                reach=reach,
                max_bytes=_MAX_ANSWER_BYTES,
                trusted=True,
                headers=sent,
                body=body,
            )
    except ExchangeFailed as error:
        raise PublishFailed(f"{what}: {error}", code=_CODES[error.kind], hint="try again") from error
    if answer.status in (401, 403):
        raise PublishFailed(
            f"{what} does not let us in (status {answer.status})",
            code="publish-service-unauthorized",
            hint="check the token file" if token else "name a token file",
        )
    if not 200 <= answer.status < 300:
        said = answer.body[:200].decode(errors="replace").strip()
        raise PublishFailed(
            f"{what} answered with status {answer.status}: {said}", code="publish-service-refused"
        )
    return answer.body


def read_object(body: bytes, what: str) -> dict[str, JsonValue]:
    """A service's answer as a JSON object. Raises PublishFailed `publish-service-answer-invalid`."""
    try:
        value = parse_json(body, max_bytes=_MAX_ANSWER_BYTES)
    except AioumError as error:
        raise answer_invalid(what, str(error)) from error
    if not isinstance(value, dict):
        raise answer_invalid(what, "no JSON object")
    return value


def require_same_cid(said: JsonValue, expected: Cid, what: str) -> None:
    """Hold the CID that a service answers against the one computed here.

    Raises:
        PublishFailed: `publish-cid-mismatch`, or `publish-service-answer-invalid` where it is no CID.
    """
    if not isinstance(said, str):
        raise answer_invalid(what, "no CID in it")
    try:
        same = parse_cid(said) == expected
    except InvalidInput as error:
        if error.code == "cid-unsupported":
            same = False
        else:
            raise answer_invalid(what, str(error)) from error
    if not same:
        raise PublishFailed(
            f"{what} says that the package is {said}, and its bytes are {expected}",
            code="publish-cid-mismatch",
            hint="it stored other bytes, or imports files in another way: version 1, raw leaves, chunks of "
            "256 KiB and 174 links are expected",
            details={"said": said, "expected": str(expected)},
        )


def answer_invalid(what: str, why: str) -> PublishFailed:
    """The refusal of an answer that cannot be understood."""
    return PublishFailed(
        f"the answer of {what} is not understood: {why}", code="publish-service-answer-invalid"
    )
