"""Who deposits and gets the money back: the client's own account, or a contract wallet that it controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aioum.chain.calls import ContractCall
from aioum.chain.model import Mined
from aioum.chain.sender import Sender
from aioum.core.types import Address


class Payer(Protocol):
    """The account that opens sessions. What it sends is durable before it is broadcast."""

    @property
    def address(self) -> Address:
        """The payer on-chain."""
        ...

    @property
    def is_contract(self) -> bool:
        """Whether it is a contract wallet, which has to be deployed before anything else."""
        ...

    async def send(self, call: ContractCall, purpose: str) -> Mined:
        """Have the payer make a call.

        Raises:
            ChainError: `transaction-reverted`, or what the endpoint says.
            OutcomeUnknown: no receipt in time.
        """
        ...


@dataclass(frozen=True, slots=True)
class Wallet:
    """A contract wallet (ERC-1271) as payer. Vouchers are signed by the client's key as `authorizedSigner`.

    Attributes:
        address: the wallet.
        wrap: turns a call into the wallet's own call that makes it, such as `execute(to, value, data)`; the
            client's key sends that.
    """

    address: Address
    wrap: Callable[[ContractCall], ContractCall]


class SenderPayer:
    """A payer over a `Sender`: the sender's account itself, or a wallet that it controls."""

    def __init__(self, sender: Sender, account: Address, wallet: Wallet | None) -> None:
        self._sender = sender
        self._account = account
        self._wallet = wallet

    @property
    def address(self) -> Address:
        """The payer on-chain."""
        return self._account if self._wallet is None else self._wallet.address

    @property
    def is_contract(self) -> bool:
        """Whether it is a contract wallet."""
        return self._wallet is not None

    async def send(self, call: ContractCall, purpose: str) -> Mined:
        """See `Payer.send`."""
        return await self._sender.send(call if self._wallet is None else self._wallet.wrap(call), purpose)
