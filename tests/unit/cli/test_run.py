"""`aioum run` from end to end: keys, sealing, verifying, showing, disclosing, forging."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from aioum.cli.main import main
from aioum.cli.run_forge import attack_everything
from aioum.run.event import Kind
from aioum.run.recorder import Run
from tests.unit.trust.authorities import DAY, Authority
from tests.unit.trust.timestamp_authority import TimestampAuthority, response

Capture = pytest.CaptureFixture[str]


def run(*arguments: object) -> int:
    return main(["run", *map(str, arguments)])


def printed(capsys: Capture) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a run that is over and not sealed."""
    with Run.start(tmp_path / "run", agent="agent://[bold]test\x1b[31m", keep_contents=True) as recorder:
        recorder.record(Kind.LLM_CALL, "plan", input="what?", output="this")
        with recorder.span(Kind.SUB_AGENT, "helper", input="task") as span:
            recorder.record(Kind.TOOL_CALL, "search", input={"q": 1}, output="found\x1b[2J it")
            span.output("done")
        recorder.record(Kind.APPROVAL, "owner", input="ok?", output="yes")
    return tmp_path / "run"


@pytest.fixture
def key(tmp_path: Path, capsys: Capture) -> Path:
    """A key file, with its public half beside it."""
    assert run("keygen", tmp_path / "key.pem") == 0
    capsys.readouterr()
    return tmp_path / "key.pem"


@pytest.fixture
def capsule(folder: Path, key: Path, tmp_path: Path, capsys: Capture) -> Path:
    """The sealed run."""
    assert run("seal", folder, "--key", key, "--out", tmp_path / "capsule.json") == 0
    capsys.readouterr()
    return tmp_path / "capsule.json"


@pytest.fixture
def root(capsule: Path, capsys: Capture) -> str:
    """Its root."""
    run("verify", capsule, "--json")
    return str(printed(capsys)["root"])


def trust(key: Path) -> tuple[str, str]:
    return "--trust", f"{key}.pub"


def alter(file: Path, change: Callable[[Any], None]) -> Path:
    value = json.loads(file.read_bytes())
    change(value)
    altered = file.with_name("altered.json")
    altered.write_text(json.dumps(value))
    return altered


@pytest.mark.parametrize("algorithm", ["Ed25519", "ML-DSA-44", "ML-DSA-65"])
def test_keys_of_every_algorithm_seal_and_are_trusted_by_their_public_files(
    folder: Path, tmp_path: Path, capsys: Capture, algorithm: str
) -> None:
    key = tmp_path / "key.pem"
    assert run("keygen", key, "--algorithm", algorithm, "--json") == 0
    made = printed(capsys)
    assert (made["algorithm"], made["publicFile"]) == (algorithm, f"{key}.pub")
    assert key.stat().st_mode & 0o777 == 0o600
    out = tmp_path / "capsule.json"
    assert run("seal", folder, "--key", key, "--out", out, "--json") == 0
    assert printed(capsys)["keyIds"] == [made["keyId"]]
    assert run("verify", out, *trust(key), "--require", algorithm, "--json") == 0
    verdict = printed(capsys)
    assert verdict["reason"] is None
    assert [signer["trusted"] for signer in verdict["signers"]] == [True]


def test_an_encrypted_key_needs_its_password(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    key, password, wrong = tmp_path / "key.pem", tmp_path / "password", tmp_path / "wrong"
    password.write_text("horse battery\n")
    wrong.write_text("staple\n")
    assert run("keygen", key, "--encrypt", "--password-file", password) == 0
    assert b"ENCRYPTED" in key.read_bytes()
    out = tmp_path / "capsule.json"
    assert run("seal", folder, "--key", key, "--password-file", wrong, "--out", out) == 1
    assert "[run-key-file-unusable]" in capsys.readouterr().err
    assert run("seal", folder, "--key", key, "--password-file", password, "--out", out) == 0


def test_key_files_are_never_replaced_and_never_read_where_others_can(
    folder: Path, key: Path, tmp_path: Path, capsys: Capture
) -> None:
    before = key.read_bytes()
    assert run("keygen", key) == 1
    assert "[run-key-file-exists]" in capsys.readouterr().err
    assert key.read_bytes() == before
    key.chmod(0o644)
    assert run("seal", folder, "--key", key, "--out", tmp_path / "capsule.json") == 1
    assert "[run-key-file-exposed]" in capsys.readouterr().err


def test_a_sealed_run_verifies_and_every_guarantee_is_named(
    capsule: Path, key: Path, root: str, capsys: Capture
) -> None:
    assert run("verify", capsule, *trust(key), "--pin", root) == 0
    out = capsys.readouterr().out
    assert out.startswith("verified · run ")
    assert "\x1b" not in out
    marks = [line[0] for line in out.splitlines()[1:]]
    assert marks == ["✓"] * 10 + [" "]


def test_without_key_or_pin_the_report_says_what_was_not_checked(capsule: Path, capsys: Capture) -> None:
    assert run("verify", capsule) == 0
    out = capsys.readouterr().out
    assert "○ trust       nobody vouches for the keys" in out
    assert "○ pin         no root was given" in out


@pytest.mark.parametrize(
    ("change", "reason", "guarantee"),
    [
        (lambda file: file["events"][1]["event"].update(output="0x" + "00" * 32),
         "leaf-hash-mismatch", "contents"),
        (lambda file: file["events"].pop(), "event-count-mismatch", "count"),
        (lambda file: file["events"].reverse(), "chain-break", "order"),
        (lambda file: file["seal"].update(signatures=[]), "signature-missing", "signatures"),
    ],
)  # fmt: skip
def test_the_guarantee_that_broke_is_named_with_exit_code_1(
    capsule: Path, key: Path, capsys: Capture, change: Callable[[Any], None], reason: str, guarantee: str
) -> None:
    altered = alter(capsule, change)
    assert run("verify", altered, *trust(key), "--json") == 1
    assert printed(capsys)["reason"] == reason
    assert run("verify", altered, *trust(key)) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"refused: {reason} · ")
    assert f"✗ {guarantee}" in out


def test_a_stranger_s_seal_and_another_root_are_refused(
    capsule: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert run("keygen", tmp_path / "stranger.pem") == 0
    assert run("verify", capsule, *trust(tmp_path / "stranger.pem")) == 1
    assert "✗ trust" in capsys.readouterr().out
    assert run("verify", capsule, "--pin", "0x" + "11" * 32) == 1
    assert "refused: pinned-root-mismatch" in capsys.readouterr().out


def test_a_policy_file_bounds_keys_by_the_log(capsule: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run("verify", capsule, "--json") == 0
    signer = printed(capsys)["signers"][0]
    bounded = {"alg": signer["alg"], "publicKey": signer["publicKey"], "lastIndex": 10}
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"trusted": [bounded], "threshold": 1, "require": ["Ed25519"]}))
    for options, code in (((), 1), (("--log-index", 11), 1), (("--log-index", 10), 0)):
        assert run("verify", capsule, "--policy", policy, *options) == code
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--policy", "{policy}", "--threshold", "1"), "usage"),
        (("--policy", "{policy}"), "run-policy-invalid"),
        (("--trust", "{policy}"), "run-key-file-unusable"),
        (("--pin", "0x12"), "hex-invalid"),
        (("--timestamp", "{policy}"), "usage"),
        (("--timestamp", "{policy}", "--timestamp-root", "{policy}"), "certificate-malformed"),
    ],
)
def test_what_keeps_a_capsule_from_being_judged_is_wrong_usage(
    capsule: Path, tmp_path: Path, capsys: Capture, arguments: tuple[str, ...], code: str
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"trusted": [], "more": 1}')
    assert run("verify", capsule, *(argument.format(policy=policy) for argument in arguments)) == 2
    assert f"[{code}]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("{}", "capsule-malformed"),
        ("[", "json-syntax"),
        ('{"seal": 1, "seal": 2}', "json-duplicate-key"),
        ('{"type": "aioum.disclosure.v1"}', "disclosure-malformed"),
    ],
)
def test_a_file_that_is_neither_capsule_nor_disclosure_cannot_be_judged(
    tmp_path: Path, capsys: Capture, content: str, code: str
) -> None:
    (tmp_path / "file").write_text(content)
    assert run("verify", tmp_path / "file") == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_a_timestamp_over_the_seal_digest_says_since_when_it_was_sealed(
    capsule: Path, tmp_path: Path, capsys: Capture
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    root = Authority(before=now - 9 * DAY, after=now + 9 * DAY)
    authority = TimestampAuthority(root, before=now - DAY, after=now + DAY)
    assert run("verify", capsule) == 0
    digest = bytes.fromhex(capsys.readouterr().out.split("seal digest sha256 ")[1])
    roots, token, other = (tmp_path / name for name in ("roots.pem", "token.tsr", "other.tsr"))
    roots.write_bytes(root.certificate.public_bytes(Encoding.PEM))
    token.write_bytes(response(authority.stamp(digest, time=now - timedelta(hours=1))))
    other.write_bytes(response(authority.stamp(bytes(32), time=now - timedelta(hours=1))))
    assert run("verify", capsule, "--timestamp", token, "--timestamp-root", roots) == 0
    assert "✓ timestamp   sealed no later than " in capsys.readouterr().out
    assert run("verify", capsule, "--timestamp", other, "--timestamp-root", roots, "--json") == 1
    assert printed(capsys)["reason"] == "timestamp-imprint-differs"


def test_the_timeline_shows_events_inside_of_their_spans(
    capsule: Path, folder: Path, capsys: Capture
) -> None:
    assert run("show", capsule) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    rows = out.splitlines()[5:]
    assert [row.split(" s  ")[1] for row in rows] == [
        "llm-call   plan",
        "sub-agent  helper",
        "tool-call  └─ search",
        "approval   owner",
    ]
    assert run("show", folder, "--json") == 0
    assert [event["name"] for event in printed(capsys)["events"]] == ["plan", "helper", "search", "owner"]


def test_a_run_that_is_being_recorded_shows_what_is_under_way(tmp_path: Path, capsys: Capture) -> None:
    with Run.start(tmp_path / "live", agent="a") as recorder, recorder.span(Kind.LLM_CALL, "thinking"):
        assert run("show", tmp_path / "live") == 0
    out = capsys.readouterr().out
    assert "not sealed" in out
    assert out.endswith("thinking  under way\n")


def test_chosen_contents_are_disclosed_and_verified(
    capsule: Path, folder: Path, key: Path, root: str, tmp_path: Path, capsys: Capture
) -> None:
    shown = tmp_path / "shown.json"
    arguments = ("--events", "0", "--outputs", "2,3", "--folder", folder, "--out", shown)
    assert run("disclose", capsule, *arguments) == 0
    assert run("verify", shown, *trust(key), "--pin", root) == 0
    out = capsys.readouterr().out
    assert "✓ inclusion" in out
    assert (
        "event 0 · llm-call · plan\nevent 2 · tool-call · search\n  output, 12 bytes: found\\x1b[2J it\n"
        in out
    )
    assert "  output, 3 bytes: yes\n" in out
    assert "what?" not in shown.read_text()
    forged = alter(shown, lambda file: file["events"][1]["output"].update(content="bm8="))
    assert run("verify", forged) == 1
    assert capsys.readouterr().out.startswith("refused: commitment-mismatch")


def test_contents_that_were_not_kept_are_disclosed_from_files(
    key: Path, tmp_path: Path, capsys: Capture
) -> None:
    with Run.start(tmp_path / "lean", agent="a") as recorder:
        recorder.record(Kind.TOOL_CALL, "t", input="in", output="out")
    capsule, shown, content = (tmp_path / name for name in ("lean.json", "shown.json", "content"))
    assert run("seal", tmp_path / "lean", "--key", key, "--out", capsule) == 0
    options = ("--folder", tmp_path / "lean", "--out", shown)
    assert run("disclose", capsule, "--outputs", "0", *options) == 1
    assert "[content-not-kept]" in capsys.readouterr().err
    for text, code in (("other", 1), ("out", 0)):
        content.write_text(text)
        assert run("disclose", capsule, "--output-file", f"0={content}", *options) == code
    assert "[content-mismatch]" in capsys.readouterr().err
    assert run("verify", shown) == 0


@pytest.mark.parametrize("arguments", [(), ("--outputs", "1"), ("--events", "x"), ("--input-file", "x=y")])
def test_a_disclosure_of_nothing_or_without_secrets_is_wrong_usage(
    capsule: Path, arguments: tuple[str, ...]
) -> None:
    assert run("disclose", capsule, *arguments) == 2


def test_a_sealed_run_is_sealed_again_with_another_key_over_the_same_root(
    capsule: Path, folder: Path, tmp_path: Path, root: str, capsys: Capture
) -> None:
    assert run("keygen", tmp_path / "second.pem") == 0
    again = tmp_path / "again.json"
    assert run("seal", folder, "--key", tmp_path / "second.pem", "--out", again) == 0
    assert run("verify", again, "--pin", root) == 0


def test_the_forgery_demo_refuses_eight_attacks_and_shows_the_one_that_no_seal_stops(
    tmp_path: Path, capsys: Capture
) -> None:
    assert run("forge-demo", "--json", "--keep", tmp_path) == 0
    shown = printed(capsys)
    assert {each["attack"]: each["found"] for each in shown[1:9]} == {
        "rewrite-output": "leaf-hash-mismatch",
        "delete-event": "event-count-mismatch",
        "insert-event": "event-count-mismatch",
        "reorder": "chain-break",
        "truncate": "chain-head-mismatch",
        "downgrade-hash": "leaf-hash-mismatch",
        "other-key": "signature-invalid",
        "other-seal": "chain-break",
    }
    assert [(each["attack"], each["checked"], each["found"]) for each in (shown[0], *shown[9:])] == [
        ("none", "key, pin, log", None),
        ("rebuild-and-reseal", "key", None),
        ("rebuild-and-reseal", "key, pin", "pinned-root-mismatch"),
        ("rebuild-and-reseal", "key, log", "proof-root-mismatch"),
    ]
    owner = ("--trust", tmp_path / "owner.pem.pub")
    assert run("verify", tmp_path / "none.json", *owner) == 0
    assert run("verify", tmp_path / "truncate.json", *owner) == 1
    # The honest limit: this keeps verifying, until somebody pinned, logged or anchored the root.
    assert run("verify", tmp_path / "rebuild-and-reseal.json", *owner) == 0


def test_the_forgery_demo_tells_a_person_the_same(capsys: Capture) -> None:
    assert run("forge-demo") == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 1 + len(attack_everything())
    assert sum("refused: " in line for line in out) == 10


def test_help_of_run_loads_no_slow_library() -> None:
    program = (
        "import sys; from aioum.cli.main import main; code = main(['run', '--help']); "
        "slow = {'web3', 'aiohttp', 'blake3', 'cryptography', 'rich'} & set(sys.modules); "
        "sys.exit(' '.join(sorted(slow)) or code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
