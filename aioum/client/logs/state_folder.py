"""What a monitor keeps on disk: its states, the checkpoints that it shows to others, and evidence.

    lock                                             held while a monitor runs
    operators/<chain>-<address>.json                 the state of an operator
    checkpoints/<chain>-<address>-<hash>.checkpoint  of each log the last verified one, by its origin's hash
    evidence/<address>/<code>-<id>.json              one for each thing that somebody has to look at

A look ends with evidence first and the state after it: a crash in between finds the same things again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aioum.chain.anchors import origin_hash
from aioum.chain.client import Chain
from aioum.client.logs.look import Found, Look
from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.errors import AioumError, ChainError, ConfigError, InvalidInput
from aioum.core.hextext import address_text, to_hex
from aioum.core.submission.framing import encode_base64
from aioum.core.types import Address
from aioum.log.audit import Level
from aioum.log.disk import Disk, make_folders, replace_file
from aioum.log.membership import Membership, read_membership
from aioum.log.monitor import MAX_STATE_BYTES, LogState, OperatorState, read_state

EVIDENCE_TYPE: Final = "aioum.log-evidence.v1"
MAX_EVIDENCE_FILES: Final = 100
"""Most files for one operator and code: what one does cannot crowd out what another one did."""

# They are found again by every look as long as they are so, and what is signed proves none of them.
_SAID_ANEW: Final = frozenset(
    {"session-missing", "log-unreachable", "log-files-altered", "checkpoint-behind"}
)


class StateFolder:
    """The folder, held by this process. Use `open`."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self._disk = disk

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, disk: Disk | None = None) -> Iterator[StateFolder]:
        """Hold the folder, which is made where it is not there.

        Args:
            path: the folder.
            disk: how to write, other than plainly.

        Raises:
            ConfigError: `monitor-locked`, another process does.
        """
        folder = cls(path, disk or Disk())
        for name in ("operators", "checkpoints", "evidence"):
            make_folders(folder._disk, path / name)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigError(
                    f"another monitor uses {path}",
                    code="monitor-locked",
                    hint="give each its own --state",
                ) from error
            yield folder
        finally:
            os.close(lock)

    def load(self, chain: Chain, operator: Address) -> OperatorState:
        """What is remembered of an operator; an empty state at first.

        Raises:
            InvalidInput: `monitor-state-malformed`; `monitor-state-missing`, there was one.
            ChainError: `monitor-state-stale`, it is of other contracts.
        """
        empty = OperatorState(chain.chain_id, chain.payment_manager, operator)
        path = self._state_path(empty)
        if not path.exists():
            if any((self.path / "checkpoints").glob(f"{path.stem}-*")):
                raise InvalidInput(
                    f"{path} is gone, and what was verified before with it",
                    code="monitor-state-missing",
                    hint="restore it from a copy, or begin anew with another state folder",
                )
            return empty
        if path.stat().st_size > MAX_STATE_BYTES:
            raise InvalidInput(
                f"{path} has over {MAX_STATE_BYTES} bytes",
                code="monitor-state-malformed",
                hint="restore it from a copy, or begin anew with another state folder",
            )
        state = read_state(path.read_bytes())
        if (state.chain_id, state.payment_manager, state.operator) != (
            chain.chain_id, chain.payment_manager, operator,
        ):  # fmt: skip
            raise ChainError(
                f"{path} is of other contracts", code="monitor-state-stale", hint="use another --state"
            )
        return state

    def keep(self, look: Look) -> None:
        """Make durable what a look found, and then what it came to."""
        for found in look.found:
            if found.remark.level is Level.ALERT and found.remark.code not in _SAID_ANEW:
                self._keep_evidence(look, found)
        # Durable here: the evidence. The state still makes the next look find the same.
        self._replace(self._state_path(look.state), look.state.to_bytes())
        for origin, log in look.state.logs.items():
            self._replace(self.path / "checkpoints" / checkpoint_name(look.state, origin), log.note)

    def evidence(self, operator: Address | None = None) -> Sequence[Path]:
        """Evidence that nobody has taken away yet, by name; of one operator, or of all."""
        whose = "*" if operator is None else address_text(operator)
        return sorted((self.path / "evidence").glob(f"{whose}/*.json"))

    def _keep_evidence(self, look: Look, found: Found) -> None:
        code, subject = found.remark.code, canonical_bytes(_subject(found))
        folder = self.path / "evidence" / address_text(look.state.operator)
        path = folder / f"{code}-{hashlib.sha256(subject).hexdigest()[:16]}.json"
        make_folders(self._disk, folder)
        # The first of its kind is kept: what follows from it says nothing more.
        if not path.exists() and len(list(folder.glob(f"{code}-*.json"))) < MAX_EVIDENCE_FILES:
            self._replace(path, canonical_bytes(evidence_json(look, found)))

    def _replace(self, path: Path, data: bytes) -> None:
        replace_file(self._disk, path, data)
        self._disk.sync(path.parent)

    def _state_path(self, state: OperatorState) -> Path:
        return self.path / "operators" / f"{_stem(state)}.json"


def checkpoint_name(state: OperatorState, origin: str) -> str:
    """The name of the file with the checkpoint of an operator's log, the same for all monitors. Others who
    name the same log do not get into its way.
    """
    return f"{_stem(state)}-{to_hex(origin_hash(origin))}.checkpoint"


def evidence_json(look: Look, found: Found) -> dict[str, JsonValue]:
    """What proves a remark to others."""
    remark, state = found.remark, look.state
    return {
        "type": EVIDENCE_TYPE,
        "code": remark.code,
        "text": remark.text,
        "facts": dict(remark.facts),
        "operator": address_text(state.operator),
        "chainId": state.chain_id,
        "paymentManager": address_text(state.payment_manager),
        "at": look.head.timestamp,
        "blockNumber": look.head.number,
        "blockHash": to_hex(look.head.hash),
        "publicKeys": _keys(state.logs.get(str(remark.facts.get("origin")))),
        "checkpoints": [note.decode("utf-8", "replace") for note in found.notes],
        "log": None if found.membership is None else _membership_json(found.membership),
    }


def _keys(log: LogState | None) -> list[JsonValue]:
    """That the log signs with, and signed with before."""
    return [] if log is None else [encode_base64(key) for key in (log.identity.public_key, *log.former_keys)]


def _membership_json(membership: Membership) -> JsonValue:
    try:
        value = membership.to_json()
        if read_membership(value) == membership:
            return value
    except AioumError:
        pass
    # An entry that is none of ours: its bytes are what was signed.
    return {
        "checkpoint": membership.checkpoint.decode(),
        "proof": {
            "entryBase64": encode_base64(membership.entry),
            "hashes": [to_hex(value) for value in membership.hashes],
            "index": membership.index,
        },
    }


def _stem(state: OperatorState) -> str:
    return f"{state.chain_id}-{address_text(state.operator)}"


def _subject(found: Found) -> JsonValue:
    facts = found.remark.facts
    both = facts.get("checkpoints")
    smaller: JsonValue = None
    if isinstance(both, list):
        # Of a log that goes on growing after a fork, the older state stays the same.
        smaller = min(both, key=_size)
    names = ("origin", "index", "channelId", "anchoredSize", "publicKey")
    return [found.remark.code, smaller, {name: facts[name] for name in names if name in facts}]


def _size(checkpoint: JsonValue) -> int:
    size = checkpoint.get("size") if isinstance(checkpoint, dict) else 0
    return int(size) if isinstance(size, int | str) else 0
