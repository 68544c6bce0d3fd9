"""Showing a person what a step costs, and asking before it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

from aioum.chain.client import Chain
from aioum.cli.output import fact
from aioum.client.held_money import HeldMoney, Step, StepCost
from aioum.core.amounts import format_token_amount
from aioum.core.errors import ConfigError
from aioum.core.types import Address

_GWEI: Final = 10**9
_GWEI_DECIMALS: Final = 9


@dataclass(frozen=True, slots=True)
class Money:
    """How amounts of one token are written. The symbol is the token's own word for itself."""

    decimals: int
    symbol: str

    @classmethod
    async def of(cls, chain: Chain, token: Address) -> Money:
        """That of a token. Raises ChainError as `Chain`."""
        return cls(await chain.token_decimals(token), await chain.token_symbol(token))

    def text(self, amount: int) -> str:
        """An amount of base units in whole tokens."""
        return f"{format_token_amount(amount, self.decimals)} {self.symbol}"


async def agree(held: HeldMoney, step: Step, money: Money, what: str, *, yes: bool) -> StepCost:
    """Say what a step costs, and go on only if a person wants that.

    Args:
        held: where it would be sent.
        step: the step; what the contract would refuse is refused here.
        money: of the bond's token.
        what: what it would do, as a question without its mark.
        yes: nobody is asked.

    Raises:
        ConfigError: `not-confirmed`; nothing was sent.
        ChainError, PolicyRefused: as `HeldMoney.cost`.
    """
    cost = await held.cost(step)
    tell_cost(cost, money)
    confirm(what, yes=yes)
    return cost


def tell_cost(cost: StepCost, money: Money) -> None:
    """Say on standard error what a step costs."""
    bound = "" if cost.is_estimated else ", an upper bound: the bond has to be approved first"
    fee = format_token_amount(-(-cost.fee_wei // _GWEI), _GWEI_DECIMALS)
    fact(f"gas: {cost.gas}, {fee} in the native currency{bound}")
    if cost.bond:
        fact(f"bond: {money.text(cost.bond)}; it comes back if you are right, else the other side has it")


def confirm(what: str, *, yes: bool) -> None:
    """Ask a person. Raises ConfigError `not-confirmed`."""
    if yes:
        return
    try:
        agreed = click.confirm(f"{what}?", err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise ConfigError(
            "nothing was sent: nobody agreed to it",
            code="not-confirmed",
            hint="answer y, or give --yes where nobody can answer",
        )


def moment(seconds: int) -> str:
    """A time of the chain's clock for a person; empty for 0."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if seconds else ""
