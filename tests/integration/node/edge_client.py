"""A client of a running node, written against the protocol alone."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.canonical import canonical_bytes
from aioum.core.payment import CloseRequest, ReadAccess, Voucher, compute_channel_id, session_salt
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
from aioum_node.app import RunningNode
from tests.integration.conftest import FundedAccount
from tests.pens import Pen


@dataclass
class Reply:
    """One HTTP answer."""

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


@dataclass
class Opened:
    """A session on the chain: the transaction that opened it, and who signs its vouchers."""

    channel_id: ChannelId
    transaction: Bytes32
    signer: LocalKey
    challenge: Challenge | None = field(default=None)


@dataclass
class Buyer:
    """Opens sessions on the chain and pays over HTTP."""

    chain: Chain
    account: FundedAccount
    http: aiohttp.ClientSession

    async def open(
        self,
        node: RunningNode,
        deposit: int = 10_000_000,
        *,
        service_id: int | None = None,
        terms_hash: Bytes32 | None = None,
        roster_hash: Bytes32 = ZERO_BYTES32,
        authorized_signer: Address = ZERO_ADDRESS,
        signer: LocalKey | None = None,
    ) -> Opened:
        """Open a session under the node's terms, unless others are named."""
        registration = node.registration
        hash_of_terms = terms_hash or registration.terms_hash
        nonce = Bytes32(secrets.token_bytes(32))
        terms = await self.chain.terms(hash_of_terms)
        assert terms is not None
        call = calls.open_session(
            self.chain.payment_manager,
            service_id=service_id or registration.service_id,
            terms_hash=hash_of_terms,
            deposit=deposit,
            nonce=nonce,
            authorized_signer=authorized_signer,
            roster_hash=roster_hash,
        )
        channel_id = compute_channel_id(
            self.account.key.address,
            terms.terms.payee,
            terms.terms.token,
            session_salt(nonce, hash_of_terms, roster_hash),
            authorized_signer,
            self.chain.domain,
        )
        mined = await self.account.sender.send(call, "open")
        return Opened(channel_id, mined.transaction_hash, signer or self.account.key)

    async def pay(
        self,
        node: RunningNode,
        session: Opened,
        amount: int,
        tool: str = "shout",
        arguments: Any = None,
        *,
        action: str = "voucher",
        transaction: Bytes32 | None = None,
        newest: SignedReceipt | None = None,
        **signed: Any,
    ) -> Reply:
        """Send a credential with a call; `open` and `topUp` name a transaction, by default the opening's.

        Args:
            newest: a receipt to show.
            signed: `submission` and `roster` of the credential.
        """
        if session.challenge is None:
            unpaid = await self._send("POST", f"{node.url}/tools/{tool}", b"{}")
            session.challenge = Challenge.from_header(unpaid.headers["WWW-Authenticate"])
        named = None if action == "voucher" else transaction or session.transaction
        signature = session.signer.sign_digest(Voucher(session.channel_id, amount).digest(self.chain.domain))
        credential = Credential(
            session.challenge, action, session.channel_id, amount, signature, transaction=named, **signed
        )
        body = canonical_bytes({"text": "hey"} if arguments is None else arguments)
        headers = {"Authorization": credential.header()}
        if newest is not None:
            headers[RECEIPT_HEADER] = newest.header()
        return await self._send("POST", f"{node.url}/tools/{tool}", body, headers)

    async def enter(self, node: RunningNode, session: Opened, amount: int = 0, **signed: Any) -> Reply:
        """Show the opening to the node."""
        return await self.pay(node, session, amount, action="open", **signed)

    async def ask(
        self,
        node: RunningNode,
        session: Opened,
        pen: Pen,
        index: int,
        amount: int,
        tool: str = "shout",
        arguments: Any = None,
        *,
        envelope: Envelope | None = None,
        **how: Any,
    ) -> Reply:
        """Pay for a signed call; `envelope` instead of the pen's next."""
        wanted = {"text": "hey"} if arguments is None else arguments
        signed = envelope or pen.sign(canonical_request(tool, wanted).encode(), index)
        return await self.pay(node, session, amount, tool, wanted, submission=signed.to_json(), **how)

    async def read(self, node: RunningNode, session: Opened, path: str = "") -> Reply:
        head = await self.chain.head()
        access = ReadAccess(session.channel_id, head.timestamp + 3_600)
        signature = session.signer.sign_digest(access.digest(self.chain.domain))
        url = f"{node.url}/sessions/0x{session.channel_id.hex()}{path}"
        return await self._send("GET", url, None, {"Authorization": read_access_header(access, signature)})

    async def close(self, node: RunningNode, session: Opened, call_count: int) -> Reply:
        request = CloseRequest(session.channel_id, call_count)
        body = close_request_json(request, session.signer.sign_digest(request.digest(self.chain.domain)))
        url = f"{node.url}/sessions/0x{session.channel_id.hex()}/close"
        return await self._send("POST", url, canonical_bytes(body))

    async def close_until_settled(self, node: RunningNode, session: Opened, call_count: int) -> Reply:
        """Ask for the settlement until the node has another answer than that it is under way."""
        async with asyncio.timeout(60):
            while (reply := await self.close(node, session, call_count)).status == 202:
                await asyncio.sleep(0.1)
        return reply

    def receipt(self, node: RunningNode, reply: Reply) -> SignedReceipt:
        """The receipt of an answer, with its signature checked."""
        signed = SignedReceipt.from_header(reply.headers[RECEIPT_HEADER])
        require_signer(
            signed.receipt.digest(self.chain.domain), signed.signature, node.registration.terms.receipt_signer
        )
        return signed

    async def _send(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str] | None = None
    ) -> Reply:
        async with self.http.request(method, url, data=body, headers=headers) as response:
            return Reply(response.status, await response.read(), dict(response.headers))
