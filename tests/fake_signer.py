"""An external signer on a real socket that holds keys, signs with other code than ours, and can misbehave."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from coincurve import PrivateKey
from coincurve._libsecp256k1 import ffi  # type: ignore[import-not-found]
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils.crypto import keccak

from aioum.chain.external_signer import SignerKind
from aioum.core.signing import LocalKey

REFUSED = {"code": -32000, "message": "Request denied"}
_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

Tamper = Callable[[str, Any], Any]


class Refusal(Exception):
    """Answered as a JSON-RPC error."""


class HttpAnswer(Exception):
    """Answered by this status and body over HTTP, or by these bytes over a Unix socket."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        super().__init__(status)
        self.body = body
        self.status = status


@dataclass
class FakeSigner:
    """Answers as clef or web3signer do.

    Attributes:
        entropy: every signature is another one, as with hardware.
        tamper: gets method and honest result, and returns what is answered; may raise Refusal or HttpAnswer.
        silent: nothing is answered before `released`.
        most_open: requests that were unanswered at the same time.
        asked: method and parameters of every request.
    """

    keys: list[LocalKey]
    kind: SignerKind = SignerKind.WEB3SIGNER
    entropy: bool = False
    tamper: Tamper = lambda method, result: result
    silent: bool = False
    asked: list[tuple[str, list[Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: bytes) -> bytes:
        """One JSON-RPC request to its answer."""
        question = json.loads(request)
        method, params = question["method"], question["params"]
        self.asked.append((method, params))
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        if self.silent:
            await self.released.wait()
        self.open -= 1
        made: dict[str, Any] = {"jsonrpc": "2.0", "id": question["id"]}
        try:
            made["result"] = self.tamper(method, self._result(method, params))
        except Refusal:
            made["error"] = REFUSED
        return json.dumps(made).encode()

    def _result(self, method: str, params: list[Any]) -> Any:
        if method == self.kind.list_method:
            return ["0x" + key.address.hex() for key in self.keys]
        if method == self.kind.message_method:
            address, typed = params
            if isinstance(typed, str):
                typed = json.loads(typed)
            signable = encode_typed_data(full_message=typed)
            digest = keccak(b"\x19" + signable.version + signable.header + signable.body)
            return "0x" + self._sign(address, digest).hex()
        if method == self.kind.transaction_method:
            raw = "0x" + self.transaction(params[0]).hex()
            return {"raw": raw, "tx": {}} if self.kind is SignerKind.CLEF else raw
        raise Refusal

    def transaction(self, asked: dict[str, Any], **changes: Any) -> bytes:
        """Sign a transaction given as JSON, with changes."""
        fields = {"type": 2, "to": b"", **asked, **changes}
        sender = fields.pop("from")
        signature = self._sign(sender, TypedTransaction.from_dict(fields).hash())
        r, s = (int.from_bytes(signature[at : at + 32], "big") for at in (0, 32))
        return TypedTransaction.from_dict(fields | {"v": signature[64] - 27, "r": r, "s": s}).encode()

    def _sign(self, address: str, digest: bytes) -> bytes:
        for key in self.keys:
            if address.lower() == "0x" + key.address.hex():
                if not self.entropy:
                    return bytes(Account.unsafe_sign_hash(digest, key.secret_bytes()).signature)
                nonce = (ffi.NULL, ffi.new("unsigned char[32]", secrets.token_bytes(32)))
                made = PrivateKey(key.secret_bytes()).sign_recoverable(
                    digest, hasher=None, custom_nonce=nonce
                )
                return made[:64] + bytes((made[64] + 27,))
        raise Refusal


def with_high_s(signature: str) -> str:
    """The other signature that fits: n - s, and the other parity."""
    given = bytes.fromhex(signature[2:])
    s = _ORDER - int.from_bytes(given[32:64], "big")
    return "0x" + (given[:32] + s.to_bytes(32, "big") + bytes((55 - given[64],))).hex()


@asynccontextmanager
async def served_over_http(signer: FakeSigner, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve on a free port of the loopback interface; the URL."""

    async def handle(request: web.Request) -> web.Response:
        signer.headers.append(dict(request.headers))
        try:
            return web.Response(
                body=await signer.answer(await request.read()), content_type="application/json"
            )
        except HttpAnswer as given:
            return web.Response(body=given.body, status=given.status)

    application = web.Application()
    application.router.add_post("/", handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        signer.released.set()
        await runner.cleanup()


@asynccontextmanager
async def served_over_socket(signer: FakeSigner, path: Path) -> AsyncIterator[str]:
    """Serve JSON lines on a Unix socket; the URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await signer.answer(await reader.readline()) + b"\n")
        except HttpAnswer as given:
            writer.write(given.body)
        writer.close()

    server = await asyncio.start_unix_server(handle, path, limit=1 << 22)
    try:
        yield f"unix:{path}"
    finally:
        server.close()
        await server.wait_closed()
