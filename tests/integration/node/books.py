"""The operator's money side without HTTP: store, watcher and settle loop on a real chain, calls by hand."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_bytes

from aioum.chain import calls
from aioum.chain.calls import ContractCall
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.model import ChainSession, Mined, Opening, Service
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.ledger import Admitted, Answer, Call, CallRequest, Limits, SessionState
from aioum.core.payment import Terms, Voucher
from aioum.core.signing import LocalKey
from aioum.core.transcript import canonical_request
from aioum.core.types import ZERO_ADDRESS, Address, Bytes32, ChannelId
from aioum_node.failures import failed
from aioum_node.settlement.finishing import Finisher
from aioum_node.settlement.loop import SettleLoop
from aioum_node.settlement.rules import SettlePolicy
from aioum_node.store.port import SessionFacts, StoredSession
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from aioum_node.watch import ChainWatcher

PRICE = 1_000
DEPOSIT = 100_000


@dataclass(slots=True)
class Clock:
    """Unix milliseconds that a test moves."""

    ms: int = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def advance(self, seconds: float) -> None:
        self.ms += int(seconds * 1_000)


@dataclass(slots=True)
class Observer:
    """What the settle loop told."""

    captured: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def settled(self, captured: int, gas_used: int | None) -> None:
        assert gas_used is None or gas_used > 0
        self.captured.append(captured)

    def settlement_failed(self, code: str) -> None:
        self.failures.append(code)


@dataclass(frozen=True, slots=True)
class Books:
    """One process of the operator."""

    chain: Chain
    store: SqliteStore
    sender: Sender
    journal: SqliteTransactionJournal
    settling: SettleLoop
    watcher: ChainWatcher
    clock: Clock
    observer: Observer

    async def adopt(self, opening: Opening, service: Service) -> ChannelId:
        """Take over an opened session, as the HTTP edge does."""
        terms = service.terms
        facts = SessionFacts(
            channel_id=opening.channel_id,
            session_id=opening.session_id,
            chain_id=self.chain.chain_id,
            payment_manager=self.chain.payment_manager,
            payer=opening.payer,
            payee=opening.payee,
            token=opening.token,
            authorized_signer=opening.authorized_signer,
            service_id=opening.service_id,
            terms_hash=opening.terms_hash,
            nonce=opening.nonce,
            roster_hash=opening.roster_hash,
            descriptor_hash=terms.descriptor_hash,
            commit_required=terms.commit_required,
            terms=terms,
        )
        state = SessionState(opening.channel_id, deposit=opening.deposit)
        await self.store.open(facts, state, self.clock.ms)
        return opening.channel_id

    async def admit(self, key: LocalKey, channel_id: ChannelId) -> Call:
        """Admit the client's next call, with its voucher."""
        stored = await self.stored(channel_id)
        amount = max(stored.state.accepted + 1, stored.state.spent + PRICE)
        signature = key.sign_digest(Voucher(channel_id, amount).digest(self.chain.domain))
        request = canonical_request("echo", {"n": stored.state.admitted}).encode()
        step = await self.store.admit(
            channel_id, CallRequest("echo", request, PRICE, amount, signature), self.clock.ms
        )
        assert isinstance(step, Admitted)
        return step.call

    async def call(self, key: LocalKey, channel_id: ChannelId, *, fails: bool = False) -> Call:
        """One whole call."""
        admitted = await self.admit(key, channel_id)
        answer = (
            failed("tool-failed")
            if fails
            else Answer(f'"{admitted.index}"'.encode(), 200, "application/json", False)
        )
        return (await self.store.record(channel_id, admitted.index, answer, self.clock.ms)).call

    async def stored(self, channel_id: ChannelId) -> StoredSession:
        """The session's row."""
        stored = await self.store.session(channel_id)
        assert stored is not None
        return stored

    async def on_chain(self, channel_id: ChannelId) -> ChainSession:
        """The channel now."""
        session = await self.chain.session(channel_id)
        assert session is not None
        return session

    async def transactions_sent(self) -> int:
        """How many transactions of the operator the chain has seen."""
        return await self.chain.rpc.transaction_count(self.sender.signer.address, "latest")


@asynccontextmanager
async def opened_books(
    chain: Chain,
    operator: LocalKey,
    folder: Path,
    *,
    clock: Clock | None = None,
    policy: SettlePolicy | None = None,
    confirmations: int = 1,
    interval_seconds: float = 60,
    receipt_timeout_seconds: float = 30,
    max_batch_items: int = 1,
    own_confirmations: int = 1,
    sender_clock: Callable[[], float] = time.time,
) -> AsyncIterator[Books]:
    """Open the folder's store and journal, as a starting process does.

    `confirmations` is for what the chain says, `own_confirmations` for what became of own transactions.
    """
    clock = clock or Clock()
    observer = Observer()
    journal = SqliteTransactionJournal(folder / "transactions.sqlite3")
    sender = Sender(
        chain,
        LocalSigner(operator),
        journal,
        confirmations=own_confirmations,
        clock=sender_clock,
        receipt_timeout_seconds=receipt_timeout_seconds,
        poll_interval_seconds=0.02,
    )
    try:
        async with SqliteStore(folder / STORE_FILE, Limits()) as store:
            finisher = Finisher(store, chain, clock.now_ms, observer)
            settling = SettleLoop(
                store=store,
                chain=chain,
                sender=sender,
                finisher=finisher,
                policy=policy or SettlePolicy(),
                confirmations=confirmations,
                interval_seconds=interval_seconds,
                now_ms=clock.now_ms,
                observer=observer,
                max_batch_items=max_batch_items,
            )
            watcher = ChainWatcher(
                store=store,
                chain=chain,
                finisher=finisher,
                confirmations=confirmations,
                interval_seconds=0.05,
                now_ms=clock.now_ms,
                on_change=settling.wake,
                on_read=settling.saw,
            )
            yield Books(chain, store, sender, journal, settling, watcher, clock, observer)
    finally:
        await journal.close()


async def open_session(sender: Sender, service: Service, *, deposit: int = DEPOSIT) -> Opening:
    """Open a session as the client of `sender`."""
    chain = sender.chain
    mined = await sender.send(
        calls.open_session(
            chain.payment_manager,
            service_id=service.service_id,
            terms_hash=service.terms_hash,
            deposit=deposit,
            nonce=Bytes32(token_bytes(32)),
        ),
        "open",
    )
    opening = await chain.opening(mined.transaction_hash)
    assert opening is not None
    return opening


async def send(sender: Sender, call: ContractCall) -> Mined:
    """Send one transaction of a test."""
    return await sender.send(call, "test")


async def register_service(
    sender: Sender, token: Address, *, descriptor_hash: bytes = b"\x05" * 32
) -> Service:
    """Register a service of the sender's account on a devnet of the test's own."""
    chain = sender.chain
    account = sender.signer.address
    terms = Terms(
        operator=account,
        payee=account,
        token=token,
        receipt_signer=account,
        arbitrator=ZERO_ADDRESS,
        descriptor_hash=Bytes32(descriptor_hash),
        commit_required=True,
        dispute_window_seconds=0,
        ruling_period_seconds=0,
        dispute_bond=0,
    )
    mined = await send(sender, calls.register(chain.service_registry, terms, ""))
    service = await chain.service(mined.events[0].args["serviceId"])
    assert service is not None
    return service
