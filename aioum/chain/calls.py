"""Contract calls as values: what is to be sent, before anybody signs it.

`gas_limit` is the least that a sender gives: estimates against a lagging endpoint are too low, and calls that
depend on transactions not mined yet cannot be estimated. Unused gas costs nothing. The numbers are measured
needs with a wide margin (cold storage, a token and a wallet dearer than ours).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from aioum.chain.abi import DEV_TOKEN, PAYMENT_MANAGER, SERVICE_REGISTRY, encode_call
from aioum.core.amounts import check_amount
from aioum.core.errors import InvalidInput
from aioum.core.payment import Terms, check_uint64
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, ChannelId

_UINT256_MAX: Final = 2**256 - 1
# PaymentManager's own floor: this much must be left before each item of a batch.
_BATCH_ITEM_FLOOR_GAS: Final = 750_000
_BATCH_ITEM_GAS: Final = 150_000
_SETTLE_GAS: Final = 450_000
MAX_TRANSACTION_GAS: Final = 2**24
"""EIP-7825: no chain that follows it takes a transaction with a higher gas limit."""


@dataclass(frozen=True, slots=True)
class ContractCall:
    """One call of one contract.

    Attributes:
        to: the contract; None creates one from `data`.
        value: wei sent along.
        gas_limit: the least gas to give.
        label: function name, for people.
    """

    to: Address | None
    data: bytes
    gas_limit: int
    label: str
    value: int = 0


@dataclass(frozen=True, slots=True)
class Settlement:
    """The last word on a session (PROTOCOL 4.2): commit, capture, refund and finalize at once.

    Attributes:
        voucher_amount, signature: the client's voucher; not looked at where `capture` is settled already.
        capture: base units for the payee in all; at most `voucher_amount`.
        call_count, root: the anchored history; both zero: nothing is committed.
    """

    channel_id: ChannelId
    voucher_amount: int
    capture: int
    call_count: int
    root: Bytes32
    signature: bytes


def open_session(
    payment_manager: Address,
    *,
    service_id: int,
    terms_hash: Bytes32,
    deposit: int,
    nonce: Bytes32,
    authorized_signer: Address = ZERO_ADDRESS,
    roster_hash: Bytes32 = ZERO_BYTES32,
) -> ContractCall:
    """Open a session under a service's current terms. The caller is the payer, and has approved the
    deposit.
    """
    args = (service_id, terms_hash, check_amount(deposit), nonce, authorized_signer, roster_hash)
    return _payment(payment_manager, "openSession", args, 450_000)


def open_plain(
    payment_manager: Address,
    *,
    payee: Address,
    token: Address,
    deposit: int,
    salt: Bytes32,
    authorized_signer: Address = ZERO_ADDRESS,
) -> ContractCall:
    """Open a channel without terms, as the scheme itself does (PROTOCOL 4.2)."""
    args = (payee, token, check_amount(deposit), salt, authorized_signer)
    return _payment(payment_manager, "open", args, 450_000)


def top_up(payment_manager: Address, channel_id: ChannelId, additional_deposit: int) -> ContractCall:
    """Add to the deposit; takes a pending close back. By the payer."""
    return _payment(payment_manager, "topUp", (channel_id, check_amount(additional_deposit)), 250_000)


def request_close(payment_manager: Address, channel_id: ChannelId) -> ContractCall:
    """Start the grace period after which the payer may withdraw. By the payer."""
    return _payment(payment_manager, "requestClose", (channel_id,), 120_000)


def withdraw(payment_manager: Address, channel_id: ChannelId) -> ContractCall:
    """Take back what is not settled and finalize, after the grace period. By the payer."""
    return _payment(payment_manager, "withdraw", (channel_id,), 250_000)


def commit_results(
    payment_manager: Address, channel_id: ChannelId, root: Bytes32, call_count: int
) -> ContractCall:
    """Anchor a session's history, once. By the payee or the terms' operator."""
    return _payment(
        payment_manager, "commitResults", (channel_id, root, check_uint64(call_count, "callCount")), 150_000
    )


def settle(
    payment_manager: Address, channel_id: ChannelId, cumulative_amount: int, signature: bytes
) -> ContractCall:
    """Pay the payee up to a voucher and keep the channel open. By the payee."""
    args = (channel_id, check_amount(cumulative_amount), signature)
    return _payment(payment_manager, "settle", args, _SETTLE_GAS)


def close(
    payment_manager: Address, channel_id: ChannelId, cumulative_amount: int, signature: bytes = b""
) -> ContractCall:
    """Pay up to a voucher, refund the rest and finalize. By the payee; no signature needed where nothing is
    new.
    """
    args = (channel_id, check_amount(cumulative_amount), signature)
    return _payment(payment_manager, "close", args, _SETTLE_GAS)


def settle_session(payment_manager: Address, settlement: Settlement) -> ContractCall:
    """Commit, capture, refund and finalize at once; safe to send again. By the payee or the terms'
    operator.
    """
    return _payment(payment_manager, "settleSession", (_struct(settlement),), _SETTLE_GAS)


def settle_sessions(payment_manager: Address, settlements: Sequence[Settlement]) -> ContractCall:
    """`settle_session` for each item; one that fails becomes a SettlementSkipped event and blocks no other.

    Raises:
        InvalidInput: `settlements-empty`.
    """
    if not settlements:
        raise InvalidInput("a batch settles at least one session", code="settlements-empty")
    # Signatures of ERC-1271 wallets have no fixed length; 16 gas per calldata byte.
    calldata_gas = sum(16 * (320 + len(settlement.signature)) for settlement in settlements)
    gas = 100_000 + _BATCH_ITEM_FLOOR_GAS + calldata_gas + _BATCH_ITEM_GAS * len(settlements)
    items = [_struct(settlement) for settlement in settlements]
    return _payment(payment_manager, "settleSessions", (items,), min(gas, MAX_TRANSACTION_GAS))


def release(payment_manager: Address, channel_id: ChannelId) -> ContractCall:
    """Pay what is held to the payee, after the dispute window. By anyone."""
    return _payment(payment_manager, "release", (channel_id,), 300_000)


def resolve(payment_manager: Address, channel_id: ChannelId, award: int) -> ContractCall:
    """Split what is held: `award` to the payer, the rest to the payee. The DisputeManager alone may send it;
    others can simulate a decision.
    """
    return _payment(payment_manager, "resolve", (channel_id, check_amount(award)), 500_000)


def claim_credit(payment_manager: Address, token: Address, to: Address) -> ContractCall:
    """Send the caller's whole credit in a token to an address."""
    return _payment(payment_manager, "claimCredit", (token, to), 200_000)


def register(registry: Address, terms: Terms, descriptor_uri: str) -> ContractCall:
    """Register a service; its id is in the ServiceRegistered event. By the terms' operator."""
    return _registry(
        registry, "register", (_values(terms), descriptor_uri), 700_000 + _uri_gas(descriptor_uri)
    )


def update(registry: Address, service_id: int, terms: Terms, descriptor_uri: str) -> ContractCall:
    """Offer a service under other terms from now on. By its operator."""
    args = (service_id, _values(terms), descriptor_uri)
    return _registry(registry, "update", args, 700_000 + _uri_gas(descriptor_uri))


def retire(registry: Address, service_id: int) -> ContractCall:
    """End a service for good. By its operator."""
    return _registry(registry, "retire", (service_id,), 120_000)


def approve(token: Address, spender: Address, amount: int) -> ContractCall:
    """Let `spender` pull up to `amount` base units of the caller's tokens."""
    return ContractCall(
        token, encode_call(DEV_TOKEN, "approve", (spender, _uint256(amount))), 150_000, "approve"
    )


def mint(dev_token: Address, to: Address, amount: int) -> ContractCall:
    """Create play money; devnets only."""
    return ContractCall(dev_token, encode_call(DEV_TOKEN, "mint", (to, _uint256(amount))), 150_000, "mint")


def _payment(to: Address, function: str, args: tuple[Any, ...], gas_limit: int) -> ContractCall:
    return ContractCall(to, encode_call(PAYMENT_MANAGER, function, args), gas_limit, function)


def _registry(to: Address, function: str, args: tuple[Any, ...], gas_limit: int) -> ContractCall:
    return ContractCall(to, encode_call(SERVICE_REGISTRY, function, args), gas_limit, function)


def _struct(settlement: Settlement) -> tuple[Any, ...]:
    check_amount(settlement.voucher_amount)
    check_amount(settlement.capture)
    check_uint64(settlement.call_count, "callCount")
    return tuple(_values(settlement))


def _values(value: Terms | Settlement) -> tuple[Any, ...]:
    names: Iterable[str] = (field.name for field in fields(value))
    return tuple(getattr(value, name) for name in names)


def _uri_gas(uri: str) -> int:
    # 16 gas per calldata byte and 8 per byte of the event.
    return 24 * len(uri.encode())


def _uint256(value: int) -> int:
    if isinstance(value, bool) or not 0 <= value <= _UINT256_MAX:
        raise InvalidInput(f"amount out of range 0…2^256-1: {value!r:.90}", code="amount-invalid")
    return value
