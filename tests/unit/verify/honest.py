"""An honest session of six calls, its package, and a chain that is data. Keys are those of the vectors."""

import copy
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aioum.chain.model import BlockRef, ChainSession, RegisteredTerms
from aioum.core.card import descriptor_hash
from aioum.core.evidence import ChannelFacts, ServiceTerms, build_package
from aioum.core.evidence_reading import EvidencePackage, read_package
from aioum.core.evidence_submissions import SubmissionEntry, Submissions
from aioum.core.hextext import address, address_text
from aioum.core.payment import CallReceipt, Domain, Statement, Terms, Voucher
from aioum.core.problem import is_problem, problem_bytes
from aioum.core.signing import LocalKey
from aioum.core.submission.chain import genesis, paid_session_id
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.keys import SubmissionKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.transcript import Entry, canonical_request, entry_leaf, transcript_root
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, ChannelId
from aioum.verify.hooks import VerifyHooks
from aioum.verify.package import verify_package
from aioum.verify.ports import ChainView, ReExecutor
from aioum.verify.report import Report

CLIENT = LocalKey(b"\x11" * 32)
OPERATOR = LocalKey(b"\x22" * 32)
STRANGER = LocalKey(b"\x33" * 32)
DOMAIN = Domain(31337, address("0x5FbDB2315678afecb367f032d93F642f64180aa3"))
TOKEN = address("0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512")
REGISTRY = address("0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0")
PRICE = 1_000
DEPOSIT = 10_000
SESSION_ID = 42
UPPERCASE = "import json, sys; sys.stdout.write(json.load(sys.stdin)['arguments']['text'].upper())"
"""A program that serves the deterministic tool: the response is the text in capitals."""

BLOCK = BlockRef(1_000, Bytes32(b"\xb1" * 32), 1_800_000_000)
NONCE = Bytes32(b"\xcd" * 32)
COMMAND = (sys.executable, "-c", UPPERCASE)


@dataclass(frozen=True)
class RecordedChain:
    """A `ChainView` whose answers were written down: what a real one would say at `block`."""

    sessions: Mapping[ChannelId, ChainSession]
    registered: Mapping[Bytes32, RegisteredTerms]
    wallets: Mapping[Address, Callable[[bytes, bytes], bool]] = field(default_factory=dict)
    chain_id: int = DOMAIN.chain_id
    payment_manager: Address = DOMAIN.payment_manager
    block: BlockRef = BLOCK

    async def session(self, channel_id: ChannelId) -> ChainSession | None:
        return self.sessions.get(channel_id)

    async def session_by_id(self, session_id: int) -> ChainSession | None:
        return next((found for found in self.sessions.values() if found.session_id == session_id), None)

    async def terms(self, terms_hash: Bytes32) -> RegisteredTerms | None:
        return self.registered.get(terms_hash)

    async def has_code(self, account: Address) -> bool:
        return account in self.wallets

    async def is_valid_signature(self, account: Address, digest: bytes, signature: bytes) -> bool:
        return account in self.wallets and self.wallets[account](digest, signature)


def card_json(
    *,
    deterministic: bool = True,
    domain: Domain = DOMAIN,
    registry: Address = REGISTRY,
    token: Address = TOKEN,
    operator: LocalKey = OPERATOR,
) -> dict[str, Any]:
    card: dict[str, Any] = {
        "name": "Text service",
        "operator": address_text(operator.address),
        "contracts": {
            "chainId": domain.chain_id,
            "serviceRegistry": address_text(registry),
            "paymentManager": address_text(domain.payment_manager),
        },
        "token": {"address": address_text(token), "symbol": "DEV", "decimals": 6},
        "tools": [
            {"id": "uppercase", "price": str(PRICE)},
            {"id": "clock", "price": str(PRICE), "deterministic": False},
        ],
        "receiptSigner": address_text(operator.address),
    }
    if deterministic:
        card["deterministic"] = {"kind": "command", "entry": "python uppercase.py"}
    return card


def entries(prefix: str = "word") -> list[Entry]:
    calls = [
        ("uppercase", {"text": f"{prefix} zero"}, f"{prefix} zero".upper()),
        ("uppercase", {"text": f"{prefix} één"}, f"{prefix} één".upper()),
        ("clock", {}, "2026-12-01T00:00:00Z"),
        ("uppercase", {"text": ""}, problem_bytes(502, "tool-failed", "The tool failed").decode()),
        ("uppercase", {"text": f"{prefix} four"}, f"{prefix} four".upper()),
        ("uppercase", {"text": f"{prefix} five"}, f"{prefix} five".upper()),
    ]
    return [
        Entry(index, tool, canonical_request(tool, arguments), response)  # type: ignore[arg-type]
        for index, (tool, arguments, response) in enumerate(calls)
    ]


def charges(calls: Sequence[Entry]) -> list[int]:
    """What the calls cost: nothing where the tool failed."""
    return [0 if is_problem(call.response.encode()) else PRICE for call in calls]


CHARGES = tuple(charges(entries()))
SEATS = ("client", "researcher")
"""Seats of the signed session; they take turns."""


def seat_key(seat: str) -> SubmissionKey:
    """A seat's key, for tests alone."""
    return SubmissionKey(hashlib.sha256(f"seat {seat}".encode()).digest())


def seat_envelopes(
    channel_id: ChannelId,
    roster: Roster,
    requests: Sequence[tuple[str, str]],
    keys: Callable[[str], SubmissionKey] = seat_key,
) -> list[Envelope]:
    """The envelopes of calls, each given as seat and canonical request, in their order."""
    session_id = paid_session_id(channel_id)
    heads = {seat: genesis(session_id, seat, roster.hash) for seat in roster.seats}
    envelopes = []
    for index, (seat, request) in enumerate(requests):
        envelope = Envelope.sign(
            keys(seat),
            channel_id,
            request.encode(),
            seat=seat,
            submission_id=f"{seat}-{index}",
            cursor=index,
            client_time=1_799_990_000_000 + index,
            prev_head=heads[seat],
        )
        heads[seat] = envelope.submission(channel_id, request.encode()).head()
        envelopes.append(envelope)
    return envelopes


@dataclass(frozen=True)
class Honest:
    """Everything about one honestly recorded, anchored and settled session.

    `calls` and so on can be replaced to make another honest session; `package()` and `chain()` follow.
    """

    calls: tuple[Entry, ...] = tuple(entries())
    card: Any = field(default_factory=card_json)
    nonce: Bytes32 = NONCE
    commit_required: bool = True
    session_id: int = SESSION_ID
    client: LocalKey = CLIENT
    authorized_signer: Address = ZERO_ADDRESS
    claim: str = "wrong-result"
    settled: int = sum(CHARGES)
    deposit: int = DEPOSIT
    operator: LocalKey = OPERATOR
    domain: Domain = DOMAIN
    registry: Address = REGISTRY
    token: Address = TOKEN
    service_id: int = 1
    seats: tuple[str, ...] = ()

    @property
    def roster(self) -> Roster | None:
        """Who signs calls; None in an unsigned session."""
        if not self.seats:
            return None
        return Roster.of(*(RosterEntry(seat, seat_key(seat).public_key) for seat in self.seats))

    def submissions(self, unanswered: str | None = None) -> Submissions | None:
        """Roster and envelopes; `unanswered` is the request of one more signed call without an answer."""
        if self.roster is None:
            return None
        asked = [call.request for call in self.calls] + ([] if unanswered is None else [unanswered])
        turns = [(self.seats[index % len(self.seats)], request) for index, request in enumerate(asked)]
        signed = [
            SubmissionEntry(index, envelope)
            for index, envelope in enumerate(seat_envelopes(self.channel_id, self.roster, turns))
        ]
        if unanswered is not None:
            signed[-1] = replace(signed[-1], request=unanswered.encode())
        return Submissions(self.roster, tuple(signed))

    @property
    def service(self) -> ServiceTerms:
        terms = Terms(
            operator=self.operator.address,
            payee=self.operator.address,
            token=self.token,
            receipt_signer=self.operator.address,
            arbitrator=ZERO_ADDRESS,
            descriptor_hash=descriptor_hash(self.card),
            commit_required=self.commit_required,
            dispute_window_seconds=0,
            ruling_period_seconds=0,
            dispute_bond=0,
        )
        return ServiceTerms(self.registry, self.service_id, terms)

    @property
    def terms_hash(self) -> Bytes32:
        found = self.service.terms_hash(self.domain.chain_id)
        assert found is not None
        return found

    @property
    def channel(self) -> ChannelFacts:
        return ChannelFacts(
            payer=self.client.address,
            payee=self.operator.address,
            token=self.token,
            authorized_signer=self.authorized_signer,
            nonce=self.nonce,
            terms_hash=self.terms_hash,
            roster_hash=ZERO_BYTES32 if self.roster is None else self.roster.hash,
        )

    @property
    def channel_id(self) -> ChannelId:
        return self.channel.channel_id(self.domain)

    @property
    def root(self) -> Bytes32:
        return Bytes32(transcript_root(self.calls))

    def voucher(self, amount: int, key: LocalKey | None = None) -> tuple[int, bytes]:
        return amount, (key or self.client).sign_digest(Voucher(self.channel_id, amount).digest(self.domain))

    def receipt(
        self, index: int, *, leaf: bytes | None = None, charge: int | None = None, key: LocalKey | None = None
    ) -> tuple[CallReceipt, bytes]:
        receipt = CallReceipt(
            self.channel_id,
            index,
            Bytes32(leaf or entry_leaf(self.calls[index])),
            charges(self.calls)[index] if charge is None else charge,
        )
        return receipt, (key or self.operator).sign_digest(receipt.digest(self.domain))

    def statement(
        self,
        call_count: int | None = None,
        *,
        root: bytes | None = None,
        spent: int | None = None,
        key: LocalKey | None = None,
    ) -> tuple[Statement, bytes]:
        count = len(self.calls) if call_count is None else call_count
        statement = Statement(
            self.channel_id,
            count,
            Bytes32(root or transcript_root(self.calls[:count])),
            sum(charges(self.calls)[:count]) if spent is None else spent,
        )
        return statement, (key or self.operator).sign_digest(statement.digest(self.domain))

    def package(self, **replaced: Any) -> dict[str, Any]:
        """The package as JSON; `replaced` goes to `build_package`."""
        facts: dict[str, Any] = {
            "session_id": self.session_id,
            "domain": self.domain,
            "claim": self.claim,
            "narrative": "the fourth answer is wrong",
            "entries": list(self.calls),
            "vouchers": [self.voucher(amount) for amount in range(PRICE, sum(CHARGES) + 1, PRICE)],
            "channel": self.channel,
            "terms": self.service,
            "card": self.card,
            "receipts": [self.receipt(index) for index in range(len(self.calls))],
            "statement": self.statement(),
            "submissions": None if "submissions" in replaced else self.submissions(),
        }
        return build_package(**{**facts, **replaced})

    def session(self, **replaced: Any) -> ChainSession:
        """The finalized session as the chain has it."""
        session = ChainSession(
            session_id=self.session_id,
            channel_id=self.channel_id,
            payer=self.client.address,
            payee=self.operator.address,
            token=self.token,
            authorized_signer=self.authorized_signer,
            operator=self.operator.address,
            service_id=self.service_id,
            terms_hash=self.terms_hash,
            deposit=self.deposit,
            settled=self.settled,
            refunded=self.deposit - self.settled,
            opened_at=1_799_990_000,
            close_requested_at=0,
            finalized_at=1_799_999_000,
            root=self.root,
            call_count=len(self.calls),
            commit_required=self.commit_required,
            dispute_window_seconds=0,
        )
        return replace(session, **replaced)

    def chain(self, session: ChainSession | None = None, **replaced: Any) -> RecordedChain:
        """A chain that has this session and its terms."""
        found = session or self.session()
        registered = RegisteredTerms(self.terms_hash, self.service_id, self.service.terms)
        return replace(RecordedChain({found.channel_id: found}, {self.terms_hash: registered}), **replaced)


TRUSTED = frozenset({DOMAIN.payment_manager})


def read(package: Any) -> EvidencePackage:
    """The package as a verifier reads it: through text."""
    return read_package(json.loads(json.dumps(package)))


def edited(package: dict[str, Any], edit: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A deep copy with `edit` applied."""
    changed = copy.deepcopy(package)
    edit(changed)
    return changed


async def judge(
    package: Any,
    chain: ChainView | None,
    *,
    trusted: frozenset[Address] = TRUSTED,
    re_executor: ReExecutor | None = None,
    hooks: VerifyHooks | None = None,
) -> Report:
    """The report on a package."""
    return await verify_package(
        read(package), chain=chain, hooks=hooks, re_executor=re_executor, trusted_payment_managers=trusted
    )
