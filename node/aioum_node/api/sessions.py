"""`/sessions/{channelId}…`: what a client may read of its own session, and the cooperative close."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import structlog
from aiohttp import web

from aioum.core.canonical import JsonValue, canonical_bytes, parse_json
from aioum.core.errors import AioumError, InvalidInput, Refused
from aioum.core.hextext import channel_id as parse_channel_id
from aioum.core.hextext import to_hex
from aioum.core.ledger import Call, Phase, SessionState, receipt_of, seal, statement_of
from aioum.core.payment import Domain, SignedMessage
from aioum.core.submission.framing import encode_base64
from aioum.core.types import ChannelId
from aioum.core.wire import (
    JsonObject,
    SignedReceipt,
    SignedStatement,
    parse_close_request,
    parse_read_access,
)
from aioum_node.access import ClientSignatures, require_fresh
from aioum_node.api.bodies import read_body
from aioum_node.api.problems import is_inside, refusal, status_of
from aioum_node.limits.slots import Slots
from aioum_node.metrics import NodeMetrics
from aioum_node.sessions import SessionContext, Sessions
from aioum_node.store.port import Store, StoredSession

_log = structlog.get_logger(__name__)
_CALLS_PER_READ = 16
_MAX_CLOSE_BODY_BYTES = 32_768
_UNAUTHORIZED = 401

Handler = Callable[[web.Request, ChannelId], Awaitable[web.Response]]
Read = Callable[[web.Request, SessionContext], Awaitable[web.Response]]
Sign = Callable[[SignedMessage, Domain], Awaitable[bytes]]
Settle = Callable[[ChannelId], None]


class SessionRoutes:
    """Reads need a ReadAccess, the close a CloseRequest, both signed by the session's client."""

    def __init__(
        self,
        *,
        store: Store,
        sessions: Sessions,
        clients: ClientSignatures,
        settle: Settle,
        sign: Sign,
        metrics: NodeMetrics,
        slots: Slots,
        page_calls: int,
        page_bytes: int,
        body_timeout_seconds: float,
        retry_after_seconds: int,
        now_ms: Callable[[], int],
    ) -> None:
        """Args: settle: asks for this sealed session to be settled soon; sign: the receipt signer.

        slots: of reads, with a share for each session.
        """
        self._store = store
        self._sessions = sessions
        self._clients = clients
        self._settle = settle
        self._sign = sign
        self._metrics = metrics
        self._slots = slots
        self._page_calls = page_calls
        self._page_bytes = page_bytes
        self._body_timeout_seconds = body_timeout_seconds
        self._retry_after_seconds = retry_after_seconds
        self._now_ms = now_ms

    async def session(self, request: web.Request) -> web.Response:
        """`GET /sessions/{channelId}`."""
        return await self._read(request, self._session)

    async def calls(self, request: web.Request) -> web.Response:
        """`GET /sessions/{channelId}/calls?from=`."""
        return await self._read(request, self._calls)

    async def statement(self, request: web.Request) -> web.Response:
        """`GET /sessions/{channelId}/statement`."""
        return await self._read(request, self._statement)

    async def close(self, request: web.Request) -> web.Response:
        """`POST /sessions/{channelId}/close`."""
        return await self._guarded(request, self._close)

    async def _guarded(self, request: web.Request, handler: Handler) -> web.Response:
        channel: str | None = None
        try:
            channel_id = parse_channel_id(request.match_info["channel_id"])
            channel = to_hex(channel_id)
            return await handler(request, channel_id)
        except AioumError as error:
            self._metrics.refused(error.code)
            status = status_of(error, signature_status=_UNAUTHORIZED)
            if is_inside(error, status):
                _log.error(
                    "request-failed", path=request.path, channel=channel, code=error.code, exc_info=error
                )
            return refusal(error, status, retry_after_seconds=self._retry_after_seconds)

    async def _reader(self, request: web.Request, channel_id: ChannelId) -> SessionContext:
        header = request.headers.get("Authorization")
        if header is None:
            raise Refused("reading a session needs an AioumRead authorization", code="read-access-missing")
        access, signature = parse_read_access(header)
        if access.channel_id != channel_id:
            raise Refused("the read access is for another session", code="read-access-malformed")
        require_fresh(access, self._now_ms() // 1_000)
        context = await self._sessions.context(channel_id)
        await self._clients.require(access, context.domain, signature, context.clients)
        return context

    async def _read(self, request: web.Request, read: Read) -> web.Response:
        """Answer a read. Its place is held until the client has nearly all: what waits for it is memory."""

        async def sent(request: web.Request, channel_id: ChannelId) -> web.Response:
            context = await self._reader(request, channel_id)
            with self._slots.held(channel_id):
                answer = await read(request, context)
                # The client may be gone.
                with suppress(ConnectionError):
                    await answer.prepare(request)
                    await answer.write_eof()
            return answer

        return await self._guarded(request, sent)

    async def _stored(self, channel_id: ChannelId) -> StoredSession:
        stored = await self._store.session(channel_id)
        if stored is None:
            self._sessions.forget(channel_id)
            raise Refused("the node knows no session of this channel id", code="channel-not-found")
        return stored

    async def _session(self, request: web.Request, context: SessionContext) -> web.Response:
        channel_id = context.facts.channel_id
        stored = await self._stored(channel_id)
        state = stored.state
        return _json(
            {
                **await self._signed_members(stored),
                "channelId": to_hex(channel_id),
                "sessionId": str(stored.facts.session_id),
                "phase": state.phase.value,
                "callCount": state.admitted,
                "recorded": state.frontier.size,
                "accepted": str(state.accepted),
                "spent": str(state.spent),
                "reserved": str(state.reserved),
                "deposit": str(state.deposit),
                "closePending": state.close_pending,
                "sealReason": state.seal_reason,
            }
        )

    async def _signed_members(self, stored: StoredSession) -> JsonObject:
        if not stored.state.signed:
            return {}
        heads: JsonObject = {item.seat: encode_base64(item.head) for item in stored.state.seats.heads}
        found = await self._store.equivocations(stored.facts.channel_id)
        equivocations: list[JsonValue] = [
            {
                **item.envelope.to_json(),
                "index": item.index,
                "toolId": item.tool_id,
                "request": item.request.decode(),
                "seenAtMs": item.seen_at_ms,
            }
            for item in found
        ]
        return {"heads": heads, "equivocations": equivocations}

    async def _calls(self, request: web.Request, context: SessionContext) -> web.Response:
        channel_id = context.facts.channel_id
        (await self._stored(channel_id)).state.require_trusted()
        first = request.query.get("from", "0")
        if not (first.isascii() and first.isdigit() and len(first) <= 8):
            raise InvalidInput(f"from must be a call index, got {first!r:.40}", code="call-index-invalid")
        entries: list[JsonValue] = []
        index, size_bytes = int(first), 0
        while len(entries) < self._page_calls and size_bytes < self._page_bytes:
            batch = await self._store.calls(
                channel_id, index, min(_CALLS_PER_READ, self._page_calls - len(entries))
            )
            for call in batch:
                if call.answer is None or size_bytes >= self._page_bytes:
                    break
                entries.append(await self._entry(context, call))
                size_bytes += len(call.request) + len(call.answer.response)
                index = call.index + 1
            else:
                if len(batch) == _CALLS_PER_READ:
                    continue
            break
        recorded = (await self._stored(channel_id)).state.frontier.size
        return _json({"calls": entries, "next": index if index < recorded else None})

    async def _entry(self, context: SessionContext, call: Call) -> JsonObject:
        if call.answer is None:
            raise Refused(f"call {call.index} is not recorded", code="call-not-recorded")
        receipt = receipt_of(context.facts.channel_id, call)
        signed = SignedReceipt(receipt, await self._sign(receipt, context.domain))
        entry: JsonObject = {
            "index": call.index,
            "toolId": call.tool_id,
            "request": call.request.decode(),
            "response": call.answer.response.decode(),
            "status": call.answer.status,
            "receipt": signed.header(),
        }
        if call.envelope is not None:
            entry["submission"] = call.envelope.to_json()
        return entry

    async def _statement(self, request: web.Request, context: SessionContext) -> web.Response:
        stored = await self._stored(context.facts.channel_id)
        return _json(await self._signed_statement(context, stored.state))

    async def _signed_statement(self, context: SessionContext, state: SessionState) -> JsonObject:
        statement = statement_of(state)
        signature = await self._sign(statement, context.domain)
        return SignedStatement(statement, signature).to_json()

    async def _close(self, request: web.Request, channel_id: ChannelId) -> web.Response:
        body: Any = parse_json(
            await read_body(request, self._body_timeout_seconds), max_bytes=_MAX_CLOSE_BODY_BYTES
        )
        wanted, signature = parse_close_request(body, channel_id)
        context = await self._sessions.context(channel_id)
        await self._clients.require(wanted, context.domain, signature, context.clients)

        def seal_at(state: SessionState) -> SessionState:
            if state.phase is not Phase.FINAL:
                state.require_trusted()
            if state.admitted != wanted.call_count:
                raise Refused(
                    f"the node knows {state.admitted} calls, the request says {wanted.call_count}",
                    code="call-count-mismatch",
                    details={"callCount": state.admitted},
                )
            return seal(state, "closed-by-client")

        stored = await self._store.update(channel_id, seal_at, self._now_ms())
        # Durable: nothing is admitted any more. A crash here leaves a sealed session, to be settled after it.
        final = stored.state.phase is Phase.FINAL
        if not final:
            self._settle(channel_id)
        transaction = stored.transaction_hash
        answer: JsonObject = {
            "channelId": to_hex(channel_id),
            "phase": stored.state.phase.value,
            "statement": None,
            "transaction": None if transaction is None else to_hex(transaction),
        }
        if stored.state.admitted and stored.state.drained and stored.state.trusted:
            answer["statement"] = await self._signed_statement(context, stored.state)
        return _json(answer, status=200 if final else 202)


def _json(value: JsonObject, *, status: int = 200) -> web.Response:
    return web.Response(
        status=status,
        body=canonical_bytes(value),
        headers={"Content-Type": "application/json", "Cache-Control": "no-store"},
    )
