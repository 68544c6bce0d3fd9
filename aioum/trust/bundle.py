"""A submission to a published comparison: manifest, episodes and the submitter's scores (SUBMISSIONS 3.2).

Reading one checks its form. What it says of itself, scores and digests included, is there to be compared.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.replay import fields
from aioum.trust.attestation import ExternalAttestation
from aioum.trust.manifest import MAX_EPISODES, EpisodePlan, Manifest
from aioum.trust.reading import items, placed
from aioum.trust.requirements import MAX_ATTESTATIONS

SCHEMA: Final = "gaos.benchmark-bundle.v1"

BUNDLE_CODE: Final = "bundle-invalid"

_DIGEST_HEX: Final = re.compile(r"[0-9a-f]{64}")
_MEMBERS: Final = frozenset(
    {"schema", "contentDigest", "manifest", "manifestDigest", "submission", "episodes", "scores"}
)
_SUBMISSION: Final = frozenset({"submissionId", "agentId", "agentKind"})
_ENTRY: Final = frozenset({"id", "plan", "terminalOutcome", "score", "replayDigest"})
_OBSERVATIONS: Final = "selfReportedObservations"
_REPORTED: Final = frozenset({"steps", "wallClockMs", "tokens", "cost", "provider"})


class AgentKind(StrEnum):
    """How the compared agent ran, in the submitter's words."""

    LOCAL = "local"
    PROVIDER = "provider"
    CLI = "cli"


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits, in their own words.

    Attributes:
        attestations: statements of others about the content digest, not covered by it.
    """

    submission_id: str
    agent_id: str
    agent_kind: AgentKind
    attestations: tuple[ExternalAttestation, ...] = ()

    @classmethod
    def from_json(cls, value: JsonValue) -> Submitter:
        """Read a submission's names and attestations. Raises InvalidInput `bundle-invalid`."""
        with placed("submission", BUNDLE_CODE):
            submission = fields.members(value, _SUBMISSION | {"attestations"}, _SUBMISSION)
            return cls(
                fields.text(submission, "submissionId"),
                fields.text(submission, "agentId"),
                AgentKind(fields.one_of(submission, "agentKind", tuple(AgentKind), BUNDLE_CODE)),
                tuple(
                    items(
                        submission.get("attestations", []),
                        "attestations",
                        ExternalAttestation.from_json,
                        most=MAX_ATTESTATIONS,
                        code=BUNDLE_CODE,
                    )
                ),
            )

    def names(self) -> dict[str, JsonValue]:
        """The members that the content digest covers."""
        return {
            "submissionId": self.submission_id,
            "agentId": self.agent_id,
            "agentKind": self.agent_kind.value,
        }

    def to_json(self) -> dict[str, JsonValue]:
        """The names, and the attestations where there are some."""
        if not self.attestations:
            return self.names()
        return self.names() | {"attestations": [each.to_json() for each in self.attestations]}


@dataclass(frozen=True, slots=True)
class Replay:
    """The evidence of an episode: JSON lines as text, or one JSON value.

    Attributes:
        digest_hex: hex SHA-256 of the canonical JSON; of the JSON string where the replay is text.

    Raises:
        CanonicalError: the value has no canonical form.
    """

    value: JsonValue
    digest_hex: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Hash it, once."""
        object.__setattr__(self, "digest_hex", hashlib.sha256(canonical_json(self.value)).hexdigest())

    @property
    def encoding(self) -> str:
        """`jsonl` or `json`."""
        return "jsonl" if isinstance(self.value, str) else "json"

    @property
    def data(self) -> bytes:
        """The bytes of the episode's file, which end with one line feed."""
        if isinstance(self.value, str):
            return self.value.rstrip("\n").encode() + b"\n"
        return canonical_json(self.value) + b"\n"


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode, as its submitter lays it out.

    Attributes:
        score: the submitter's; finite.
        replay_digest: hex; the submitter's.
        observations: `selfReportedObservations` (steps, time, tokens, cost); never verified, or None.
    """

    id: str
    plan: EpisodePlan
    replay: Replay
    terminal_outcome: JsonValue
    score: int | float
    replay_digest: str
    observations: dict[str, JsonValue] | None = None

    @classmethod
    def from_json(cls, value: JsonValue) -> Episode:
        """Read an episode together with its replay. Raises InvalidInput with any code."""
        required = _ENTRY | {"replay"}
        episode = fields.members(value, required | {_OBSERVATIONS}, required)
        return cls.of_entry({name: episode[name] for name in episode if name != "replay"}, episode["replay"])

    @classmethod
    def of_entry(cls, value: JsonValue, replay: JsonValue) -> Episode:
        """Read an episode whose replay stands elsewhere. Raises InvalidInput with any code."""
        entry = fields.members(value, _ENTRY | {_OBSERVATIONS}, _ENTRY)
        with placed("plan", BUNDLE_CODE):
            plan = EpisodePlan.from_json(entry["plan"])
        return cls(
            fields.text(entry, "id"),
            plan,
            Replay(replay),
            entry["terminalOutcome"],
            fields.number(entry, "score"),
            digest_hex(entry, "replayDigest"),
            _observations(entry),
        )

    def entry(self) -> dict[str, JsonValue]:
        """All members but the replay."""
        entry: dict[str, JsonValue] = {
            "id": self.id,
            "plan": self.plan.to_json(),
            "terminalOutcome": self.terminal_outcome,
            "score": self.score,
            "replayDigest": self.replay_digest,
        }
        return entry if self.observations is None else entry | {_OBSERVATIONS: self.observations}

    def to_json(self) -> dict[str, JsonValue]:
        """All members."""
        return self.entry() | {"replay": self.replay.value}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A submission.

    Attributes:
        manifest: the submitter's copy.
        manifest_digest: hex; the submitter's.
        scores: the submitter's aggregate, an object.
        content_digest: hex; the submitter's. What it must be is `computed_content_digest`.
        computed_content_digest: hex SHA-256 of the canonical JSON of all but attestations and this digest.
    """

    manifest: Manifest
    manifest_digest: str
    submitter: Submitter
    episodes: tuple[Episode, ...]
    scores: dict[str, JsonValue]
    content_digest: str
    computed_content_digest: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Hash the content, once. Raises InvalidInput `bundle-invalid` where it has no canonical form."""
        content = self._content()
        try:
            digest = hashlib.sha256(canonical_json(content)).hexdigest()
        except CanonicalError as error:
            raise InvalidInput(f"bundle: {error}", code=BUNDLE_CODE) from error
        object.__setattr__(self, "computed_content_digest", digest)

    @classmethod
    def from_json(cls, value: JsonValue) -> Bundle:
        """Read a bundle in one piece; unknown members are refused.

        Raises:
            InvalidInput: `bundle-invalid`, or `manifest-invalid` for the copy of the manifest.
        """
        with placed("bundle", BUNDLE_CODE):
            bundle = fields.members(value, _MEMBERS, _MEMBERS)
            fields.one_of(bundle, "schema", (SCHEMA,), BUNDLE_CODE)
            digests = digest_hex(bundle, "manifestDigest"), digest_hex(bundle, "contentDigest")
            episodes = items(
                bundle["episodes"], "episodes", Episode.from_json, most=MAX_EPISODES, code=BUNDLE_CODE
            )
            scores = read_scores(bundle, "scores")
        return cls(
            Manifest.from_json(bundle["manifest"]),
            digests[0],
            Submitter.from_json(bundle["submission"]),
            tuple(episodes),
            scores,
            digests[1],
        )

    def to_json(self) -> dict[str, JsonValue]:
        """The bundle in one piece."""
        return self._content() | {
            "submission": self.submitter.to_json(),
            "contentDigest": self.content_digest,
        }

    def _content(self) -> dict[str, JsonValue]:
        return {
            "schema": SCHEMA,
            "manifest": self.manifest.to_json(),
            "manifestDigest": self.manifest_digest,
            "submission": self.submitter.names(),
            "episodes": [episode.to_json() for episode in self.episodes],
            "scores": self.scores,
        }


def read_scores(value: dict[str, Any], name: str) -> dict[str, JsonValue]:
    """Read the submitter's aggregate: any object. Raises InvalidInput `not-an-object`."""
    scores = fields.optional_object(value, name)
    if scores is None:
        raise InvalidInput(f"{name} is missing", code="not-an-object")
    return scores


def digest_hex(value: dict[str, Any], name: str) -> str:
    """Read 64 lower-case hex digits. Raises InvalidInput `digest-invalid`."""
    found = value.get(name)
    if isinstance(found, str) and _DIGEST_HEX.fullmatch(found):
        return found
    raise InvalidInput(f"{name} must be 64 lower-case hex digits", code="digest-invalid")


def _observations(entry: dict[str, Any]) -> dict[str, JsonValue] | None:
    if _OBSERVATIONS not in entry:
        return None
    with placed(_OBSERVATIONS, BUNDLE_CODE):
        reported = fields.members(entry[_OBSERVATIONS], _REPORTED, frozenset({"steps"}))
        fields.count(reported, "steps")
        fields.optional_text(reported, "provider")
        measured = filter(reported.__contains__, ("wallClockMs", "tokens", "cost"))
        if any(number < 0 for number in map(partial(fields.number, reported), measured)):
            raise InvalidInput("a measure is negative", code=BUNDLE_CODE)
        return reported
