"""How a node reaches the chain, and sends there as its operator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aioum.chain.client import Chain
from aioum.chain.journal import TransactionJournal
from aioum.chain.sender import Sender
from aioum.chain.signers import as_signer
from aioum_node.keys.identity import Identity
from aioum_node.registration import deployment_of
from aioum_node.secret_files import read_secret
from aioum_node.settings import Settings


@dataclass(frozen=True, slots=True)
class Account:
    """The operator's account on the chain."""

    chain: Chain
    sender: Sender


@asynccontextmanager
async def opened_chain(settings: Settings) -> AsyncIterator[Chain]:
    """The chain that the settings name. Raises ConfigError, ChainError as `read_secret`, `Chain.connect`."""
    async with Chain.connect(
        deployment_of(settings),
        rpc_url=_rpc_url(settings),
        request_timeout_seconds=settings.rpc_timeout_seconds,
        pool_policy=settings.pool_policy(),
    ) as chain:
        yield chain


@asynccontextmanager
async def opened_account(
    settings: Settings, identity: Identity, journal: TransactionJournal
) -> AsyncIterator[Account]:
    """The chain, and the operator's sender. Nothing is sent.

    Args:
        settings: name chain, fees and patience.
        identity: has the operator's key.
        journal: of the account's transactions.

    Raises:
        ConfigError, ChainError: as `opened_chain`.
    """
    async with opened_chain(settings) as chain:
        sender = Sender(
            chain,
            as_signer(identity.operator),
            journal,
            confirmations=settings.confirmations,
            receipt_timeout_seconds=settings.receipt_timeout_seconds,
            fee_policy=settings.fee_policy(),
        )
        yield Account(chain, sender)


def _rpc_url(settings: Settings) -> str | None:
    if settings.rpc_url_file is not None:
        return read_secret(settings.path(settings.rpc_url_file), "the chain's endpoint")
    return settings.rpc_url or None
