"""A signer that shares no code with us, anvil's own, understands what it is asked and signs the same."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from aioum.chain.client import Chain
from aioum.chain.external_signer import ExternalSigner, SignerEndpoint, SignerKind, opened_client
from aioum.chain.signers import LocalSigner
from aioum.core.payment import (
    CallReceipt,
    CloseRequest,
    ReadAccess,
    SignedMessage,
    Statement,
    Voucher,
)
from aioum.core.types import Bytes32, ChannelId
from aioum.devnet.running import RunningDevnet
from tests.serving import served_posts

CHANNEL = ChannelId(b"\2" * 32)
ANVIL_METHODS = {
    "account_list": "eth_accounts",
    "account_signTypedData": "eth_signTypedData_v4",
    "account_signTransaction": "eth_signTransaction",
    "eth_signTypedData": "eth_signTypedData_v4",
}


@pytest.fixture
async def translator(devnet: RunningDevnet) -> AsyncIterator[str]:
    """Anvil under the names that clef and web3signer give to the same methods."""
    async with aiohttp.ClientSession() as http:

        async def handle(request: web.Request) -> web.Response:
            question: dict[str, Any] = await request.json()
            question["method"] = ANVIL_METHODS.get(question["method"], question["method"])
            if question["method"] == "eth_signTypedData_v4" and isinstance(question["params"][1], str):
                question["params"][1] = json.loads(question["params"][1])
            async with http.post(devnet.rpc_url, json=question) as answer:
                return web.Response(body=await answer.read(), content_type="application/json")

        async with served_posts(handle) as url:
            yield url


@pytest.mark.parametrize("kind", SignerKind)
async def test_messages_and_transactions_are_signed_as_our_own_key_signs_them(
    translator: str, devnet: RunningDevnet, chain: Chain, kind: SignerKind
) -> None:
    key = devnet.accounts[3]
    messages: list[SignedMessage] = [
        Voucher(CHANNEL, 2**128 - 1),
        ReadAccess(CHANNEL, 2**64 - 1),
        CloseRequest(CHANNEL, 7),
        CallReceipt(CHANNEL, 2**53 + 1, Bytes32(b"\3" * 32), 0),
        Statement(CHANNEL, 1, Bytes32(b"\4" * 32), 10**30 + 1),
    ]
    transaction: dict[str, Any] = {
        "type": 2,
        "chainId": chain.chain_id,
        "nonce": 300,
        "to": bytes(chain.payment_manager),
        "data": b"\1\2\3",
        "value": 5,
        "gas": 100_000,
        "maxFeePerGas": 20_000_000_000,
        "maxPriorityFeePerGas": 1,
    }
    local = LocalSigner(key)
    async with opened_client(SignerEndpoint(translator), kind) as client:
        signer = ExternalSigner(client, key.address)
        await signer.check()
        for message in messages:
            assert await signer.sign(message, chain.domain) == await local.sign(message, chain.domain)
        for changes in ({}, {"to": b""}):
            asked = transaction | changes
            assert await signer.sign_transaction(asked) == await local.sign_transaction(asked)
