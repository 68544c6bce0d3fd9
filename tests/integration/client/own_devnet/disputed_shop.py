"""An operator whose sessions are held for a dispute window, its arbitrator, and everybody's balances."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aioum.chain.client import Chain
from aioum.chain.decisions import Decisions
from aioum.core.types import Address
from aioum.devnet.running import RunningDevnet
from tests.integration.client.scripted_operator import ScriptedOperator, card_json, serving
from tests.integration.conftest import FundedAccount

WINDOW_SECONDS = 3 * 86_400
RULING_SECONDS = 86_400
BOND = 501


@dataclass(frozen=True, slots=True)
class Balances:
    """Base units of the token: who has them, and which contract."""

    payer: int
    payee: int
    held: int
    bonds: int

    def __sub__(self, before: "Balances") -> tuple[int, int, int, int]:
        return (
            self.payer - before.payer, self.payee - before.payee, self.held - before.held,
            self.bonds - before.bonds,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shop:
    """Attributes: decisions: of the chain's DisputeManager."""

    operator: ScriptedOperator
    arbitrator: FundedAccount
    decisions: Decisions
    token: Address
    payer: Address

    @property
    def chain(self) -> Chain:
        return self.decisions.chain

    async def balances(self) -> Balances:
        owners = (self.payer, self.operator.key.address, self.chain.payment_manager, self.decisions.address)
        return Balances(*[await self.chain.token_balance(self.token, owner) for owner in owners])


@asynccontextmanager
async def open_shop(
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    arbitrator: FundedAccount,
    payer: FundedAccount,
) -> AsyncIterator[Shop]:
    """A scripted operator that listens, with an arbitrator in its terms."""
    scripted = ScriptedOperator(
        chain, operator.key, operator.sender, card_json(chain, operator.key, devnet.token)
    )
    async with serving(scripted.app()) as url:
        scripted.url = url
        await scripted.register(
            arbitrator=arbitrator.key.address,
            dispute_window_seconds=WINDOW_SECONDS,
            ruling_period_seconds=RULING_SECONDS,
            dispute_bond=BOND,
        )
        decisions = await Decisions.of(chain)
        yield Shop(scripted, arbitrator, decisions, devnet.token, payer.key.address)
