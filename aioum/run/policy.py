"""Whose seals a verifier believes (PROTOCOL 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER
from aioum.core.errors import InvalidInput
from aioum.run.keys import ALGORITHMS

MAX_TRUSTED_KEYS: Final = 1_024


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key that is believed, maybe for a stretch of a log only.

    A broken or retired key stays good for what was logged before: bound it from above at the log's size when
    it was given up. A position in a log cannot be chosen later, as a time of day in a run can.

    Attributes:
        alg: name of its algorithm.
        public_key: raw bytes.
        first_index: the first log index that it may have sealed, or None for no bound.
        last_index: the last one, or None.

    Raises:
        InvalidInput: `run-policy-invalid`.
    """

    alg: str
    public_key: bytes
    first_index: int | None = None
    last_index: int | None = None

    def __post_init__(self) -> None:
        _require_known(self.alg)
        first = 0 if self.first_index is None else self.first_index
        last = MAX_SAFE_INTEGER if self.last_index is None else self.last_index
        if not 0 <= first <= last <= MAX_SAFE_INTEGER:
            raise _invalid(f"a key cannot be valid from log index {first} to {last}")

    def covers(self, log_index: int | None) -> bool:
        """Whether the key is believed for a capsule at this index of the log; None: it is in no log.

        A key with a bound is not believed for what is in no log, where anything could be backdated.
        """
        if self.first_index is None and self.last_index is None:
            return True
        if log_index is None or log_index < (self.first_index or 0):
            return False
        return self.last_index is None or log_index <= self.last_index


@dataclass(frozen=True, slots=True)
class SealPolicy:
    """What a seal needs to be believed.

    Attributes:
        trusted: keys, each at most once; None: any key is taken, and the verdict says that nobody vouches for
            it.
        threshold: how many trusted keys must have signed, from 1. Keys are counted, not key ids.
        require: algorithms of each of which a trusted key must have signed.

    Raises:
        InvalidInput: `run-policy-invalid`, also where the policy could never be met.
    """

    trusted: tuple[TrustedKey, ...] | None = None
    threshold: int = 1
    require: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for alg in self.require:
            _require_known(alg)
        if self.threshold < 1:
            raise _invalid(f"a threshold is at least 1, got {self.threshold}")
        if self.trusted is None:
            return
        keys = {key.public_key for key in self.trusted}
        if len(keys) != len(self.trusted) or len(keys) > MAX_TRUSTED_KEYS:
            raise _invalid(f"trusted keys are each named once, and at most {MAX_TRUSTED_KEYS}")
        if self.threshold > len(keys):
            raise _invalid(f"{len(keys)} trusted keys can never be {self.threshold}")
        missing = self.require - {key.alg for key in self.trusted}
        if missing:
            raise _invalid(f"no trusted key is of the required {', '.join(sorted(missing))}")

    def trusts(self, alg: str, public_key: bytes, log_index: int | None) -> bool:
        """Whether a key is believed at an index of the log."""
        if self.trusted is None:
            return True
        return any(
            key.public_key == public_key and key.alg == alg and key.covers(log_index) for key in self.trusted
        )


def _require_known(alg: str) -> None:
    if alg not in ALGORITHMS:
        raise _invalid(f"{alg!r:.40} is none of {', '.join(ALGORITHMS)}")


def _invalid(why: str) -> InvalidInput:
    return InvalidInput(f"not a policy for seals: {why}", code="run-policy-invalid")
