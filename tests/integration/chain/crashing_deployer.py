"""`scripts/deploy`, killed at one point: `python crashing_deployer.py POINT CONTRACT ARGUMENTS…`.

CONTRACT says whose creation is meant where POINT is passed once for each.
"""

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from aioum.chain.creations import purpose_of
from aioum.chain.deploy_folder import DeploymentJournal, PlannedDeployment, begin
from aioum.chain.deployments import Deployment
from aioum.chain.deployments_file import write_deployments
from aioum.chain.journal import SignedTransaction, TransactionState
from aioum.chain.rpc import Rpc
from aioum.cli import deploy, deploying
from aioum.core.types import Bytes32

PLANNED = "the plan is written"
JOURNALED = "a creation is in the journal"
HANDED_IN = "an endpoint has it"
MINED = "it is in a block, and the journal does not say so"
NOTED = "the journal says so"
VERIFIED = "all is verified, and the deployments file is not written"
WRITTEN = "the deployments file is written"


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def parts(point: str, contract: str) -> dict[str, Any]:
    """The parts of the program that die at the point; everything else about them is as it was."""

    def begins(folder: Path, planned: PlannedDeployment) -> None:
        begin(folder, planned)
        if point == PLANNED:
            die()

    def writes(path: Path, deployments: Iterable[Deployment]) -> None:
        if point == VERIFIED:
            die()
        write_deployments(path, deployments)
        if point == WRITTEN:
            die()

    class DyingJournal(DeploymentJournal):
        async def append(self, transaction: SignedTransaction) -> None:
            await super().append(transaction)
            if point == JOURNALED and transaction.purpose == purpose_of(contract):
                die()

        async def resolve(
            self, transaction_hash: Bytes32, state: TransactionState, block_number: int | None = None
        ) -> None:
            # Of earlier creations the journal knows already, so this is the one that is meant.
            if point == MINED and state is TransactionState.MINED:
                die()
            await super().resolve(transaction_hash, state, block_number)
            if point == NOTED and state is TransactionState.MINED:
                die()

    class DyingRpc(Rpc):
        async def broadcast(self, raw_transaction: bytes) -> None:
            await super().broadcast(raw_transaction)
            if point == HANDED_IN:
                die()

    return {
        "begin": begins,
        "write_deployments": writes,
        "DeploymentJournal": DyingJournal,
        "Rpc": DyingRpc,
    }


def main(point: str, contract: str, *arguments: str) -> int:
    with ExitStack() as stack:
        for name, part in parts(point, contract).items():
            stack.enter_context(patch.object(deploying, name, part))
        return deploy.main(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
