"""What a judge found out about an artifact: each fact by itself, and the verdict (SUBMISSIONS 2.6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from aioum.core.submission.framing import encode_base64
from aioum.core.types import Bytes32
from aioum.replay.model import FORMAT, JsonObject, Record
from aioum.replay.problems import Problem

REPORT_VERSION: Final = 1
MAX_LISTED: Final = 100
"""Most problems and most diagnostics that a list of the report names; all are counted."""


class Profile(StrEnum):
    """Which rules judge: those of the format's own tools, or also those that paid sessions are held to."""

    GAOS = "gaos"
    PAID = "paid"


class Verdict(StrEnum):
    """`unverifiable` is lack of evidence; `rejected` is evidence of a fault."""

    TRUSTED = "trusted"
    UNVERIFIABLE = "unverifiable"
    REJECTED = "rejected"


class SignatureState(StrEnum):
    """Whether signatures cover the artifact: all of it, not all of it, or it declares none."""

    SIGNED = "signed"
    PARTIAL = "partial"
    UNSIGNED = "unsigned"


class Lane(StrEnum):
    """Whether recorded actions are what an adapter's pure mappings give for the signed commands."""

    VERIFIED = "verified"
    UNAVAILABLE = "unavailable"
    NOT_APPLICABLE = "not_applicable"
    FAILED = "failed"


class Completeness(StrEnum):
    """Whether a cut-off tail would have been noticed, and by what; `failed`: a retained head is missing."""

    NOT_CHECKED = "not_checked"
    FAILED = "failed"
    RETAINED_HEADS = "retained_heads"
    ANCHORED = "anchored"


class Terms(StrEnum):
    """Whether the signatures bind the terms: game, version, level, prices.

    `unbound`: the session id is no digest of them. `claimed`: it has the form of one, and nothing has held
    the terms against it. `bound`: an adapter has.
    """

    UNBOUND = "unbound"
    CLAIMED = "claimed"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class SeatReport:
    """What was found of one seat of the roster.

    Attributes:
        chain_reproduced: every head that the seat signed over is the one that its submissions give.
        policy_satisfied: every submission is covered by a valid signature in time.
        chain_head: the head after the last submission that reproduces.
    """

    seat: str
    submissions: int
    valid_signatures: int
    chain_reproduced: bool
    policy_satisfied: bool
    chain_head: Bytes32

    def to_json(self) -> JsonObject:
        """The seat's part of the report."""
        return {
            "seat": self.seat,
            "submissions": self.submissions,
            "validSignatures": self.valid_signatures,
            "chainReproduced": self.chain_reproduced,
            "policySatisfied": self.policy_satisfied,
            "chainHead": encode_base64(self.chain_head),
        }


@dataclass(frozen=True, slots=True)
class SignatureReport:
    """What the signatures prove, without any product code. `seats` is in the order of the roster."""

    state: SignatureState
    problems: tuple[Problem, ...] = ()
    seats: tuple[SeatReport, ...] = ()

    @property
    def submissions(self) -> int:
        """Submissions of all seats."""
        return sum(seat.submissions for seat in self.seats)

    def to_json(self) -> JsonObject:
        """The report's member `signatures`."""
        return {
            "state": self.state.value,
            **listed("problems", self.problems),
            "seats": [seat.to_json() for seat in self.seats],
        }


@dataclass(frozen=True, slots=True)
class Semantics:
    """Whether signed commands and timeouts map to what was recorded."""

    submissions: Lane
    timeouts: Lane
    problems: tuple[Problem, ...] = ()

    @property
    def lanes(self) -> tuple[Lane, Lane]:
        """Both states."""
        return self.submissions, self.timeouts

    def to_json(self) -> JsonObject:
        """The report's member `semantics`."""
        return {
            "submissions": self.submissions.value,
            "timeouts": self.timeouts.value,
            **listed("problems", self.problems),
        }


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on an artifact and every fact behind it.

    Attributes:
        profile_by: `caller`, or `session-id` where nobody chose and the id decided.
        adapter_ran: whether product code took part.
        replay_ok: whether the recorded steps reproduce the recorded results; None where nothing could tell.
        problems: of consistency and of the profile's rules; those of signatures and semantics are there.
        reasons: codes that keep the artifact from being trusted; empty where it is.
        diagnostics: what is worth knowing and changes no verdict.
        facts: what an adapter reports beside the verdict; never folded into it.
        replayed: what an adapter's run ended with, or None.
        dmath: the declared arithmetic (`header.extensions.dmath`), or None.
    """

    verdict: Verdict
    profile: Profile
    profile_by: str
    format_version: str
    session_id: str
    adapter_ran: bool
    replay_ok: bool | None
    signatures: SignatureReport
    semantics: Semantics
    terms: Terms
    completeness: Completeness
    problems: tuple[Problem, ...] = ()
    reasons: tuple[str, ...] = ()
    diagnostics: tuple[Problem, ...] = ()
    facts: JsonObject = field(default_factory=dict)
    replayed: Any = None
    dmath: Any = None

    @property
    def exit_code(self) -> int:
        """1 for `rejected`, else 0."""
        return int(self.verdict is Verdict.REJECTED)

    def all_problems(self) -> tuple[Problem, ...]:
        """Every problem, those of consistency first."""
        return self.problems + self.signatures.problems + self.semantics.problems

    def to_json(self) -> JsonObject:
        """The report of `verify-run --json` (docs/verify-run.schema.json)."""
        return {
            "reportVersion": REPORT_VERSION,
            "verdict": self.verdict.value,
            "profile": self.profile.value,
            "profileBy": self.profile_by,
            "format": FORMAT,
            "formatVersion": self.format_version,
            "sessionId": self.session_id,
            "dmath": self.dmath,
            "adapterRan": self.adapter_ran,
            "replayOk": self.replay_ok,
            "signatures": self.signatures.to_json(),
            "semantics": self.semantics.to_json(),
            "terms": self.terms.value,
            "completeness": self.completeness.value,
            **listed("problems", self.problems),
            **listed("diagnostics", self.diagnostics),
            "reasons": list(self.reasons),
            "facts": self.facts,
            "replayed": self.replayed,
            "exitCode": self.exit_code,
        }


def listed(name: str, problems: tuple[Problem, ...]) -> JsonObject:
    """The first problems as JSON, and how many there are: `NAME` and `NAMECount`, in the singular."""
    shown = [{"code": each.code, "where": each.where, "text": each.message} for each in problems[:MAX_LISTED]]
    return {name: shown, f"{name.removesuffix('s')}Count": len(problems)}


def unique(codes: Iterable[str]) -> tuple[str, ...]:
    """The codes without repetitions, in order."""
    return tuple(dict.fromkeys(codes))


def place(record: Record, input_index: int | None = None) -> str:
    """Where something is, for a problem: `resolution 3 input 0`."""
    where = f"{record.json['kind']} {record.n}"
    return where if input_index is None else f"{where} input {input_index}"
