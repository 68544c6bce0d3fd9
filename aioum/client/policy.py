"""What a client is willing to pay for, as a value. Every refusal has a code of its own."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.core.card import Card
from aioum.core.errors import PolicyRefused
from aioum.core.hextext import address_text, to_hex
from aioum.core.payment import Domain, Terms
from aioum.core.types import Address, Bytes32


@dataclass(frozen=True, slots=True)
class Policy:
    """The payer's own rules. The defaults trust exactly what the deployment names.

    Attributes:
        require_commit: refuse services whose operator may be paid without anchoring a root.
        tokens: addresses the client pays in; None: the deployment's.
        service_registries: registries whose services it uses; None: the deployment's.
        payment_managers: contracts it deposits into; None: the deployment's.
        max_deposit: most that one session may hold, base units; None: no limit.
        require_signed: open no session whose calls are not signed by seats. Sessions are signed wherever the
            service takes it; this also refuses those services that do not.
        allow_plain_http: talk to nodes without TLS also beyond this machine.
    """

    require_commit: bool = True
    tokens: frozenset[Address] | None = None
    service_registries: frozenset[Address] | None = None
    payment_managers: frozenset[Address] | None = None
    max_deposit: int | None = None
    require_signed: bool = False
    allow_plain_http: bool = False


@dataclass(frozen=True, slots=True)
class KnownContracts:
    """What the deployment (or the caller) names: the connected contracts, and the tokens to pay in."""

    domain: Domain
    service_registry: Address
    tokens: frozenset[Address]


def check_contracts(policy: Policy, known: KnownContracts) -> None:
    """Refuse to work with contracts that are not on the client's list.

    Raises:
        PolicyRefused: `registry-not-allowed` or `payment-manager-not-allowed`.
    """
    _require_listed(
        known.service_registry, policy.service_registries, "ServiceRegistry", "registry-not-allowed"
    )
    _require_listed(
        known.domain.payment_manager, policy.payment_managers, "PaymentManager", "payment-manager-not-allowed"
    )


def check_terms(policy: Policy, known: KnownContracts, terms: Terms) -> None:
    """Refuse terms that the client does not pay under.

    Raises:
        PolicyRefused: `commit-not-required` or `token-not-allowed`.
    """
    if policy.require_commit and not terms.commit_required:
        raise PolicyRefused(
            "the service may be paid without anchoring the record of its calls",
            code="commit-not-required",
            hint="pass Policy(require_commit=False) to use it all the same",
        )
    tokens = policy.tokens if policy.tokens is not None else known.tokens
    _require_listed(terms.token, tokens, "token", "token-not-allowed")


def check_card(known: KnownContracts, terms: Terms, card: Card, card_hash: Bytes32) -> None:
    """Hold a card against the terms that the chain has for its service.

    Raises:
        PolicyRefused: `descriptor-mismatch`, `card-contracts-mismatch` or `card-terms-mismatch`.
    """
    if card_hash != terms.descriptor_hash:
        raise PolicyRefused(
            f"the card's hash is {to_hex(card_hash)}, the registry has {to_hex(terms.descriptor_hash)}",
            code="descriptor-mismatch",
            hint="the operator has to register the card that its node serves",
        )
    contracts = (card.contracts.chain_id, card.contracts.payment_manager, card.contracts.service_registry)
    if contracts != (known.domain.chain_id, known.domain.payment_manager, known.service_registry):
        raise PolicyRefused("the card names other contracts or another chain", code="card-contracts-mismatch")
    if (card.token.address, card.receipt_signer, card.operator) != (
        terms.token, terms.receipt_signer, terms.operator,
    ):  # fmt: skip
        raise PolicyRefused(
            "the card names another token, receipt signer or operator than the terms",
            code="card-terms-mismatch",
        )


def check_deposit(policy: Policy, card: Card, deposit: int) -> None:
    """Refuse a deposit that the client or the node does not want. `deposit` is the session's whole, base
    units.

    Raises:
        PolicyRefused: `deposit-too-high` or `deposit-too-low`.
    """
    if policy.max_deposit is not None and deposit > policy.max_deposit:
        raise PolicyRefused(
            f"a deposit of {deposit} is above the policy's {policy.max_deposit}", code="deposit-too-high"
        )
    if deposit < max(card.min_deposit, 1):
        raise PolicyRefused(
            f"the node wants a deposit of at least {max(card.min_deposit, 1)}, got {deposit}",
            code="deposit-too-low",
        )


def _require_listed(address: Address, listed: frozenset[Address] | None, what: str, code: str) -> None:
    if listed is not None and address not in listed:
        raise PolicyRefused(
            f"the {what} {address_text(address)} is not on the client's list",
            code=code,
            hint="add it to the Policy if you trust it",
        )
