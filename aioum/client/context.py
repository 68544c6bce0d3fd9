"""What every part of a client works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aioum.chain.client import Chain
from aioum.chain.signers import Signer
from aioum.client.allowance import Allowances
from aioum.client.gasless import Gasless
from aioum.client.http import Transport
from aioum.client.journal import Journal
from aioum.client.node import NodeClient
from aioum.client.payer import Payer
from aioum.client.policy import KnownContracts, Policy
from aioum.client.seat_keys import SeatKeyFiles
from aioum.client.settings import ClientSettings
from aioum.client.words import Words


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The connected parts of one client.

    Attributes:
        signer: signs vouchers, read permissions and close requests.
        payer: deposits and withdraws.
        words: what operators signed, beside the receipts of answers.
        allowances: what our contracts may pull from the payer.
        gasless: opens and tops up in place of the payer's own transactions, or None.
        seat_keys: where the secret keys of seats are kept.
        clock: unix seconds.
        random_bytes: fresh random bytes of a length.
    """

    chain: Chain
    journal: Journal
    words: Words
    transport: Transport
    signer: Signer
    payer: Payer
    allowances: Allowances
    policy: Policy
    known: KnownContracts
    settings: ClientSettings
    seat_keys: SeatKeyFiles
    clock: Callable[[], float]
    random_bytes: Callable[[int], bytes]
    gasless: Gasless | None = None

    def node(self, base_url: str) -> NodeClient:
        """The node at a base URL."""
        return NodeClient(self.transport, base_url, self.settings)

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1_000)
