"""Artifacts written by hand for tests of reading and writing. Signatures have a form and no meaning."""

import base64
import copy
import json
from typing import Any

HEAD = base64.b64encode(bytes(range(32))).decode()
SIGNATURE = base64.b64encode(bytes(range(64))).decode()
PUBLIC_KEY = base64.b64encode(bytes(32)).decode()

Json = dict[str, Any]


def header(version: str = "1.3", **changes: Any) -> Json:
    value: Json = {
        "kind": "header",
        "format": "gaos.replay",
        "formatVersion": version,
        "sessionId": "s",
        "game": {"id": "g", "version": "1", "adapter": {"id": "a", "version": "1"}},
        "seed": 1,
        "seedPolicy": "explicit",
        "perm": [1, 0],
        "levels": [level(0), level(1)],
        "totals": {"totalStars": 2, "totalActionsUsed": 2},
    }
    return value | changes


def signed_header(version: str = "1.3", **changes: Any) -> Json:
    roster = [{"id": "alpha", "publicKey": PUBLIC_KEY, "alg": "Ed25519", "signingTier": {"N": 1}}]
    policy = {"scheme": "gaos.submission.ed25519.v1"}
    return header(version, seatKeys=roster, signaturePolicy=policy) | changes


def level(index: int, **changes: Any) -> Json:
    result = {"status": "won", "stars": 1, "actionsUsed": 1}
    return {"index": index, "id": f"level {index}", "seed": 1, "level": {}, "result": result} | changes


def given(**changes: Any) -> Json:
    """An input without a submission."""
    return {"wireId": "Action 1", "canonicalId": "Action 2", "payload": {"amount": 1}} | changes


def signed(submission_id: str = "alpha-0", **changes: Any) -> Json:
    """An input with every field of a signed submission."""
    return given(seat="alpha") | submission(submission_id) | changes


def submission(submission_id: str = "alpha-0", **changes: Any) -> Json:
    return {
        "submissionId": submission_id,
        "canonicalCommand": '{"amount":1}',
        "cursor": 0,
        "clientTime": 1,
        "prevChainHash": HEAD,
        "sig": SIGNATURE,
    } | changes


def record(kind: str, **members: Any) -> Json:
    return {"kind": kind, "levelIndex": 0} | members


def resolution(*inputs: Json, **changes: Any) -> Json:
    return record("resolution", tick=0, cause="complete", inputs=list(inputs)) | changes


def action(**changes: Any) -> Json:
    return record("action", **given()) | changes


def timeout(**changes: Any) -> Json:
    members = {"tick": 3, "timeoutId": "t", "windowRef": 0, "participantId": None, "reason": "elapsed"}
    return record("timeout", **members) | changes


def interest(**changes: Any) -> Json:
    command = '{"declaration":[1],"kind":"interest","scopeId":"here"}'
    members = submission("interest-0", canonicalCommand=command)
    return (
        record("interest", tick=0, participantId="alpha", scopeId="here", declaration=[1]) | members | changes
    )


def interaction(**changes: Any) -> Json:
    return (
        record("interaction", tick=0, participantId="alpha", command={"amount": 1})
        | submission("interaction-0")
        | changes
    )


def commit_mismatch(**changes: Any) -> Json:
    members = {
        "tick": 0,
        "participantId": "alpha",
        "commitmentId": 0,
        "scheme": "gaos.commit.sha256.v1",
        "attemptedReveal": {"salt": "11" * 16, "payload": 1},
    }
    return record("commit-mismatch", **members) | submission("mismatch-0") | changes


def seat_signature(**changes: Any) -> Json:
    members = {"participantId": "alpha", "clientTime": 1, "prevChainHash": HEAD, "sig": SIGNATURE}
    return record("seat-signature", tick=0, **members) | changes


def checkpoint(**changes: Any) -> Json:
    return record("checkpoint", tick=0, digest=7) | changes


def extension(**changes: Any) -> Json:
    return record("extension", lane="l", record={"free": [None, {"form": 1.5}]}) | changes


def every_kind() -> list[Json]:
    """One record of each kind that version 1.3 has."""
    return [
        interest(),
        resolution(signed()),
        action(tick=0, seat="alpha"),
        commit_mismatch(),
        seat_signature(),
        timeout(),
        checkpoint(hostTime=5),
        extension(),
    ]


def without(value: Json, *names: str) -> Json:
    return {name: member for name, member in value.items() if name not in names}


def numbered(records: list[Any]) -> list[Any]:
    """The records with their positions as `n`, where they have none."""
    return [{"n": n, **each} if isinstance(each, dict) else each for n, each in enumerate(records)]


def artifact(first: Any, *records: Any) -> bytes:
    """The JSON lines. They are not canonical: members stay in the order given."""
    lines = [copy.deepcopy(first), *numbered(list(records))]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
