"""Runs in a log: appended, proven, and rebuilt runs that the log catches."""

import json
from pathlib import Path
from typing import Any

import pytest

from aioum.cli.log_proofs import proof_bytes
from aioum.cli.main import main
from aioum.core.submission.framing import encode_base64
from aioum.log.files import LogFolder, published
from aioum.run.event import Kind
from aioum.run.recorder import Run
from tests.unit.log.memberships import logged
from tests.unit.log.samples import KEY, session

Capture = pytest.CaptureFixture[str]

ORIGIN = "agent.example/runs"


class Agent:
    """An agent's owner with a key that seals, one that signs the log, and the log."""

    def __init__(self, folder: Path, capsys: Capture) -> None:
        self.folder = folder
        self.log = folder / "runs"
        self._capsys = capsys
        self.does("run", "keygen", folder / "agent.pem")
        self.public_key = self.json("run", "keygen", folder / "log.pem")["publicKey"]

    def does(self, *arguments: object, expect: int = 0) -> str:
        """What a command prints; its exit code must be `expect`."""
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = self._capsys.readouterr()
        assert code == expect, printed
        return printed.out if expect == 0 else printed.out + printed.err

    def json(self, *arguments: object, expect: int = 0) -> Any:
        return json.loads(self.does(*arguments, "--json", expect=expect))

    def seals(self, name: str, output: str = "yes") -> Path:
        """A run under a name; sealed again under the same name it is rebuilt."""
        recorded, capsule = self.folder / f"recorded-{name}-{output}", self.folder / f"{name}.json"
        with Run.start(recorded, agent="agent://test") as recorder:
            recorder.record(Kind.APPROVAL, "owner", input="ok?", output=output)
        self.does("run", "seal", recorded, "--key", self.folder / "agent.pem", "--out", capsule)
        return capsule

    def appends(self, capsule: Path, *more: object) -> Any:
        return self.json("log", "append", self.log, capsule, "--key", self.folder / "log.pem", *more)

    def verifies(self, capsule: Path, *more: object, expect: int = 0, proof: Path | None = None) -> Any:
        found = proof or capsule.with_suffix(".log.json")
        named = ("--log-origin", ORIGIN, "--log-key", self.public_key)
        trusted = () if "--policy" in more else ("--trust", self.folder / "agent.pem.pub")
        return self.json("run", "verify", capsule, "--log", found, *named, *trusted, *more, expect=expect)


@pytest.fixture
def agent(tmp_path: Path, capsys: Capture) -> Agent:
    return Agent(tmp_path, capsys)


def test_a_logged_run_verifies_and_a_rebuilt_one_is_caught_by_the_log(agent: Agent) -> None:
    agent.appends(agent.seals("other"), "--origin", ORIGIN)
    capsule = agent.seals("run")
    appended = agent.appends(capsule)
    assert (appended["origin"], appended["index"], appended["size"]) == (ORIGIN, 1, 2)
    assert appended["publicKey"] == agent.public_key
    assert appended["file"] == str(capsule.with_suffix(".log.json"))
    verdict = agent.verifies(capsule)
    assert verdict["reason"] is None
    assert (verdict["log"]["index"], verdict["log"]["size"], verdict["log"]["reason"]) == (1, 2, None)
    rebuilt = agent.seals("run", output="no")
    assert agent.json("run", "verify", rebuilt, "--trust", agent.folder / "agent.pem.pub")["reason"] is None
    verdict = agent.verifies(rebuilt, expect=1)
    assert (verdict["reason"], verdict["log"]["index"]) == ("logged-root-mismatch", None)
    # Its owner can log it too, and only behind the first one.
    assert agent.appends(rebuilt)["index"] == 2


def test_a_person_reads_that_the_run_is_in_the_log(agent: Agent) -> None:
    capsule = agent.seals("run")
    printed = agent.does(
        "log", "append", agent.log, capsule, "--key", agent.folder / "log.pem", "--origin", ORIGIN
    )
    assert f"log key   {agent.public_key}" in printed
    named = ("--log-origin", ORIGIN, "--log-key", agent.public_key)
    proof = capsule.with_suffix(".log.json")
    told = agent.does("run", "verify", capsule, "--log", proof, *named)
    assert f"✓ log         entry 0 of 1 in the log {ORIGIN}" in told
    told = agent.does("run", "verify", agent.seals("other"), "--log", proof, *named, expect=1)
    assert told.startswith("refused: logged-root-mismatch · ")
    assert "✗ log " in told


def test_keys_are_believed_by_the_proven_index_and_not_without_it(agent: Agent) -> None:
    first, second = agent.seals("first"), agent.seals("second")
    agent.appends(first, "--origin", ORIGIN)
    agent.appends(second)
    signer = agent.json("run", "verify", first)["signers"][0]
    policy = agent.folder / "policy.json"
    bounded = {"alg": signer["alg"], "publicKey": signer["publicKey"], "lastIndex": 0}
    policy.write_text(json.dumps({"trusted": [bounded]}))
    assert agent.verifies(first, "--policy", policy)["reason"] is None
    assert agent.verifies(second, "--policy", policy, expect=1)["reason"] == "key-untrusted"
    # A proof of the older run does not make the newer one older.
    verdict = agent.verifies(second, "--policy", policy, proof=first.with_suffix(".log.json"), expect=1)
    assert (verdict["reason"], verdict["log"]["reason"]) == ("key-untrusted", "logged-root-mismatch")


def test_disclosures_are_proven_by_their_seal(agent: Agent) -> None:
    capsule, shown = agent.seals("run"), agent.folder / "shown.json"
    agent.appends(capsule, "--origin", ORIGIN)
    agent.does("run", "disclose", capsule, "--events", "0", "--out", shown)
    assert agent.verifies(shown, proof=capsule.with_suffix(".log.json"))["log"]["index"] == 0


def test_each_way_a_log_proof_of_a_run_is_wrong_has_its_own_code(agent: Agent) -> None:
    capsule = agent.seals("run")
    agent.appends(agent.seals("other"), "--origin", ORIGIN)
    agent.appends(capsule)
    file = capsule.with_suffix(".log.json")
    genuine, altered = file.read_bytes(), agent.folder / "altered.json"
    whole = json.loads(genuine)
    cut = whole | {"proof": whole["proof"] | {"hashes": []}}
    moved = whole | {"proof": whole["proof"] | {"index": 0}}
    resized = whole | {"checkpoint": whole["checkpoint"].replace("\n2\n", "\n+2\n")}
    for value, code in (
        (cut, "proof-length-wrong"), (moved, "proof-root-mismatch"), (resized, "checkpoint-size-malformed"),
    ):  # fmt: skip
        altered.write_text(json.dumps(value))
        assert agent.verifies(capsule, proof=altered, expect=1)["reason"] == code
    of_session = proof_bytes(logged(session(1).to_bytes(), origin=ORIGIN))
    altered.write_bytes(of_session)
    named = ("--log", altered, "--log-origin", ORIGIN, "--log-key", encode_base64(KEY.public_key))
    assert agent.json("run", "verify", capsule, *named, expect=1)["reason"] == "logged-root-mismatch"
    assert agent.verifies(capsule, proof=altered, expect=1)["reason"] == "checkpoint-key-mismatch"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--log", "{proof}"), "usage"),
        (("--log-origin", ORIGIN, "--log-key", "{key}"), "usage"),
        (("--log", "{proof}", "--log-origin", ORIGIN), "usage"),
        (("--log", "{proof}", "--log-origin", ORIGIN, "--log-key", "{key}", "--log-index", "1"), "usage"),
        (("--log", "{proof}", "--log-origin", ORIGIN, "--log-key", "short"), "usage"),
        (("--log", "{proof}", "--log-origin", "two words", "--log-key", "{key}"), "usage"),
        (("--log", "{capsule}", "--log-origin", ORIGIN, "--log-key", "{key}"), "log-proof-malformed"),
        (("--log", "nowhere", "--log-origin", ORIGIN, "--log-key", "{key}"), "file-unusable"),
    ],
)  # fmt: skip
def test_what_keeps_a_log_proof_from_being_judged_is_wrong_usage(
    agent: Agent, arguments: tuple[str, ...], code: str
) -> None:
    capsule = agent.seals("run")
    agent.appends(capsule, "--origin", ORIGIN)
    given = {"proof": capsule.with_suffix(".log.json"), "key": agent.public_key, "capsule": capsule}
    told = agent.does(
        "run", "verify", capsule, *(argument.format(**given) for argument in arguments), expect=2
    )
    assert f"[{code}]" in told


def test_a_run_is_in_the_log_once_however_often_it_is_appended(agent: Agent) -> None:
    first, second = agent.seals("first"), agent.seals("second")
    agent.appends(first, "--origin", ORIGIN)
    agent.appends(second)
    again = agent.appends(first, "--out", agent.folder / "again.json")
    assert (again["index"], again["size"]) == (0, 2)
    # The proof that was written before still holds, and so does the newer one.
    assert agent.verifies(first)["log"]["size"] == 1
    assert agent.verifies(first, proof=agent.folder / "again.json")["log"]["size"] == 2


def test_an_entry_that_a_crash_left_unpublished_is_published(agent: Agent) -> None:
    capsule = agent.seals("run")
    agent.appends(agent.seals("other"), "--origin", ORIGIN)
    root = bytes.fromhex(agent.json("run", "verify", capsule)["root"][2:])
    with LogFolder.open(agent.log, ORIGIN) as log:
        log.append([b'{"root":"0x%s","type":"aioum.capsule.v1"}' % root.hex().encode()])
    shown = published(agent.log)
    assert shown is not None
    assert shown.size == 1
    assert (agent.appends(capsule)["index"], agent.appends(capsule)["size"]) == (1, 2)


def test_a_log_that_was_restored_from_a_copy_takes_nothing(agent: Agent) -> None:
    agent.appends(agent.seals("first"), "--origin", ORIGIN)
    register = agent.folder / "runs.checkpoint"
    older = register.read_bytes()
    agent.appends(agent.seals("second"))
    register.write_bytes(older)
    told = agent.does(
        "log", "append", agent.log, agent.seals("third"), "--key", agent.folder / "log.pem", expect=1
    )
    assert "[register-rolled-back]" in told


def test_a_new_log_key_goes_on_where_the_former_one_is_named(agent: Agent) -> None:
    agent.appends(agent.seals("first"), "--origin", ORIGIN)
    agent.does("run", "keygen", agent.folder / "new.pem")
    append = ("log", "append", agent.log, agent.seals("second"), "--key", agent.folder / "new.pem")
    assert "[checkpoint-key-mismatch]" in agent.does(*append, expect=1)
    assert agent.json(*append, "--former-key", agent.public_key)["size"] == 2


def test_what_cannot_be_appended_is_refused(agent: Agent) -> None:
    capsule = agent.seals("run")
    append = ("log", "append", agent.log, capsule, "--key", agent.folder / "log.pem")
    assert "[log-missing]" in agent.does(*append, expect=1)
    agent.does(*append, "--origin", ORIGIN)
    assert "[log-origin-mismatch]" in agent.does(*append, "--origin", "elsewhere", expect=1)
    agent.does("run", "keygen", agent.folder / "pq.pem", "--algorithm", "ML-DSA-44")
    other_key = (*append[:4], "--key", agent.folder / "pq.pem")
    assert "[log-key-malformed]" in agent.does(*other_key, expect=1)
    value = json.loads(capsule.read_bytes())
    value["seal"]["signatures"] = []
    capsule.write_text(json.dumps(value))
    assert "[capsule-broken]" in agent.does(*append, expect=1)
