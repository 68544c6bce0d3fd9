"""Nodes and clients as processes of their own, on one local chain for the whole folder."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.client import Marketplace
from aioum.devnet.running import RunningDevnet
from tests.e2e.crashing_client import PATIENT
from tests.e2e.shop import NodeProgram, Shop
from tests.integration.conftest import (  # noqa: F401 - these are fixtures of this folder, too
    FundedAccount,
    anvil,
    chain,
    devnet,
    fund_account,
    operator,
    payer,
)

MakeMarketplace = Callable[..., Marketplace]


@pytest.fixture(scope="module")
def node_program(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProgram]:
    """Runs the nodes of a module."""
    program = NodeProgram(repository, tmp_path_factory.mktemp("nodes") / "stderr.log")
    yield program
    program.end()


@pytest.fixture
def shop(node_program: NodeProgram, devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> Shop:  # noqa: F811
    """An operator with a folder and an account of its own."""
    return Shop(node_program, tmp_path / "node", devnet.deployment_file, operator.key)


@pytest.fixture
def marketplace(devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path) -> MakeMarketplace:  # noqa: F811
    """Makes clients of the same payer and data directory, as a restarted program is one."""

    def make(*, settings: dict[str, Any] | None = None, **changes: Any) -> Marketplace:
        options: dict[str, Any] = {
            "key": payer.key,
            "deployment": devnet.deployment,
            "data_dir": tmp_path / "client",
            "settings": replace(PATIENT, **(settings or {})),
        }
        return Marketplace(**(options | changes))

    return make
