"""What a client's evidence package proves that this node answered, as calls that a store can take over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aioum.core.amounts import parse_amount
from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.card import parse_card
from aioum.core.errors import AioumError, Refused
from aioum.core.evidence import ChannelFacts, ServiceTerms
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.evidence_submissions import Submissions
from aioum.core.hextext import from_hex
from aioum.core.ledger import Answer, Call, SessionState
from aioum.core.payment import Domain
from aioum.core.problem import PROBLEM_CONTENT_TYPE, problem_code
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.roster import Roster
from aioum.core.transcript import Entry, entry_from_json
from aioum.core.types import ChannelId
from aioum.verify.package import verify_package
from aioum.verify.report import Status
from aioum_node.store.port import SessionFacts

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Voucher:
    """A client's voucher: cumulative amount in base units."""

    amount: int
    signature: bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """A package whose every signature holds.

    Attributes:
        entries: the calls, from 0.
        charges: of the calls that the package has the node's receipts of, by index; base units.
        vouchers: ascending.
        envelopes: what seats signed for the entries, by index; none in an unsigned session.
        prices: of the card that the terms name, base units by tool; empty where the package has no card.
        card: that card's canonical bytes, or None.
    """

    channel_id: ChannelId
    session_id: int
    domain: Domain
    channel: ChannelFacts
    terms: ServiceTerms
    entries: tuple[Entry, ...]
    charges: Mapping[int, int]
    vouchers: tuple[Voucher, ...]
    roster: Roster | None
    envelopes: Mapping[int, Envelope]
    prices: Mapping[str, int]
    card: bytes | None

    def facts(self) -> SessionFacts:
        """Of the session, all of it bound by the channel id."""
        terms = self.terms.terms
        return SessionFacts(
            channel_id=self.channel_id,
            session_id=self.session_id,
            chain_id=self.domain.chain_id,
            payment_manager=self.domain.payment_manager,
            payer=self.channel.payer,
            payee=self.channel.payee,
            token=self.channel.token,
            authorized_signer=self.channel.authorized_signer,
            service_id=self.terms.service_id,
            terms_hash=self.channel.terms_hash,
            nonce=self.channel.nonce,
            roster_hash=self.channel.roster_hash,
            descriptor_hash=terms.descriptor_hash,
            commit_required=terms.commit_required,
            terms=terms,
            roster=self.roster,
        )


async def verified(package: EvidencePackage) -> Evidence:
    """Check a package as any verifier does, without the chain, and take it apart.

    Raises:
        Refused: `package-refused`, a check fails, details `failures`; `package-insufficient`, it shows only
            some calls, or lacks what binds it to a channel.
    """
    if package.disclosed or package.channel is None or package.terms is None:
        raise Refused(
            "the package does not hold the whole session with its channel and terms",
            code="package-insufficient",
            hint="the client exports one with: aioum evidence build",
        )
    report = await verify_package(package, chain=None)
    if report.exit_code:
        failures = report.failures()
        codes = ", ".join(code for listed in failures.values() for code in listed)
        raise Refused(
            f"the package does not hold: {codes}",
            code="package-refused",
            hint="verify-evidence says more",
            details={"failures": failures},
        )
    proven = {check.name for check in report.checks if check.status is Status.PASS}
    signed = any(package.channel.roster_hash)
    needed = {"receipts", "vouchers", *(("submissions",) if signed else ())} if package.calls else set()
    if missing := sorted(needed - proven):
        raise Refused(
            f"the package proves nothing of: {', '.join(missing)}",
            code="package-insufficient",
            hint="ask the client for his whole record",
        )
    channel_id = package.channel.channel_id(package.domain)
    roster, envelopes = _submissions(package)
    card = package.card
    return Evidence(
        channel_id=channel_id,
        session_id=package.session_id,
        domain=package.domain,
        channel=package.channel,
        terms=package.terms,
        entries=tuple(entry_from_json(call, index) for index, call in enumerate(package.calls)),
        charges=_charges(package),
        vouchers=_vouchers(package),
        roster=roster,
        envelopes=envelopes,
        prices={} if card is None else {tool.id: tool.price for tool in parse_card(card).tools},
        card=None if card is None else canonical_bytes(card),
    )


def signed_calls(evidence: Evidence, state: SessionState, known: Sequence[Call]) -> list[Call]:
    """The package's calls as a store keeps them, in order; `suspicion.reimport` takes them.

    Args:
        evidence: of the package.
        state: of the session in the store.
        known: all calls that the store has.

    Raises:
        Refused: `receipt-missing`, the store has no answer of a call and the package no receipt;
            `voucher-missing`, no voucher pays for one.
    """
    spent = 0
    calls: list[Call] = []
    purse = _Purse(evidence.vouchers, state)
    for entry in evidence.entries:
        kept = known[entry.index] if entry.index < len(known) else None
        charge = evidence.charges.get(entry.index)
        if charge is None:
            if kept is None or not kept.recorded:
                raise Refused(
                    f"the package has no receipt of call {entry.index}, and the store no answer",
                    code="receipt-missing",
                    hint="ask the client for his whole record",
                )
            # The store's own word; what it answered is still compared.
            charge = kept.charge
        spent += charge
        voucher = Voucher(kept.amount, kept.signature) if kept is not None else purse.pays(spent, entry.index)
        calls.append(_call(entry, charge, voucher, evidence))
    return calls


class _Purse:
    """Which voucher came with which call no package says; which can have, the amounts do."""

    def __init__(self, vouchers: Sequence[Voucher], state: SessionState) -> None:
        self._left = list(vouchers)
        self._signed = state.signed
        self._highest = Voucher(state.accepted, state.accepted_signature)

    def pays(self, spent: int, index: int) -> Voucher:
        """The lowest voucher that covers what is spent with this call, and is new in an unsigned session."""
        if self._signed and self._highest.amount >= spent and self._highest.signature:
            return self._highest
        for voucher in self._left:
            enough = voucher.amount >= spent
            if enough and (self._signed or voucher.amount > self._highest.amount):
                self._highest = voucher
                return voucher
        raise Refused(f"no voucher of the package pays for call {index}", code="voucher-missing")


def _call(entry: Entry, charge: int, voucher: Voucher, evidence: Evidence) -> Call:
    response = entry.response.encode()
    failed = charge == 0 and problem_code(response) is not None
    return Call(
        index=entry.index,
        tool_id=entry.tool_id,
        request=entry.request.encode(),
        price=evidence.prices.get(entry.tool_id, 0) if failed else charge,
        amount=voucher.amount,
        signature=voucher.signature,
        answer=_failure(response) if failed else Answer(response, 200, _content_type(response), False),
        charge=charge,
        envelope=evidence.envelopes.get(entry.index),
    )


def _failure(response: bytes) -> Answer:
    problem = parse_json(response, max_bytes=len(response))
    status = problem.get("status") if isinstance(problem, dict) else None
    return Answer(response, status if isinstance(status, int) else 500, PROBLEM_CONTENT_TYPE, True)


def _content_type(response: bytes) -> str:
    # No signature covers it, and no package has it.
    try:
        parse_json(response, max_bytes=max(len(response), 1))
    except AioumError:
        return _TEXT
    return _JSON


def _charges(package: EvidencePackage) -> dict[int, int]:
    charges: dict[int, int] = {}
    for receipt in package.receipts or ():
        # Checked before: well-formed, and no two of one index.
        if isinstance(receipt, dict) and isinstance(index := receipt["index"], int):
            charges[index] = parse_amount(receipt["charge"])
    return charges


def _vouchers(package: EvidencePackage) -> tuple[Voucher, ...]:
    return tuple(
        Voucher(parse_amount(voucher["cumulativeAmount"]), from_hex(voucher["signature"]))
        for voucher in package.vouchers
        if isinstance(voucher, dict)
    )


def _submissions(package: EvidencePackage) -> tuple[Roster | None, dict[int, Envelope]]:
    if package.submissions is None:
        return None, {}
    submissions = Submissions.from_json(package.submissions)
    # One with a request of its own is not what the call of its index was asked with.
    return submissions.roster, {
        entry.index: entry.envelope for entry in submissions.entries if entry.request is None
    }
