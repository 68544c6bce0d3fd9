"""Failed calls: every way a tool can fail to answer, as the recorded response of PROTOCOL 6.

A failed call is recorded like any other and costs nothing. Its response is a problem document that never
carries the text of a foreign exception, paths or addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioum.core.ledger import Answer
from aioum.core.problem import PROBLEM_CONTENT_TYPE, is_problem, problem_bytes

FAILURES: Final[Mapping[str, tuple[int, str]]] = {
    "tool-unknown": (404, "The session's card has no such tool"),
    "tool-failed": (500, "The tool failed"),
    "tool-timeout": (504, "The tool did not answer in time"),
    "arguments-invalid": (400, "The tool does not accept these arguments"),
    "response-too-large": (502, "The tool's response is larger than the node's limit"),
    "response-not-text": (502, "The tool's response is not UTF-8 text"),
    "upstream-unreachable": (502, "The service behind the tool did not answer"),
    "tool-withdrawn": (503, "The node no longer runs this tool"),
    "interrupted": (500, "The call was interrupted and will not be run again"),
}
"""Reason code → HTTP status and title of the recorded problem document."""

MAX_TITLE_CHARACTERS: Final = 200
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def failed(code: str, title: str | None = None) -> Answer:
    """The answer of a call that failed for `code`, one of FAILURES; `title` may replace the usual one."""
    status, usual = FAILURES[code]
    text = (title or usual)[:MAX_TITLE_CHARACTERS]
    return Answer(problem_bytes(status, code, text), status, PROBLEM_CONTENT_TYPE, failed=True)


def answer_of(response: bytes, content_type: str, *, max_bytes: int) -> Answer:
    """What a tool's raw bytes amount to.

    Bytes over `max_bytes`, bytes that are no text, and a problem document of our own form are failed calls: a
    client could not tell the last from a failure of the node.
    """
    if len(response) > max_bytes:
        return failed("response-too-large")
    if response.startswith(_BYTE_ORDER_MARK):
        return failed("response-not-text")
    try:
        response.decode()
    except UnicodeDecodeError:
        return failed("response-not-text")
    if is_problem(response):
        return failed("tool-failed")
    return Answer(response, 200, content_type, failed=False)
