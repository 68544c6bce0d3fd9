"""The devnet's checked-in configuration."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field

from aioum.core.amounts import MAX_AMOUNT


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ChainSection(_Section):
    """How anvil runs. `port` 0: any free one."""

    chain_id: int = Field(gt=0)
    host: str
    port: int = Field(ge=0, le=65_535)
    mixed_mining: bool
    block_time_seconds: int = Field(gt=0)
    confirmations: int = Field(ge=1)
    start_timeout_seconds: float = Field(gt=0)


class AccountsSection(_Section):
    """Accounts that anvil creates; their keys are public knowledge."""

    mnemonic: str
    count: int = Field(ge=1, le=100)
    balance_ether: int = Field(gt=0)


class ContractsSection(_Section):
    """What is deployed. `token_amount` in base units, for each account."""

    grace_period_seconds: int = Field(ge=900)
    token_symbol: str
    token_amount: int = Field(ge=0, le=MAX_AMOUNT)


class DevnetConfig(_Section):
    """`anvil.toml`, checked."""

    chain: ChainSection
    accounts: AccountsSection
    contracts: ContractsSection

    def on_port(self, port: int) -> DevnetConfig:
        """The same devnet on another port; 0: any free one."""
        return self.model_copy(update={"chain": self.chain.model_copy(update={"port": port})})


@cache
def default_config() -> DevnetConfig:
    """The configuration that ships with aioum."""
    text = resources.files("aioum.devnet").joinpath("anvil.toml").read_text(encoding="utf-8")
    return DevnetConfig.model_validate(tomllib.loads(text))
