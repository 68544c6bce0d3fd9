"""A node's edge over a real store and real HTTP, and a client that pays it. No chain answers."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer, unused_port

from aioum.chain.client import Chain
from aioum.chain.rpc import Rpc
from aioum.chain.signers import LocalSigner
from aioum.core.canonical import canonical_bytes
from aioum.core.ledger import Limits, SessionState
from aioum.core.payment import CloseRequest, Domain, ReadAccess, Terms, Voucher, terms_hash
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.signing import LocalKey, require_signer
from aioum.core.submission.envelope import Envelope
from aioum.core.transcript import canonical_request
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, ChannelId
from aioum.core.wire import (
    RECEIPT_HEADER,
    Challenge,
    Credential,
    SignedReceipt,
    close_request_json,
    read_access_header,
)
from aioum_node.access import ClientSignatures
from aioum_node.card_builder import CardFacts, TokenFacts, build_card
from aioum_node.cards import Cards, Offer
from aioum_node.edge import Clock, Edge, build_edge
from aioum_node.metrics import NodeMetrics
from aioum_node.readiness import Readiness
from aioum_node.registration import Registration, make_terms
from aioum_node.service import ServiceTool, ToolFunction, load_tools
from aioum_node.settings import Settings
from aioum_node.store.port import SessionFacts, Store
from aioum_node.store.sqlite import SqliteStore
from tests.pens import ROSTER, Pen

OPERATOR = LocalKey(b"\x01" * 32)
CLIENT = LocalKey(b"\x02" * 32)
STRANGER = LocalKey(b"\x03" * 32)
SECRET = b"\x07" * 32
CHAIN_ID = 31337
DOMAIN = Domain(CHAIN_ID, Address(b"\x0a" * 20))
REGISTRY = Address(b"\x0b" * 20)
TOKEN = Address(b"\x0c" * 20)
DEPOSIT = 1_000_000

_numbers = itertools.count(1)


@dataclass
class Reply:
    """One HTTP answer, read whole."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The reason code of a problem document."""
        return str(self.json["type"]).removeprefix("https://aioum.org/problems/")

    @property
    def receipt(self) -> SignedReceipt:
        """The receipt, with its signature checked."""
        signed = SignedReceipt.from_header(self.headers[RECEIPT_HEADER])
        require_signer(signed.receipt.digest(DOMAIN), signed.signature, OPERATOR.address)
        return signed


@dataclass
class Shop:
    """A running edge with one client."""

    http: TestClient[web.Request, web.Application]
    admin: TestClient[web.Request, web.Application]
    store: Store
    edge: Edge
    readiness: Readiness
    offer: Offer
    registration: Registration
    now_seconds: list[float]
    settled: list[ChannelId] = field(default_factory=list)
    challenge: Challenge = field(init=False)

    def __post_init__(self) -> None:
        self.challenge = Challenge.issue(SECRET, "aioum", {"amount": "1"}, None)

    async def open_session(self, deposit: int = DEPOSIT, **changes: Any) -> ChannelId:
        """A session that the node adopted earlier; signed where it has a roster's hash."""
        number = next(_numbers)
        facts = SessionFacts(
            channel_id=ChannelId(number.to_bytes(32, "big")),
            session_id=number,
            chain_id=CHAIN_ID,
            payment_manager=DOMAIN.payment_manager,
            payer=CLIENT.address,
            payee=OPERATOR.address,
            token=TOKEN,
            authorized_signer=ZERO_ADDRESS,
            service_id=self.registration.service_id,
            terms_hash=self.registration.terms_hash,
            nonce=Bytes32(number.to_bytes(32, "big")),
            roster_hash=ZERO_BYTES32,
            descriptor_hash=self.offer.descriptor_hash,
            commit_required=True,
            terms=self.registration.terms,
        )
        facts = dataclasses.replace(facts, **changes)
        seats = NO_SEATS if facts.roster is None else Seats.at_genesis(facts.channel_id, facts.roster)
        state = SessionState(facts.channel_id, deposit=deposit, signed=facts.signed, seats=seats)
        await self.store.open(facts, state, 0)
        return facts.channel_id

    async def open_signed(self, deposit: int = DEPOSIT, *, shown: bool = True, **changes: Any) -> Pen:
        """A signed session, and the pen of its client; shown: the node has the roster."""
        roster = ROSTER if shown else None
        return Pen(await self.open_session(deposit, roster_hash=ROSTER.hash, roster=roster, **changes))

    async def ask(
        self,
        pen: Pen,
        cursor: int,
        amount: int,
        tool: str = "shout",
        arguments: Any = None,
        *,
        envelope: Envelope | None = None,
        **changes: Any,
    ) -> Reply:
        """A signed call with its voucher; `envelope` instead of the pen's next."""
        wanted = {"text": "hey"} if arguments is None else arguments
        signed = envelope or pen.sign(canonical_request(tool, wanted).encode(), cursor)
        changes = {"submission": signed.to_json(), **changes}
        return await self.pay(pen.channel_id, amount, tool, wanted, **changes)

    def credential(
        self, channel_id: ChannelId, amount: int, *, key: LocalKey = CLIENT, **changes: Any
    ) -> Credential:
        """A voucher credential signed by `key`."""
        signature = key.sign_digest(Voucher(channel_id, amount).digest(DOMAIN))
        credential = Credential(self.challenge, "voucher", channel_id, amount, signature)
        return dataclasses.replace(credential, **changes)

    async def pay(
        self,
        channel_id: ChannelId,
        amount: int,
        tool: str = "shout",
        arguments: Any = None,
        *,
        body: bytes | None = None,
        **changes: Any,
    ) -> Reply:
        """A paid call; `arguments` default to what `shout` wants."""
        content = canonical_bytes({"text": "hey"} if arguments is None else arguments)
        credential = self.credential(channel_id, amount, **changes)
        return await self.post(
            f"/tools/{tool}", content if body is None else body, {"Authorization": credential.header()}
        )

    async def post(self, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Reply:
        async with self.http.post(path, data=body, headers=headers) as response:
            return await _read(response)

    async def get(self, path: str, headers: dict[str, str] | None = None) -> Reply:
        async with self.http.get(path, headers=headers) as response:
            return await _read(response)

    async def read(
        self, channel_id: ChannelId, path: str = "", *, key: LocalKey = CLIENT, seconds: int = 60
    ) -> Reply:
        """Read the session with an access that lasts so long."""
        access = ReadAccess(channel_id, int(self.now_seconds[0]) + seconds)
        header = read_access_header(access, key.sign_digest(access.digest(DOMAIN)))
        return await self.get(f"/sessions/0x{channel_id.hex()}{path}", {"Authorization": header})

    async def close(self, channel_id: ChannelId, call_count: int, *, key: LocalKey = CLIENT) -> Reply:
        request = CloseRequest(channel_id, call_count)
        body = close_request_json(request, key.sign_digest(request.digest(DOMAIN)))
        return await self.post(f"/sessions/0x{channel_id.hex()}/close", canonical_bytes(body))


async def _read(response: ClientResponse) -> Reply:
    return Reply(response.status, await response.read(), dict(response.headers))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running_shop(
    folder: Path,
    functions: Sequence[ToolFunction],
    *,
    earlier: Sequence[Offer] = (),
    clients: ClientSignatures | None = None,
    drop_tools: Sequence[str] = (),
    shared: Callable[[Limits], AbstractAsyncContextManager[Store]] | None = None,
    **settings: Any,
) -> AsyncIterator[Shop]:
    """Serve `functions`; `earlier` cards are kept as if they had been offered before.

    Args:
        shared: opens the store, instead of one in `folder`.
    """
    chosen = Settings(node_dir=folder, **{"max_unpaid_calls": 100, **settings})
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(load_tools(chosen, functions))
        tools: dict[str, ServiceTool] = dict(box.tools)
        facts = CardFacts(
            OPERATOR.address, OPERATOR.address, CHAIN_ID, REGISTRY, DOMAIN.payment_manager,
            TokenFacts(TOKEN, "DEV", 6),
        )  # fmt: skip
        offer = build_card(chosen, tools, facts)
        for tool_id in drop_tools:
            del tools[tool_id]
        limits = Limits(chosen.max_in_flight, chosen.max_unpaid_calls)
        store: Store
        if shared is None:
            store = await stack.enter_async_context(SqliteStore(folder / "store.sqlite3", limits))
        else:
            store = await stack.enter_async_context(shared(limits))
        for card in (offer, *earlier):
            await store.put_card(card.descriptor_hash, card.canonical)
        rpc = await stack.enter_async_context(Rpc(f"http://127.0.0.1:{unused_port()}"))
        chain = Chain(rpc, CHAIN_ID, DOMAIN.payment_manager, REGISTRY)
        terms: Terms = make_terms(chosen, facts, offer)
        registration = Registration(7, terms_hash(CHAIN_ID, REGISTRY, 7, terms), terms, changed=False)
        now_seconds = [1_700_000_000.0]
        settled: list[ChannelId] = []
        readiness = Readiness(time.monotonic)
        edge = build_edge(
            settings=chosen,
            store=store,
            chain=chain,
            cards=Cards(store, offer),
            tools=tools,
            registration=registration,
            receipt_signer=LocalSigner(OPERATOR),
            challenge_secret=SECRET,
            settle=settled.append,
            readiness=readiness,
            metrics=NodeMetrics(),
            clock=Clock(lambda: now_seconds[0], time.monotonic),
            clients=clients,
        )
        http = await stack.enter_async_context(TestClient(TestServer(edge.public)))
        admin = await stack.enter_async_context(TestClient(TestServer(edge.admin)))
        yield Shop(http, admin, store, edge, readiness, offer, registration, now_seconds, settled)
        await edge.calls.drain(10)
