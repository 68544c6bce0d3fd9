"""Following a session through an endpoint that is away for a while."""

import asyncio
import subprocess

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.hextext import address_text
from aioum.core.types import Address, Bytes32
from aioum.devnet.running import RunningDevnet
from tests.integration.chain.faulty_endpoint import faulty_endpoint
from tests.integration.cli.conftest import Shell
from tests.integration.conftest import FundedAccount, RegisteredService


async def test_an_endpoint_that_is_away_is_named_once_and_what_happened_meanwhile_is_told(
    shell: Shell,
    chain: Chain,
    devnet: RunningDevnet,
    payer: FundedAccount,
    registered_service: RegisteredService,
) -> None:
    payee: Address = payer.key.address
    async with faulty_endpoint(devnet.rpc_url) as endpoint:
        watching = shell.start(
            "aioum", "watch", "--of", address_text(payee), "--interval", "0.1", "--rpc", endpoint.url,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert watching.stdout is not None
        assert watching.stderr is not None
        try:
            while not endpoint.seen.get("eth_getLogs"):
                await asyncio.sleep(0.02)
            endpoint.silent = True
            warned = await asyncio.to_thread(watching.stderr.readline)
            assert b"[rpc-unreachable]; asking again" in warned
            opening = calls.open_session(
                chain.payment_manager,
                service_id=registered_service.service.service_id,
                terms_hash=registered_service.service.terms_hash,
                deposit=1_000,
                nonce=Bytes32(bytes(32)),
            )
            await payer.sender.send(opening, "open")
            endpoint.silent = False
            line = await asyncio.to_thread(watching.stdout.readline)
            assert b"opened by " in line
        finally:
            watching.kill()
            _, said = watching.communicate()
    assert said == b""
