"""The service on-chain: its terms, made from card and keys; publishing them; what was published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.deployments import Deployment, find_deployment
from aioum.chain.model import Service
from aioum.chain.sender import Sender
from aioum.core.canonical import canonical_bytes
from aioum.core.errors import ChainError, ConfigError, InvalidInput
from aioum.core.hextext import address, address_text, to_hex
from aioum.core.payment import Terms, terms_hash
from aioum.core.types import Address, Bytes32
from aioum_node.card_builder import CardFacts, LogFacts, TokenFacts
from aioum_node.cards import Offer
from aioum_node.disputes.terms import dispute_terms
from aioum_node.keys.identity import Identity, write_private
from aioum_node.log.identity import LogIdentity
from aioum_node.settings import Settings

REGISTRATION_FILE: Final = "registration.json"
CARD_PATH: Final = "/.well-known/aioum.json"
_REGISTER_HINT: Final = "aioum-node register, or run with --register"


@dataclass(frozen=True, slots=True)
class Registration:
    """A service as it stands in the registry.

    Attributes:
        changed: whether this publication sent a transaction.
    """

    service_id: int
    terms_hash: Bytes32
    terms: Terms
    changed: bool


class _RegistrationFile(BaseModel):
    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    chain_id: int
    service_registry: str
    service_id: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,77}$")]


def deployment_of(settings: Settings) -> Deployment:
    """The contracts that the settings name. Raises ChainError, as `find_deployment`."""
    named = settings.deployment_file
    return find_deployment(None if named is None else settings.path(named))


async def read_card_facts(
    settings: Settings,
    deployment: Deployment,
    chain: Chain,
    identity: Identity,
    log: LogIdentity | None = None,
) -> CardFacts:
    """What the card says about contracts, token and transparency log.

    Raises:
        ConfigError: `token-unknown`.
        ChainError: the chain could not be read.
    """
    token = token_of(settings, deployment)
    return CardFacts(
        operator=identity.operator.address,
        receipt_signer=identity.receipt_signer.address,
        chain_id=chain.chain_id,
        service_registry=chain.service_registry,
        payment_manager=chain.payment_manager,
        token=TokenFacts(token, await chain.token_symbol(token), await chain.token_decimals(token)),
        log=None if log is None else LogFacts(log.origin, log.key.public_key),
    )


def make_terms(settings: Settings, facts: CardFacts, offer: Offer) -> Terms:
    """The terms under which the service is offered.

    Raises:
        ConfigError: `payee-invalid`, `price-invalid`, and those of `dispute_terms`.
    """
    disputes = dispute_terms(settings, facts.token.decimals)
    return Terms(
        operator=facts.operator,
        payee=payee_of(settings, facts.operator),
        token=facts.token.address,
        receipt_signer=facts.receipt_signer,
        arbitrator=disputes.arbitrator,
        descriptor_hash=offer.descriptor_hash,
        commit_required=settings.commit_required,
        dispute_window_seconds=settings.dispute_window_seconds,
        ruling_period_seconds=disputes.ruling_period_seconds,
        dispute_bond=disputes.bond,
    )


def payee_of(settings: Settings, operator: Address) -> Address:
    """Who is paid. Raises ConfigError `payee-invalid`."""
    try:
        return address(settings.payee) if settings.payee else operator
    except InvalidInput as error:
        raise ConfigError(f"setting payee: {error}", code="payee-invalid") from error


async def publish(
    settings: Settings, chain: Chain, sender: Sender, terms: Terms, node_url: str
) -> Registration:
    """Register the service, or update it where its terms or its address changed; else send nothing.

    Raises:
        ChainError, OutcomeUnknown: as `Sender.send`.
    """
    uri = node_url.rstrip("/") + CARD_PATH
    registry = chain.service_registry
    known = await _registered(settings, chain)
    if known is None or known.terms.operator != terms.operator:
        # A crash between the transaction and the file leaves a service of ours that only the chain knows.
        known = next((service for service in await chain.services() if service.terms == terms), None)
    if known is None:
        service_id = await _register(sender, calls.register(registry, terms, uri))
        changed = True
    else:
        service_id = known.service_id
        changed = (known.terms, known.descriptor_uri) != (terms, uri)
        if changed:
            await sender.send(calls.update(registry, service_id, terms, uri), "update-service")
    _write(settings, chain, service_id)
    wanted = terms_hash(chain.chain_id, registry, service_id, terms)
    return Registration(service_id, wanted, terms, changed)


async def _register(sender: Sender, call: calls.ContractCall) -> int:
    mined = await sender.send(call, "register-service")
    for event in mined.events:
        if event.name == "ServiceRegistered":
            return int(event.args["serviceId"])
    raise ChainError(
        f"transaction {to_hex(mined.transaction_hash)} registered nothing", code="registration-missing"
    )


def _write(settings: Settings, chain: Chain, service_id: int) -> None:
    file = _RegistrationFile(
        chain_id=chain.chain_id,
        service_registry=address_text(chain.service_registry),
        service_id=str(service_id),
    )
    content = canonical_bytes(file.model_dump(by_alias=True)) + b"\n"
    write_private(settings.path(Path(REGISTRATION_FILE)), content)


async def current_registration(settings: Settings, chain: Chain, terms: Terms) -> Registration:
    """The published service, which must offer exactly `terms`.

    Raises:
        ConfigError: `not-registered`, or `registration-outdated` where card, keys or chain changed since.
    """
    known = await _registered(settings, chain)
    if known is None:
        raise ConfigError("this service is not in the registry", code="not-registered", hint=_REGISTER_HINT)
    expected = terms_hash(chain.chain_id, chain.service_registry, known.service_id, terms)
    if known.terms_hash != expected:
        raise ConfigError(
            f"service {known.service_id} is published under other terms than the configuration gives",
            code="registration-outdated",
            hint=_REGISTER_HINT,
        )
    return Registration(known.service_id, expected, terms, changed=False)


async def _registered(settings: Settings, chain: Chain) -> Service | None:
    """The service of the registration file, if this chain and registry have it."""
    path = settings.path(Path(REGISTRATION_FILE))
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        file = _RegistrationFile.model_validate_json(content)
    except ValidationError as error:
        raise ConfigError(
            f"{path} is not a registration",
            code="registration-invalid",
            hint=f"delete it; then: {_REGISTER_HINT}",
        ) from error
    if (file.chain_id, file.service_registry) != (chain.chain_id, address_text(chain.service_registry)):
        return None
    return await chain.service(int(file.service_id))


def token_of(settings: Settings, deployment: Deployment) -> Address:
    """The token that calls are paid in. Raises ConfigError `token-unknown`."""
    tokens = deployment.tokens
    if not settings.token:
        if len(tokens) == 1:
            return next(iter(tokens.values()))
        raise ConfigError(
            f"the deployment has {len(tokens)} tokens: {', '.join(tokens)}",
            code="token-unknown",
            hint="name one in the setting token",
        )
    if settings.token in tokens:
        return tokens[settings.token]
    try:
        return address(settings.token)
    except InvalidInput as error:
        raise ConfigError(
            f"the deployment has no token {settings.token!r:.80}: {', '.join(tokens)}", code="token-unknown"
        ) from error
