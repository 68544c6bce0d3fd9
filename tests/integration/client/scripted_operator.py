"""An operator with a key of its own that keeps the protocol, except where a test tells it to lie.

It stands in for dishonest operators, which the real node cannot be made to be. Its accounting is the real
ledger.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from aioum.chain import calls as contract_calls
from aioum.chain.client import Chain
from aioum.chain.sender import Sender
from aioum.core.canonical import JsonValue, canonical_bytes, parse_json
from aioum.core.card import descriptor_hash
from aioum.core.errors import AioumError, Refused
from aioum.core.hextext import address_text, channel_id, to_hex
from aioum.core.ledger import (
    Admitted,
    Answer,
    Call,
    CallRequest,
    Limits,
    SessionState,
    admit,
    receipt_of,
    record,
    seal,
    settlement_of,
    statement_of,
)
from aioum.core.payment import CallReceipt, SignedMessage, Statement, Terms, Voucher
from aioum.core.problem import PROBLEM_BASE, PROBLEM_CONTENT_TYPE, problem_bytes
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.signing import LocalKey, require_signer
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import SCHEME
from aioum.core.submission.keys import VerifyingKey
from aioum.core.submission.roster import Roster
from aioum.core.transcript import canonical_request, leaf_hash
from aioum.core.types import ZERO_ADDRESS, Bytes32, ChannelId
from aioum.core.wire import (
    Challenge,
    Credential,
    SignedReceipt,
    SignedStatement,
    parse_close_request,
    parse_read_access,
    payment_request,
)

SECRET = bytes(32)
LIMITS = Limits()
PRICES = {"echo": 100, "fail": 50, "cheap": 1, "free": 0}


def card_json(chain: Chain, key: LocalKey, token: bytes, **changes: JsonValue) -> dict[str, JsonValue]:
    schema: JsonValue = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    return {
        "name": "scripted",
        "operator": address_text(key.address),
        "contracts": {
            "chainId": chain.chain_id,
            "serviceRegistry": address_text(chain.service_registry),
            "paymentManager": address_text(chain.payment_manager),
        },
        "token": {"address": address_text(token), "symbol": "aUSD", "decimals": 6},
        "tools": [
            {"id": tool_id, "price": str(price), "inputSchema": schema, "timeoutSeconds": 5}
            for tool_id, price in PRICES.items()
        ],
        "receiptSigner": address_text(key.address),
        "minDeposit": "10",
        "submissions": SCHEME,
        **changes,
    }


@dataclass
class Lies:
    """What the operator does instead of the right thing. None of it by default.

    Attributes:
        receipt, statement: turn the right words into others, before they are signed.
        refuse: HTTP status and code that the next paid calls are answered with, after they were recorded.
        refuse_unrecorded: code and facts that they are refused with before that.
        shown: turns a recorded call into what the operator shows as its record.
        settle: turns the right settlement into another.
    """

    receipt: Callable[[CallReceipt], CallReceipt] = lambda receipt: receipt
    statement: Callable[[Statement], Statement] = lambda statement: statement
    refuse: list[tuple[int, str]] = field(default_factory=list)
    refuse_unrecorded: list[tuple[str, dict[str, JsonValue]]] = field(default_factory=list)
    withhold_statements: bool = False
    signature_by: LocalKey | None = None
    shown: Callable[[Call], Call] = lambda call: call
    settle: Callable[[contract_calls.Settlement], contract_calls.Settlement] = lambda settlement: settlement


class ScriptedOperator:
    def __init__(self, chain: Chain, key: LocalKey, sender: Sender, card: dict[str, JsonValue]) -> None:
        self.chain, self.key, self.sender, self.card = chain, key, sender, card
        self.service_id = 0
        self.url = ""
        self.lies = Lies()
        self.runs: list[tuple[ChannelId, str]] = []
        self.states: dict[ChannelId, SessionState] = {}
        self.signers: dict[ChannelId, bytes] = {}
        self.rosters: dict[ChannelId, Roster] = {}
        self.envelopes: dict[tuple[ChannelId, str, bytes], set[Envelope]] = {}
        self.calls: dict[ChannelId, list[Call]] = {}
        self.settled: dict[ChannelId, str] = {}
        self._lock = asyncio.Lock()

    def terms(self, **changes: Any) -> Terms:
        token = self.card["token"]
        assert isinstance(token, dict)
        terms = Terms(
            operator=self.key.address,
            payee=self.key.address,
            token=bytes.fromhex(str(token["address"])[2:]),  # type: ignore[arg-type]
            receipt_signer=self.key.address,
            arbitrator=ZERO_ADDRESS,
            descriptor_hash=descriptor_hash(self.card),
            commit_required=True,
            dispute_window_seconds=0,
            ruling_period_seconds=0,
            dispute_bond=0,
        )
        return replace(terms, **changes)

    async def register(self, **changes: Any) -> None:
        uri = self.url + "/.well-known/aioum.json"
        call = contract_calls.register(self.chain.service_registry, self.terms(**changes), uri)
        (event,) = (await self.sender.send(call, "register")).events
        self.service_id = event.args["serviceId"]

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/aioum.json", self._describe)
        app.router.add_post("/tools/{tool_id}", self._tool)
        app.router.add_get("/sessions/{channel}/statement", self._statement)
        app.router.add_get("/sessions/{channel}/calls", self._calls)
        app.router.add_post("/sessions/{channel}/close", self._close)
        return app

    def sign(self, message: SignedMessage) -> bytes:
        return (self.lies.signature_by or self.key).sign_digest(message.digest(self.chain.domain))

    async def _describe(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "chainId": self.chain.chain_id,
                "serviceRegistry": address_text(self.chain.service_registry),
                "serviceId": str(self.service_id),
                "card": self.card,
            }
        )

    async def _tool(self, request: web.Request) -> web.Response:
        tool_id = request.match_info["tool_id"]
        header = request.headers.get("Authorization")
        try:
            if tool_id not in PRICES:
                raise Refused("no such tool", code="tool-unknown")
            if header is None:
                raise Refused("pay", code="payment-required")
            credential = Credential.from_header(header)
            async with self._lock:
                return await self._paid(tool_id, credential, await request.read())
        except AioumError as error:
            return self._refusal(error, tool_id)

    async def _paid(self, tool_id: str, credential: Credential, body: bytes) -> web.Response:
        channel = credential.channel_id
        if credential.action == "open":
            await self._adopt(credential)
        if channel not in self.states:
            raise Refused("unknown", code="channel-not-found")
        session = await self.chain.session(channel)
        assert session is not None
        state = replace(self.states[channel], deposit=session.deposit)
        opens_only = credential.amount == 0 and credential.submission is None
        if credential.action == "topUp" or opens_only:
            raise Refused(
                "open", code="payment-required", details={"acceptedCumulative": str(state.accepted)}
            )
        voucher = Voucher(channel, credential.amount)
        require_signer(voucher.digest(self.chain.domain), credential.signature, self.signers[channel])  # type: ignore[arg-type]
        arguments: Any = parse_json(body, max_bytes=65_536)
        request = canonical_request(tool_id, arguments).encode()
        envelope = self._envelope(credential, request)
        if self.lies.refuse_unrecorded:
            code, details = self.lies.refuse_unrecorded.pop(0)
            raise Refused(code, code=code, details=details)
        entry = CallRequest(
            tool_id, request, PRICES[tool_id], credential.amount, credential.signature, envelope
        )
        existing = next((call for call in self.calls[channel] if same_name(call, entry)), None)
        step = admit(state, entry, existing, LIMITS)
        call = step.call
        if isinstance(step, Admitted):
            self.runs.append((channel, arguments["text"]))
            recorded = record(step.state, step.call, self._run(tool_id, arguments), LIMITS)
            self.states[channel] = recorded.state
            call = recorded.call
            self.calls[channel].append(call)
        if self.lies.refuse:
            status, code = self.lies.refuse.pop(0)
            return self._refusal(Refused("refused", code=code), tool_id, status)
        assert call.answer is not None
        receipt = self.lies.receipt(receipt_of(channel, call))
        signed = SignedReceipt(receipt, self.sign(receipt))
        return web.Response(
            status=call.answer.status,
            body=call.answer.response,
            headers={"Content-Type": call.answer.content_type, "Aioum-Receipt": signed.header()},
        )

    def _envelope(self, credential: Credential, request: bytes) -> Envelope | None:
        if credential.submission is None:
            return None
        envelope = Envelope.from_json(credential.submission)
        entry = self.rosters[credential.channel_id].entry(envelope.seat)
        assert entry is not None
        submission = envelope.submission(credential.channel_id, request)
        submission.require_signed(envelope.signature, VerifyingKey(entry.public_key))
        name = (credential.channel_id, envelope.seat, envelope.prev_head)
        self.envelopes.setdefault(name, set()).add(envelope)
        return envelope

    def _run(self, tool_id: str, arguments: Any) -> Answer:
        if tool_id == "fail":
            return Answer(
                problem_bytes(500, "tool-failed", "It failed"), 500, PROBLEM_CONTENT_TYPE, failed=True
            )
        return Answer(arguments["text"].encode(), 200, "text/plain; charset=utf-8", failed=False)

    async def _adopt(self, credential: Credential) -> None:
        channel = credential.channel_id
        if channel not in self.states:
            session = await self.chain.session(channel)
            if session is None or credential.transaction is None:
                raise Refused("not yet", code="opening-not-final")
            opening = await self.chain.opening(credential.transaction, channel)
            assert opening is not None
            seats = NO_SEATS
            if any(opening.roster_hash):
                self.rosters[channel] = roster = Roster.from_json(credential.roster)
                assert roster.hash == opening.roster_hash
                seats = Seats.at_genesis(channel, roster)
            self.states[channel] = SessionState(
                channel, deposit=session.deposit, signed=bool(seats.heads), seats=seats
            )
            self.signers[channel] = session.voucher_signer
            self.calls[channel] = []

    def _refusal(self, error: AioumError, tool_id: str, status: int | None = None) -> web.Response:
        headers = {}
        if status is None:
            paid = error.code in ("payment-required", "payment-insufficient", "amount-not-increasing")
            status = 402 if paid else 404 if error.code == "tool-unknown" else 409
        if status == 402:
            token, contracts = self.card["token"], self.card["contracts"]
            assert isinstance(token, dict)
            assert isinstance(contracts, dict)
            offer = payment_request(
                price=PRICES[tool_id],
                token=bytes.fromhex(str(token["address"])[2:]),  # type: ignore[arg-type]
                payee=self.key.address,
                chain_id=self.chain.chain_id,
                payment_manager=self.chain.payment_manager,
                suggested_deposit=1,
            )
            headers["WWW-Authenticate"] = Challenge.issue(SECRET, "scripted", offer, None).header()
        body = {"type": PROBLEM_BASE + error.code, "title": error.code, "status": status, **error.details}
        return web.Response(
            status=status, body=canonical_bytes(body), headers=headers, content_type=PROBLEM_CONTENT_TYPE
        )

    def _channel(self, request: web.Request) -> ChannelId:
        channel = channel_id(request.match_info["channel"])
        if channel not in self.states:
            raise Refused("unknown", code="channel-not-found")
        if request.method == "GET":
            access, signature = parse_read_access(request.headers["Authorization"])
            require_signer(access.digest(self.chain.domain), signature, self.signers[channel])  # type: ignore[arg-type]
        return channel

    async def _statement(self, request: web.Request) -> web.Response:
        if self.lies.withhold_statements:
            return web.Response(status=503)
        try:
            statement = self.lies.statement(statement_of(self.states[self._channel(request)]))
        except AioumError as error:
            return self._refusal(error, "echo")
        return web.json_response(SignedStatement(statement, self.sign(statement)).to_json())

    async def _calls(self, request: web.Request) -> web.Response:
        try:
            channel = self._channel(request)
        except AioumError as error:
            return self._refusal(error, "echo")
        first = int(request.query["from"])
        calls = []
        for call in map(self.lies.shown, self.calls[channel][first : first + 2]):
            assert call.answer is not None
            receipt = receipt_of(channel, call)
            shown: dict[str, JsonValue] = {
                "index": call.index,
                "toolId": call.tool_id,
                "request": call.request.decode(),
                "response": call.answer.response.decode(),
                "receipt": SignedReceipt(receipt, self.sign(receipt)).header(),
            }
            if call.envelope is not None:
                shown["submission"] = call.envelope.to_json()
            calls.append(shown)
        following = first + len(calls)
        return web.json_response(
            {"calls": calls, "next": following if following < len(self.calls[channel]) else None}
        )

    async def _close(self, request: web.Request) -> web.Response:
        channel = channel_id(request.match_info["channel"])
        async with self._lock:
            if channel not in self.states:
                return self._refusal(Refused("unknown", code="channel-not-found"), "echo")
            wanted, signature = parse_close_request(
                parse_json(await request.read(), max_bytes=9_999), channel
            )
            require_signer(wanted.digest(self.chain.domain), signature, self.signers[channel])  # type: ignore[arg-type]
            if wanted.call_count != self.states[channel].admitted:
                return self._refusal(Refused("other count", code="call-count-mismatch"), "echo")
            if channel not in self.settled:
                await self.settle(channel)
            state, statement = self.states[channel], None
            if state.admitted:
                words = self.lies.statement(statement_of(state))
                statement = SignedStatement(words, self.sign(words)).to_json()
            return web.json_response({"statement": statement, "transaction": self.settled[channel]})

    def envelopes_of(self, channel: ChannelId) -> list[set[Envelope]]:
        """What came of a session, by head; every set has one envelope, or its client contradicted itself."""
        return [found for (at, _, _), found in self.envelopes.items() if at == channel]

    async def settle(self, channel: ChannelId) -> None:
        self.states[channel] = seal(self.states[channel], "closed")
        right = settlement_of(self.states[channel])
        settlement = contract_calls.Settlement(
            channel, right.voucher_amount, right.capture, right.call_count, right.root, right.signature
        )
        call = contract_calls.settle_session(self.chain.payment_manager, self.lies.settle(settlement))
        self.settled[channel] = to_hex((await self.sender.send(call, "settle")).transaction_hash)


def recorded_as(call: Call, **changes: Any) -> Call:
    """A call as if another had been recorded in its place, leaf and all."""
    changed = replace(call, **changes)
    assert changed.answer is not None
    leaf = leaf_hash(changed.index, changed.request, changed.answer.response, changed.tool_id.encode())
    return replace(changed, leaf=Bytes32(leaf))


def same_name(call: Call, request: CallRequest) -> bool:
    """Whether a recorded call has the name of a request: its voucher amount, or its submission's."""
    mine, other = call.envelope, request.envelope
    if mine is None or other is None:
        return call.amount == request.amount
    return mine.seat == other.seat and (
        mine.prev_head == other.prev_head or mine.submission_id == other.submission_id
    )


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    """Serve an application on a free port of this machine; yields its URL."""
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
