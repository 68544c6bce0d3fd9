"""The proof that a sealed run is in a log, for `aioum run verify`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aioum.cli.log_proofs import read_proof
from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, InvalidInput
from aioum.log.monitor import LogIdentity
from aioum.run.seal import read_seal
from aioum.verify.logged import require_capsule


@dataclass(frozen=True, slots=True)
class Logged:
    """What became of the log proof that a person handed in.

    Attributes:
        origin: of the log that it has to lead to.
        index: the proven place of the run in it, or None.
        size: how many entries the log had then, or None.
        reason: the code of what is wrong with it, or None.
        message: for people.
    """

    origin: str
    index: int | None
    size: int | None
    reason: str | None
    message: str

    def to_json(self) -> dict[str, JsonValue]:
        """For programs."""
        return {
            "origin": self.origin,
            "index": self.index,
            "size": self.size,
            "reason": self.reason,
            "message": self.message,
        }


def look_up(file: Path, log: LogIdentity, payload: bytes) -> Logged:
    """Whether the proof in a file shows a sealed run in a log.

    Args:
        file: with the proof.
        log: where it has to be.
        payload: what the run's signatures are over.

    Raises:
        InvalidInput: as `read_proof`.
    """
    membership = read_proof(file)
    try:
        checkpoint = require_capsule(membership, log.origin, log.public_key, _root(payload))
    except AioumError as error:
        return Logged(log.origin, None, None, error.code, f"not shown to be in the log {log.origin}: {error}")
    return Logged(
        log.origin,
        membership.index,
        checkpoint.size,
        None,
        f"entry {membership.index} of {checkpoint.size} in the log {log.origin}",
    )


def _root(payload: bytes) -> bytes | None:
    try:
        return read_seal(payload).root
    except InvalidInput:
        # A payload of another type need not be a seal, and the verdict on the run says so.
        return None
