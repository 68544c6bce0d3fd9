"""Evidence packages (PROTOCOL 7): what either side of a session writes so that a stranger can check it.

Building is here; reading what others wrote is in `aioum.core.evidence_reading`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aioum.core.amounts import check_amount
from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.errors import InvalidInput
from aioum.core.evidence_submissions import Submissions
from aioum.core.hextext import address_text, to_hex
from aioum.core.merkle import inclusion_proof
from aioum.core.payment import (
    CallReceipt,
    Domain,
    Statement,
    Terms,
    compute_channel_id,
    session_salt,
    terms_hash,
)
from aioum.core.transcript import (
    Entry,
    entry_from_json,
    entry_leaf,
    entry_to_json,
    node_hash,
    transcript_root,
)
from aioum.core.types import Address, Bytes32, ChannelId

WHOLE: Final = 1
"""formatVersion of a package with every call of the session."""

DISCLOSED: Final = 2
"""formatVersion of a package with chosen calls and their inclusion proofs."""

MAX_PACKAGE_BYTES: Final = 64 * 1024 * 1024
"""Default size limit of a package's text, bytes."""


class Claim(StrEnum):
    """What the assembler of a package claims."""

    NON_DELIVERY = "non-delivery"
    WRONG_RESULT = "wrong-result"
    QUALITY = "quality"


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """What a channel id is the hash of, beside the domain; fixed at opening (PROTOCOL 3).

    Attributes:
        authorized_signer: who signs vouchers, or the zero address: then the payer does.
        nonce: 32 random bytes chosen at opening.
        terms_hash: the terms that the session was opened under; zero for a plain channel.
        roster_hash: SHA-256 of the roster of signed submissions; zero where there is none.
    """

    payer: Address
    payee: Address
    token: Address
    authorized_signer: Address
    nonce: Bytes32
    terms_hash: Bytes32
    roster_hash: Bytes32

    @property
    def voucher_signer(self) -> Address:
        """Who signs vouchers: the authorized signer where one is set, else the payer."""
        return self.authorized_signer if any(self.authorized_signer) else self.payer

    def channel_id(self, domain: Domain) -> ChannelId:
        """The channel id that these facts give under `domain`."""
        salt = session_salt(self.nonce, self.terms_hash, self.roster_hash)
        return compute_channel_id(self.payer, self.payee, self.token, salt, self.authorized_signer, domain)


@dataclass(frozen=True, slots=True)
class ServiceTerms:
    """A service's terms with what their hash covers beside them.

    Attributes:
        registry: the ServiceRegistry's address, or None where a foreign package leaves it out.
    """

    registry: Address | None
    service_id: int
    terms: Terms

    def terms_hash(self, chain_id: int) -> Bytes32 | None:
        """The hash under which the registry keeps them; None where the registry is not known."""
        if self.registry is None:
            return None
        return terms_hash(chain_id, self.registry, self.service_id, self.terms)


def build_package(
    *,
    session_id: int,
    domain: Domain,
    claim: Claim | str,
    narrative: str,
    entries: Sequence[Entry],
    vouchers: Iterable[tuple[int, bytes]],
    channel: ChannelFacts | None = None,
    terms: ServiceTerms | None = None,
    card: JsonValue = None,
    receipts: Iterable[tuple[CallReceipt, bytes]] = (),
    statement: tuple[Statement, bytes] | None = None,
    attestations: Sequence[dict[str, JsonValue]] = (),
    submissions: Submissions | None = None,
    log: dict[str, JsonValue] | None = None,
) -> dict[str, JsonValue]:
    """Assemble a package of a whole session (formatVersion 1).

    Args:
        session_id: the label, at least 1.
        domain: chain and PaymentManager of the session.
        claim: one of `Claim`.
        narrative: free text.
        entries: every call from index 0.
        vouchers: (cumulative amount in base units, signature) in any order; the first of equal ones is kept.
        channel: what the channel id is made of; gives the package its `channelId`.
        terms: the terms under which the session was opened.
        card: JSON of the card that those terms name.
        receipts: (receipt, signature), one per recorded call that the assembler has one for.
        statement: the latest statement and its signature.
        attestations: as in PROTOCOL 7.
        submissions: roster and signed calls of a session opened with a roster.
        log: that the session is in the operator's transparency log, as in PROTOCOL 7.

    Returns:
        The package; write it with `package_bytes`.

    Raises:
        InvalidInput: `claim-unknown`, `session-id-invalid`, `amount-invalid`, `entry-index-gap`,
            `entry-text-invalid`.
    """
    if session_id < 1:
        raise InvalidInput(f"session ids count from 1, got {session_id}", code="session-id-invalid")
    by_amount: dict[int, bytes] = {}
    for amount, signature in vouchers:
        by_amount.setdefault(check_amount(amount), signature)
    package: dict[str, JsonValue] = {
        "formatVersion": WHOLE,
        "sessionId": str(session_id),
        "chainId": domain.chain_id,
        "paymentManager": address_text(domain.payment_manager),
        "claim": _claim(claim).value,
        "narrative": narrative,
        "calls": [entry_to_json(entry) for entry in entries],
        "vouchers": [
            {"cumulativeAmount": str(amount), "signature": to_hex(by_amount[amount])}
            for amount in sorted(by_amount)
        ],
        "resultsRoot": to_hex(transcript_root(entries)),
        "attestations": list(attestations),
    }
    if channel is not None:
        package["channelId"] = to_hex(channel.channel_id(domain))
        package["channel"] = channel_to_json(channel)
    if terms is not None:
        package["terms"] = terms_to_json(terms)
    if card is not None:
        package["card"] = card
    receipt_list: list[JsonValue] = [
        receipt_to_json(receipt, signature, entries) for receipt, signature in receipts
    ]
    if receipt_list:
        package["receipts"] = receipt_list
    if statement is not None:
        package["statement"] = statement_to_json(*statement)
    if submissions is not None:
        package["submissions"] = submissions.to_json()
    if log is not None:
        package["log"] = log
    return package


def disclose(package: dict[str, JsonValue], indexes: Iterable[int]) -> dict[str, JsonValue]:
    """Make a formatVersion 2 package that shows chosen calls of a whole one and hides the rest.

    Receipts and signed calls of hidden calls go, and so do attestations that cover one: nobody could check
    them. What stays of the signed calls proves their authorship one by one; a chain needs every head.

    Args:
        package: what `build_package` returned, or a formatVersion 1 package that was read.
        indexes: the calls to show, in any order, at least one; the index behind the last call stands for a
            signed call without an answer.

    Raises:
        InvalidInput: `package-not-whole`, not formatVersion 1; `disclosure-empty`; `disclosure-out-of-range`;
            or what `entry_from_json` raises.
    """
    calls = package.get("calls")
    if package.get("formatVersion") != WHOLE or not isinstance(calls, list):
        raise InvalidInput(
            "only a formatVersion 1 package can be disclosed in part", code="package-not-whole"
        )
    chosen = sorted(set(indexes))
    if not chosen:
        raise InvalidInput("no call was chosen", code="disclosure-empty")
    last = len(calls) if _has_unanswered(package, len(calls)) else len(calls) - 1
    if chosen[0] < 0 or chosen[-1] > last:
        raise InvalidInput(f"calls are 0…{last}, got {chosen}", code="disclosure-out-of-range")
    kept = set(chosen)
    chosen = [index for index in chosen if index < len(calls)]
    if not chosen:
        raise InvalidInput("no answered call was chosen", code="disclosure-empty")
    entries = [entry_from_json(call, position) for position, call in enumerate(calls)]
    leaves = [entry_leaf(entry) for entry in entries]
    shown: list[JsonValue] = [
        {
            **entry_to_json(entries[index]),
            "proof": [to_hex(sibling) for sibling in inclusion_proof(leaves, index, node_hash)],
        }
        for index in chosen
    ]
    disclosed = dict(package)
    disclosed.update(formatVersion=DISCLOSED, callCount=len(entries), calls=shown)
    disclosed["attestations"] = [
        attestation
        for attestation in _members(package, "attestations")
        if _covered(attestation, len(entries)) <= kept
    ]
    if "receipts" in package:
        disclosed["receipts"] = _about(kept, _members(package, "receipts"))
    submissions = package.get("submissions")
    if isinstance(submissions, dict):
        disclosed["submissions"] = {
            **submissions, "entries": _about(kept, _members(submissions, "entries"))
        }  # fmt: skip
    return disclosed


def package_bytes(package: dict[str, JsonValue]) -> bytes:
    """The package as it is written and published: canonical JSON, so its hash is stable.

    Raises:
        CanonicalError: a member has no canonical form.
    """
    return canonical_bytes(package)


def channel_to_json(channel: ChannelFacts) -> dict[str, JsonValue]:
    """The package's `channel` member."""
    return {
        "payer": address_text(channel.payer),
        "payee": address_text(channel.payee),
        "token": address_text(channel.token),
        "authorizedSigner": address_text(channel.authorized_signer),
        "nonce": to_hex(channel.nonce),
        "termsHash": to_hex(channel.terms_hash),
        "rosterHash": to_hex(channel.roster_hash),
    }


def terms_to_json(service: ServiceTerms) -> dict[str, JsonValue]:
    """The package's `terms` member. With `registry` in it, the package alone gives their hash."""
    terms = service.terms
    value: dict[str, JsonValue] = {}
    if service.registry is not None:
        value["registry"] = address_text(service.registry)
    value.update(
        serviceId=str(service.service_id),
        operator=address_text(terms.operator),
        payee=address_text(terms.payee),
        token=address_text(terms.token),
        receiptSigner=address_text(terms.receipt_signer),
        arbitrator=address_text(terms.arbitrator),
        descriptorHash=to_hex(terms.descriptor_hash),
        commitRequired=terms.commit_required,
        disputeWindow=terms.dispute_window_seconds,
        rulingPeriod=terms.ruling_period_seconds,
        disputeBond=str(terms.dispute_bond),
    )
    return value


def receipt_to_json(receipt: CallReceipt, signature: bytes, entries: Sequence[Entry]) -> dict[str, JsonValue]:
    """One of the package's `receipts`.

    The leaf is that of the package's own call and is left out. Only a receipt that contradicts the entries
    carries its `leaf`: without it nobody could see that the operator signed something else.
    """
    value: dict[str, JsonValue] = {
        "index": receipt.index, "charge": str(receipt.charge), "signature": to_hex(signature),
    }  # fmt: skip
    if receipt.index >= len(entries) or entry_leaf(entries[receipt.index]) != receipt.leaf:
        value["leaf"] = to_hex(receipt.leaf)
    return value


def statement_to_json(statement: Statement, signature: bytes) -> dict[str, JsonValue]:
    """The package's `statement` member."""
    return {
        "callCount": statement.call_count,
        "root": to_hex(statement.root),
        "spent": str(statement.spent),
        "signature": to_hex(signature),
    }


def _claim(claim: str) -> Claim:
    try:
        return Claim(claim)
    except ValueError:
        known = ", ".join(Claim)
        raise InvalidInput(f"unknown claim {claim!r:.80}; known: {known}", code="claim-unknown") from None


def _members(package: dict[str, JsonValue], name: str) -> list[JsonValue]:
    value = package.get(name)
    return value if isinstance(value, list) else []


def _about(kept: set[int], values: list[JsonValue]) -> list[JsonValue]:
    return [
        value
        for value in values
        if isinstance(value, dict) and isinstance(index := value.get("index"), int) and index in kept
    ]


def _has_unanswered(package: dict[str, JsonValue], call_count: int) -> bool:
    submissions = package.get("submissions")
    return isinstance(submissions, dict) and bool(_about({call_count}, _members(submissions, "entries")))


def _covered(attestation: JsonValue, call_count: int) -> set[JsonValue]:
    coverage = attestation.get("coverage") if isinstance(attestation, dict) else None
    if isinstance(coverage, list):
        return {index for index in coverage if not isinstance(index, dict | list)}
    return set(range(call_count))
