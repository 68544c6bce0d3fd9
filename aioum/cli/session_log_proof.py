"""The proof that a session is in its operator's log, for `aioum session log-proof`."""

from __future__ import annotations

import time

from aioum.cli.record import recorded_session
from aioum.cli.session_view import chain_of
from aioum.cli.settings import Settings
from aioum.client.book import Book
from aioum.client.http import HttpTransport
from aioum.client.log_proof import keep_log_proof
from aioum.client.node import NodeClient
from aioum.client.settings import ClientSettings
from aioum.log.membership import Membership
from aioum.log.monitor import LogIdentity


async def keep(settings: Settings, reference: bytes | int, known: LogIdentity | None) -> Membership:
    """The proof of a session: the one in the record, or the node's, which is kept from then on.

    Raises:
        InvalidInput: `session-unknown` or `session-ambiguous`.
        ChainError: as `chain_of`.
        AioumError: as `keep_log_proof`.
    """
    async with recorded_session(settings.data_dir, reference) as (journal, record):
        if record.logged is not None:
            return record.logged
        book = await Book.load(journal, record.channel_id, lambda: time.time_ns() // 1_000_000)
        limits = ClientSettings()
        transport = HttpTransport(connect_timeout_seconds=limits.connect_timeout_seconds)
        try:
            async with chain_of(settings, record) as chain:
                return await keep_log_proof(
                    chain, NodeClient(transport, record.facts.node_url, limits), book, known
                )
        finally:
            await transport.aclose()
