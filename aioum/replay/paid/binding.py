"""Whether what the header says of the session hashes to the id that was signed (SUBMISSIONS 2.9 G, 5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aioum.core.card import descriptor_hash
from aioum.core.hextext import to_hex
from aioum.core.types import ZERO_BYTES32
from aioum.replay.model import Header
from aioum.replay.paid.calls import ToolActions
from aioum.replay.paid.session import LEVEL_ID, SESSION_EXTENSION, PaidSession
from aioum.replay.problems import Problem


def check_binding(header: Header, session: PaidSession) -> list[Problem]:
    """Hold channel, terms, card and roster against the session's id.

    Codes: `session-id-mismatch`, `terms-hash-mismatch`, `card-hash-mismatch`, `roster-mismatch`,
    `game-mismatch`.
    """
    return list(_problems(header, session))


def _problems(header: Header, session: PaidSession) -> Iterator[Problem]:
    terms_hash, terms = session.channel.terms_hash, session.service.terms
    where = f"header.extensions.{SESSION_EXTENSION}"
    if session.session_id != header.session_id:
        message = f"its channel facts give the session id {session.session_id}"
        yield Problem("session-id-mismatch", message, where)
    if session.service.terms_hash(session.domain.chain_id) != terms_hash:
        message = "its terms do not hash to the termsHash that the session was opened under"
        yield Problem("terms-hash-mismatch", message, where)
    if descriptor_hash(session.card_value) != terms.descriptor_hash:
        yield Problem("card-hash-mismatch", "its card is not the one that the terms name", where)
    roster_hash = ZERO_BYTES32 if header.roster is None else header.roster.hash
    if roster_hash != session.channel.roster_hash:
        message = "the roster is not the one that the session was opened with"
        yield Problem("roster-mismatch", message, "header.seatKeys")
    expected: dict[str, Any] = {
        "game.id": str(session.service.service_id),
        "game.version": to_hex(terms.descriptor_hash),
        "seed": 0,
        "levels[0].id": LEVEL_ID,
        "levels[0].seed": 0,
        "levels[0].level": {"termsHash": to_hex(terms_hash)},
        "perm": tuple(range(ToolActions(session.tools).count)),
    }
    level = header.levels[0]
    found = {
        "game.id": header.game.id,
        "game.version": header.game.version,
        "seed": header.seed,
        "levels[0].id": level.id,
        "levels[0].seed": level.seed,
        "levels[0].level": level.level,
        "perm": header.permutation,
    }
    for name, value in expected.items():
        if found[name] != value:
            yield Problem("game-mismatch", f"{name} does not follow from the session", f"header.{name}")
