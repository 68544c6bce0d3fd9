"""That a session is in the transparency log that its operator promised: fetched, verified and kept."""

from __future__ import annotations

from typing import Protocol

from aioum.chain.model import ChainSession
from aioum.client.book import Book
from aioum.client.node import NodeClient
from aioum.core.card import CardLog
from aioum.core.errors import ChainError, Divergence, ProofInvalid, Refused
from aioum.core.hextext import to_hex
from aioum.core.types import ChannelId
from aioum.log.membership import Membership, read_membership
from aioum.log.monitor import LogIdentity
from aioum.verify.logged import contradictions, of_channel


class Sessions(Protocol):
    """A chain's sessions."""

    async def session(self, channel_id: ChannelId, /) -> ChainSession | None:
        """The session, or None. Raises ChainError."""
        ...


async def keep_log_proof(
    chain: Sessions, node: NodeClient, book: Book, known: LogIdentity | None = None
) -> Membership:
    """Fetch the proof that a closed session is in its operator's log, verify it, and keep it (PROTOCOL 9).

    A proof that is kept is not fetched again.

    Args:
        chain: where the session is.
        node: its operator's.
        book: the session.
        known: the log that it has to be in; None: the one that the card names which the session was opened
            under. The operator may have exchanged the key since.

    Raises:
        Refused: `log-not-promised`, the card names no log; `session-not-logged`, it is not there yet; or the
            node's code.
        ChainError: `session-not-on-chain`, `session-not-final`, or as the chain.
        OutcomeUnknown: as `NodeClient.log_proof`.
        InvalidInput, CheckpointInvalid, ProofInvalid: the answer proves nothing, as `read_membership` and
            `Membership.verify`; `log-session-mismatch`, it proves something else.
        Divergence: the log's key signed for another outcome than the chain has, as `contradictions`. The
            proof is kept among the session's evidence.
    """
    if book.record.logged is not None:
        return book.record.logged
    channel_id = book.facts.channel_id
    log = known or _promised(book)
    session = await _final(chain, channel_id)
    membership = await _fetched(node, channel_id, book)
    _, entry = membership.verify(log.origin, log.public_key)
    found = contradictions(entry, book.facts.domain, session)
    if found:
        if of_channel(entry, book.facts.domain, channel_id) is None:
            raise ProofInvalid(found[0].text, code=found[0].code)
        error = Divergence(found[0].text, code=found[0].code)
        await book.diverge(error, log=membership.to_json())
        raise error
    await book.update(logged=membership)
    return membership


def _promised(book: Book) -> CardLog:
    log = book.facts.card.log
    if log is None:
        raise Refused(
            "the card that the session was opened under names no transparency log",
            code="log-not-promised",
            hint="where the operator keeps one all the same, name it with its origin and its key",
        )
    return log


async def _final(chain: Sessions, channel_id: ChannelId) -> ChainSession:
    session = await chain.session(channel_id)
    if session is None:
        raise ChainError(
            f"the chain has no session {to_hex(channel_id)}",
            code="session-not-on-chain",
            hint="it was never opened, or the endpoint is of another chain",
        )
    if not session.is_finalized:
        raise ChainError(
            "the session is not finalized",
            code="session-not-final",
            hint="a log has what is over: close the session first",
        )
    return session


async def _fetched(node: NodeClient, channel_id: ChannelId, book: Book) -> Membership:
    try:
        return read_membership(await node.log_proof(channel_id))
    except Refused as error:
        if error.code == "session-not-logged":
            error.hint = (
                f"its card promises it within {book.facts.card.max_log_delay_seconds} seconds after the "
                "session is final; `aioum log audit` names what is missing after that"
            )
        raise
