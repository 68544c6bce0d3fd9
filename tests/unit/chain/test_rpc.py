"""What goes wrong between us and an endpoint has a code each, and repeats only what may be repeated."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from eth_abi.abi import encode

from aioum.chain.abi import PAYMENT_MANAGER
from aioum.chain.errors import shown_url
from aioum.chain.rpc import Rpc
from aioum.core.errors import AioumError
from aioum.core.hashing import keccak256
from aioum.core.types import Address
from tests.unit.chain.scripted_endpoint import RpcRefusal, Script, scripted_endpoint

AT = Address(b"\7" * 20)


async def refusal(script: Script, ask: Any, timeout_seconds: float = 5) -> AioumError:
    async with (
        scripted_endpoint(script) as url,
        Rpc(url, request_timeout_seconds=timeout_seconds) as rpc,
    ):
        with pytest.raises(AioumError) as caught:
            await ask(rpc)
        return caught.value


def refuse(code: int, message: str, data: str | None = None) -> Script:
    def script(_method: str, _parameters: list[Any]) -> Any:
        raise RpcRefusal(code, message, data)

    return script


async def test_an_http_error_status_says_nothing_about_the_request() -> None:
    error = await refusal(lambda *_: web.Response(status=503), Rpc.chain_id)
    assert (error.code, error.details) == ("rpc-unreachable", {"status": 503})


async def test_an_answer_that_is_no_json_rpc_is_invalid() -> None:
    for body in ("<html>", "[]", "{}", '{"jsonrpc":"2.0","id":0,"result":"zero"}'):
        error = await refusal(lambda *_, body=body: web.Response(text=body), Rpc.chain_id)
        assert error.code == "rpc-response-invalid", body


async def test_a_refusal_keeps_the_endpoints_own_words() -> None:
    error = await refusal(refuse(-32005, "too many requests"), Rpc.chain_id)
    assert error.code == "rpc-error"
    assert error.details == {"rpc_code": -32005, "rpc_message": "too many requests"}
    error = await refusal(refuse(-32601, "no such method"), lambda rpc: rpc.request("evm_mine"))
    assert error.details == {"rpc_code": -32601, "rpc_message": "no such method"}


async def test_an_endpoint_that_is_silent_is_given_up_after_the_timeout() -> None:
    release = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        async with Rpc(url, request_timeout_seconds=0.1) as rpc:
            with pytest.raises(AioumError) as caught:
                await rpc.chain_id()
        assert caught.value.code == "rpc-timeout"
    finally:
        release.set()
        server.close()
        await server.wait_closed()


async def test_reads_survive_a_connection_that_the_endpoint_drops_and_broadcasts_are_sent_once() -> None:
    seen: list[str] = []

    async def drop_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"}")
        method = "eth_chainId" if b"eth_chainId" in request else "eth_sendRawTransaction"
        seen.append(method)
        if seen.count(method) > 1:
            body = b'{"jsonrpc":"2.0","id":0,"result":"0x1"}'
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
            )
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(drop_first, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        async with Rpc(url) as rpc:
            assert await rpc.chain_id() == 1
            with pytest.raises(AioumError) as caught:
                await rpc.broadcast(b"\2")
        assert caught.value.code == "rpc-unreachable"
        assert seen == ["eth_chainId", "eth_chainId", "eth_sendRawTransaction"]
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    "data, error, args",
    [
        (
            keccak256(b"NotPayer(bytes32,address)")[:4] + bytes(31) + b"\1" + bytes(12) + AT,
            "NotPayer",
            {"channelId": "0x" + "00" * 31 + "01", "caller": "0x" + "07" * 20},
        ),
        (keccak256(b"Error(string)")[:4] + encode(["string"], ["no"]), "Error", {"reason": "no"}),
        (keccak256(b"Panic(uint256)")[:4] + encode(["uint256"], [0x11]), "Panic", {"code": 0x11}),
        (b"\xde\xad\xbe\xef", None, {}),
        (keccak256(b"NotPayer(bytes32,address)")[:4] + b"cut", None, {}),
    ],
)
async def test_a_revert_is_decoded_by_the_contracts_own_errors(
    data: bytes, error: str | None, args: dict[str, Any]
) -> None:
    script = refuse(3, "execution reverted", "0x" + data.hex())
    caught = await refusal(script, lambda rpc: rpc.read(PAYMENT_MANAGER, AT, "sessionCount"))
    assert caught.code == ("not-payer" if error == "NotPayer" else "contract-reverted")
    assert (caught.details["error"], caught.details["args"]) == (error, args)
    assert caught.details.get("data") == (None if error else "0x" + data.hex())


async def test_an_offchain_lookup_is_never_followed() -> None:
    lookup = keccak256(b"OffchainLookup(address,string[],bytes,bytes4,bytes)")[:4]
    data = lookup + encode(
        ["address", "string[]", "bytes", "bytes4", "bytes"],
        ["0x" + AT.hex(), ["http://127.0.0.1:1/{sender}/{data}"], b"", b"1234", b""],
    )
    error = await refusal(
        refuse(3, "execution reverted", "0x" + data.hex()),
        lambda rpc: rpc.simulate({"to": "0x" + AT.hex(), "data": "0x"}),
    )
    assert error.code == "contract-reverted"


async def test_an_address_without_our_contract_is_missing_it() -> None:
    error = await refusal(lambda *_: "0x", lambda rpc: rpc.read(PAYMENT_MANAGER, AT, "sessionCount"))
    assert error.code == "contract-missing"


async def test_a_chain_without_a_base_fee_is_not_supported() -> None:
    block = {"number": "0x1", "hash": "0x" + "00" * 32, "timestamp": "0x1"}
    error = await refusal(lambda *_: block, Rpc.market)
    assert error.code == "chain-unsupported"


def test_an_endpoint_is_shown_without_its_secrets() -> None:
    assert shown_url("https://user:secret@rpc.test:8545/v3/key?token=1") == "https://rpc.test:8545"
    assert shown_url("http://[::1]:8545/key") == "http://[::1]:8545"
    assert shown_url("https://rpc.test/key") == "https://rpc.test"
