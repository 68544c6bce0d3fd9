"""A node's HTTP edge in a process of its own, without a chain: its sessions are put into the store.

    python -m benchmarks.node_process BUILD FOLDER SESSIONS

Everything between the socket and the disk is the node's own; BUILD `naive` exchanges what `benchmarks.naive`
replaces. Prints its URL, serves until standard input ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web
from eth_account import Account

from aioum.chain.client import Chain
from aioum.chain.rpc import Rpc
from aioum.chain.signers import LocalSigner, Signer
from aioum.core.canonical import JsonValue
from aioum.core.ledger import Limits
from aioum.core.payment import Domain, SignedMessage, Terms
from aioum.core.transcript import canonical_request
from aioum.core.types import Bytes32
from aioum_node.access import ClientSignatures
from aioum_node.cards import Cards
from aioum_node.collector import relax_collector
from aioum_node.edge import Clock, build_edge
from aioum_node.metrics import NodeMetrics
from aioum_node.readiness import Readiness
from aioum_node.registration import Registration
from aioum_node.restored.watermark import Mark, Watermark
from aioum_node.store.incarnations import INCARNATION_BYTES
from aioum_node.store.port import Store
from aioum_node.store.postgres.store import PostgresStore
from aioum_node.store.sqlite import SqliteStore
from benchmarks.memory_store import MemoryStore
from benchmarks.naive.edge import NaiveClientSignatures, canonical_request_with_rfc8785
from benchmarks.naive.postgres_store import NaivePostgresStore
from benchmarks.naive.signatures import sign_with_eth_account
from benchmarks.naive.store import NaiveStore
from benchmarks.service import DOMAIN, OPERATOR, REGISTRY, TOKEN, facts_of, offer, settings, tool_box
from benchmarks.sessions import NO_ADDRESS, NO_HASH, funded

DATABASE_VARIABLE: Final = "BENCH_DATABASE_URL"
SCHEMA_VARIABLE: Final = "BENCH_SCHEMA"
CLOCK: Final = Clock(time.time, time.monotonic)


class _NaiveSigner(LocalSigner):
    """Signs with eth-account."""

    def __init__(self) -> None:
        super().__init__(OPERATOR)
        self._account = Account.from_key(OPERATOR.secret_bytes())

    async def sign(self, message: SignedMessage, domain: Domain) -> bytes:
        return sign_with_eth_account(message, domain, self._account)


@dataclass(frozen=True, slots=True)
class Build:
    """What is exchanged."""

    store: Callable[[Path, Limits], Store]
    clients: ClientSignatures
    signer: Signer
    canonicalize: Callable[[str, JsonValue], str]


def _naive(store: Callable[[Path, Limits], Store]) -> Build:
    return Build(store, NaiveClientSignatures(None), _NaiveSigner(), canonical_request_with_rfc8785)


def _watermarked(path: Path, limits: Limits) -> Store:
    """As a node opens it: nobody is answered before the watermark says so."""
    watermark = Watermark(path.with_name("watermark"))
    watermark.replace(Mark(bytes(INCARNATION_BYTES), 0))
    return SqliteStore(path, limits, cover=watermark.cover)


def _postgresql(make: Callable[..., Store]) -> Build:
    """On the database and the schema that the environment names."""

    def store(_: Path, limits: Limits) -> Store:
        return make(os.environ[DATABASE_VARIABLE], limits, schema=os.environ[SCHEMA_VARIABLE])

    return Build(store, ClientSignatures(None), LocalSigner(OPERATOR), canonical_request)


BUILDS: Final[Mapping[str, Build]] = {
    "aioum": Build(_watermarked, ClientSignatures(None), LocalSigner(OPERATOR), canonical_request),
    "memory": Build(MemoryStore, ClientSignatures(None), LocalSigner(OPERATOR), canonical_request),
    "postgresql": _postgresql(PostgresStore),
    "postgresql-ungrouped": _postgresql(partial(PostgresStore, max_steps_per_group=1, max_groups=8)),
    "postgresql-naive": _postgresql(NaivePostgresStore),
    "naive": _naive(NaiveStore),
    "naive-wal": _naive(partial(NaiveStore, wal=True)),
}


def registration(descriptor_hash: Bytes32) -> Registration:
    """The service as it would stand in the registry."""
    terms = Terms(
        operator=OPERATOR.address,
        payee=OPERATOR.address,
        token=TOKEN,
        receipt_signer=OPERATOR.address,
        arbitrator=NO_ADDRESS,
        descriptor_hash=descriptor_hash,
        commit_required=True,
        dispute_window_seconds=0,
        ruling_period_seconds=0,
        dispute_bond=0,
    )
    return Registration(service_id=1, terms_hash=NO_HASH, terms=terms, changed=False)


async def application(build: Build, store: Store, folder: Path, session_count: int) -> web.Application:
    """The node's public application over a store into which the sessions are put."""
    tools = tool_box(folder)
    current = offer(folder, tools)
    for number in range(session_count):
        facts = facts_of(number, current)
        await store.open(facts, funded(facts.channel_id), CLOCK.now_ms())
    edge = build_edge(
        settings=settings(folder),
        store=store,
        # Never asked: every session is known.
        chain=Chain(Rpc("http://127.0.0.1:9"), DOMAIN.chain_id, DOMAIN.payment_manager, REGISTRY),
        cards=Cards(store, current),
        tools=tools.tools,
        registration=registration(current.descriptor_hash),
        receipt_signer=build.signer,
        challenge_secret=bytes(32),
        settle=lambda channel_id: None,
        readiness=Readiness(time.monotonic),
        metrics=NodeMetrics(),
        clock=CLOCK,
        canonicalize=build.canonicalize,
        clients=build.clients,
    )
    return edge.public


async def serve(build: Build, folder: Path, session_count: int) -> None:
    """Serve until standard input ends."""
    store = build.store(folder / "store.sqlite3", Limits())
    runner = web.AppRunner(await application(build, store, folder, session_count), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        relax_collector()
        sys.stdout.write(f"http://{host}:{port}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    finally:
        await runner.cleanup()
        await store.close()


if __name__ == "__main__":
    asyncio.run(serve(BUILDS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3])))
