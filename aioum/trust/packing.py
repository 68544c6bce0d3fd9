"""Making a submission out of a comparison's manifest and the replays of its episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aioum.core.errors import InvalidInput, Refused
from aioum.trust.bundle import Bundle, Episode, Replay, Submitter
from aioum.trust.bundle_verdict import JudgeEpisode
from aioum.trust.facts import FactState
from aioum.trust.manifest import EpisodePlan, Manifest
from aioum.trust.scoring import aggregate


def pack_bundle(
    manifest: Manifest, submitter: Submitter, replays: Mapping[str, bytes], judge_episode: JudgeEpisode
) -> Bundle:
    """A submission with the scores that a verifier will compute again.

    Args:
        manifest: the organizer's.
        submitter: names; attestations come later, for they are about the result's digest.
        replays: by the id of their episode; JSON lines in UTF-8.
        judge_episode: with the comparison's own adapter and plugin.

    Raises:
        InvalidInput: `episode-missing`; `replay-not-utf8`; `score-not-finite`; `bundle-invalid`.
        Refused: `episode-not-scored`, with what is wrong with it.
    """
    episodes = tuple(_episode(plan, replays.get(plan.id), judge_episode) for plan in manifest.plan())
    scores = aggregate(manifest, [(episode.plan, episode.score) for episode in episodes])
    draft = Bundle(manifest, manifest.digest_hex, submitter, episodes, scores.to_json(), content_digest="")
    return replace(draft, content_digest=draft.computed_content_digest)


def _episode(plan: EpisodePlan, data: bytes | None, judge_episode: JudgeEpisode) -> Episode:
    if data is None:
        raise InvalidInput(f"there is no replay of {plan.id:.200}", code="episode-missing")
    try:
        text = data.decode().rstrip("\n") + "\n"
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the replay of {plan.id:.200} is not UTF-8", code="replay-not-utf8") from error
    replay = Replay(text)
    verdict = judge_episode(plan, replay.data)
    if verdict.score is None or verdict.reasons or verdict.replay is FactState.FAILED:
        why = "; ".join(reason.message for reason in verdict.reasons) or "it has no score"
        raise Refused(f"{plan.id:.200}: {why}", code="episode-not-scored")
    return Episode(plan.id, plan, replay, verdict.terminal_outcome, verdict.score, replay.digest_hex)
