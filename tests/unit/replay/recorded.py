"""Recorded sessions with real signatures, made step by step, so that tests can bend one thing of them."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.chain import Periodic, Submission, genesis
from aioum.core.submission.framing import SCHEME, encode_base64
from aioum.core.submission.keys import SubmissionKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.types import Bytes32
from aioum.replay.commitments import CommitmentBinding
from aioum.replay.model import Artifact
from aioum.replay.reading import read_artifact

Json = dict[str, Any]

FOREIGN = "run-7"
PAID = "aioum:0x" + "ab" * 32
ACTION = {"wireId": "Action 1", "canonicalId": "Action 1"}
SALT = "11" * 16


def key(name: str) -> SubmissionKey:
    return SubmissionKey(hashlib.sha256(name.encode()).digest())


def amount(value: float) -> Json:
    return {"amount": value}


@dataclass
class Run:
    """A session while it is recorded. Seats sign directly unless told not to.

    Attributes:
        goals: one level for each; it is won when the amounts sum up to it.
        seats: N by name.
    """

    session_id: str = FOREIGN
    goals: tuple[int, ...] = (3,)
    seats: dict[str, int] = field(default_factory=lambda: {"alpha": 10})
    window_ticks: int | None = None
    used: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        entries = (RosterEntry(seat, key(seat).public_key, tier) for seat, tier in self.seats.items())
        self.roster = Roster.of(*entries)
        self.heads = {seat: genesis(self.session_id, seat, self.roster.hash) for seat in self.seats}
        self.retained = {seat: [head] for seat, head in self.heads.items()}
        self.lines: list[Json] = []
        self.level_index = 0
        self.window = 0
        self.ids = 0

    def submitted(self, seat: str, command: Any, *, sign: bool = True, **changes: Any) -> Json:
        """The fields of a submission at the open window; `changes` are what is signed instead."""
        self.ids += 1
        text = canonical_json(command)
        values: Json = {
            "submission_id": f"{seat}-{self.ids}",
            "cursor": self.window,
            "tick": self.window,
            "client_time": 1_800_000_000_000 + self.ids,
        } | changes
        submission = Submission(
            session_id=self.session_id, seat=seat, command=text, prev_head=self.heads[seat], **values
        )
        fields = {
            "submissionId": submission.submission_id,
            "canonicalCommand": text.decode(),
            "cursor": submission.cursor,
            "clientTime": submission.client_time,
            "prevChainHash": encode_base64(self.heads[seat]),
        }
        if sign:
            fields["sig"] = encode_base64(submission.sign(key(seat)))
        self.heads[seat] = submission.head()
        self.retained[seat].append(self.heads[seat])
        return fields

    def given(self, seat: str, value: int, **options: Any) -> Json:
        """An input that adds to the total."""
        return (
            ACTION | {"seat": seat, "payload": amount(value)} | self.submitted(seat, amount(value), **options)
        )

    def add(self, kind: str, **members: Any) -> Json:
        line = {"kind": kind, "n": len(self.lines), "levelIndex": self.level_index} | members
        self.lines.append(line)
        return line

    def step(self, *inputs: Json, **members: Any) -> Json:
        """A resolution of the open window."""
        line = self.add(
            "resolution", **({"tick": self.window, "cause": "complete", "inputs": list(inputs)} | members)
        )
        self.window += 1
        return line

    def call(self, value: int = 1, seat: str = "alpha", **options: Any) -> Json:
        """A step with one submission."""
        return self.step(self.given(seat, value, **options))

    def action(self, value: int = 1, seat: str = "alpha", **options: Any) -> Json:
        """The same as a line of its own."""
        line = self.add("action", tick=self.window, **self.given(seat, value, **options))
        self.window += 1
        return line

    def sign_head(self, seat: str = "alpha", *, tick: int | None = None) -> Json:
        """A periodic signature over the seat's head, by default at the tick of the last step."""
        at = self.window - 1 if tick is None else tick
        time = 1_800_000_000_000
        signature = Periodic(self.session_id, seat, at, time, self.heads[seat]).preimage()
        return self.add(
            "seat-signature",
            tick=at,
            participantId=seat,
            clientTime=time,
            prevChainHash=encode_base64(self.heads[seat]),
            sig=encode_base64(key(seat).sign(signature)),
        )

    def time_out(self, seat: str = "alpha", *, window: int | None = None) -> None:
        """The record of a timeout, and the system's step."""
        reference = self.window if window is None else window
        self.add(
            "timeout",
            tick=reference + (self.window_ticks or 0),
            timeoutId=f"{seat}-{reference}",
            windowRef=reference,
            participantId=seat,
            reason="elapsed",
            **({} if self.window_ticks is None else {"timeoutPolicyRef": "header.timeoutPolicy"}),
        )
        self.system_step(seat)

    def system_step(self, seat: str = "alpha", value: int = 0) -> Json:
        system = ACTION | {"seat": seat, "payload": amount(value)}
        return self.step(system, cause="timeout", systemInput=dict(system))

    def commitment(self, payload: Any, *, commitment_id: int = 0, seat: str = "alpha") -> str:
        """The hash, in hex, of a commitment made in the open window."""
        binding = CommitmentBinding(self.session_id, seat, commitment_id, self.window)
        return binding.hash(bytes.fromhex(SALT), payload).hex()

    def commit(
        self, hash_hex: str, *, commitment_id: int = 0, seat: str = "alpha", sign: bool = True
    ) -> Json:
        """A step with a commitment."""
        command = {"kind": "commit", "commitmentId": commitment_id, "hash": hash_hex}
        commit = {"commitmentId": commitment_id, "hash": hash_hex, "scheme": "gaos.commit.sha256.v1"}
        return self.step(ACTION | {"seat": seat, "commit": commit} | self.submitted(seat, command, sign=sign))

    def reveal(self, payload: Any, *, commitment_id: int = 0, seat: str = "alpha", salt: str = SALT) -> Json:
        """A step with a reveal."""
        reveal = {"commitmentId": commitment_id, "salt": salt, "payload": payload}
        submitted = self.submitted(seat, {"kind": "reveal"} | reveal)
        return self.step(ACTION | {"seat": seat, "reveal": reveal, "verifiedPayload": payload} | submitted)

    def mismatch(self, payload: Any, *, commitment_id: int = 0, seat: str = "alpha", **members: Any) -> Json:
        """The record of a reveal that was refused."""
        reveal = {"commitmentId": commitment_id, "salt": SALT, "payload": payload}
        submitted = self.submitted(seat, {"kind": "reveal"} | reveal)
        return self.add(
            "commit-mismatch",
            **{
                "tick": self.window,
                "participantId": seat,
                "commitmentId": commitment_id,
                "scheme": "gaos.commit.sha256.v1",
                "attemptedReveal": {"salt": SALT, "payload": payload},
            }
            | submitted
            | members,
        )

    def interest(self, seat: str = "alpha") -> Json:
        """A declaration of interest."""
        declared = {"scopeId": "here", "declaration": [1]}
        submitted = self.submitted(seat, {"kind": "interest"} | declared)
        return self.add("interest", tick=self.window, participantId=seat, **declared, **submitted)

    def interaction(self, command: Any, seat: str = "alpha") -> Json:
        """A command that takes no step."""
        return self.add(
            "interaction",
            tick=self.window,
            participantId=seat,
            command=command,
            **self.submitted(seat, command),
        )

    def next_level(self) -> None:
        self.level_index += 1
        self.window = 0

    def header(self, *, version: str = "1.4", signed: bool = True, **changes: Any) -> Json:
        steps = [0] * len(self.goals)
        for line in self.lines:
            inputs = 1 if line["kind"] == "action" else len(line.get("inputs", ()))
            steps[line["levelIndex"]] += inputs
        used = self.used or steps
        declared: Json = {}
        if signed:
            declared |= {"seatKeys": self.roster.to_json(), "signaturePolicy": {"scheme": SCHEME}}
        if self.window_ticks is not None:
            declared["timeoutPolicy"] = {"mode": "ticks", "windowTicks": self.window_ticks}
        return (
            {
                "kind": "header",
                "format": "gaos.replay",
                "formatVersion": version,
                "sessionId": self.session_id,
                "game": {"id": "counter", "version": "1", "adapter": {"id": "counter", "version": "1"}},
                "seed": 1,
                "seedPolicy": "explicit",
                "perm": [0],
                "levels": [
                    {
                        "index": index,
                        "id": f"level {index}",
                        "seed": 1,
                        "level": {"goal": goal},
                        "result": {"status": "won", "stars": 1, "actionsUsed": used[index]},
                    }
                    for index, goal in enumerate(self.goals)
                ],
                "totals": {"totalStars": len(self.goals), "totalActionsUsed": sum(used)},
            }
            | declared
            | changes
        )

    def data(self, **changes: Any) -> bytes:
        """The lines, numbered anew."""
        lines = [line | {"n": n} for n, line in enumerate(self.lines)]
        return b"".join(canonical_json(line) + b"\n" for line in (self.header(**changes), *lines))

    def artifact(self, **changes: Any) -> Artifact:
        return read_artifact(self.data(**changes))


def honest(session_id: str = FOREIGN, calls: int = 3, **options: Any) -> Run:
    """A run of directly signed calls that wins at the last."""
    run = Run(session_id=session_id, goals=(calls,), **options)
    for _ in range(calls):
        run.call()
    return run


def heads(run: Run, seat: str = "alpha", which: int = -1) -> dict[str, list[Bytes32]]:
    """A head that the seat kept."""
    return {seat: [run.retained[seat][which]]}
