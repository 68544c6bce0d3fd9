"""Finding a session in the client's own record, which needs neither the chain nor a key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aioum.client.journal import JOURNAL_FILE, SqliteJournal
from aioum.client.records import SessionRecord
from aioum.core.amounts import format_token_amount
from aioum.core.errors import InvalidInput
from aioum.core.hextext import address_text, to_hex


@asynccontextmanager
async def recorded_session(
    data_dir: Path, reference: bytes | int
) -> AsyncIterator[tuple[SqliteJournal, SessionRecord]]:
    """The session that a person means, and the journal it is in. Creates nothing.

    Raises:
        InvalidInput: as `choose`.
    """
    async with _journal(data_dir) as journal:
        records = [] if journal is None else await journal.sessions()
        record = choose(records, reference, data_dir)
        if journal is None:
            raise AssertionError("a session was chosen from no record")
        yield journal, record


async def all_records(data_dir: Path) -> list[SessionRecord]:
    """Every session in the record, oldest first; none where the folder holds no record."""
    async with _journal(data_dir) as journal:
        return [] if journal is None else await journal.sessions()


@asynccontextmanager
async def _journal(data_dir: Path) -> AsyncIterator[SqliteJournal | None]:
    path = data_dir / JOURNAL_FILE
    if not path.is_file():
        # Opening a journal would make it.
        yield None
        return
    journal = SqliteJournal(path)
    try:
        yield journal
    finally:
        await journal.aclose()


def choose(records: Sequence[SessionRecord], reference: bytes | int, data_dir: Path) -> SessionRecord:
    """The session that a person means.

    Args:
        records: the sessions to choose from.
        reference: a channel id, or the label that a chain gave; labels of several chains can be equal.
        data_dir: where `records` come from, for the message.

    Raises:
        InvalidInput: `session-unknown` or `session-ambiguous`, which lists the channel ids.
    """
    if isinstance(reference, bytes):
        found = [record for record in records if record.channel_id == reference]
        named = to_hex(reference)
    else:
        found = [record for record in records if record.session_id == reference]
        named = str(reference)
    if not found:
        raise InvalidInput(
            f"no session {named} in {data_dir}",
            code="session-unknown",
            hint="`aioum session list` shows them; --data-dir names another record",
        )
    if len(found) > 1:
        channels = [to_hex(record.channel_id) for record in found]
        raise InvalidInput(
            f"{len(found)} sessions have the label {named}: {', '.join(channels)}",
            code="session-ambiguous",
            hint="name one by its channel id",
            details={"channelIds": channels},
        )
    return found[0]


def money(record: SessionRecord, amount: int) -> str:
    """An amount in the session's token, for a person."""
    token = record.facts.card.token
    return f"{format_token_amount(amount, token.decimals)} {token.symbol}"


def record_json(record: SessionRecord) -> dict[str, Any]:
    """The client's side of a session, for a program. Amounts are base units as text."""
    facts, purse = record.facts, record.purse
    token = facts.card.token
    return {
        "channelId": to_hex(record.channel_id),
        "sessionId": str(record.session_id) if record.session_id else None,
        "chainId": facts.domain.chain_id,
        "paymentManager": address_text(facts.domain.payment_manager),
        "serviceId": str(facts.service.service_id),
        "service": facts.card.name,
        "nodeUrl": facts.node_url,
        "payer": address_text(facts.channel.payer),
        "token": {"address": address_text(token.address), "symbol": token.symbol, "decimals": token.decimals},
        "phase": record.phase.value,
        "openedAtMs": record.opened_at_ms,
        "deposit": str(purse.deposit),
        "spendLimit": None if purse.spend_limit is None else str(purse.spend_limit),
        "authorized": str(purse.highest),
        "spent": str(purse.spent),
        "calls": purse.next_index,
        "root": to_hex(purse.root) if purse.next_index else None,
        "outstanding": purse.outstanding is not None,
        "stopped": purse.stopped,
        "contradictions": [item.code for item in record.evidence],
    }
