"""Which key signs for which session, and whether the keys outside of the process still answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from aioum.chain.signers import LocalSigner, Signer, as_signer
from aioum.core.errors import AioumError, Refused
from aioum.core.hextext import address_text
from aioum.core.payment import Domain, ReadAccess, SignedMessage
from aioum.core.types import Address, ChannelId
from aioum_node.keys.identity import Identity
from aioum_node.keys.kept_signatures import SIGNATURES_FILE, KeepingSigner, SignatureBook, SqliteSignatureBook
from aioum_node.loops import LoopObserver, ObserverOf, unobserved
from aioum_node.readiness import Readiness
from aioum_node.sessions import SessionContext
from aioum_node.settings import Settings
from aioum_node.settings_signer import SignerSettings
from aioum_node.storage import is_shared, read_database_url

SIGNER_CONDITION: Final = "signer"
"""Names the readiness condition that every external signer answers."""

_TRIALS_MISSED: Final = 3

_log = structlog.get_logger(__name__)


class SessionSigners:
    """The node's receipt signers, the present one and retired ones; a session's terms say which one signs."""

    def __init__(self, current: Signer, retired: Sequence[Signer] = ()) -> None:
        self._signers = {signer.address: signer for signer in (*reversed(retired), current)}

    @property
    def addresses(self) -> frozenset[Address]:
        """Who signs here."""
        return frozenset(self._signers)

    def signing_for(
        self, context: Callable[[ChannelId], Awaitable[SessionContext]]
    ) -> Callable[[SignedMessage, Domain], Awaitable[bytes]]:
        """A `sign` that takes the key which the terms of the message's session name.

        Args:
            context: of a session by channel id.
        """

        async def sign(message: SignedMessage, domain: Domain) -> bytes:
            named = (await context(message.channel_id)).receipt_signer
            signer = self._signers.get(named)
            if signer is None:
                raise Refused(
                    f"this node has no key of {address_text(named)}, the session's receipt signer",
                    code="terms-not-ours",
                )
            return await signer.sign(message, domain)

        return sign


def trial_message() -> SignedMessage:
    """Worth nothing to anybody who sees it signed: an access that expired in 1970, to a channel of zeros."""
    return ReadAccess(ChannelId(bytes(32)), 0)


class SignerWatch:
    """Signs a trial message now and then with every key that is outside, so that readiness stays honest.

    Args:
        signers: to try.
        domain: of the trial message.
        interval_seconds: between two trials.
        on_answer: all of them signed; on_failure: one did not, for this reason code.
        observer: told how the trials fare.
    """

    def __init__(
        self,
        signers: Sequence[Signer],
        domain: Domain,
        interval_seconds: float,
        *,
        on_answer: Callable[[], None],
        on_failure: Callable[[str], None],
        observer: LoopObserver,
    ) -> None:
        self._signers = signers
        self._domain = domain
        self._interval_seconds = interval_seconds
        self._on_answer = on_answer
        self._on_failure = on_failure
        self._observer = observer
        self._failed_code: str | None = None
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Try until canceled; at once after a failure was reported."""
        while True:
            self._wake.clear()
            await self.try_all()
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def try_all(self) -> None:
        """One trial of every signer."""
        try:
            for signer in self._signers:
                await signer.sign(trial_message(), self._domain)
        except AioumError as error:
            self._observer.round_failed(error.code)
            self._note(error)
            return
        self._observer.round_done()
        if self._failed_code is not None:
            _log.info("signer-answers")
            self._failed_code = None
        self._on_answer()

    def failed(self, error: AioumError) -> None:
        """A signature of a session failed: not ready until the next trial, which begins now."""
        self._note(error)
        self._wake.set()

    def _note(self, error: AioumError) -> None:
        self._on_failure(error.code)
        if error.code != self._failed_code:
            _log.error("signer-failed", code=error.code, error=str(error), hint=error.hint)
        self._failed_code = error.code


@dataclass(frozen=True, slots=True)
class NodeSigners:
    """The receipt signers of a running node.

    Attributes:
        loops: to be run beside the edge.
        forget: tells that a channel was removed.
        waiting: how many signatures an external signer was asked for and has not given.
    """

    signers: SessionSigners
    loops: tuple[Callable[[], Coroutine[None, None, None]], ...]
    forget: Callable[[ChannelId], None]
    waiting: Callable[[], int]


@asynccontextmanager
async def opened_signers(
    settings: Settings,
    identity: Identity,
    domain: Domain,
    readiness: Readiness,
    on_failure: Callable[[str], None] = lambda code: None,
    observer_of: ObserverOf = unobserved,
) -> AsyncIterator[NodeSigners]:
    """Get the receipt signers ready; with an external one, its signatures are kept and it is watched.

    Args:
        settings: say how often it is tried, and where signatures are kept.
        identity: the keys.
        domain: of the messages.
        readiness: the condition `signer` is unmet while it does not sign.
        on_failure: told the reason code of each signature that it did not give.
        observer_of: names who is told how the trials fare, where there are any.

    Raises:
        SignerError: an external signer did not sign a trial message.
        SignatureBookError: the file of signatures cannot be used.
    """
    inside = [as_signer(key) for key in (identity.receipt_signer, *identity.retired)]
    outside = [signer for signer in inside if not isinstance(signer, LocalSigner)]
    if not outside:
        signers = SessionSigners(inside[0], inside[1:])
        yield NodeSigners(signers, (), lambda channel_id: None, lambda: 0)
        return
    for signer in outside:
        await signer.sign(trial_message(), domain)
    # Signers that a program hands in are watched as the defaults say.
    how = settings.signer or SignerSettings(url="")
    lasting_seconds = _TRIALS_MISSED * how.check_seconds + how.timeout_seconds
    readiness.met(SIGNER_CONDITION, for_seconds=lasting_seconds)

    def failed(code: str) -> None:
        readiness.unmet(SIGNER_CONDITION)
        on_failure(code)

    watch = SignerWatch(
        outside,
        domain,
        how.check_seconds,
        on_answer=lambda: readiness.met(SIGNER_CONDITION, for_seconds=lasting_seconds),
        on_failure=failed,
        observer=observer_of("signer"),
    )
    book = _book(settings)
    try:
        kept = [_keeping(signer, book, watch) for signer in inside]
        keeping = [signer for signer in kept if isinstance(signer, KeepingSigner)]
        yield NodeSigners(
            SessionSigners(kept[0], kept[1:]),
            (watch.run,),
            book.forget,
            lambda: sum(signer.waiting for signer in keeping),
        )
    finally:
        await book.close()


def _book(settings: Settings) -> SignatureBook:
    if not is_shared(settings):
        return SqliteSignatureBook(settings.node_dir / SIGNATURES_FILE)
    # Loaded where it is asked for: it needs an extra.
    from aioum_node.store.postgres.signatures import PostgresSignatureBook

    return PostgresSignatureBook(read_database_url(settings), settings.database_schema)


def _keeping(signer: Signer, book: SignatureBook, watch: SignerWatch) -> Signer:
    return signer if isinstance(signer, LocalSigner) else KeepingSigner(signer, book, watch.failed)
