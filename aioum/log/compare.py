"""What a monitor concludes from two checkpoints, and from what an operator names as its log (PROTOCOL 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aioum.core.canonical import JsonValue
from aioum.core.errors import ProofInvalid
from aioum.core.hextext import address_text, to_hex
from aioum.core.submission.framing import encode_base64
from aioum.core.types import Address
from aioum.log.audit import Level, Remark, require_continues, size_json
from aioum.log.checkpoint import Checkpoint
from aioum.log.monitor import LogIdentity, LogState


def judge_growth(
    kept: Checkpoint,
    shown: Checkpoint,
    proof: Sequence[bytes] | None,
    behind_seconds: int,
    max_delay_seconds: int,
) -> Remark | None:
    """Hold a log's new checkpoint against the last one that was verified.

    Args:
        kept: the last one.
        shown: what the log shows now, by the same name and key or one that was changed since.
        proof: that the larger one continues the smaller one, from the log's files; None where they give none.
        behind_seconds: for how long the log has shown less than the kept one counts.
        max_delay_seconds: how long it may, as a cache does; who goes back for longer has been rewound.

    Returns:
        None where it continues. Else `split-view`, two roots of one size: the two notes are proof enough;
        `consistency-invalid`; or `checkpoint-behind`, an older state, which is an alert after the delay.
    """
    facts = _both(kept, shown)
    if kept.size == shown.size:
        return None if kept.root == shown.root else _two_roots(kept, "the one before", facts)
    small, large = sorted((kept, shown), key=lambda checkpoint: checkpoint.size)
    try:
        _require_proof(small, large, proof)
    except ProofInvalid as error:
        text = f"{shown.origin} went from {kept.size} to {shown.size} entries without proof: {error}"
        return Remark("consistency-invalid", Level.ALERT, text, facts)
    if shown.size < kept.size:
        text = f"{shown.origin} shows {shown.size} entries, which is older than the {kept.size} shown before"
        level = Level.ALERT if behind_seconds > max_delay_seconds else Level.PENDING
        return Remark("checkpoint-behind", level, text, facts)
    return None


def judge_peer(
    ours: Checkpoint,
    theirs: Checkpoint,
    proof: Sequence[bytes] | None,
    age_seconds: int,
    max_delay_seconds: int,
) -> Remark | None:
    """Hold a checkpoint that others saw, signed by the log, against what the log shows us.

    Args:
        ours: what the log shows us.
        theirs: what it signed for others.
        proof: that the larger one continues the smaller one; None where the log's files give none.
        age_seconds: for how long we know of theirs.
        max_delay_seconds: how long a log may keep from us what it has shown to others.

    Returns:
        None where both are of one history. Else `split-view`; or, while ours is the smaller one and the
        log does not have the other's files for us, `peer-ahead`.
    """
    facts = _both(ours, theirs)
    if ours.size == theirs.size:
        return None if ours.root == theirs.root else _two_roots(ours, "what it signed for others", facts)
    small, large = sorted((ours, theirs), key=lambda checkpoint: checkpoint.size)
    try:
        _require_proof(small, large, proof)
    except ProofInvalid as error:
        if theirs.size > ours.size and proof is None and age_seconds <= max_delay_seconds:
            text = f"{ours.origin} shows us {ours.size} entries, others {theirs.size}"
            return Remark("peer-ahead", Level.PENDING, text, facts)
        text = (
            f"{ours.origin} shows us {ours.size} entries, others {theirs.size}, and nothing proves that "
            f"these are one history: {error}"
        )
        return Remark("split-view", Level.ALERT, text, facts)
    return None


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


def _require_proof(small: Checkpoint, large: Checkpoint, proof: Sequence[bytes] | None) -> None:
    if small.size and proof is None:
        raise ProofInvalid("the log's files give no proof", code="proof-length-wrong")
    require_continues(small, large, proof or ())


def _two_roots(checkpoint: Checkpoint, other: str, facts: Mapping[str, JsonValue]) -> Remark:
    text = f"{checkpoint.origin} signed another root over {checkpoint.size} entries than {other}"
    return Remark("split-view", Level.ALERT, text, facts)


def _both(one: Checkpoint, other: Checkpoint) -> dict[str, JsonValue]:
    return {
        "origin": one.origin,
        "checkpoints": [
            {"size": size_json(checkpoint.size), "root": to_hex(checkpoint.root)}
            for checkpoint in (one, other)
        ],
    }
