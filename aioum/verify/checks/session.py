"""Check 1, session: it exists, in a PaymentManager that the verifier knows, and is the one described."""

from __future__ import annotations

from collections.abc import Collection

from aioum.chain.model import ChainSession
from aioum.core.canonical import JsonValue
from aioum.core.card import descriptor_hash
from aioum.core.errors import InvalidInput
from aioum.core.evidence import ServiceTerms
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hextext import address, address_text, to_hex
from aioum.core.payment import Terms
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.verify.grounds import Grounds
from aioum.verify.ports import ChainView
from aioum.verify.report import Check, Finding, failed, not_applicable, passed

NAME = "session"


async def check_session(
    package: EvidencePackage, chain: ChainView | None, trusted_payment_managers: Collection[Address]
) -> tuple[Check, Grounds]:
    """Judge the session and collect what is fixed about it."""
    findings: list[Finding] = []
    session = await _find(package, chain, trusted_payment_managers, findings)
    recomputed = None if package.channel is None else package.channel.channel_id(package.domain)
    consistent = recomputed is not None and package.channel_id in (None, recomputed)
    if recomputed is not None and package.channel_id is not None and recomputed != package.channel_id:
        findings.append(
            Finding(
                "channel-id-mismatch",
                f"The package's channel members hash to channel id {to_hex(recomputed)}, "
                f"not to its {to_hex(package.channel_id)}.",
            )
        )
    if session is not None:
        findings.extend(_contradictions(package, session))
    named_terms: Bytes32 | None = None
    if session is not None:
        named_terms = session.terms_hash
    elif consistent and package.channel is not None:
        named_terms = package.channel.terms_hash
    terms = await _terms(package, chain if session is not None else None, named_terms, findings)
    card = package.card
    if card is not None and terms is not None and descriptor_hash(card) != terms.descriptor_hash:
        findings.append(
            Finding("card-hash-mismatch", "The package's card is not the one that the session's terms name.")
        )
        card = None
    grounds = Grounds(
        domain=package.domain,
        offline=chain is None,
        channel_id=_channel_id(package, session, recomputed if consistent else None),
        session=session,
        voucher_signer=_voucher_signer(package, session, consistent),
        terms=terms,
        card=card if terms is not None else None,
        # The chain keeps the roster's hash inside the channel id only.
        roster_hash=package.channel.roster_hash if consistent and package.channel is not None else None,
    )
    return _row(grounds, findings), grounds


async def _find(
    package: EvidencePackage,
    chain: ChainView | None,
    trusted: Collection[Address],
    findings: list[Finding],
) -> ChainSession | None:
    manager = package.domain.payment_manager
    # Offline, a verifier that names no contracts has no opinion on them.
    known = manager in trusted or (chain is None and not trusted)
    if not known:
        findings.append(
            Finding(
                "payment-manager-untrusted",
                f"PaymentManager {address_text(manager)} is not one that this verifier knows; "
                "whoever deployed it may make it say anything.",
            )
        )
    if chain is None:
        return None
    if chain.chain_id != package.domain.chain_id:
        findings.append(
            Finding(
                "chain-id-mismatch",
                f"The package is about chain {package.domain.chain_id}, the chain asked is {chain.chain_id}.",
            )
        )
        return None
    if not known or chain.payment_manager != manager:
        return None
    session = await _look_up(package, chain)
    if session is None:
        findings.append(
            Finding(
                "session-not-found",
                f"{_named(package)} does not exist in PaymentManager {address_text(manager)} "
                f"at block {chain.block.number}.",
            )
        )
    elif session.session_id != package.session_id:
        findings.append(
            Finding(
                "session-id-mismatch",
                f"The channel is session {session.session_id} on this chain, the package calls it "
                f"{package.session_id}: a reorganization exchanged labels, or two sessions were mixed up.",
            )
        )
    return session


async def _look_up(package: EvidencePackage, chain: ChainView) -> ChainSession | None:
    if package.channel_id is not None:
        return await chain.session(package.channel_id)
    if package.channel is not None:
        return await chain.session(package.channel.channel_id(package.domain))
    return await chain.session_by_id(package.session_id)


def _named(package: EvidencePackage) -> str:
    if package.channel_id is not None:
        return f"Channel {to_hex(package.channel_id)}"
    return f"Session {package.session_id}"


def _contradictions(package: EvidencePackage, session: ChainSession) -> list[Finding]:
    channel = package.channel
    if channel is None:
        return []
    stated = {
        "payer": (channel.payer, session.payer),
        "payee": (channel.payee, session.payee),
        "token": (channel.token, session.token),
        "authorizedSigner": (channel.authorized_signer, session.authorized_signer),
        "termsHash": (channel.terms_hash, session.terms_hash),
    }
    different = [name for name, (said, found) in stated.items() if said != found]
    if not different:
        return []
    return [
        Finding(
            "channel-contradicts-chain",
            f"The package's channel members {', '.join(different)} differ from the chain's.",
        )
    ]


async def _terms(
    package: EvidencePackage, chain: ChainView | None, named: Bytes32 | None, findings: list[Finding]
) -> Terms | None:
    """The terms under the hash `named`: the package's where they hash to it, else the registry's."""
    stated = package.terms
    stated_hash = None
    if stated is not None:
        registry = stated.registry or _card_registry(package)
        stated_hash = ServiceTerms(registry, stated.service_id, stated.terms).terms_hash(
            package.domain.chain_id
        )
    if named is None:
        return None
    if stated is not None and stated_hash == named:
        return stated.terms
    registered = await chain.terms(named) if chain is not None and any(named) else None
    if stated is not None and stated_hash is not None:
        findings.append(
            Finding(
                "terms-hash-mismatch",
                f"The package's terms hash to {to_hex(stated_hash)}, but the session was opened under "
                f"{to_hex(named)}.",
            )
        )
    elif (
        stated is not None
        and registered is not None
        and (stated.service_id, stated.terms) != (registered.service_id, registered.terms)
    ):
        findings.append(
            Finding("terms-contradict-chain", "The package's terms differ from the registered ones.")
        )
    return None if registered is None else registered.terms


def _card_registry(package: EvidencePackage) -> Address | None:
    """Where foreign terms leave the registry out, the card may name it; the hash says whether it is right."""
    contracts = None if package.card is None else package.card.get("contracts")
    try:
        return address(contracts.get("serviceRegistry")) if isinstance(contracts, dict) else None
    except InvalidInput:
        return None


def _channel_id(
    package: EvidencePackage, session: ChainSession | None, recomputed: ChannelId | None
) -> ChannelId | None:
    if session is not None:
        return session.channel_id
    return recomputed or package.channel_id


def _voucher_signer(
    package: EvidencePackage, session: ChainSession | None, consistent: bool
) -> Address | None:
    if session is not None:
        return session.voucher_signer
    return package.channel.voucher_signer if consistent and package.channel is not None else None


def _row(grounds: Grounds, findings: list[Finding]) -> Check:
    details = _facts(grounds)
    session = grounds.session
    if findings:
        return failed(NAME, findings, details=details)
    if session is None:
        fixed = (
            "channel and terms of the package hash to its channel id and so fix signer, terms and roster"
            if grounds.terms is not None
            else "channel members hash to the channel id and so fix the signer"
            if grounds.voucher_signer is not None
            else "nothing in the package fixes who signs"
        )
        return not_applicable(
            NAME, "offline", f"Offline: the session was not looked up; {fixed}.", details=details
        )
    state = "finalized" if session.is_finalized else "closing" if session.is_closing else "open"
    return passed(
        NAME,
        f"Session {session.session_id} exists and is {state}: client {address_text(session.payer)}, operator "
        f"{address_text(session.operator if any(session.operator) else session.payee)}, "
        f"deposit {session.deposit}, settled {session.settled}.",
        details=details,
    )


def _facts(grounds: Grounds) -> dict[str, JsonValue]:
    details: dict[str, JsonValue] = {}
    if grounds.channel_id is not None:
        details["channelId"] = to_hex(grounds.channel_id)
    if grounds.terms is not None:
        details["operator"] = address_text(grounds.terms.operator)
        details["receiptSigner"] = address_text(grounds.terms.receipt_signer)
    if grounds.voucher_signer is not None:
        details["voucherSigner"] = address_text(grounds.voucher_signer)
    session = grounds.session
    if session is not None:
        details.update(
            sessionId=str(session.session_id),
            client=address_text(session.payer),
            operator=address_text(session.operator),
            payee=address_text(session.payee),
            token=address_text(session.token),
            serviceId=str(session.service_id),
            termsHash=to_hex(session.terms_hash),
            commitRequired=session.commit_required,
            deposit=str(session.deposit),
            settled=str(session.settled),
            refunded=str(session.refunded),
            openedAt=session.opened_at,
            closeRequestedAt=session.close_requested_at,
            finalizedAt=session.finalized_at,
        )
    return details
