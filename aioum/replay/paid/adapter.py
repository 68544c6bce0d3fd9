"""The adapter of paid sessions: `recheck_replay`, and what it can do with more at hand (SUBMISSIONS 5).

Calls, prices and outcome are rechecked always, and decide whether the artifact is consistent. What the
operator signed, what was paid, what runs again and what is anchored are facts of their own: each can fail
while the client's signatures are trusted, so they go into no verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from aioum.core.errors import InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.types import Bytes32
from aioum.replay.adapter import MAX_PROBLEMS, AdapterArtifact
from aioum.replay.game import Game
from aioum.replay.model import Artifact, JsonObject
from aioum.replay.paid.binding import check_binding
from aioum.replay.paid.calls import ToolActions
from aioum.replay.paid.facts import Fact, FactState
from aioum.replay.paid.money import check_payment, check_receipts
from aioum.replay.paid.outside import check_outside
from aioum.replay.paid.reproduction import Runner, check_reproduction
from aioum.replay.paid.session import ADAPTER_ID, ADAPTER_VERSION, SESSION_EXTENSION, PaidSession
from aioum.replay.paid.steps import Calls, check_outcome, read_calls
from aioum.replay.problems import Problem
from aioum.replay.semantics import check_semantics


@dataclass(frozen=True, slots=True)
class PaidAdapter:
    """The adapter, with what a caller has beside the artifact.

    Attributes:
        runner: runs calls of deterministic tools again; None leaves that unchecked.
        anchor: root and number of calls as the chain has them; None leaves that unchecked.
    """

    runner: Runner | None = None
    anchor: tuple[Bytes32, int] | None = None

    def recheck_replay(self, artifact: AdapterArtifact) -> JsonObject:
        """See `RecheckReplay`. Raises ConfigError as the runner."""
        header = artifact.parsed.header
        extension = header.extensions.get(SESSION_EXTENSION)
        adapter = header.adapter
        if (adapter.id, adapter.version) != (ADAPTER_ID, ADAPTER_VERSION) or extension is None:
            message = f"{adapter.id} {adapter.version}, expected {ADAPTER_ID} {ADAPTER_VERSION}"
            unknown = Problem("adapter-version-unknown", f"{message} and {SESSION_EXTENSION}", "header")
            return {"ok": None, "diagnostics": [unknown]}
        try:
            session = PaidSession.from_json(extension)
        except InvalidInput as error:
            return {"ok": False, "problems": [Problem(error.code, str(error), "header.extensions")]}
        return self._recheck(artifact.parsed, session)

    def _recheck(self, artifact: Artifact, session: PaidSession) -> JsonObject:
        actions = ToolActions(session.tools)
        semantics = check_semantics(
            artifact, Game(command_to_action=actions.command_to_action), ungrouped=True
        )
        unbound = check_binding(artifact.header, session)
        calls = read_calls(artifact, session)
        outside = check_outside(artifact, calls, session.channel_id)
        problems = [
            *unbound,
            *calls.problems,
            *check_outcome(artifact.header.levels[0], calls, session),
            *_totals(artifact, calls),
            *outside.problems,
        ]
        reproduction = check_reproduction(calls, session, self.runner)
        facts = {
            "terms": Fact(FactState.FAILED if unbound else FactState.VERIFIED),
            "receipts": check_receipts(calls, session),
            "payment": check_payment(calls, session),
            "reexecuted": reproduction.fact,
            "anchored": self._anchored(calls),
            # A log's checkpoint and proof are not part of an artifact.
            "logged": Fact(FactState.NOT_CHECKED),
        }
        return {
            "ok": not problems,
            "problems": problems[:MAX_PROBLEMS],
            "diagnostics": [
                *outside.equivocations,
                *(problem for fact in facts.values() for problem in fact.problems),
            ][:MAX_PROBLEMS],
            "semantics": {
                "submissions": semantics.submissions.value,
                "timeouts": semantics.timeouts.value,
                "problems": semantics.problems[:MAX_PROBLEMS],
            },
            "facts": {name: fact.state.value for name, fact in facts.items()},
            "replayed": {
                "calls": calls.steps,
                "root": to_hex(calls.root) if calls.complete else None,
                "spent": None if calls.spent is None else str(calls.spent),
                "reproduced": reproduction.reproduced,
                "notReproducible": reproduction.skipped,
                "unanswered": outside.unanswered,
                "equivocations": len(outside.equivocations),
            },
        }

    def _anchored(self, calls: Calls) -> Fact:
        if self.anchor is None:
            return Fact(FactState.NOT_CHECKED)
        if calls.complete and self.anchor == (calls.root, calls.steps):
            return Fact(FactState.VERIFIED)
        message = f"the chain has {to_hex(self.anchor[0])} over {self.anchor[1]} calls"
        return Fact(FactState.FAILED, [Problem("anchored-root-mismatch", message, "header.levels[0].result")])


def recheck_replay(artifact: AdapterArtifact) -> JsonObject:
    """Recheck a paid session's artifact with nothing beside it."""
    return PaidAdapter().recheck_replay(artifact)


def _totals(artifact: Artifact, calls: Calls) -> list[Problem]:
    header = artifact.header
    if (header.total_stars, header.total_actions_used) == (0, calls.steps):
        return []
    return [Problem("totals-mismatch", "totals do not follow from the calls", "header.totals")]
