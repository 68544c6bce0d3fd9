"""A node as its client sees it: paths of PROTOCOL 6, refusals, receipts whose signature was checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from aioum.client.http import WELL_KNOWN_PATH, HttpAnswer, Transport
from aioum.client.settings import ClientSettings
from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import AioumError, InvalidInput, OutcomeUnknown, Refused, SignatureInvalid
from aioum.core.hextext import to_hex
from aioum.core.payment import Domain
from aioum.core.problem import PAYMENT_PROBLEM_BASE, PROBLEM_BASE
from aioum.core.signing import require_signer
from aioum.core.types import Address, ChannelId
from aioum.core.wire import RECEIPT_HEADER, Challenge, JsonObject, SignedReceipt

_CODE: Final = re.compile(r"[a-z][a-z0-9-]{0,63}", re.ASCII)
_MAX_REFUSAL_BYTES: Final = 65_536
_MAX_RETRY_AFTER_SECONDS: Final = 3_600.0
_STANDARD_MEMBERS: Final = frozenset({"type", "title", "status", "detail", "instance", "code"})
_JSON_HEADERS: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node's problem document that came without a receipt. It is not signed: whoever is on the way can
    forge it.
    """

    status: int
    code: str
    title: str
    details: JsonObject = field(default_factory=dict)
    retry_after_seconds: float | None = None

    def error(self) -> Refused:
        """The refusal as an error with the node's own code."""
        return Refused(
            f"the node refused: {self.title}", code=self.code, details={"status": self.status, **self.details}
        )


class NodeClient:
    """The paths of one node. Answers are returned as they came; callers judge them."""

    def __init__(self, transport: Transport, base_url: str, settings: ClientSettings) -> None:
        """Args: base_url: as `node_base_url` gives it."""
        self._transport = transport
        self.base_url = base_url
        self._settings = settings

    async def describe(self) -> JsonObject:
        """`{"chainId","serviceRegistry","serviceId","card"}` of the node.

        Raises:
            OutcomeUnknown: as `Transport.request`.
            Refused: the node's code.
        """
        return self.json_of(await self._read("GET", WELL_KNOWN_PATH, {}))

    async def challenge(self, tool_id: str) -> Challenge:
        """Ask for a payment challenge by an unpaid call.

        Raises:
            OutcomeUnknown: as `Transport.request`, or `challenge-missing`.
            Refused: the node's code, such as `tool-unknown`.
        """
        answer = await self._read("POST", f"/tools/{tool_id}", _JSON_HEADERS, b"{}")
        challenge = challenge_of(answer)
        if challenge is not None:
            return challenge
        refusal = refusal_of(answer)
        if refusal is not None and 400 <= answer.status < 500:
            raise refusal.error()
        raise OutcomeUnknown(
            f"expected a payment challenge, got status {answer.status}", code="challenge-missing"
        )

    async def call(
        self,
        tool_id: str,
        arguments: bytes,
        authorization: str,
        *,
        max_bytes: int,
        timeout_seconds: float,
        newest: SignedReceipt | None = None,
    ) -> HttpAnswer:
        """Send a paid call.

        Args:
            tool_id: what is called.
            arguments: JSON object.
            authorization: the credential's header.
            max_bytes: most bytes of the answer.
            timeout_seconds: most time of the tool.
            newest: the session's newest receipt; a node that was restored from a backup sees by it that it
                has lost calls, before it answers one of their indexes again.
        """
        shown = {} if newest is None else {RECEIPT_HEADER: newest.header()}
        return await self._transport.request(
            "POST",
            f"{self.base_url}/tools/{tool_id}",
            headers={**_JSON_HEADERS, "Authorization": authorization, **shown},
            body=arguments,
            max_bytes=max(max_bytes, _MAX_REFUSAL_BYTES),
            timeout_seconds=timeout_seconds + self._settings.answer_margin_seconds,
        )

    async def read_session(self, channel_id: ChannelId, what: str, authorization: str) -> HttpAnswer:
        """Read a session's own data; `what` is the path below `/sessions/{channelId}`."""
        return await self._read("GET", _session_path(channel_id) + what, {"Authorization": authorization})

    async def log_proof(self, channel_id: ChannelId) -> JsonObject:
        """The proof that a session is in the operator's transparency log, as the node gives it.

        Raises:
            OutcomeUnknown: as `Transport.request`.
            Refused: the node's code: `session-not-logged`, `log-not-kept`.
        """
        return self.json_of(await self._read("GET", f"/log/proof/{to_hex(channel_id)}", {}))

    async def close(self, channel_id: ChannelId, request: JsonObject) -> HttpAnswer:
        """Ask for a cooperative close."""
        path = _session_path(channel_id) + "/close"
        return await self._read("POST", path, _JSON_HEADERS, canonical_bytes(request))

    def json_of(self, answer: HttpAnswer) -> JsonObject:
        """The object that a 2xx answer holds.

        Raises:
            OutcomeUnknown: `node-failed`, a status that says nothing about the request;
                `node-answer-malformed`.
            Refused: the node's code.
        """
        if not 200 <= answer.status < 300:
            refusal = refusal_of(answer)
            if refusal is not None and 400 <= answer.status < 500:
                raise refusal.error()
            raise OutcomeUnknown(f"{self.base_url} answered with status {answer.status}", code="node-failed")
        try:
            value = parse_json(answer.body, max_bytes=self._settings.max_read_bytes)
        except AioumError as error:
            raise OutcomeUnknown(
                f"{self.base_url} did not answer with JSON: {error}", code="node-answer-malformed"
            ) from error
        if not isinstance(value, dict):
            raise OutcomeUnknown("expected a JSON object from the node", code="node-answer-malformed")
        return value

    async def _read(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> HttpAnswer:
        return await self._transport.request(
            method,
            self.base_url + path,
            headers=headers,
            body=body,
            max_bytes=self._settings.max_read_bytes,
            timeout_seconds=self._settings.read_timeout_seconds,
        )


def challenge_of(answer: HttpAnswer) -> Challenge | None:
    """The challenge of a 402 answer, or None."""
    header = answer.headers.get("www-authenticate")
    # A credential repeats the challenge as JSON, so bytes that are no text must not come in with it.
    if answer.status != 402 or header is None or not header.isascii():
        return None
    try:
        return Challenge.from_header(header)
    except InvalidInput:
        return None


def refusal_of(answer: HttpAnswer) -> Refusal | None:
    """The problem document of an answer, or None where it is none."""
    try:
        value = parse_json(answer.body, max_bytes=_MAX_REFUSAL_BYTES)
    except AioumError:
        return None
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str):
        return None
    for base in (PROBLEM_BASE, PAYMENT_PROBLEM_BASE):
        if kind.startswith(base):
            code = value.get("code", kind.removeprefix(base).removeprefix("session/"))
            break
    else:
        return None
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return None
    details = {name: member for name, member in value.items() if name not in _STANDARD_MEMBERS}
    title = str(value.get("detail") or value.get("title") or code)[:500]
    return Refusal(answer.status, code, title, details, _retry_after_seconds(answer))


def verified_receipt(
    answer: HttpAnswer, channel_id: ChannelId, signer: Address, domain: Domain
) -> SignedReceipt | None:
    """The receipt that an answer carries, with its signature checked; None where it carries none.

    Raises:
        OutcomeUnknown: `receipt-invalid`, it is malformed, of another session, or not by the receipt signer:
            the answer was altered on the way, or is no answer.
    """
    header = answer.headers.get(RECEIPT_HEADER.lower())
    if header is None:
        return None
    try:
        signed = SignedReceipt.from_header(header)
        if signed.receipt.channel_id != channel_id:
            raise InvalidInput("the receipt is of another session")
        require_signer(signed.receipt.digest(domain), signed.signature, signer)
    except (InvalidInput, SignatureInvalid) as error:
        raise OutcomeUnknown(f"no valid receipt: {error}", code="receipt-invalid") from error
    return signed


def _retry_after_seconds(answer: HttpAnswer) -> float | None:
    text = answer.headers.get("retry-after", "")
    if not re.fullmatch(r"[0-9]{1,6}", text, re.ASCII):
        return None
    return min(float(text), _MAX_RETRY_AFTER_SECONDS)


def _session_path(channel_id: ChannelId) -> str:
    return f"/sessions/{to_hex(channel_id)}"
