"""A program that sends one transaction and is killed on the way: `python crashing_sender.py DEPLOYMENT
JOURNAL KEY WHERE`.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.deployments import Deployment
from aioum.chain.journal import SignedTransaction, SqliteTransactionJournal
from aioum.chain.rpc import Rpc
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.signing import LocalKey

AFTER_JOURNAL = "after-journal"
AFTER_BROADCAST = "after-broadcast"
AMOUNT = 77


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class DyingJournal(SqliteTransactionJournal):
    async def append(self, transaction: SignedTransaction) -> None:
        await super().append(transaction)
        die()


class DyingRpc(Rpc):
    async def broadcast(self, raw_transaction: bytes) -> None:
        await super().broadcast(raw_transaction)
        die()


async def main(deployment_file: str, journal_file: str, key_hex: str, where: str) -> None:
    deployment = Deployment.load(Path(deployment_file))
    key = LocalKey.from_hex(key_hex)
    journal_type = DyingJournal if where == AFTER_JOURNAL else SqliteTransactionJournal
    rpc_type = DyingRpc if where == AFTER_BROADCAST else Rpc
    async with rpc_type(deployment.rpc_url) as rpc:
        chain = Chain(
            rpc,
            deployment.chain_id,
            deployment.payment_manager,
            deployment.service_registry,
            deployment=deployment,
        )
        sender = Sender(chain, LocalSigner(key), journal_type(Path(journal_file)))
        await sender.send(calls.mint(deployment.tokens["aUSD"], key.address, AMOUNT), where)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
