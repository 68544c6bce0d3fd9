"""Runs that the public system's own tools trust although they should not: none of them earns a score."""

import json
from pathlib import Path
from typing import Any

from aioum.replay.facts import Profile
from aioum.trust.facts import FactState
from aioum.trust.manifest import EpisodePlan
from aioum.trust.replay_episodes import ReplayEpisodes
from tests.unit.replay.counter_adapter import recheck_replay
from tests.unit.trust.comparisons import Steps

# A run under another level's definition, and a run that was cut off, have nothing in them that is wrong. They
# score where a comparison asks for no completeness, and where its plugin does not look at the level.
UNSEEN = {"hole-level-config-and-truncation", "hole-tail-truncated"}


def counts(path: Path, profile: Profile) -> bool:
    with path.open(encoding="utf-8") as lines:
        header: dict[str, Any] = json.loads(lines.readline())
    # The planned seed is the honest run's; one of the holes is that it was replaced.
    seed = header["seed"] if header["seed"] != 77 else 1
    plan = EpisodePlan(0, "count", seed, 0, 100)
    verdict = ReplayEpisodes(Steps(), recheck_replay, profile=profile)(plan, path.read_bytes())
    states = {verdict.replay, verdict.signatures, verdict.semantics}
    return states == {FactState.VERIFIED} and not verdict.reasons


def test_runs_with_a_known_hole_do_not_count_where_signatures_are_required(shared_vectors_dir: Path) -> None:
    replays = sorted((shared_vectors_dir / "gaos" / "generated").glob("hole-*.gaos-replay.jsonl"))
    assert len(replays) == 13

    counted = {path.name.removesuffix(".gaos-replay.jsonl") for path in replays if counts(path, Profile.PAID)}

    assert counted == UNSEEN
    assert sum(counts(path, Profile.GAOS) for path in replays) == 12


def test_every_honest_signed_run_counts_under_the_stricter_rules(shared_vectors_dir: Path) -> None:
    replays = sorted((shared_vectors_dir / "gaos" / "generated").glob("trusted-*.gaos-replay.jsonl"))

    assert len(replays) == 14
    assert all(counts(path, Profile.PAID) for path in replays)
