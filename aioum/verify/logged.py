"""What a log's entry says, held against the chain or a run (PROTOCOL 9)."""

from __future__ import annotations

from aioum.chain.model import ChainSession
from aioum.core.errors import ProofInvalid
from aioum.core.hextext import to_hex
from aioum.core.payment import Domain
from aioum.core.types import Bytes32, ChannelId
from aioum.log.checkpoint import Checkpoint
from aioum.log.entry import CapsuleEntry, Entry, SessionEntry
from aioum.log.membership import Membership
from aioum.verify.report import Finding


def entry_of(domain: Domain, session: ChainSession) -> SessionEntry:
    """What a log has to say of a final session."""
    return SessionEntry(
        chain_id=domain.chain_id,
        payment_manager=domain.payment_manager,
        channel_id=session.channel_id,
        session_id=session.session_id,
        call_count=session.call_count,
        captured=session.settled,
        results_root=session.root,
    )


def of_channel(entry: Entry, domain: Domain, channel_id: ChannelId) -> SessionEntry | None:
    """The entry, where it is of this channel; else None."""
    if not isinstance(entry, SessionEntry):
        return None
    named = entry.chain_id, entry.payment_manager, entry.channel_id
    return entry if named == (domain.chain_id, domain.payment_manager, channel_id) else None


def contradictions(entry: Entry, domain: Domain, session: ChainSession) -> list[Finding]:
    """How an entry differs from what it has to say of a session; nothing, where it says that.

    The codes are `log-session-mismatch`, it is of something else; `log-entry-premature`, the session is not
    final; `log-root-mismatch`, another root or number of calls; `log-entry-contradicts-chain`, another label
    or captured amount.
    """
    said = of_channel(entry, domain, session.channel_id)
    if said is None:
        return [another_session(entry)]
    if not session.is_finalized:
        return [Finding("log-entry-premature", "The log calls the session final, and the chain does not.")]
    expected = entry_of(domain, session)
    findings = []
    if (said.results_root, said.call_count) != (expected.results_root, expected.call_count):
        findings.append(another_root(said, expected.results_root, expected.call_count, "the chain"))
    if (said.session_id, said.captured) != (expected.session_id, expected.captured):
        findings.append(
            Finding(
                "log-entry-contradicts-chain",
                f"The log says that session {said.session_id} captured {said.captured}, the chain that "
                f"session {expected.session_id} captured {expected.captured}.",
            )
        )
    return findings


def another_session(entry: Entry) -> Finding:
    """That a proof, genuine as it may be, is of something else."""
    what = f"channel {to_hex(entry.channel_id)}" if isinstance(entry, SessionEntry) else "a run"
    return Finding("log-session-mismatch", f"The log's entry is of {what}, not of this session.")


def another_root(entry: SessionEntry, root: Bytes32, call_count: int, source: str) -> Finding:
    """That an entry has another root or number of calls than `source` says."""
    return Finding(
        "log-root-mismatch",
        f"The log has {entry.call_count} calls under {to_hex(entry.results_root)} for this session, {source} "
        f"{call_count} under {to_hex(root)}.",
    )


def require_capsule(membership: Membership, origin: str, public_key: bytes, root: bytes | None) -> Checkpoint:
    """Return the checkpoint if a log has the run with this root at the membership's index.

    Args:
        membership: as it was read.
        origin: the log's name.
        public_key: its Ed25519 key, 32 bytes.
        root: that the run's seal names, 32 bytes; None: nothing is sealed.

    Raises:
        CheckpointInvalid, InvalidInput, ProofInvalid: as `Membership.verify`; `logged-root-mismatch`, the
            entry is genuine and of another run, or of a session.
    """
    checkpoint, entry = membership.verify(origin, public_key)
    if not isinstance(entry, CapsuleEntry):
        raise ProofInvalid(
            f"entry {membership.index} of the log is of a session", code="logged-root-mismatch"
        )
    if entry.root != root:
        raise ProofInvalid(
            f"sealed is {'nothing' if root is None else to_hex(root)}, logged at {membership.index} is "
            f"{to_hex(entry.root)}",
            code="logged-root-mismatch",
        )
    return checkpoint
