"""A chain, a log of one of its operators, and the commands that look at both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.devnet.running import RunningDevnet
from tests.integration.cli.log.kept_log import Command, KeptLog, devnet_of_its_own
from tests.integration.conftest import FundedAccount, RegisteredService


@pytest.fixture(scope="module")
def devnet(anvil: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDevnet]:
    with devnet_of_its_own(tmp_path_factory.mktemp("devnet")) as started:
        yield started


@pytest.fixture
def log(chain: Chain, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path) -> KeptLog:
    return KeptLog(chain, payer, registered_service, tmp_path / "log")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], devnet: RunningDevnet, tmp_path: Path) -> Command:
    return Command(capsys, devnet.deployment_file, tmp_path / "data")
