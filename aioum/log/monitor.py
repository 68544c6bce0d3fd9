"""What a monitor remembers of an operator and its logs from one look to the next."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue, canonical_bytes, parse_json
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.hextext import address, address_text, bytes32, channel_id, from_hex, to_hex
from aioum.core.merkle import Frontier
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.log.audit import Counts, FinalSession, LoggedSession
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.entry import SessionEntry, read_entry
from aioum.log.errors import CheckpointInvalid
from aioum.log.tree import EMPTY_ROOT, node_hash

STATE_TYPE: Final = "aioum.log-monitor.v1"
MAX_STATE_BYTES: Final = 1 << 30
MAX_UNEXPLAINED: Final = 100
"""Most checkpoints of others that are kept until the log has grown to them."""

MAX_FORMER_KEYS: Final = 16

WINDOW_BLOCKS: Final = 32
"""Blocks that are searched again: an endpoint may have answered before it had all logs of its newest ones."""


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """Whose checkpoints count: the log's name, and its Ed25519 key of 32 bytes."""

    origin: str
    public_key: bytes


@dataclass(frozen=True, slots=True)
class Unexplained:
    """A signed checkpoint that others saw, and that is beyond what the log shows us.

    Attributes:
        seen_at: when we first saw it, unix seconds by the chain's clock.
    """

    note: bytes
    seen_at: int


@dataclass(frozen=True, slots=True)
class LogState:
    """The last state of a log that was verified.

    Attributes:
        identity: whose it is.
        where: the URL or folder that it was read from.
        note: the signed checkpoint.
        frontier: of all entries that it counts; each was read.
        unexplained: at most MAX_UNEXPLAINED.
        behind_since: since when the log does not prove that it continues this one and its anchor, unix
            seconds by the chain's clock; None: it does.
        former_keys: that the log signed with before, the last one first; at most MAX_FORMER_KEYS. What they
            signed still counts against it.
        max_delay_seconds: what a card promised for it last; None: no card did.
    """

    identity: LogIdentity
    where: str
    note: bytes
    frontier: Frontier
    unexplained: tuple[Unexplained, ...] = ()
    behind_since: int | None = None
    former_keys: tuple[bytes, ...] = ()
    max_delay_seconds: int | None = None

    def checkpoint(self) -> Checkpoint:
        """The checkpoint, read again.

        Raises:
            CheckpointInvalid: as `read_checkpoint`.
        """
        return read_checkpoint(self.note, self.identity.origin, self.identity.public_key)

    def read_signed(self, note: bytes) -> Checkpoint:
        """Read a checkpoint that the log signed at any time, with whatever key it had then.

        Raises:
            CheckpointInvalid: as `read_checkpoint`, of the key in use.
        """
        origin = self.identity.origin
        for public_key in self.former_keys:
            with suppress(CheckpointInvalid):
                return read_checkpoint(note, origin, public_key)
        return read_checkpoint(note, origin, self.identity.public_key)

    def grown(self, identity: LogIdentity, where: str, note: bytes, frontier: Frontier) -> LogState:
        """The state after the log was seen to continue this one, maybe with another key."""
        former = [key for key in (self.identity.public_key, *self.former_keys) if key != identity.public_key]
        return LogState(
            identity,
            where,
            note,
            frontier,
            self.unexplained,
            former_keys=tuple(dict.fromkeys(former))[:MAX_FORMER_KEYS],
            max_delay_seconds=self.max_delay_seconds,
        )


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What is known of an operator.

    Attributes:
        chain_id: where its sessions are.
        payment_manager: likewise.
        operator: its address.
        searched: number and hash of the block up to which final sessions are taken into account.
        recent: sessions that became final within the last WINDOW_BLOCKS of these, with their block.
        missing: final sessions without an entry.
        strangers: entries without a final session.
        counts: of the entries that were read.
        logs: by origin.
    """

    chain_id: int
    payment_manager: Address
    operator: Address
    searched: tuple[int, Bytes32] | None = None
    recent: Mapping[ChannelId, int] = field(default_factory=dict)
    missing: tuple[FinalSession, ...] = ()
    strangers: tuple[LoggedSession, ...] = ()
    counts: Counts = field(default_factory=Counts)
    logs: Mapping[str, LogState] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The state as canonical JSON."""
        searched: JsonValue = None
        if self.searched is not None:
            searched = {"number": self.searched[0], "hash": to_hex(self.searched[1])}
        return canonical_bytes(
            {
                "type": STATE_TYPE,
                "chainId": self.chain_id,
                "paymentManager": address_text(self.payment_manager),
                "operator": address_text(self.operator),
                "searched": searched,
                "recent": {to_hex(channel): number for channel, number in self.recent.items()},
                "missing": [
                    {
                        "entry": session.entry.to_bytes().decode(),
                        "blockNumber": session.block_number,
                        "maxDelaySeconds": session.max_delay_seconds,
                    }
                    for session in self.missing
                ],
                "strangers": [
                    {
                        "entry": logged.entry.to_bytes().decode(),
                        "origin": logged.origin,
                        "index": logged.index,
                    }
                    for logged in self.strangers
                ],
                "counts": [self.counts.matched, self.counts.capsules, self.counts.elsewhere],
                "logs": [_log_to_json(log) for log in self.logs.values()],
            }
        )


def read_state(data: bytes) -> OperatorState:
    """Read what `to_bytes` wrote.

    Raises:
        InvalidInput: `monitor-state-malformed`, also where a kept checkpoint does not verify.
    """
    try:
        return _state(_object(parse_json(data, max_bytes=MAX_STATE_BYTES)))
    except (AioumError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"the monitor's state cannot be read: {error}",
            code="monitor-state-malformed",
            hint="restore it from a copy, or begin anew with another state folder",
        ) from error


def _log_to_json(log: LogState) -> JsonValue:
    return {
        "origin": log.identity.origin,
        "publicKey": encode_base64(log.identity.public_key),
        "where": log.where,
        "checkpoint": log.note.decode(),
        "frontier": to_hex(log.frontier.to_bytes()),
        "unexplained": [
            {"checkpoint": kept.note.decode(), "seenAt": kept.seen_at} for kept in log.unexplained
        ],
        "behindSince": log.behind_since,
        "formerKeys": [encode_base64(key) for key in log.former_keys],
        "maxDelaySeconds": log.max_delay_seconds,
    }


def _state(value: dict[str, JsonValue]) -> OperatorState:
    if value["type"] != STATE_TYPE:
        raise InvalidInput(f"its type is {value['type']!r:.60}, expected {STATE_TYPE}")
    searched = None if value["searched"] is None else _object(value["searched"])
    logs = [_log(_object(item)) for item in _list(value["logs"])]
    return OperatorState(
        chain_id=_integer(value["chainId"]),
        payment_manager=address(value["paymentManager"]),
        operator=address(value["operator"]),
        searched=None if searched is None else (_integer(searched["number"]), bytes32(searched["hash"])),
        recent={channel_id(name): _integer(number) for name, number in _object(value["recent"]).items()},
        missing=tuple(
            FinalSession(
                _session(item["entry"]), _integer(item["blockNumber"]), _integer(item["maxDelaySeconds"])
            )
            for item in map(_object, _list(value["missing"]))
        ),
        strangers=tuple(
            LoggedSession(_text(item["origin"]), _integer(item["index"]), _session(item["entry"]))
            for item in map(_object, _list(value["strangers"]))
        ),
        counts=Counts(*map(_integer, _list(value["counts"]))),
        logs={log.identity.origin: log for log in logs},
    )


def _log(value: dict[str, JsonValue]) -> LogState:
    log = LogState(
        LogIdentity(_text(value["origin"]), decode_base64(value["publicKey"], 32)),
        _text(value["where"]),
        _text(value["checkpoint"]).encode(),
        Frontier.from_bytes(from_hex(value["frontier"])),
        tuple(
            Unexplained(_text(item["checkpoint"]).encode(), _integer(item["seenAt"]))
            for item in map(_object, _list(value["unexplained"]))
        ),
        None if value["behindSince"] is None else _integer(value["behindSince"]),
        tuple(decode_base64(key, 32) for key in _list(value["formerKeys"])),
        None if value["maxDelaySeconds"] is None else _integer(value["maxDelaySeconds"]),
    )
    checkpoint = log.checkpoint()
    if (checkpoint.size, checkpoint.root) != (
        log.frontier.size, log.frontier.root(node_hash) or EMPTY_ROOT,
    ):  # fmt: skip
        raise InvalidInput(f"what is kept of {checkpoint.origin} does not lead to its checkpoint")
    return log


def _session(value: JsonValue) -> SessionEntry:
    entry = read_entry(_text(value).encode())
    if not isinstance(entry, SessionEntry):
        raise InvalidInput("a kept entry is of no session")
    return entry


def _object(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise InvalidInput(f"expected an object, got {value!r:.40}")
    return value


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise InvalidInput(f"expected a list, got {value!r:.40}")
    return value


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"expected text, got {value!r:.40}")
    return value


def _integer(value: JsonValue) -> int:
    if type(value) is not int or not 0 <= value <= MAX_SAFE_INTEGER:
        raise InvalidInput(f"expected a whole number, got {value!r:.40}")
    return value
