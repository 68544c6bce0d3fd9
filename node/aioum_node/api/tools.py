"""`POST /tools/{toolId}`: challenge, opening, top-up and paid calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NoReturn

import structlog
from aiohttp import web

from aioum.core.errors import AioumError, Refused
from aioum.core.hextext import to_hex
from aioum.core.ledger import SessionState
from aioum.core.submission.envelope import Envelope
from aioum.core.types import ChannelId
from aioum.core.wire import (
    INTENT,
    METHOD,
    PAYMENT_RECEIPT_HEADER,
    RECEIPT_HEADER,
    Challenge,
    Credential,
    encode_token,
)
from aioum_node.api.bodies import read_body
from aioum_node.api.challenges import Challenges
from aioum_node.api.problems import is_inside, refusal, status_of
from aioum_node.calls import PaidCalls, Served
from aioum_node.cards import Cards, Offer
from aioum_node.limits.requests import client_of
from aioum_node.metrics import NodeMetrics
from aioum_node.openings import Openings
from aioum_node.planning import PaidRequest
from aioum_node.restored.shown_receipts import ShownReceipts
from aioum_node.sessions import SessionContext, Sessions
from aioum_node.store.port import Store

_log = structlog.get_logger(__name__)


class ToolRoutes:
    """The paid edge. Adoption and calls are decided elsewhere; this reads requests and writes answers."""

    def __init__(
        self,
        *,
        calls: PaidCalls,
        openings: Openings,
        sessions: Sessions,
        cards: Cards,
        store: Store,
        challenges: Challenges,
        metrics: NodeMetrics,
        require_ready: Callable[[], None],
        body_timeout_seconds: float,
        retry_after_seconds: int,
        now_seconds: Callable[[], float],
    ) -> None:
        """Args: require_ready: raises Refused while the node takes no calls."""
        self._calls = calls
        self._openings = openings
        self._sessions = sessions
        self._cards = cards
        self._store = store
        self._challenges = challenges
        self._metrics = metrics
        self._require_ready = require_ready
        self._body_timeout_seconds = body_timeout_seconds
        self._retry_after_seconds = retry_after_seconds
        self._now_seconds = now_seconds
        self._shown = ShownReceipts(store, lambda: int(now_seconds() * 1_000))

    async def post(self, request: web.Request) -> web.Response:
        """Answer one request; every refusal is a problem document."""
        tool_id = request.match_info["tool_id"]
        channel_id: ChannelId | None = None
        try:
            header = request.headers.get("Authorization")
            if header is None:
                self._unpaid(tool_id)
            self._require_ready()
            credential = Credential.from_header(header)
            channel_id = credential.channel_id
            body = await read_body(request, self._body_timeout_seconds)
            newest_receipt = request.headers.get(RECEIPT_HEADER)
            return await self._paid(tool_id, credential, body, newest_receipt, client_of(request))
        except AioumError as error:
            return await self._refuse(error, tool_id, channel_id)

    def _unpaid(self, tool_id: str) -> NoReturn:
        if tool_id not in self._cards.current.tools:
            raise Refused(f"there is no tool {tool_id!r:.80}", code="tool-unknown")
        raise Refused("this tool is paid for per call", code="payment-required")

    async def _paid(
        self,
        tool_id: str,
        credential: Credential,
        body: bytes,
        newest_receipt: str | None,
        client: str | None,
    ) -> web.Response:
        self._challenges.require_ours(credential.challenge, fresh=credential.action == "open")
        envelope = None if credential.submission is None else Envelope.from_json(credential.submission)
        if credential.action == "topUp":
            stored = await self._openings.top_up(credential, client)
            # Nothing here is signed, so the answer says only what the chain says to everybody.
            deposit = {"channelId": to_hex(credential.channel_id), "deposit": str(stored.state.deposit)}
            raise _payment_required("the deposit was taken over", deposit)
        if credential.action == "open":
            context = await self._openings.adopt(credential, client)
            if credential.amount == 0 and envelope is None:
                state = await self._state(context)
                numbers = {
                    "channelId": to_hex(state.channel_id),
                    "deposit": str(state.deposit),
                    "acceptedCumulative": str(state.accepted),
                    "spent": str(state.spent),
                }
                raise _payment_required("the session is open", numbers)
        if newest_receipt is not None:
            context = await self._sessions.context(credential.channel_id)
            await self._shown.require_held(context, newest_receipt)
        served = await self._calls.call(
            PaidRequest(
                credential.channel_id,
                tool_id,
                body,
                credential.amount,
                credential.signature,
                envelope,
            )
        )
        self._shown.held(credential.channel_id, served.call.index)
        return self._answer(served, credential)

    async def _state(self, context: SessionContext) -> SessionState:
        stored = await self._store.session(context.facts.channel_id)
        if stored is None:
            raise Refused("the session was removed", code="channel-not-found")
        stored.state.require_trusted()
        return stored.state

    def _answer(self, served: Served, credential: Credential) -> web.Response:
        answer = served.answer
        headers = {"Content-Type": answer.content_type, RECEIPT_HEADER: served.receipt.header()}
        if 200 <= answer.status < 300:
            headers[PAYMENT_RECEIPT_HEADER] = self._payment_receipt(served, credential)
            headers["Cache-Control"] = "private"
        else:
            headers["Cache-Control"] = "no-store"
        return web.Response(status=answer.status, body=answer.response, headers=headers)

    def _payment_receipt(self, served: Served, credential: Credential) -> str:
        channel_hex = to_hex(served.context.facts.channel_id)
        return encode_token(
            {
                "status": "success",
                "method": METHOD,
                "intent": INTENT,
                "timestamp": datetime.fromtimestamp(self._now_seconds(), UTC).isoformat(timespec="seconds"),
                "reference": channel_hex,
                "challengeId": credential.challenge.id,
                "channelId": channel_hex,
                "chainId": served.context.domain.chain_id,
                "acceptedCumulative": str(served.accepted),
                "spent": str(served.spent),
                "units": 1,
            }
        )

    async def _refuse(self, error: AioumError, tool_id: str, channel_id: ChannelId | None) -> web.Response:
        self._metrics.refused(error.code)
        status = status_of(error, signature_status=402)
        challenge = await self._challenge(tool_id, channel_id) if status == 402 else None
        if is_inside(error, status):
            channel = None if channel_id is None else to_hex(channel_id)
            _log.error("request-failed", tool=tool_id, channel=channel, code=error.code, exc_info=error)
        return refusal(error, status, challenge=challenge, retry_after_seconds=self._retry_after_seconds)

    async def _challenge(self, tool_id: str, channel_id: ChannelId | None) -> Challenge:
        offer = await self._offer(channel_id)
        tool = offer.tools.get(tool_id)
        return self._challenges.issue(offer.card, tool.price if tool else 0, channel_id)

    async def _offer(self, channel_id: ChannelId | None) -> Offer:
        if channel_id is not None:
            try:
                return (await self._sessions.context(channel_id)).offer
            except AioumError:
                # A session that cannot be read gets today's card: a refusal needs no more.
                return self._cards.current
        return self._cards.current


def _payment_required(what: str, details: Mapping[str, str]) -> Refused:
    return Refused(f"{what}; calls are paid with vouchers", code="payment-required", details=details)
