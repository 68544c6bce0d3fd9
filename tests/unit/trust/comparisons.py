"""A small comparison: the counter game, two tasks, three episodes, and signed runs of them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.chain import Submission, genesis
from aioum.core.submission.framing import SCHEME, encode_base64
from aioum.core.submission.keys import SubmissionKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.replay.facts import Profile
from aioum.replay.writing import build_artifact, write_artifact
from aioum.trust.attestation import ExternalAttestation, ExternalKeyRef, Purpose
from aioum.trust.bundle import AgentKind, Bundle, Submitter
from aioum.trust.bundle_verdict import BundleVerdict, JudgeEpisode, OutsideTrust, verify_bundle
from aioum.trust.manifest import EpisodePlan, Manifest
from aioum.trust.packing import pack_bundle
from aioum.trust.policy import KeyPin, KnownKeys, Resolvers
from aioum.trust.replay_episodes import ReplayEpisodes
from aioum.trust.scoring import EpisodeScore, JudgedRun
from tests.unit.replay.counter_adapter import recheck_replay
from tests.unit.trust.authorities import KEY as CLOCK_KEY
from tests.unit.trust.authorities import attested, material

Json = dict[str, Any]

NOW = datetime(2026, 7, 27, tzinfo=UTC)
SEAT = "alpha"
KEY = SubmissionKey(bytes(31) + b"\x05")
PLUGIN = "steps@1"
SUBMITTER = Submitter("2026-07", "shop-7", AgentKind.LOCAL)


class Steps:
    """Scores a run by the number of its actions."""

    name = PLUGIN

    def score(self, run: JudgedRun) -> EpisodeScore:
        steps = run.artifact.header.total_actions_used
        return EpisodeScore(steps, {"steps": steps})


def manifest_json(**changes: Any) -> Json:
    manifest: Json = {
        "schema": "gaos.benchmark-manifest.v1",
        "benchmark": {"id": "counters", "version": "1", "adapter": "counter@1"},
        "tasks": [
            {"id": "count", "seeds": [7, 3], "episodes": 1, "maxSteps": 9},
            {"id": "weigh", "seeds": [1], "episodes": 1, "maxSteps": 9, "weight": 3},
        ],
        "scoring": {"plugin": PLUGIN, "aggregation": "weighted-mean"},
        "submission": {"requireSignedSeats": True, "requireCompleteCoverage": False},
    }
    return manifest | changes


def manifest(**changes: Any) -> Manifest:
    return Manifest.from_json(manifest_json(**changes))


MANIFEST = manifest()


def run(session_id: str, seed: int, steps: int, *, signed: bool = True, **changes: Any) -> bytes:
    """A run that counts to `steps`, one at a time."""
    roster = Roster((RosterEntry(SEAT, KEY.public_key, 1),))
    result = {"status": "won", "stars": 1, "actionsUsed": steps}
    header: Json = {
        "kind": "header",
        "format": "gaos.replay",
        "formatVersion": "1.3",
        "sessionId": session_id,
        "game": {"id": "counter", "version": "1", "adapter": {"id": "counter", "version": "1"}},
        "seed": seed,
        "seedPolicy": "explicit",
        "perm": [0],
        "levels": [
            {
                "index": 0,
                "id": "only",
                "version": "1",
                "seed": seed,
                "level": {"goal": steps},
                "result": result,
            }
        ],
        "totals": {"totalStars": 1, "totalActionsUsed": steps},
    }
    if signed:
        header |= {"seatKeys": roster.to_json(), "signaturePolicy": {"scheme": SCHEME}}
    lines = [
        {"kind": "resolution", "n": n, "levelIndex": 0, "tick": n, "cause": "complete", "inputs": [each]}
        for n, each in enumerate(_inputs(session_id, steps, roster, signed=signed))
    ]
    return write_artifact(build_artifact(header | changes, lines))


def _inputs(session_id: str, steps: int, roster: Roster, *, signed: bool) -> Iterator[Json]:
    command = canonical_json({"amount": 1})
    head = genesis(session_id, SEAT, roster.hash)
    for position in range(steps):
        submission = Submission(session_id, SEAT, f"call-{position}", position, position, 1, command, head)
        chain: Json = {
            "submissionId": submission.submission_id,
            "canonicalCommand": command.decode(),
            "cursor": position,
            "clientTime": 1,
            "prevChainHash": encode_base64(head),
            "sig": encode_base64(submission.sign(KEY)),
        }
        action = {"wireId": "Action 1", "canonicalId": "Action 1", "payload": {"amount": 1}, "seat": SEAT}
        yield action | (chain if signed else {})
        head = submission.head()


def judge(profile: Profile = Profile.PAID) -> ReplayEpisodes:
    return ReplayEpisodes(Steps(), recheck_replay, profile=profile)


def replays(plan: tuple[EpisodePlan, ...] = MANIFEST.plan(), **options: Any) -> dict[str, bytes]:
    """An honest run for each episode: two steps in the first, one more in each after it."""
    return {each.id: run(f"session {each.index}", each.seed, each.index + 2, **options) for each in plan}


def packed(
    runs: dict[str, bytes] | None = None,
    of: Manifest = MANIFEST,
    judge_episode: JudgeEpisode | None = None,
) -> Bundle:
    return pack_bundle(of, SUBMITTER, replays() if runs is None else runs, judge_episode or judge())


def verified(
    bundle: Bundle,
    by: Manifest = MANIFEST,
    judge_episode: JudgeEpisode | None = None,
    trust: OutsideTrust | None = None,
) -> BundleVerdict:
    trust = trust or OutsideTrust(NOW)
    return verify_bundle(bundle, manifest=by, judge_episode=judge_episode or judge(), trust=trust)


def codes(verdict: BundleVerdict) -> list[str]:
    return [reason.code for reason in verdict.reasons]


CLOCK = ExternalKeyRef("clock", "1", Purpose.TIMESTAMP)
TRUST = OutsideTrust(
    NOW,
    (KeyPin(CLOCK, frozenset({material(CLOCK_KEY).digest_hex})),),
    Resolvers(KnownKeys({CLOCK: material(CLOCK_KEY)})),
)


def timed(*, required: bool = True) -> Manifest:
    requirement = {
        "claim": "time",
        "purpose": "timestamp",
        "authorityId": "clock",
        "acceptedSchemas": ["aioum.time.v1"],
        "revocationPolicy": "ignore",
        "required": required,
    }
    return manifest(authorityRequirements=[requirement])


def statement(bundle: Bundle, **changes: Any) -> ExternalAttestation:
    members: Json = {
        "schema": "aioum.time.v1",
        "authority": CLOCK,
        "subject_digest": bundle.computed_content_digest,
    }
    return attested(**(members | changes))


def with_statements(bundle: Bundle, *statements: ExternalAttestation) -> Bundle:
    return replace(bundle, submitter=replace(SUBMITTER, attestations=statements))
