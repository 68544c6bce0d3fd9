"""What a `gaos.replay` artifact says once its form has been checked (SUBMISSIONS 1.6).

Every object keeps the JSON it was read from as `json`: the judge compares canonical JSON, adapters get the
decoded artifact, and the writer writes it again. Nothing may change those dictionaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aioum.core.types import Bytes32
from aioum.replay.declarations import (
    FORMAT,
    VERSIONS,
    WRITTEN_VERSION,
    Header,
    JsonObject,
    Level,
    LevelResult,
    Reference,
)
from aioum.replay.problems import Problem

__all__ = [
    "FORMAT",
    "VERSIONS",
    "WRITTEN_VERSION",
    "Action",
    "Artifact",
    "Checkpoint",
    "Commit",
    "CommitMismatch",
    "Extension",
    "Header",
    "Input",
    "Integrity",
    "Interaction",
    "Interest",
    "JsonObject",
    "Level",
    "LevelResult",
    "Problem",
    "Record",
    "Reference",
    "Resolution",
    "Reveal",
    "SeatSignature",
    "Timeout",
]

COMMITMENT_SCHEME: Final = "gaos.commit.sha256.v1"
TIMEOUT_POLICY_REF: Final = "header.timeoutPolicy"

ACTION: Final = "action"
RESOLUTION: Final = "resolution"
TIMEOUT: Final = "timeout"
INTEREST: Final = "interest"
INTERACTION: Final = "interaction"
SEAT_SIGNATURE: Final = "seat-signature"
COMMIT_MISMATCH: Final = "commit-mismatch"
CHECKPOINT: Final = "checkpoint"
EXTENSION: Final = "extension"

CAUSE_COMPLETE: Final = "complete"
CAUSE_TIMEOUT: Final = "timeout"
CAUSE_TICK: Final = "tick"


@dataclass(frozen=True, slots=True)
class Integrity:
    """The submission that a record or an input carries, as the submitter framed it.

    The identity group is always here; `client_time` and `prev_head` come together or are both None; a
    signature comes only with both. Before 1.2 the chain group and the signature are always None: the fields
    are opaque there, and an Integrity exists only where the identity group happens to be well formed,
    with a canonical command.

    Attributes:
        submission_id: 1 to 65,536 bytes of UTF-8.
        command: the bytes of `canonicalCommand`, at most 65,536: the canonical form of `command_value`.
        command_value: the same, parsed.
        cursor: 0 to 2^53-1.
        client_time: unix milliseconds, 0 to 2^53-1.
        prev_head: 32 bytes.
        signature: 64 bytes.
    """

    submission_id: str
    command: bytes
    command_value: Any
    cursor: int
    client_time: int | None
    prev_head: Bytes32 | None
    signature: bytes | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commitment that an input carries.

    Attributes:
        commitment_id: u32.
        hash: 32 bytes.
    """

    commitment_id: int
    hash: Bytes32


@dataclass(frozen=True, slots=True)
class Reveal:
    """What an input opens a commitment with.

    Attributes:
        commitment_id: u32.
        salt: 16 to 64 bytes.
        payload: opaque.
    """

    commitment_id: int
    salt: bytes
    payload: Any


@dataclass(frozen=True, slots=True)
class Input:
    """What one seat, or the system on a timeout, did in a step.

    Attributes:
        seat: None where absent.
        integrity: the submission it came by, or None.
        commit: at most one of commit and reveal is there.
        json: the input's members. For an action record, all of the record's members: `kind`, `n`,
            `levelIndex`, `tick` and `hostTime` are the record's, not the input's.
    """

    seat: str | None
    integrity: Integrity | None
    commit: Commit | None
    reveal: Reveal | None
    json: JsonObject

    @property
    def is_direct(self) -> bool:
        """Whether its submission must carry its own signature at any tier (commit or reveal: tier 1)."""
        return self.commit is not None or self.reveal is not None

    def action(self) -> JsonObject:
        """The action as semantic mappings give it, without the submission's fields.

        `id` is the canonical id. `wireId`, the record's and the submission's fields and `verifiedPayload`
        are left out.
        """
        action: JsonObject = {"id": self.json["canonicalId"]}
        for member in _ACTION_MEMBERS:
            if member in self.json:
                action[member] = self.json[member]
        return action


_ACTION_MEMBERS: Final = (
    "payload",
    "x",
    "y",
    "index",
    "boardId",
    "zoneId",
    "seat",
    "targets",
    "commit",
    "reveal",
)


@dataclass(frozen=True, slots=True)
class Action:
    """A step with one input.

    Attributes:
        n: as written. A record's position; in an ungrouped artifact numbering starts at 0 or 1.
        tick: None where absent, which counts as 0.
    """

    n: int
    level_index: int
    tick: int | None
    input: Input
    json: JsonObject


@dataclass(frozen=True, slots=True)
class Resolution:
    """A step with every input of its window.

    Attributes:
        cause: `complete`, `timeout` or `tick`.
        system_input: with cause `timeout` and only then; it equals one of `inputs`.
    """

    n: int
    level_index: int
    tick: int
    inputs: tuple[Input, ...]
    cause: str
    system_input: Input | None
    json: JsonObject


@dataclass(frozen=True, slots=True)
class Timeout:
    """The host says that a window ran out. With a timeout policy, `tick` is `window_ref` + window ticks.

    Attributes:
        window_ref: the tick at which the window was opened.
        participant_id: whose window it was, or None for everyone's.
        reason: not empty.
        policy_ref: `header.timeoutPolicy` under a policy, else None (1.1: any text).
    """

    n: int
    level_index: int
    tick: int
    timeout_id: str
    window_ref: int
    participant_id: str | None
    reason: str
    policy_ref: str | None
    json: JsonObject


@dataclass(frozen=True, slots=True)
class Interest:
    """A signed declaration of interest in a scope (tier 2); none of its integrity fields is None."""

    n: int
    level_index: int
    tick: int
    participant_id: str
    scope_id: str
    declaration: Any
    integrity: Integrity
    json: JsonObject


@dataclass(frozen=True, slots=True)
class Interaction:
    """A command (1.4) that changed state without advancing the cursor; `command` is what its bytes say."""

    n: int
    level_index: int
    tick: int
    participant_id: str
    command: Any
    integrity: Integrity
    json: JsonObject


@dataclass(frozen=True, slots=True)
class SeatSignature:
    """A periodic signature over a seat's current head. The three last are there from 1.2; before, None.

    Attributes:
        client_time: unix milliseconds.
        head: the head that is attested (`prevChainHash`), 32 bytes.
        signature: 64 bytes.
    """

    n: int
    level_index: int
    tick: int
    participant_id: str
    client_time: int | None
    head: Bytes32 | None
    signature: bytes | None
    json: JsonObject


@dataclass(frozen=True, slots=True)
class CommitMismatch:
    """A reveal that was refused before the reducer saw it (tier 1).

    Attributes:
        submission_id: also there where `integrity` is None.
        attempted_reveal: None where a seat-scoped artifact leaves it out; bears this `commitment_id`.
    """

    n: int
    level_index: int
    tick: int
    participant_id: str
    submission_id: str
    commitment_id: int
    attempted_reveal: Reveal | None
    integrity: Integrity | None
    json: JsonObject


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A diagnostic digest of state (u32, FNV-1a)."""

    n: int
    level_index: int
    tick: int
    digest: int
    json: JsonObject


@dataclass(frozen=True, slots=True)
class Extension:
    """A product's own record. Never authenticated."""

    n: int
    level_index: int
    lane: str
    record: JsonObject
    json: JsonObject


Record: TypeAlias = (
    Action
    | Resolution
    | Timeout
    | Interest
    | Interaction
    | SeatSignature
    | CommitMismatch
    | Checkpoint
    | Extension
)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A whole artifact whose form is right.

    Attributes:
        lines: what follows the header, in order. Ungrouped artifacts have actions only.
        is_grouped: whether the lines are records: version 1.1 or later and some line is no action.
        has_signature_material: whether some line carries a `sig`, be it opaque or checked.
    """

    header: Header
    lines: tuple[Record, ...]
    is_grouped: bool
    has_signature_material: bool

    @property
    def format_version(self) -> str:
        """As the header says."""
        return self.header.format_version

    @property
    def records(self) -> tuple[Record, ...] | None:
        """The lines of a grouped artifact, else None."""
        return self.lines if self.is_grouped else None

    @property
    def actions(self) -> list[JsonObject]:
        """The actions of the decoded artifact, as JSON; derived and numbered from 0 where it is grouped."""
        if not self.is_grouped:
            return [line.json for line in self.lines]
        actions: list[JsonObject] = []
        for line in self.lines:
            match line:
                case Action():
                    actions.append({**line.json, "n": len(actions)})
                case Resolution():
                    place = {"kind": ACTION, "levelIndex": line.level_index, "tick": line.tick}
                    actions.extend(
                        {**each.json, **place, "n": number}
                        for number, each in enumerate(line.inputs, len(actions))
                    )
                case _:
                    pass
        return actions

    def decoded(self) -> JsonObject:
        """The artifact as adapters and the JSON schema know it: `header`, `actions` and maybe `records`."""
        decoded: JsonObject = {"header": self.header.json, "actions": self.actions}
        if self.is_grouped:
            decoded["records"] = [line.json for line in self.lines]
        return decoded
