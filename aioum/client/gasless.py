"""Opening and topping up without gas: the payer signs an authorization, a relayer sends it (PROTOCOL 4.2).

A relayer is not trusted. The token moves the money to the PaymentManager alone, under a nonce that binds the
session, and what came of it is read from the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from aioum.chain import authorized_calls
from aioum.chain.authorized_calls import Authorization, opening_nonce, top_up_nonce
from aioum.chain.calls import ContractCall
from aioum.chain.client import Chain
from aioum.chain.model import Mined
from aioum.chain.token_domains import is_authorization_used, token_domain
from aioum.core.authorization import ReceiveWithAuthorization
from aioum.core.errors import ChainError, PolicyRefused
from aioum.core.evidence import ChannelFacts
from aioum.core.hextext import to_hex
from aioum.core.signing import LocalKey
from aioum.core.types import Address, Bytes32, ChannelId

DEFAULT_VALIDITY_SECONDS: Final = 3_600
"""How long an authorization is good for, by the chain's clock, if not told otherwise."""


class Relayer(Protocol):
    """Whoever sends calls for others, and pays their gas; a `Sender` is one."""

    async def send(self, call: ContractCall, purpose: str) -> Mined:
        """Send a call and wait until it is confirmed. Raises as `Sender.send`."""
        ...


@dataclass(frozen=True, slots=True)
class Authorized:
    """A call that anybody may send.

    Attributes:
        channel_id: the session that it opens or tops up.
        nonce: of the authorization; the token takes it once.
        valid_before: unix seconds of the chain's clock, excluded.
    """

    channel_id: ChannelId
    call: ContractCall
    nonce: Bytes32
    valid_before: int


async def authorize_opening(
    chain: Chain,
    key: LocalKey,
    channel: ChannelFacts,
    service_id: int,
    deposit: int,
    *,
    validity_seconds: int = DEFAULT_VALIDITY_SECONDS,
) -> Authorized:
    """Sign for the opening of a session; the payer needs the token, and no gas.

    Args:
        chain: where.
        key: the payer's.
        channel: what the session will be, its payer that of `key`.
        service_id: whose terms `channel.terms_hash` names.
        deposit: base units.
        validity_seconds: how long the relayer has.

    Raises:
        PolicyRefused: `payer-cannot-authorize`, `key` is not the payer's.
        ChainError: as `token_domain`.
    """
    channel_id = channel.channel_id(chain.domain)
    nonce = opening_nonce(channel_id)
    authorization = await _sign(chain, key, channel.payer, channel.token, deposit, nonce, validity_seconds)
    call = authorized_calls.open_session_with_authorization(
        chain.payment_manager,
        payer=channel.payer,
        service_id=service_id,
        terms_hash=channel.terms_hash,
        deposit=deposit,
        nonce=channel.nonce,
        authorization=authorization,
        authorized_signer=channel.authorized_signer,
        roster_hash=channel.roster_hash,
    )
    return Authorized(channel_id, call, nonce, authorization.valid_before)


async def authorize_top_up(
    chain: Chain,
    key: LocalKey,
    channel_id: ChannelId,
    token: Address,
    additional_deposit: int,
    salt: Bytes32,
    *,
    validity_seconds: int = DEFAULT_VALIDITY_SECONDS,
) -> Authorized:
    """Sign for an addition to a session's deposit. It never takes back a request to close.

    Args:
        chain: where.
        key: the payer's.
        channel_id: the session.
        token: its token.
        additional_deposit: base units.
        salt: tells equal top-ups apart; fresh random bytes for each that is meant.
        validity_seconds: how long the relayer has.

    Raises:
        ChainError: as `token_domain`.
    """
    nonce = top_up_nonce(channel_id, additional_deposit, key.address, salt)
    authorization = await _sign(chain, key, key.address, token, additional_deposit, nonce, validity_seconds)
    call = authorized_calls.top_up_with_authorization(
        chain.payment_manager, channel_id, additional_deposit, salt, authorization
    )
    return Authorized(channel_id, call, nonce, authorization.valid_before)


class Gasless:
    """A payer's key and the relayer that sends for it."""

    def __init__(self, chain: Chain, key: LocalKey, relayer: Relayer) -> None:
        self._chain = chain
        self._key = key
        self._relayer = relayer

    async def open(self, channel: ChannelFacts, service_id: int, deposit: int) -> Bytes32:
        """Open a session. Returns the transaction that did it, whoever sent that.

        Raises:
            PolicyRefused: `balance-too-low`, `payer-cannot-authorize`.
            ChainError, OutcomeUnknown: as `authorize_opening` and `Relayer.send`.
        """
        await self._require_balance(channel.token, deposit)
        authorized = await authorize_opening(self._chain, self._key, channel, service_id, deposit)
        try:
            mined = await self._relayer.send(authorized.call, f"open {to_hex(authorized.channel_id)}")
        except ChainError:
            # Anybody who saw the call may have sent it first, to the very same effect.
            opening = await self._chain.find_opening(authorized.channel_id)
            if opening is None:
                raise
            return opening.transaction_hash
        return mined.transaction_hash

    async def top_up(
        self, channel_id: ChannelId, token: Address, amount: int, salt: Bytes32
    ) -> Bytes32 | None:
        """Add to a deposit. Returns the transaction, or None where somebody else sent the call first.

        Raises:
            PolicyRefused: `balance-too-low`.
            ChainError, OutcomeUnknown: as `authorize_top_up` and `Relayer.send`.
        """
        await self._require_balance(token, amount)
        authorized = await authorize_top_up(self._chain, self._key, channel_id, token, amount, salt)
        try:
            mined = await self._relayer.send(authorized.call, f"top-up {to_hex(channel_id)}")
        except ChainError:
            used = await is_authorization_used(self._chain.rpc, token, self._key.address, authorized.nonce)
            if not used:
                raise
            return None
        return mined.transaction_hash

    async def _require_balance(self, token: Address, amount: int) -> None:
        balance = await self._chain.token_balance(token, self._key.address)
        if balance < amount:
            raise PolicyRefused(
                f"the payer holds {balance} base units of the token, {amount} are needed",
                code="balance-too-low",
                hint="fund the payer's account",
            )


async def _sign(
    chain: Chain,
    key: LocalKey,
    payer: Address,
    token: Address,
    value: int,
    nonce: Bytes32,
    validity_seconds: int,
) -> Authorization:
    if payer != key.address:
        raise PolicyRefused(
            "only the payer's own key authorizes what its token gives away",
            code="payer-cannot-authorize",
            hint="contract wallets open and top up by themselves",
        )
    domain = await token_domain(chain.rpc, token, chain.chain_id)
    valid_before = (await chain.head()).timestamp + validity_seconds
    message = ReceiveWithAuthorization(payer, chain.payment_manager, value, 0, valid_before, nonce)
    return Authorization(0, valid_before, key.sign_digest(message.digest(domain)))
