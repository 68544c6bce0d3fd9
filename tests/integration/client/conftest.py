"""Clients, scripted operators and the way they find each other."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.client import Chain
from aioum.client import ClientSettings, Marketplace
from aioum.devnet.running import RunningDevnet
from tests.integration.client.scripted_operator import ScriptedOperator, card_json, serving
from tests.integration.conftest import FundedAccount

FAST = ClientSettings(
    retry_wait_initial_seconds=0.01,
    retry_wait_max_seconds=0.05,
    poll_seconds=0.05,
    close_timeout_seconds=30,
    read_timeout_seconds=5,
)

MakeMarketplace = Callable[..., Marketplace]


unsigned = pytest.mark.parametrize("scripted", [{"submissions": None}], indirect=True, ids=["unsigned"])
"""For tests of what only sessions without signed calls do."""


@pytest.fixture
async def scripted(
    chain: Chain, devnet: RunningDevnet, operator: FundedAccount, request: pytest.FixtureRequest
) -> AsyncIterator[ScriptedOperator]:
    """A registered scripted operator that listens; it takes signed calls unless a test changes its card."""
    card = card_json(chain, operator.key, devnet.token, **getattr(request, "param", {}))
    scripted = ScriptedOperator(chain, operator.key, operator.sender, card)
    async with serving(scripted.app()) as url:
        scripted.url = url
        await scripted.register()
        yield scripted


@pytest.fixture
def marketplace(devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path) -> MakeMarketplace:
    """Makes clients of the same payer and data directory, as a restarted program is one."""

    def make(*, settings: dict[str, Any] | None = None, **changes: Any) -> Marketplace:
        options: dict[str, Any] = {
            "key": payer.key,
            "deployment": devnet.deployment,
            "data_dir": tmp_path / "client",
            "settings": replace(FAST, **(settings or {})),
        }
        return Marketplace(**(options | changes))

    return make
