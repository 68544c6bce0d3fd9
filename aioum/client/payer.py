"""Who deposits and gets the money back: the client's own account, or a contract wallet that it controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, Self

from aioum.chain.calls import ContractCall
from aioum.chain.model import Mined
from aioum.chain.sender import Sender
from aioum.core.errors import InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address

_EXECUTE: Final = keccak256(b"execute(address,uint256,bytes)")[:4]
# The wallet's own work, cold reads and a copy of the calldata included; a call of a call gets 63 of 64 parts.
_EXECUTE_GAS: Final = 80_000


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
            TransactionReverted: it is mined and failed.
            ChainError: what the endpoint says, or as `Sender.send`.
            OutcomeUnknown: no receipt in time.
        """
        ...

    async def estimate_gas(self, call: ContractCall) -> int:
        """Gas that the call would use now.

        Raises:
            ContractReverted: it would fail.
            ChainError: what the endpoint says.
        """
        ...


@dataclass(frozen=True, slots=True)
class Wallet:
    """A contract wallet (ERC-1271) as payer. Vouchers are signed by the client's key as `authorizedSigner`.

    Attributes:
        address: the wallet.
        wrap: turns a call into the wallet's own call that makes it, such as `execute(to, value, data)`; the
            client's key sends that. The wallet has to revert where the call that it makes does.
    """

    address: Address
    wrap: Callable[[ContractCall], ContractCall]

    @classmethod
    def executing(cls, address: Address) -> Self:
        """A wallet that makes calls by `execute(address to, uint256 value, bytes data)` of its owner, which
        is the client's key: ERC-4337's sample account and many others.
        """
        return cls(address, partial(_executed, address))


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
        return await self._sender.send(self._wrapped(call), purpose)

    async def estimate_gas(self, call: ContractCall) -> int:
        """See `Payer.estimate_gas`."""
        sent = self._wrapped(call)
        transaction = {"from": address_text(self._account), "data": to_hex(sent.data), "value": sent.value}
        if sent.to is not None:
            transaction["to"] = address_text(sent.to)
        return await self._sender.chain.rpc.estimate_gas(transaction)

    def _wrapped(self, call: ContractCall) -> ContractCall:
        return call if self._wallet is None else self._wallet.wrap(call)


def _executed(wallet: Address, call: ContractCall) -> ContractCall:
    """The call as one of the wallet. Raises InvalidInput `call-without-target`."""
    from eth_abi.abi import encode

    if call.to is None:
        raise InvalidInput("a wallet calls contracts, and creates none", code="call-without-target")
    return replace(
        call,
        to=wallet,
        data=_EXECUTE + encode(("address", "uint256", "bytes"), (call.to, call.value, call.data)),
        value=0,
        gas_limit=call.gas_limit * 64 // 63 + _EXECUTE_GAS,
    )
