"""docs/published-comparisons.md names every code of the judge of submissions, and its plugin works."""

import re
from pathlib import Path
from typing import Any

from aioum.replay.paid import recheck_replay
from aioum.trust.replay_episodes import ReplayEpisodes
from aioum.trust.scoring import FunctionPlugin
from tests.unit.replay.paid.artifacts import exported
from tests.unit.trust.test_bundle_paid_sessions import BY_SPEND, EPISODE

MODULES = ("bundle", "bundle_verdict", "manifest", "package", "replay_episodes", "scoring")
CODE = re.compile(r"(?:Reason\(|code=|_CODE: Final = |_SET: Final = |_CANONICAL: Final = )\s*\"([a-z-]+)\"")


def test_every_code_is_named(repository: Path) -> None:
    page = (repository / "docs" / "published-comparisons.md").read_text(encoding="utf-8")
    sources = [(repository / "aioum" / "trust" / f"{name}.py").read_text() for name in MODULES]

    codes = {code for source in sources for code in CODE.findall(source)}

    assert len(codes) > 20
    # Codes of single members, which the document's own code replaces, and of a misuse in code.
    inner = {"not-an-object", "digest-invalid", "scores-incomplete"}
    assert {code for code in codes - inner if f"`{code}`" not in page} == set()


def test_the_plugin_of_the_page_scores_a_paid_session(repository: Path) -> None:
    page = (repository / "docs" / "published-comparisons.md").read_text(encoding="utf-8")
    [source] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(source, "published-comparisons.md", "exec"), names)

    plugin = FunctionPlugin(names["SCORING"], names["score_episode"])
    found = ReplayEpisodes(plugin, paid_recheck=recheck_replay)(EPISODE, exported())

    assert names["SCORING"] == BY_SPEND.plugin
    assert found.reasons == ()
    assert found.score is not None
