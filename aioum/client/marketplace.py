"""The way in: connect to a chain, find services, open and resume paid sessions."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from aioum.chain.client import Chain
from aioum.chain.deployments import Deployment, Endpoint, find_deployment
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.model import Service
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner, Signer
from aioum.client.allowance import Allowances
from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.gasless import Gasless, Relayer
from aioum.client.held_money import HeldMoney
from aioum.client.http import HttpTransport, Transport
from aioum.client.journal import JOURNAL_FILE, Journal, SqliteJournal
from aioum.client.opening import SpendLimits, begin_session, open_now, require_same_contracts
from aioum.client.payer import SenderPayer, Wallet
from aioum.client.policy import KnownContracts, Policy, check_contracts
from aioum.client.records import SessionPhase, SessionRecord
from aioum.client.seat_keys import SEAT_KEYS_FOLDER, SeatKeyFiles
from aioum.client.seats import SeatKeys, choose_keys, load_keys
from aioum.client.service import Offer, find_offer
from aioum.client.session import PaidSession
from aioum.client.settings import ClientSettings
from aioum.client.words import WORDS_FILE, SqliteWords
from aioum.core.errors import ConfigError
from aioum.core.hextext import channel_id as parse_channel_id
from aioum.core.signing import LocalKey
from aioum.core.submission.keys import SubmissionKey
from aioum.core.types import ChannelId

DATA_DIR_VARIABLE: Final = "AIOUM_DATA_DIR"
TRANSACTIONS_FILE: Final = "transactions.sqlite3"
_NO_KEYS: Final[Mapping[str, SubmissionKey]] = {}
_ENDED: Final = frozenset({SessionPhase.CLOSED, SessionPhase.VOID})


def default_data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where a client keeps its sessions: AIOUM_DATA_DIR, else ~/.aioum/client."""
    named = environ.get(DATA_DIR_VARIABLE)
    return Path(named) if named else Path.home() / ".aioum" / "client"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session of the journal. Amounts are base units.

    Attributes:
        session_id: the chain's label; 0 while it is not known.
        calls: answered calls.
        outstanding: whether a call has no answer yet.
    """

    channel_id: ChannelId
    session_id: int
    phase: SessionPhase
    node_url: str
    service_id: int
    chain_id: int
    opened_at_ms: int
    calls: int
    deposit: int
    spent: int
    authorized: int
    outstanding: bool
    stopped: str | None

    @classmethod
    def of(cls, record: SessionRecord) -> SessionInfo:
        """The info of a record."""
        purse, facts = record.purse, record.facts
        return cls(
            channel_id=record.channel_id,
            session_id=record.session_id,
            phase=record.phase,
            node_url=facts.node_url,
            service_id=facts.service.service_id,
            chain_id=facts.domain.chain_id,
            opened_at_ms=record.opened_at_ms,
            calls=purse.next_index,
            deposit=purse.deposit,
            spent=purse.spent,
            authorized=purse.highest,
            outstanding=purse.outstanding is not None,
            stopped=purse.stopped,
        )


class SessionHandle:
    """A session to come: `await` it, or use it with `async with`.

    Leaving the block closes the session together with the operator. After an error inside the block nothing
    is closed: the session stays as it is, `Marketplace.resume` goes on with it.
    """

    def __init__(self, start: Callable[[], Awaitable[PaidSession]]) -> None:
        """Made by `Marketplace.open` and `Marketplace.resume`."""
        self._start = start
        self._session: PaidSession | None = None

    def __await__(self) -> Generator[Any, None, PaidSession]:
        return self._start().__await__()

    async def __aenter__(self) -> PaidSession:
        self._session = await self._start()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self._session is not None and self._session.phase not in _ENDED:
            await self._session.close()


class Marketplace:
    """A client of services on one chain. Use it with `async with`.

    Everything that must survive a crash lies in `data_dir`; one program at a time uses a session, and one
    program at a time sends transactions with a key.
    """

    def __init__(
        self,
        *,
        key: LocalKey | Signer,
        deployment: Deployment | Path | str | None = None,
        rpc_url: str | None = None,
        contracts: Endpoint | None = None,
        data_dir: Path | str | None = None,
        policy: Policy | None = None,
        settings: ClientSettings | None = None,
        voucher_key: LocalKey | Signer | None = None,
        wallet: Wallet | None = None,
        relayer: Relayer | None = None,
        journal: Journal | None = None,
        transport: Transport | None = None,
        clock: Callable[[], float] = time.time,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Configure a client; nothing is read or connected yet.

        Args:
            key: sends the transactions; without `wallet` it is the payer.
            deployment: the contracts, or the file that names them; None: AIOUM_DEPLOYMENT, or the local
                devnet's.
            rpc_url: another endpoint than the deployment's.
            contracts: instead of a deployment: addresses one by one. `policy.tokens` must then name the
                tokens.
            data_dir: folder of the journals; None: AIOUM_DATA_DIR, else ~/.aioum/client.
            policy: what the client is willing to pay for.
            settings: limits.
            voucher_key: signs vouchers as the session's `authorizedSigner`; None: `key` does.
            wallet: a contract wallet as payer, controlled by `key`.
            relayer: sends openings and top-ups that `key`, a LocalKey, authorizes (EIP-3009): the payer needs
                no gas for them.
            journal: another implementation of the port; the caller closes it.
            transport: likewise.
            clock: unix seconds.
            random_bytes: fresh random bytes of a length.
        """
        self._signer = _signer(key)
        self._voucher_signer = self._signer if voucher_key is None else _signer(voucher_key)
        self._deployment = deployment
        self._rpc_url = rpc_url
        self._contracts = contracts
        self._data_dir = default_data_dir() if data_dir is None else Path(data_dir).expanduser()
        self._policy = policy or Policy()
        self._settings = settings or ClientSettings()
        if relayer is not None and (wallet is not None or not isinstance(key, LocalKey)):
            raise ConfigError(
                "only a LocalKey without a wallet authorizes for a relayer", code="config-invalid"
            )
        self._relayed = (key, relayer) if relayer is not None and isinstance(key, LocalKey) else None
        self._wallet = wallet
        self._journal = journal
        self._transport = transport
        self._clock = clock
        self._random_bytes = random_bytes
        self._stack: AsyncExitStack | None = None
        self._context: ClientContext | None = None
        self._sender: Sender | None = None
        self._reconciled = False

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            target = self._target()
            chain = await stack.enter_async_context(
                Chain.connect(
                    target,
                    rpc_url=self._rpc_url,
                    request_timeout_seconds=self._settings.rpc_timeout_seconds,
                )
            )
            tokens = frozenset(target.tokens.values()) if isinstance(target, Deployment) else frozenset()
            known = KnownContracts(chain.domain, chain.service_registry, tokens)
            check_contracts(self._policy, known)
            self._context = await self._connect(stack, chain, known)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack, self._context = self._stack, None, None
        if stack is not None:
            await stack.aclose()

    async def services(self) -> list[Service]:
        """All services of the registry that take sessions, as the chain has them. Nothing was checked with
        nodes.
        """
        return await self._connected.chain.services()

    async def service(self, service: str | int) -> Offer:
        """What a service offers now, checked against the chain; see `find_offer`."""
        return await find_offer(self._connected, service)

    async def sessions(self) -> list[SessionInfo]:
        """All sessions of the data directory, oldest first."""
        return [SessionInfo.of(record) for record in await self._connected.journal.sessions()]

    def open(
        self,
        service: str | int | Offer,
        *,
        deposit: int,
        spend_limit: int | None = None,
        call_limit: int | None = None,
        signed: bool = True,
        seats: Iterable[str] = (),
        seat_keys: Mapping[str, SubmissionKey] = _NO_KEYS,
    ) -> SessionHandle:
        """Open a session. Its calls are signed wherever the service takes signed calls (PROTOCOL 5).

        Args:
            service: a node's URL, a service id, or what `service` returned.
            deposit: base units to put into the channel.
            spend_limit: most that the session's vouchers may ever authorize, base units.
            call_limit: most that one call may cost, base units.
            signed: False opens an unsigned session; `Policy.require_signed` refuses those.
            seats: names of sub-agents that get a key of their own, beside the seat `client`. Who is to have
                one is fixed at opening.
            seat_keys: keys of yours, by seat; what is missing is made, and kept in the data directory. Yours
                are not kept: bring them along again to `resume`.

        Raises:
            PolicyRefused: as `find_offer`; `deposit-too-high`, `deposit-too-low`, `balance-too-low`,
                `signed-calls-required`.
            InvalidInput: `seats-unsigned`, `seat-invalid`, `roster-too-large`.
            ChainError, OutcomeUnknown: the opening; `sessions` has it, and `resume` goes on with it.
        """

        async def start() -> PaidSession:
            context = self._connected
            offer = service if isinstance(service, Offer) else await find_offer(context, service)
            keys = choose_keys(context, offer, signed=signed, seats=seats, own=seat_keys)
            await self._reconcile()
            limits = SpendLimits(spend_limit, call_limit)
            book = await begin_session(context, offer, deposit, limits, keys, own=seat_keys)
            await open_now(context, book)
            return PaidSession(context, book, SeatKeys(keys))

        return SessionHandle(start)

    def resume(
        self, channel_id: ChannelId | str, *, seat_keys: Mapping[str, SubmissionKey] = _NO_KEYS
    ) -> SessionHandle:
        """Go on with a session of the journal, in whatever phase it is. The node is not asked for anything
        yet.

        Args:
            channel_id: 32 bytes, or their hex text.
            seat_keys: keys of yours, by seat. Without a seat's key, or with one that others can read, its
                calls are refused; closing needs none.

        Raises:
            JournalError: `session-unknown`.
            InvalidInput: `session-elsewhere`, `session-of-another-key`, `seat-unknown`, `seat-key-mismatch`.
            ChainError: `session-not-on-chain`, or as `open`.
        """

        async def start() -> PaidSession:
            context = self._connected
            wanted = parse_channel_id(channel_id) if isinstance(channel_id, str) else channel_id
            book = await Book.load(context.journal, wanted, context.now_ms)
            require_same_contracts(context, book)
            keys = await load_keys(context, book, seat_keys)
            await self._reconcile()
            session = PaidSession(context, book, keys, resumed=True)
            await session.restore()
            return session

        return SessionHandle(start)

    async def held_money(self) -> HeldMoney:
        """Disputes and held money of any session on this chain, for its arbitrator or for whoever ends them.

        Raises:
            ChainError, OutcomeUnknown: as `open`, from looking up what an earlier process sent.
        """
        context = self._connected
        await self._reconcile()
        return HeldMoney(context)

    @property
    def _connected(self) -> ClientContext:
        if self._context is None:
            raise ConfigError(
                "the marketplace is not connected",
                code="not-connected",
                hint="use `async with Marketplace(...) as marketplace`",
            )
        return self._context

    def _target(self) -> Deployment | Endpoint:
        if self._contracts is not None:
            if self._deployment is not None:
                raise ConfigError("name a deployment or contracts, not both", code="config-invalid")
            return self._contracts
        if isinstance(self._deployment, Deployment):
            return self._deployment
        return find_deployment(None if self._deployment is None else Path(self._deployment))

    async def _connect(self, stack: AsyncExitStack, chain: Chain, known: KnownContracts) -> ClientContext:
        settings = self._settings
        journal, transport = self._journal, self._transport
        if journal is None:
            journal = await stack.enter_async_context(_opened(self._data_dir / JOURNAL_FILE))
        if transport is None:
            transport = HttpTransport(connect_timeout_seconds=settings.connect_timeout_seconds)
            stack.push_async_callback(transport.aclose)
        words = SqliteWords(self._data_dir / WORDS_FILE)
        stack.push_async_callback(words.aclose)
        transactions = SqliteTransactionJournal(self._data_dir / TRANSACTIONS_FILE)
        stack.push_async_callback(transactions.close)
        self._sender = Sender(
            chain,
            self._signer,
            transactions,
            confirmations=settings.confirmations,
            receipt_timeout_seconds=settings.transaction_timeout_seconds,
            clock=self._clock,
        )
        payer = SenderPayer(self._sender, self._signer.address, self._wallet)
        return ClientContext(
            chain=chain,
            journal=journal,
            words=words,
            transport=transport,
            signer=self._voucher_signer,
            payer=payer,
            allowances=Allowances(chain, payer),
            policy=self._policy,
            known=known,
            settings=settings,
            seat_keys=SeatKeyFiles(self._data_dir / SEAT_KEYS_FOLDER),
            clock=self._clock,
            random_bytes=self._random_bytes,
            gasless=None if self._relayed is None else Gasless(chain, *self._relayed),
        )

    async def _reconcile(self) -> None:
        """Find out once what became of transactions that an earlier process left behind."""
        if not self._reconciled and self._sender is not None:
            await self._sender.reconcile()
            self._reconciled = True


def _signer(key: LocalKey | Signer) -> Signer:
    return LocalSigner(key) if isinstance(key, LocalKey) else key


def _opened(path: Path) -> AbstractAsyncContextManager[SqliteJournal]:
    @asynccontextmanager
    async def journal() -> AsyncIterator[SqliteJournal]:
        opened = SqliteJournal(path)
        try:
            yield opened
        finally:
            await opened.aclose()

    return journal()
