"""How trust is reported: states of facts and the reasons for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FactState(StrEnum):
    """What is known of one fact; each stands for itself (SUBMISSIONS 3.2)."""

    VERIFIED = "verified"
    """Checked against the caller's own pins and found true."""

    UNVERIFIED = "unverified"
    """Shown, but the caller's pins and sources do not decide it."""

    FAILED = "failed"
    """Shown and refuted."""

    NOT_REQUIRED = "not-required"
    """Nobody asked for it and nothing was shown."""

    NOT_OBSERVED = "not-observed"
    """Nothing was shown."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a fact has its state.

    Attributes:
        code: stable, kebab-case.
        message: for a person.
    """

    code: str
    message: str
