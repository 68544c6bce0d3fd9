"""What is known of a submission to a published comparison, each fact for itself (SUBMISSIONS 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from aioum.core.canonical import JsonValue
from aioum.trust.facts import FactState


class Fact(StrEnum):
    """The public names."""

    REPLAY = "replay"
    """The recorded steps of every episode reproduce its recorded results."""

    SIGNATURES = "signatures"
    """Every call of every episode is signed by its seat."""

    SEMANTICS = "semantics"
    """What was recorded is what the signed commands mean."""

    EVIDENCE_COMPLETE = "evidenceComplete"
    """No episode was cut off at its end."""

    ORGANIZER_REPRODUCED = "organizerReproduced"
    """The organizer ran it again and got the same."""

    IMPLEMENTATION_OPEN = "implementationOpen"
    """What was compared is published."""

    MODEL_IDENTITY = "modelIdentityAttested"
    HIDDEN_TEST = "hiddenTestCompliant"
    ACCOUNT_IDENTITY = "accountIdentityAttested"
    TIME = "timeAttested"
    PUBLICATION = "publicationLogged"
    TAIL_ANCHORED = "tailAnchored"
    AVAILABILITY = "availabilityObserved"


@dataclass(frozen=True, slots=True)
class SubmissionFacts:
    """The facts, as a verifier found them.

    Attributes:
        states: by fact; what is absent was not observed.
        authorities: what became of each attestation that decided, for a report.
        reasons: codes.
    """

    states: Mapping[Fact, FactState] = field(default_factory=dict)
    authorities: tuple[dict[str, JsonValue], ...] = ()
    reasons: tuple[str, ...] = ()

    def __getitem__(self, fact: Fact) -> FactState:
        return self.states.get(fact, FactState.NOT_OBSERVED)

    def to_json(self) -> dict[str, JsonValue]:
        """All thirteen, with `externalAuthorities` and `reasons`."""
        states: dict[str, JsonValue] = {fact.value: self[fact].value for fact in Fact}
        return states | {"externalAuthorities": list(self.authorities), "reasons": list(self.reasons)}


NOTHING_OBSERVED = SubmissionFacts()
"""What a submitter can say of their own submission: nothing."""


def combined(states: Iterable[FactState]) -> FactState:
    """One fact over all episodes: `failed` where one failed, `verified` where all are, else `unverified`."""
    found = set(states)
    if FactState.FAILED in found:
        return FactState.FAILED
    return FactState.VERIFIED if found == {FactState.VERIFIED} else FactState.UNVERIFIED
