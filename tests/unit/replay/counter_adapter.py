"""Adapter of the counter game that the shared replays were recorded with."""

from typing import Any

from aioum.replay.game import Game, SubmissionContext, TimeoutContext, View

STEP = "Action 1"


class Counter:
    def init(self, level: Any, seed: int) -> dict[str, Any]:
        return {"total": 0, "used": 0, "goal": level["goal"]}

    def advance(self, state: dict[str, Any], inputs: list[dict[str, Any]]) -> dict[str, Any]:
        for each in inputs:
            payload = each.get("payload")
            state["total"] += payload.get("amount", 0) if isinstance(payload, dict) else 0
            state["used"] += 1
        return state

    def view(self, state: dict[str, Any]) -> View:
        won = state["total"] >= state["goal"]
        return View("won" if won else "playing", state["used"], 1 if won else None)


def command_to_action(command: Any, context: SubmissionContext) -> dict[str, Any]:
    kind = command.get("kind") if isinstance(command, dict) else None
    envelope = {key: command[key] for key in command if key != "kind"} if kind else {}
    if kind == "commit":
        return {"id": STEP, "commit": {**envelope, "scheme": "gaos.commit.sha256.v1"}}
    if kind == "reveal":
        return {"id": STEP, "reveal": envelope}
    return {"id": STEP, "payload": command}


def timeout_to_action(context: TimeoutContext, timeout: dict[str, Any]) -> dict[str, Any]:
    seat = {} if context.participant_id is None else {"seat": context.participant_id}
    return {"id": STEP, "payload": {"amount": 0}, **seat}


recheck_replay = Game(Counter(), command_to_action, timeout_to_action).recheck
