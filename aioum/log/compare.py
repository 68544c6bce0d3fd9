"""What a monitor concludes from two checkpoints, and from what an operator names as its log (PROTOCOL 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue
from aioum.core.errors import ProofInvalid
from aioum.core.hextext import address_text, to_hex
from aioum.core.merkle import verify_consistency
from aioum.core.submission.framing import encode_base64
from aioum.core.types import Address
from aioum.log.audit import Level, Remark
from aioum.log.checkpoint import Checkpoint
from aioum.log.monitor import LogIdentity, LogState
from aioum.log.tree import node_hash


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a log's files say of the first entries below a larger checkpoint. Files can be anybody's: this
    counts where the proof leads to what is signed.

    Attributes:
        root: over as many entries as the smaller checkpoint counts, 32 bytes.
        proof: that the larger checkpoint's log begins with these (RFC 9162, 2.1.4).
    """

    root: bytes
    proof: tuple[bytes, ...]


def same_history(one: Checkpoint, other: Checkpoint, prefix: Prefix | None) -> bool | None:
    """Whether the larger checkpoint's log begins with the smaller one's; None: nothing proves or refutes it.

    Args:
        one: a checkpoint.
        other: another one of the same log, in either order.
        prefix: of the smaller one below the larger one; None where the files give none.
    """
    small, large = sorted((one, other), key=lambda checkpoint: checkpoint.size)
    if small.size == large.size:
        return small.root == large.root
    if small.size == 0:
        # Every log begins with nothing, and there is nothing to prove.
        return True
    if prefix is None:
        return None
    try:
        verify_consistency(small.size, large.size, prefix.root, large.root, prefix.proof, node_hash)
    except ProofInvalid:
        return None
    return prefix.root == small.root


def judge_anchor(
    anchored: Checkpoint | None,
    shown: Checkpoint,
    prefix: Prefix | None,
    age_seconds: int,
    max_delay_seconds: int,
) -> Remark | None:
    """Hold what a log shows against what its operator anchored before.

    Args:
        anchored: the last anchor; None where there is none.
        shown: the log's checkpoint, read after it.
        prefix: of the smaller one below the larger one, from the log's files.
        age_seconds: for how long the log could have shown that it continues the anchor.
        max_delay_seconds: how long a host may lag.

    Returns:
        None where it continues, else `anchor-absent`, a note; `anchor-mismatch`, proven to be another log;
        `checkpoint-behind` or `consistency-invalid`, which are alerts after the delay.
    """
    if anchored is None:
        return Remark(
            "anchor-absent", Level.NOTE, f"{shown.origin} was never anchored", {"origin": shown.origin}
        )
    facts: dict[str, JsonValue] = {
        "origin": shown.origin,
        "size": _size_json(shown.size),
        "root": to_hex(shown.root),
        "anchoredSize": _size_json(anchored.size),
        "anchoredRoot": to_hex(anchored.root),
    }
    same = same_history(anchored, shown, prefix)
    if same is False:
        text = f"{shown.origin} is not the log that is anchored with {anchored.size} entries"
        return Remark("anchor-mismatch", Level.ALERT, text, facts | _proof_json(prefix))
    level = _level(age_seconds, max_delay_seconds)
    if shown.size < anchored.size:
        text = f"{shown.origin} shows {shown.size} entries, {anchored.size} are anchored"
        return Remark("checkpoint-behind", level, text, facts)
    if same is None:
        text = f"{shown.origin} does not prove that it continues the {anchored.size} entries anchored"
        return Remark("consistency-invalid", level, text, facts)
    return None


def judge_growth(
    kept: Checkpoint,
    shown: Checkpoint,
    prefix: Prefix | None,
    behind_seconds: int,
    max_delay_seconds: int,
) -> Remark | None:
    """Hold a log's new checkpoint against the last one that was verified.

    Args:
        kept: the last one.
        shown: what the log shows now, by the same name and key or one that was changed since.
        prefix: of the smaller one below the larger one, from the log's files.
        behind_seconds: for how long the log has shown nothing that continues the kept one.
        max_delay_seconds: how long it may, as a cache does; who goes back for longer has been rewound.

    Returns:
        None where it continues. Else `split-view`, proven by both notes and what the remark says of the
        prefix; `consistency-invalid`, nothing proves that it continues; `checkpoint-behind`, an older state.
        Both are alerts after the delay.
    """
    facts = _both(kept, shown)
    same = same_history(kept, shown, prefix)
    if same is False:
        return _split(kept, shown, "what it showed before", prefix)
    level = _level(behind_seconds, max_delay_seconds)
    if shown.size < kept.size and (same or level is Level.PENDING):
        text = f"{shown.origin} shows {shown.size} entries, which is older than the {kept.size} shown before"
        return Remark("checkpoint-behind", level, text, facts)
    if same is None:
        text = f"{shown.origin} went from {kept.size} to {shown.size} entries without proof"
        return Remark("consistency-invalid", level, text, facts)
    return None


def judge_peer(
    ours: Checkpoint,
    theirs: Checkpoint,
    prefix: Prefix | None,
    age_seconds: int,
    max_delay_seconds: int,
) -> Remark | None:
    """Hold a checkpoint that others saw, signed by the log, against what the log shows us.

    Args:
        ours: what the log shows us.
        theirs: what it signed for others.
        prefix: of the smaller one below the larger one, from the log's files.
        age_seconds: for how long we know of theirs.
        max_delay_seconds: how long a log may keep from us what it has shown to others.

    Returns:
        None where both are of one history. Else `split-view`, as of `judge_growth`; where nothing proves
        either, `peer-ahead`, while ours is the smaller one and the delay not over; or `consistency-invalid`,
        which is an alert after the delay.
    """
    same = same_history(ours, theirs, prefix)
    if same:
        return None
    if same is False:
        return _split(ours, theirs, "what it signed for others", prefix)
    text = f"{ours.origin} shows us {ours.size} entries, others {theirs.size}"
    level = _level(age_seconds, max_delay_seconds)
    if theirs.size > ours.size and level is Level.PENDING:
        return Remark("peer-ahead", level, text, _both(ours, theirs))
    text += ", and nothing proves that these are one history"
    return Remark("consistency-invalid", level, text, _both(ours, theirs))


def judge_identity(
    operator: Address, kept: Mapping[str, LogState], named: Sequence[LogIdentity]
) -> list[Remark]:
    """Hold the logs that an operator names now against those that are followed.

    Returns:
        `origin-changed` for each followed log that is named no more; `log-key-changed`, no alert, for each
        that is signed with another key from now on.
    """
    remarks = []
    keys = {identity.origin: identity.public_key for identity in named}
    who = address_text(operator)
    for origin, log in kept.items():
        facts: dict[str, JsonValue] = {
            "operator": who,
            "origin": origin,
            "publicKey": encode_base64(log.identity.public_key),
            "named": [
                {"origin": identity.origin, "publicKey": encode_base64(identity.public_key)}
                for identity in named
            ],
        }
        if origin not in keys:
            names = ", ".join(sorted(keys)) or "none"
            text = f"{who} does not name the log {origin} any more; it names {names}"
            remarks.append(Remark("origin-changed", Level.ALERT, text, facts))
        elif keys[origin] != log.identity.public_key:
            text = f"{origin} is signed with another key from now on"
            remarks.append(Remark("log-key-changed", Level.NOTE, text, facts))
    return remarks


def _level(seconds: int, max_delay_seconds: int) -> Level:
    return Level.ALERT if seconds > max_delay_seconds else Level.PENDING


def _split(one: Checkpoint, other: Checkpoint, what: str, prefix: Prefix | None) -> Remark:
    facts = _both(one, other)
    if one.size == other.size:
        text = f"{one.origin} signed another root over {one.size} entries than {what}"
        return Remark("split-view", Level.ALERT, text, facts)
    text = f"{one.origin} signed {one.size} and {other.size} entries, and {what} is another history"
    return Remark("split-view", Level.ALERT, text, facts | _proof_json(prefix))


def _both(one: Checkpoint, other: Checkpoint) -> dict[str, JsonValue]:
    return {
        "origin": one.origin,
        "checkpoints": [
            {"size": _size_json(checkpoint.size), "root": to_hex(checkpoint.root)}
            for checkpoint in (one, other)
        ],
    }


def _proof_json(prefix: Prefix | None) -> dict[str, JsonValue]:
    """What proves that the larger checkpoint's log begins otherwise; nothing where both have one size."""
    if prefix is None:
        return {}
    hashes: list[JsonValue] = [to_hex(value) for value in prefix.proof]
    return {"prefix": {"root": to_hex(prefix.root), "hashes": hashes}}


def _size_json(size: int) -> JsonValue:
    """A signed size among facts: text where it is beyond the integers of JSON."""
    return size if size <= MAX_SAFE_INTEGER else str(size)
