"""Recorded sessions to judge, of any length, signed call by call or over every so many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.chain import Periodic, Submission, genesis, head_after
from aioum.core.submission.framing import SCHEME, encode_base64
from aioum.core.submission.keys import SubmissionKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.replay.model import FORMAT, WRITTEN_VERSION

_SESSION = "benchmark"
_SEAT = "client"
# Throw-away.
_KEY = SubmissionKey(bytes(31) + b"\x07")

ADAPTER = """\
from aioum.replay.game import Game, View


class Tally:
    def init(self, level, seed):
        return {"calls": 0, "most": level["calls"]}

    def advance(self, state, inputs):
        state["calls"] += len(inputs)
        return state

    def view(self, state):
        return View("ended" if state["calls"] == state["most"] else "playing", state["calls"])


def command_to_action(command, context):
    return {"id": "Action 1", "payload": command}


recheck_replay = Game(Tally(), command_to_action).recheck
"""
"""The source of an adapter that counts the calls and maps each."""


def recorded_run(calls: int, *, signed_every: int) -> bytes:
    """A session of so many calls whose seat signs each of them, or its head after every `signed_every`."""
    roster = Roster.of(RosterEntry(_SEAT, _KEY.public_key, signed_every))
    lines = [_header(calls, roster)]
    for line in _calls(calls, roster, signed_every):
        lines.append({**line, "n": len(lines) - 1, "levelIndex": 0})
    return b"".join(canonical_json(line) + b"\n" for line in lines)


def _header(calls: int, roster: Roster) -> dict[str, Any]:
    result = {"status": "ended", "stars": None, "actionsUsed": calls}
    return {
        "kind": "header",
        "format": FORMAT,
        "formatVersion": WRITTEN_VERSION,
        "sessionId": _SESSION,
        "game": {"id": "tally", "version": "1", "adapter": {"id": "tally", "version": "1"}},
        "seed": 1,
        "seedPolicy": "explicit",
        "perm": [0],
        "levels": [{"index": 0, "id": "only", "seed": 1, "level": {"calls": calls}, "result": result}],
        "totals": {"totalStars": 0, "totalActionsUsed": calls},
        "seatKeys": roster.to_json(),
        "signaturePolicy": {"scheme": SCHEME},
    }


def _calls(calls: int, roster: Roster, signed_every: int) -> Iterator[dict[str, Any]]:
    head = genesis(_SESSION, _SEAT, roster.hash)
    for index in range(calls):
        command: dict[str, Any] = {"arguments": {"text": f"to be counted, {index}"}, "tool": "wordcount"}
        text = canonical_json(command)
        time = 1_800_000_000_000 + index
        submission = Submission(_SESSION, _SEAT, f"call-{index}", index, index, time, text, head)
        preimage = submission.preimage()
        given: dict[str, Any] = {
            "wireId": "Action 1",
            "canonicalId": "Action 1",
            "seat": _SEAT,
            "payload": command,
            "submissionId": submission.submission_id,
            "canonicalCommand": text.decode(),
            "cursor": index,
            "clientTime": time,
            "prevChainHash": encode_base64(head),
        }
        if signed_every == 1:
            given["sig"] = encode_base64(_KEY.sign(preimage))
        yield {"kind": "resolution", "tick": index, "cause": "complete", "inputs": [given]}
        head = head_after(preimage)
        if signed_every > 1 and (index % signed_every == signed_every - 1 or index == calls - 1):
            signature = _KEY.sign(Periodic(_SESSION, _SEAT, index, time, head).preimage())
            yield {
                "kind": "seat-signature",
                "tick": index,
                "participantId": _SEAT,
                "clientTime": time,
                "prevChainHash": encode_base64(head),
                "sig": encode_base64(signature),
            }
