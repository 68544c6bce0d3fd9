"""Bringing a suspect session back from the client's evidence package, or giving it up (PROTOCOL 3.2).

The package is verified as a stranger would, and each call that the store lacks needs the node's own receipt.
What a package can still leave out are its newest calls: nothing shows that none followed. An operator who
does not trust his client in this seals the session with its recovery, or abandons it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.chain.signers import as_signer
from aioum.core import ledger, suspicion
from aioum.core.canonical import JsonValue
from aioum.core.errors import ConfigError, Refused
from aioum.core.evidence import MAX_PACKAGE_BYTES
from aioum.core.evidence_reading import EvidencePackage, parse_package
from aioum.core.hextext import address_text, to_hex
from aioum.core.hextext import channel_id as parse_channel_id
from aioum.core.ledger import Call, Limits, Phase, SessionState
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.transcript import frontier_root
from aioum.core.types import Address, ChannelId
from aioum_node.fsck import require_sound
from aioum_node.keys.identity import opened_identity
from aioum_node.keys.session_signers import SessionSigners
from aioum_node.restored.recovered_calls import Evidence, signed_calls, verified
from aioum_node.restored.start import require_looked_at
from aioum_node.restored.watermark import Watermark
from aioum_node.rosters import accepted_keys, require_roster
from aioum_node.settings import Settings
from aioum_node.storage import NodeStore, is_shared, postgres_store
from aioum_node.store.port import StoredSession
from aioum_node.store.sqlite import STORE_FILE, SqliteStore

_CALLS_PER_READ: Final = 64
_RECOVERED: Final = "recovered"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What came of it.

    Attributes:
        imported: calls that the store had no answer of.
        stored: the session as it is now.
    """

    imported: int
    stored: StoredSession

    def to_json(self) -> dict[str, JsonValue]:
        """As `aioum-node recover --json` prints it."""
        state = self.stored.state
        return {
            "channelId": to_hex(state.channel_id),
            "phase": state.phase.value,
            "callCount": state.admitted,
            "imported": self.imported,
            "spent": str(state.spent),
            "root": to_hex(frontier_root(state.frontier)),
        }


@asynccontextmanager
async def opened_for_recovery(settings: Settings) -> AsyncIterator[NodeStore]:
    """The store that the settings name, as it is.

    The watermark is left alone: what is brought back stands above it, which is no reason for doubt.

    Raises:
        ConfigError: `store-missing`; `store-locked` or `store-in-use`, a node runs; and as
            `storage.opened_store` and `require_looked_at`.
    """
    limits = Limits(settings.max_in_flight, settings.max_unpaid_calls)
    watermark = Watermark(settings.path(settings.watermark_file))
    if is_shared(settings):
        async with postgres_store(settings, limits, watermark) as shared, shared.alone():
            await require_looked_at(shared, watermark)
            yield shared
        return
    path = settings.node_dir / STORE_FILE
    if not path.is_file():
        raise ConfigError(f"there is no store at {path}", code="store-missing", hint="name the node's folder")
    async with SqliteStore(path, limits) as own:
        await require_looked_at(own, watermark)
        yield own


async def suspects(store: NodeStore) -> list[StoredSession]:
    """The sessions that wait for their evidence, oldest first."""
    return await store.sessions((Phase.SUSPECT,))


async def recover(
    store: NodeStore,
    package: EvidencePackage,
    *,
    own_signers: Callable[[], Awaitable[Collection[Address]]],
    seal: bool,
    now_ms: int,
) -> Recovery:
    """Take over from a package what the node had answered, and trust the session again.

    Whatever is refused leaves the session suspect, and the same package can be given again.

    Args:
        store: of a node that does not run.
        package: of the session's client, whole.
        own_signers: who signs receipts here; asked where the store does not have the session at all.
        seal: take no more calls in it, only settle it.
        now_ms: unix milliseconds.

    Raises:
        Refused: those of `verified` and `signed_calls`; `session-not-suspect`; `recovery-conflict`, package
            and store contradict each other; of a session that the store does not have `terms-not-ours` and
            `nothing-to-recover`.
        AioumError: `store-corrupt`, what came out contradicts itself.
    """
    evidence = await verified(package)
    stored = await store.session(evidence.channel_id)
    if stored is None:
        await _require_ours(evidence, await own_signers())
    else:
        suspicion.require_suspect(stored.state)
    stored = await _taken_over(store, stored, evidence, now_ms)
    known = await _calls(store, evidence.channel_id)
    await store.reimport(evidence.channel_id, signed_calls(evidence, stored.state, known), now_ms)
    # Durable: the calls, in a session that is suspect still. After a crash here the package is given again.
    stored = await store.session(evidence.channel_id) or stored
    await require_sound(store, stored)

    def trust(state: SessionState) -> SessionState:
        trusted = suspicion.clear(state)
        return ledger.seal(trusted, _RECOVERED) if seal else trusted

    stored = await store.update(evidence.channel_id, trust, now_ms)
    had = sum(call.recorded for call in known)
    return Recovery(stored.state.frontier.size + len(stored.state.ahead) - had, stored)


async def abandon(store: NodeStore, channel_id: ChannelId, now_ms: int) -> Recovery:
    """Give a suspect session up: the node closes it for nothing when it runs again.

    Raises:
        Refused: `channel-not-found`, `session-not-suspect`.
    """
    return Recovery(0, await store.update(channel_id, suspicion.abandon, now_ms))


async def _require_ours(evidence: Evidence, signers: Collection[Address]) -> None:
    if evidence.terms.terms.receipt_signer not in signers:
        raise Refused("others sign the receipts of this session", code="terms-not-ours")
    if not evidence.charges:
        raise Refused(
            "the store does not have the session, and the package has no receipt of this node",
            code="nothing-to-recover",
            hint="its client can exit on the chain, and pays nothing",
        )


async def _taken_over(
    store: NodeStore, stored: StoredSession | None, evidence: Evidence, now_ms: int
) -> StoredSession:
    """The session in the store, with its roster and its card."""
    facts = evidence.facts() if stored is None else stored.facts
    seats = NO_SEATS
    if evidence.roster is not None and (stored is None or facts.roster is None):
        require_roster(evidence.roster, facts.roster_hash)
        accepted_keys(evidence.roster)
        facts = evidence.facts()
        seats = Seats.at_genesis(facts.channel_id, evidence.roster)
    if evidence.card is not None:
        await store.put_card(facts.descriptor_hash, evidence.card)
    if stored is not None and facts is stored.facts:
        return stored
    # The chain says what the deposit is, before anything is served; a voucher says what it is at least.
    deposit = evidence.vouchers[-1].amount if evidence.vouchers else 0
    state = SessionState(
        facts.channel_id, deposit=deposit, signed=facts.signed, phase=Phase.SUSPECT, seats=seats
    )
    return await store.open(facts, state, now_ms)


async def _calls(store: NodeStore, channel_id: ChannelId) -> list[Call]:
    calls: list[Call] = []
    while page := await store.calls(channel_id, len(calls), _CALLS_PER_READ):
        calls.extend(page)
    return calls


async def recovered(
    settings: Settings, package_file: Path | None, *, seal: bool, abandoned: str | None
) -> tuple[list[str], JsonValue]:
    """What `aioum-node recover` does; returns lines for a person, and the same for a program.

    Raises:
        ConfigError: as `opened_for_recovery`; `package-unreadable`.
        InvalidInput: those of `parse_package`, and of a channel id.
        Refused, AioumError: as `recover` and `abandon`.
    """

    async def own_signers() -> Collection[Address]:
        async with opened_identity(settings) as identity:
            return SessionSigners(
                as_signer(identity.receipt_signer), [as_signer(key) for key in identity.retired]
            ).addresses

    package = None if package_file is None else await asyncio.to_thread(_read, package_file)
    channel_id = None if abandoned is None else parse_channel_id(abandoned)
    now_ms = int(time.time() * 1_000)
    async with opened_for_recovery(settings) as store:
        if package is not None:
            done = await recover(store, package, own_signers=own_signers, seal=seal, now_ms=now_ms)
            state = done.stored.state
            line = (
                f"session {to_hex(state.channel_id)} is {state.phase.value} with {state.admitted} calls, "
                f"{done.imported} of them imported"
            )
            return [line], done.to_json()
        if channel_id is not None:
            done = await abandon(store, channel_id, now_ms)
            return [f"session {to_hex(channel_id)} is given up; the node closes it"], done.to_json()
        found = await suspects(store)
    lines = [
        f"{to_hex(stored.facts.channel_id)} session {stored.facts.session_id} of "
        f"{address_text(stored.facts.payer)}, {stored.state.admitted} calls, {stored.state.spent} spent"
        for stored in found
    ]
    return lines or ["no session is suspect"], {
        "suspect": [Recovery(0, stored).to_json() for stored in found]
    }


def _read(path: Path) -> EvidencePackage:
    try:
        if path.stat().st_size > MAX_PACKAGE_BYTES:
            raise ConfigError(f"{path} is larger than any package", code="package-unreadable")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", code="package-unreadable") from error
    return parse_package(data)
