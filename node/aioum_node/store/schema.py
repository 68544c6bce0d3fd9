"""The SQLite store's schema: forward-only migrations. A file by newer software is refused, never changed."""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlite_utils import Database, Migrations

from aioum.core.errors import ConfigError

APPLICATION_ID: Final = 0x41696F75
"""`PRAGMA application_id` of a store: tells it from any other SQLite file."""

MOVED_APPLICATION_ID: Final = 0x41696F6D
"""Of a store whose sessions were moved to another one; no node opens it any more."""

migrations = Migrations("aioum-node-store")

# Amounts exceed SQLite's 64-bit integers: 16 bytes, big-endian, so they sort as numbers. uint256 are text.
_INITIAL: Final = (
    """
    CREATE TABLE node (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        incarnation BLOB NOT NULL,
        -- Calls up to this one are in call_index.
        indexed_seq INTEGER NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        channel_id BLOB NOT NULL UNIQUE CHECK (length(channel_id) = 32),
        session_id TEXT NOT NULL,
        chain_id INTEGER NOT NULL,
        payment_manager BLOB NOT NULL,
        payer BLOB NOT NULL,
        payee BLOB NOT NULL,
        token BLOB NOT NULL,
        authorized_signer BLOB NOT NULL,
        service_id TEXT NOT NULL,
        terms_hash BLOB NOT NULL,
        nonce BLOB NOT NULL,
        roster_hash BLOB NOT NULL,
        descriptor_hash BLOB NOT NULL,
        commit_required INTEGER NOT NULL,
        terms BLOB,
        opened_at_ms INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX sessions_label ON sessions (session_id)",
    # Rewritten with every step, so it holds nothing that never changes.
    """
    CREATE TABLE accounts (
        id INTEGER PRIMARY KEY,
        phase INTEGER NOT NULL,
        seal_reason TEXT,
        signed INTEGER NOT NULL,
        close_pending INTEGER NOT NULL,
        deposit BLOB NOT NULL,
        accepted BLOB NOT NULL,
        accepted_signature BLOB NOT NULL,
        admitted INTEGER NOT NULL,
        spent BLOB NOT NULL,
        reserved BLOB NOT NULL,
        failures INTEGER NOT NULL,
        frontier BLOB NOT NULL,
        ahead BLOB NOT NULL,
        in_flight INTEGER NOT NULL,
        active_at_ms INTEGER NOT NULL,
        finalized_at_ms INTEGER,
        transaction_hash BLOB
    ) STRICT
    """,
    "CREATE INDEX accounts_phase ON accounts (phase)",
    # In the order of arrival, so that a group of many sessions' calls fills few pages.
    """
    CREATE TABLE calls (
        seq INTEGER PRIMARY KEY,
        key INTEGER NOT NULL,
        tool_id TEXT NOT NULL,
        request BLOB NOT NULL,
        price BLOB NOT NULL,
        amount BLOB NOT NULL,
        signature BLOB NOT NULL,
        admitted_at_ms INTEGER NOT NULL
    ) STRICT
    """,
    # Of the call with the same seq. Only ever inserted: the primary key is the compare-and-set.
    """
    CREATE TABLE answers (
        seq INTEGER PRIMARY KEY,
        response BLOB NOT NULL,
        status INTEGER NOT NULL,
        content_type TEXT NOT NULL,
        failed INTEGER NOT NULL,
        leaf BLOB NOT NULL CHECK (length(leaf) = 32),
        charge BLOB NOT NULL,
        recorded_at_ms INTEGER NOT NULL
    ) STRICT
    """,
    # key = sessions.id << 24 | call index. Kept up to date in large pieces, because every session has its own
    # page here; the calls since node.indexed_seq, which are few, are found by looking at each.
    "CREATE TABLE call_index (key INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT",
    # Columns as `rows` reads them.
    """
    CREATE VIEW stored_sessions AS
    SELECT s.*, a.phase, a.seal_reason, a.signed, a.close_pending, a.deposit, a.accepted,
        a.accepted_signature, a.admitted, a.spent, a.reserved, a.failures,
        a.frontier, a.ahead, a.active_at_ms, a.finalized_at_ms,
        a.transaction_hash
    FROM sessions AS s JOIN accounts AS a USING (id)
    """,
    """
    CREATE VIEW stored_calls AS
    SELECT c.seq, c.key, c.tool_id, c.request, c.price, c.amount, c.signature,
        r.response, r.status, r.content_type, r.failed, r.leaf, r.charge
    FROM calls AS c LEFT JOIN answers AS r USING (seq)
    """,
    "CREATE TABLE cards (descriptor_hash BLOB PRIMARY KEY, card BLOB NOT NULL) STRICT",
    """
    CREATE TABLE positions (
        name TEXT PRIMARY KEY,
        block_number INTEGER NOT NULL,
        block_hash BLOB NOT NULL
    ) STRICT
    """,
)


@migrations()
def m001_initial(db: Database) -> None:
    """Sessions, their accounts, calls and answers; cards; scan positions."""
    for statement in _INITIAL:
        db.execute(statement)


_SUBMISSIONS: Final = (
    "CREATE TABLE rosters (id INTEGER PRIMARY KEY, roster BLOB NOT NULL) STRICT",
    "ALTER TABLE accounts ADD COLUMN seats BLOB NOT NULL DEFAULT x''",
    # Of the call with the same seq; calls of unsigned sessions have none.
    """
    CREATE TABLE submissions (
        seq INTEGER PRIMARY KEY,
        seat TEXT NOT NULL,
        submission_id TEXT NOT NULL,
        client_time INTEGER NOT NULL,
        prev_head BLOB NOT NULL CHECK (length(prev_head) = 32),
        signature BLOB NOT NULL CHECK (length(signature) = 64)
    ) STRICT
    """,
    # Kept up to date together with call_index. A name begins with its session's id, in eight bytes.
    "CREATE TABLE submission_index (name BLOB PRIMARY KEY, key INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    """
    CREATE TABLE equivocations (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        call_index INTEGER NOT NULL,
        tool_id TEXT NOT NULL,
        request BLOB NOT NULL,
        seen_at_ms INTEGER NOT NULL,
        cursor INTEGER NOT NULL,
        seat TEXT NOT NULL,
        submission_id TEXT NOT NULL,
        client_time INTEGER NOT NULL,
        prev_head BLOB NOT NULL,
        signature BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX equivocations_session ON equivocations (session)",
    "DROP VIEW stored_sessions",
    "DROP VIEW stored_calls",
    """
    CREATE VIEW stored_sessions AS
    SELECT s.*, a.phase, a.seal_reason, a.signed, a.close_pending, a.deposit, a.accepted,
        a.accepted_signature, a.admitted, a.spent, a.reserved, a.failures,
        a.frontier, a.ahead, a.active_at_ms, a.finalized_at_ms,
        a.transaction_hash, a.seats, r.roster
    FROM sessions AS s JOIN accounts AS a USING (id) LEFT JOIN rosters AS r USING (id)
    """,
    """
    CREATE VIEW stored_calls AS
    SELECT c.seq, c.key, c.tool_id, c.request, c.price, c.amount, c.signature,
        r.response, r.status, r.content_type, r.failed, r.leaf, r.charge,
        s.seat, s.submission_id, s.client_time, s.prev_head, s.signature AS submission_signature
    FROM calls AS c LEFT JOIN answers AS r USING (seq) LEFT JOIN submissions AS s USING (seq)
    """,
)


@migrations()
def m002_submissions(db: Database) -> None:
    """Rosters, heads of seats, envelopes of calls, and envelopes that contradict them."""
    for statement in _SUBMISSIONS:
        db.execute(statement)


_INCARNATIONS: Final = (
    # The watermark's incarnation when this one began.
    "ALTER TABLE node ADD COLUMN previous BLOB",
    # Incarnations so far; 0: the store never met a watermark.
    "ALTER TABLE node ADD COLUMN starts INTEGER NOT NULL DEFAULT 0",
    # Of the newest transaction that changed something.
    "ALTER TABLE node ADD COLUMN sequence INTEGER NOT NULL DEFAULT 0",
    # Transactions up to this one are in the database file itself, not in its log alone.
    "ALTER TABLE node ADD COLUMN folded INTEGER NOT NULL DEFAULT 0",
    # An instant of the chain: sessions opened until then that are not in here may have been served.
    "ALTER TABLE node ADD COLUMN suspect_until INTEGER",
)


@migrations()
def m003_incarnations(db: Database) -> None:
    """What tells a restored store from the one that was served from. Phase 3 of an account is suspect."""
    for statement in _INCARNATIONS:
        db.execute(statement)


_HOLDS: Final = (
    # Final sessions whose captured money may still be held on-chain.
    "CREATE TABLE holds (id INTEGER PRIMARY KEY) STRICT",
    # Word 7 of the terms is their dispute window.
    """
    INSERT INTO holds SELECT id FROM sessions JOIN accounts USING (id)
    WHERE phase = 2 AND substr(terms, 225, 32) <> zeroblob(32)
    """,
)


@migrations()
def m004_holds(db: Database) -> None:
    """Which sessions' calls are still needed as proofs."""
    for statement in _HOLDS:
        db.execute(statement)


def migrate(connection: sqlite3.Connection, new_incarnation: bytes) -> bytes:
    """Bring a store up to date and return its incarnation.

    Args:
        connection: in autocommit mode.
        new_incarnation: 16 random bytes that name this store from its creation on.

    Raises:
        ConfigError: `store-foreign`, the file is another program's; `store-too-new`, newer software wrote it;
            `store-moved`.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    _require_here(application_id)
    if application_id != APPLICATION_ID:
        if tables or application_id:
            raise ConfigError("this SQLite file is not a node's store", code="store-foreign")
        # Before the first table: a crash in between leaves a file that is recognized as ours and still empty.
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db = Database(connection, execute_plugins=False)
    known = _known_migrations()
    _require_known(connection, known)
    migrations.apply(db)
    connection.execute(
        "INSERT OR IGNORE INTO node (id, incarnation, indexed_seq) VALUES (1, ?, 0)", (new_incarnation,)
    )
    (incarnation,) = connection.execute("SELECT incarnation FROM node").fetchone()
    return bytes(incarnation)


def require_current(connection: sqlite3.Connection) -> None:
    """Whether a store can be read as it is.

    Raises:
        ConfigError: `store-foreign`, `store-too-new`, `store-moved`; `store-outdated`, it was not migrated.
    """
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    _require_here(application_id)
    if application_id != APPLICATION_ID:
        raise ConfigError("this SQLite file is not a node's store", code="store-foreign")
    known = _known_migrations()
    if missing := known - _require_known(connection, known):
        raise ConfigError(
            f"the store lacks the migration {min(missing)}",
            code="store-outdated",
            hint="start the node once; it brings its store up to date",
        )


def _require_here(application_id: int) -> None:
    if application_id == MOVED_APPLICATION_ID:
        raise ConfigError(
            "the sessions of this store were moved to a PostgreSQL database",
            code="store-moved",
            hint='set store = "postgresql" in the settings',
        )


def _require_known(connection: sqlite3.Connection, known: set[str]) -> set[str]:
    """The names of the migrations that were applied. Raises ConfigError `store-too-new`."""
    applied = {
        migration.name for migration in migrations.applied(Database(connection, execute_plugins=False))
    }
    if unknown := applied - known:
        raise ConfigError(
            f"the store has the migration {max(unknown)}, which this version does not know",
            code="store-too-new",
            hint="run the version that wrote it, or a newer one",
        )
    return applied


def _known_migrations() -> set[str]:
    empty = Database(memory=True, execute_plugins=False)
    try:
        return {migration.name for migration in migrations.pending(empty)}
    finally:
        empty.close()
