"""Reason code → HTTP answer. A refusal is a problem document with more members than a recorded failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog
from aiohttp import web

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import (
    AioumError,
    ChainError,
    InvalidInput,
    OutcomeUnknown,
    PolicyRefused,
    Refused,
    SignatureInvalid,
)
from aioum.core.problem import PROBLEM_BASE, PROBLEM_CONTENT_TYPE
from aioum.core.wire import Challenge

_log = structlog.get_logger(__name__)

STATUS_OF_CODE: Final[Mapping[str, int]] = {
    # Payment failures come with a fresh challenge.
    "payment-required": 402,
    "payment-insufficient": 402,
    "amount-exceeds-deposit": 402,
    "amount-not-increasing": 402,
    "credential-malformed": 402,
    "challenge-malformed": 402,
    "challenge-invalid": 402,
    "challenge-expired": 402,
    "opening-not-final": 402,
    "opening-mismatch": 402,
    "top-up-not-final": 402,
    "deposit-too-small": 402,
    # Paid, but not taken by this node's policy.
    "terms-not-ours": 403,
    "commit-not-required": 403,
    "signed-session-required": 403,
    "signature-required": 403,
    "session-unsigned": 403,
    "seat-unknown": 403,
    "bad-signature": 403,
    "submission-key-invalid": 403,
    "plain-channel-refused": 403,
    "contract-signer-refused": 403,
    "read-access-missing": 401,
    "read-access-malformed": 401,
    "read-access-expired": 401,
    "read-access-too-long": 401,
    "tool-unknown": 404,
    "card-unknown": 404,
    "log-not-kept": 404,
    "log-resource-missing": 404,
    "session-not-logged": 404,
    "not-found": 404,
    "method-not-allowed": 405,
    "request-timeout": 408,
    "request-conflict": 409,
    "roster-required": 409,
    "roster-unexpected": 409,
    "roster-mismatch": 409,
    "cursor-out-of-order": 409,
    "head-mismatch": 409,
    "submission-conflict": 409,
    "session-close-pending": 409,
    "session-suspect": 409,
    "call-count-mismatch": 409,
    "nothing-recorded": 409,
    "channel-not-found": 410,
    "session-elsewhere": 410,
    "session-finalized": 410,
    "session-sealed": 410,
    "request-too-large": 413,
    "json-too-large": 413,
    "too-many-in-flight": 429,
    "node-busy": 429,
    "too-many-openings": 429,
    "rate-limited": 429,
    "store-busy": 503,
    "not-ready": 503,
    "too-many-reads": 503,
    "stopping": 503,
}
"""Every code this edge answers with on purpose; `status_of` has the rest by kind of error."""

_TRY_LATER: Final = frozenset(
    {"opening-not-final", "top-up-not-final", "too-many-in-flight", "node-busy", "too-many-openings"}
)
RETRY_AFTER_DETAIL: Final = "retryAfterSeconds"
"""Where a refusal says in its details when to come again, that is the advice."""

_AWAY: Final = frozenset(
    {"store-failed", "store-closed", "store-older", "watermark-failed", "signature-book-failed"}
)
"""The store, or what is kept beside it, could not be used. What to do about it is the operator's matter."""

_STANDARD_MEMBERS: Final = frozenset({"type", "title", "status", "detail", "hint"})


def status_of(error: AioumError, *, signature_status: int) -> int:
    """The HTTP status of an error; `signature_status` stands for a signature that is not the client's."""
    status = STATUS_OF_CODE["store-busy"] if error.code in _AWAY else STATUS_OF_CODE.get(error.code)
    if status is not None:
        return status
    match error:
        case SignatureInvalid():
            return signature_status
        case PolicyRefused():
            return 403
        case Refused():
            return 409
        case ChainError() | OutcomeUnknown():
            return 503
        case InvalidInput():
            return 400
        case _:
            return 500


def is_inside(error: AioumError, status: int) -> bool:
    """Whether something broke that is for the node's log, and not for a client."""
    return status == 500 or error.code in _AWAY


def refusal(
    error: AioumError, status: int, *, challenge: Challenge | None = None, retry_after_seconds: int
) -> web.Response:
    """The answer for a request that was refused and not recorded.

    Args:
        error: its code, text, hint and details go out, except where it `is_inside`.
        status: from `status_of`.
        challenge: goes with a 402.
        retry_after_seconds: advice where the same request may succeed later and the error has none.
    """
    # No text of ours or of a library's leaves with what broke inside.
    inside = is_inside(error, status)
    code = error.code if not inside else "internal-error" if status == 500 else "store-busy"
    body: dict[str, Any] = {
        "type": PROBLEM_BASE + code,
        "title": code.replace("-", " ").capitalize(),
        "status": status,
        "detail": "The node failed; the request was not answered." if inside else str(error)[:500],
    }
    if not inside:
        body.update({name: value for name, value in error.details.items() if name not in _STANDARD_MEMBERS})
        if error.hint is not None:
            body["hint"] = error.hint
    headers = {"Content-Type": PROBLEM_CONTENT_TYPE, "Cache-Control": "no-store"}
    if status == 402 and challenge is not None:
        headers["WWW-Authenticate"] = challenge.header()
    if status == 401:
        headers["WWW-Authenticate"] = 'AioumRead realm="session"'
    if code in _TRY_LATER or status in (413, 429, 503):
        headers["Retry-After"] = str(error.details.get(RETRY_AFTER_DETAIL, retry_after_seconds))
    return web.Response(status=status, body=canonical_bytes(body), headers=headers)


def refused_read(request: web.Request, error: AioumError) -> web.Response:
    """The answer to a read that needs no signature; what broke inside is logged."""
    status = status_of(error, signature_status=400)
    if is_inside(error, status):
        _log.error("request-failed", path=request.path, code=error.code, exc_info=error)
    return refusal(error, status, retry_after_seconds=1)
