"""The calls of a paid artifact, one step and one result each, and what they add up to (SUBMISSIONS 5)."""

from __future__ import annotations

from dataclasses import dataclass, field

from aioum.core.amounts import parse_amount
from aioum.core.canonical import canonical_bytes
from aioum.core.errors import InvalidInput
from aioum.core.hextext import bytes32, to_hex
from aioum.core.merkle import root_of
from aioum.core.transcript import EMPTY_ROOT, node_hash
from aioum.core.types import Bytes32
from aioum.replay.facts import place
from aioum.replay.model import CAUSE_COMPLETE, Artifact, Extension, Input, Level, Record, Resolution
from aioum.replay.paid.calls import CallResult, ToolActions
from aioum.replay.paid.session import RESULT_LANE, SUBMISSION_LANE, PaidSession
from aioum.replay.problems import Problem


@dataclass(frozen=True, slots=True)
class PaidCall:
    """A call whose step and result fit each other."""

    tool_id: str
    request: bytes
    price: int
    result: CallResult
    seat: str | None

    @property
    def index(self) -> int:
        """Position in the session."""
        return self.result.index


@dataclass(slots=True)
class Calls:
    """What the lines say.

    Attributes:
        calls: by position; calls with a problem of form are left out.
        steps: number of steps, those included.
        beside: records of the submission lane, which are no steps.
    """

    calls: list[PaidCall] = field(default_factory=list)
    steps: int = 0
    beside: list[Extension] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every step is a call."""
        return len(self.calls) == self.steps

    @property
    def root(self) -> Bytes32:
        """Root over the leaves, where complete."""
        return self.prefix_root(self.steps)

    def prefix_root(self, count: int) -> Bytes32:
        """Root over the first leaves."""
        leaves = [call.result.leaf for call in self.calls[:count]]
        return Bytes32(root_of(leaves, node_hash) or EMPTY_ROOT)

    @property
    def spent(self) -> int | None:
        """Base units charged in all; None where a charge is not known."""
        charges = [call.result.charge for call in self.calls if call.result.charge is not None]
        return sum(charges) if self.complete and len(charges) == self.steps else None


def read_calls(artifact: Artifact, session: PaidSession) -> Calls:
    """Take the lines apart.

    Codes: `call-form-wrong`, `command-malformed`, `action-mismatch`, `result-missing`, `result-unexpected`,
    `result-malformed`, `result-index-mismatch`, `result-leaf-mismatch`, `charge-mismatch`.
    """
    found = Calls()
    actions = ToolActions(session.tools)
    prices = {tool.id: tool.price for tool in session.card.tools}
    waiting: Resolution | None = None
    for line in artifact.lines:
        if isinstance(line, Extension) and line.lane == RESULT_LANE:
            if waiting is None:
                _problem(found, "result-unexpected", "a result without its call just before", line)
            else:
                _take(found, waiting, line, actions, prices)
                waiting = None
            continue
        if waiting is not None:
            _problem(found, "result-missing", "no result follows the call", waiting)
            waiting = None
        if isinstance(line, Resolution):
            found.steps += 1
            waiting = line
        elif isinstance(line, Extension) and line.lane == SUBMISSION_LANE:
            found.beside.append(line)
        elif not isinstance(line, Extension):
            _problem(found, "call-form-wrong", "a paid session has resolutions and their results", line)
    if waiting is not None:
        _problem(found, "result-missing", "no result follows the call", waiting)
    return found


def check_outcome(level: Level, found: Calls, session: PaidSession) -> list[Problem]:
    """Hold the recorded outcome against the calls.

    Codes: `status-mismatch`, `stars-mismatch`, `actions-used-mismatch`, `outcome-malformed`, `root-mismatch`,
    `spent-mismatch`, `spent-above-deposit`.
    """
    where = "header.levels[0].result"
    recorded = level.result
    problems = [
        Problem(code, f"{name} is {was}, a paid session gives {expected}", where)
        for code, name, was, expected in (
            ("status-mismatch", "status", recorded.status, "ended"),
            ("stars-mismatch", "stars", recorded.stars, None),
            ("actions-used-mismatch", "actionsUsed", recorded.actions_used, found.steps),
        )
        if was != expected
    ]
    outcome = recorded.json.get("extensions", {})
    try:
        root = bytes32(outcome.get("root"))
        spent = parse_amount(outcome["spent"]) if "spent" in outcome else None
    except InvalidInput as error:
        return [*problems, Problem("outcome-malformed", str(error), where)]
    if found.complete and root != found.root:
        message = f"root is {to_hex(root)}, the calls have {to_hex(found.root)}"
        problems.append(Problem("root-mismatch", message, where))
    if spent is not None and found.complete and spent != found.spent:
        message = f"spent is {spent}, the receipts add up to {found.spent}"
        problems.append(Problem("spent-mismatch", message, where))
    if found.spent is not None and session.deposit is not None and found.spent > session.deposit:
        message = f"{found.spent} spent of a deposit of {session.deposit}"
        problems.append(Problem("spent-above-deposit", message, where))
    return problems


def _take(
    found: Calls, step: Resolution, line: Extension, actions: ToolActions, prices: dict[str, int]
) -> None:
    if len(step.inputs) != 1 or step.cause != CAUSE_COMPLETE:
        _problem(found, "call-form-wrong", "a call is one input, complete", step)
        return
    given = step.inputs[0]
    try:
        action = actions.command_to_action(given.json.get("payload"))
        request = _request(given)
        result = CallResult.from_json(line.record)
    except InvalidInput as error:
        _problem(found, error.code, str(error), line if error.code == "result-malformed" else step)
        return
    if given.integrity is None and given.json["canonicalId"] != action["id"]:
        # Of a signed call, the semantic mapping says so.
        _problem(found, "action-mismatch", f"the command stands for {action['id']}", step)
        return
    index = found.steps - 1
    tool_id: str = action["payload"]["tool"]
    # A tool that the card lacks has no price, so nothing may be charged for it.
    price = prices.get(tool_id, 0)
    if result.index != index:
        _problem(found, "result-index-mismatch", f"index is {result.index}, expected {index}", line)
    elif result.leaf != result.expected_leaf(request, tool_id):
        message = "the leaf is not that of this command and response"
        _problem(found, "result-leaf-mismatch", message, line)
    elif result.charge not in (None, 0, price):
        _problem(found, "charge-mismatch", f"charged {result.charge}, the price is {price}", line)
    else:
        found.calls.append(PaidCall(tool_id, request, price, result, given.seat))


def _request(given: Input) -> bytes:
    """The transcript's request: what was signed, or the payload as the node canonicalizes it."""
    return canonical_bytes(given.json["payload"]) if given.integrity is None else given.integrity.command


def _problem(found: Calls, code: str, message: str, line: Record) -> None:
    found.problems.append(Problem(code, message, place(line)))
