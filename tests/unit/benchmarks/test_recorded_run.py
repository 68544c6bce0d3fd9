from typing import Any

import pytest

from aioum.replay.facts import Profile, Verdict
from aioum.replay.reading import read_artifact
from aioum.replay.verdict import judge
from benchmarks.recorded_run import ADAPTER, recorded_run


@pytest.mark.parametrize("calls, signed_every", [(0, 1), (5, 1), (10, 5), (12, 5)])
def test_sessions_of_the_benchmark_are_honest_and_its_adapter_knows_them(
    calls: int, signed_every: int
) -> None:
    adapter: dict[str, Any] = {}
    exec(ADAPTER, adapter)
    artifact = read_artifact(recorded_run(calls, signed_every=signed_every))
    found = judge(artifact, recheck_replay=adapter["recheck_replay"])
    assert (found.verdict, found.signatures.submissions) == (Verdict.TRUSTED, calls)
    strict = judge(artifact, profile=Profile.PAID, recheck_replay=adapter["recheck_replay"])
    assert strict.verdict is Verdict.UNVERIFIABLE
    assert strict.problems == ()
