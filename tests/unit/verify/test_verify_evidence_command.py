"""The command as a person starts it, without a chain."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.core.evidence import package_bytes
from aioum.core.submission.framing import encode_base64
from aioum.replay.paid.export import export_replay
from tests.unit.log.memberships import logged
from tests.unit.log.samples import ORIGIN, OTHER_KEY
from tests.unit.verify.honest import COMMAND, SEATS, Honest, edited, read
from tests.unit.verify.logged import entry, in_log
from tests.unit.verify.tampering import CASES

HONEST = Honest()
Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs verify-evidence in an empty home, so that no devnet of this machine is found."""

    def start(
        *arguments: object, stdin: bytes = b"", **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AIOUM_")}
        return subprocess.run(
            [sys.executable, "-c", "import sys; from aioum.cli.verify_evidence import main; sys.exit(main())"]
            + [str(argument) for argument in arguments],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env={**kept, "HOME": str(tmp_path), **environment},
            timeout=120,
            check=False,
        )

    return start


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    path = tmp_path / "evidence.json"
    path.write_bytes(package_bytes(HONEST.package()))
    return path


def statuses(result: subprocess.CompletedProcess[bytes]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in json.loads(result.stdout)["checks"]}


def test_an_honest_package_offline_ends_with_0_and_says_what_was_not_checked(
    run: Run, evidence: Path
) -> None:
    result = run(evidence, "--offline")

    assert (result.returncode, result.stderr) == (0, b"")
    text = result.stdout.decode()
    assert "offline" in text.splitlines()[0]
    assert "○ 1 session" in text
    assert "✓ 4 vouchers" in text
    assert "[deposit-unknown]" in text
    assert "\x1b" not in text


def test_a_tampered_package_ends_with_1(run: Run, evidence: Path) -> None:
    evidence.write_bytes(package_bytes(CASES["claimed root altered"](HONEST).package))

    result = run(evidence, "--offline")

    assert result.returncode == 1
    assert "✗ 2 claimed-root" in result.stdout.decode()


def test_json_goes_to_standard_output_and_the_exit_code_is_in_it(run: Run, evidence: Path) -> None:
    result = run("-", "--offline", "--json", stdin=evidence.read_bytes())

    report = json.loads(result.stdout)
    assert result.returncode == report["exitCode"] == 0
    assert report["offline"] is True
    assert statuses(result)["transcript"] == "pass"


def test_exec_runs_deterministic_calls_again(run: Run, evidence: Path) -> None:
    program, flag, text = COMMAND
    same = run(evidence, "--offline", "--json", "--exec", f'{program} {flag} "{text}"')
    different = run(evidence, "--offline", "--json", "--exec", "cat")

    assert (same.returncode, statuses(same)["re-execution"]) == (0, "pass")
    assert (different.returncode, statuses(different)["re-execution"]) == (1, "fail")


@pytest.mark.parametrize("content", [b"", b"{", b"no", b"[]", b'{"formatVersion":9}'])
def test_a_file_that_is_no_package_ends_with_2(run: Run, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "evidence.json"
    path.write_bytes(content)

    result = run(path, "--offline")

    assert result.returncode == 2
    assert result.stdout == b""
    assert result.stderr.startswith(b"error: ")


@pytest.mark.parametrize(
    "arguments, code",
    [
        ([], "usage"),
        (["absent.json", "--offline"], "file-unusable"),
        ([".", "--offline"], "file-unusable"),
        (["evidence.json", "--no-such-option"], "usage"),
        (["evidence.json", "--rpc", "ftp://x"], "usage"),
        (["evidence.json", "--offline", "--payment-manager", "0x12"], "address-invalid"),
        (["evidence.json", "--offline", "--max-bytes", "100"], "json-too-large"),
        (["evidence.json", "--offline", "--exec", "/no/such/program"], "re-execution-not-started"),
        (["evidence.json"], "deployment-missing"),
        (["evidence.json", "--deployment", "absent.json"], "deployment-missing"),
        (["evidence.json", "--rpc", "http://127.0.0.1:9"], "rpc-unreachable"),
        (["evidence.json", "--export", "--session", "1", "--node-dir", "."], "usage"),
        (["--export"], "usage"),
        (["--export", "--session", "1"], "usage"),
        (["evidence.json", "--session", "1"], "usage"),
        (["--export", "--session", "1", "--node-dir", ".", "--store", "tape"], "exporter-unknown"),
    ],
)
def test_what_cannot_be_judged_ends_with_2_and_says_why(
    run: Run, evidence: Path, arguments: list[str], code: str
) -> None:
    result = run(*arguments)

    assert (result.returncode, result.stdout) == (2, b"")
    assert f"[{code}]" in result.stderr.decode().splitlines()[0]


def test_control_characters_of_a_package_do_not_reach_the_terminal(run: Run, evidence: Path) -> None:
    hostile = "\x1b[2J\u202e"
    package = edited(
        HONEST.package(attestations=[{"type": hostile, "format": "", "payload": ""}]),
        lambda package: package["calls"][0].update(toolId=hostile),
    )
    evidence.write_bytes(package_bytes(package))

    text = run(evidence, "--offline").stdout.decode()

    assert "\x1b" not in text
    assert "\u202e" not in text


def test_marks_that_an_encoding_lacks_do_not_break_the_report(run: Run, evidence: Path) -> None:
    result = run(evidence, "--offline", PYTHONIOENCODING="latin-1")

    assert result.returncode == 0
    assert b"? 4 vouchers" in result.stdout


EXPORTER = """
import json

def whole(*, session, node_dir, claim, narrative):
    return json.loads((node_dir / "evidence.json").read_text())

def export_package(*, session, node_dir, claim, narrative):
    return {"calls": [], "session": session, "dir": node_dir.name, "claim": claim, "narrative": narrative}
"""


@pytest.fixture
def exporter(tmp_path: Path) -> dict[str, str]:
    """An installed distribution with an exporter named `tape`; the environment that finds it."""
    info = tmp_path / "site" / "tape_store-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tape-store\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[aioum.exporters]\ntape = tape_store:export_package\nbroken = tape_store:absent\n"
        "whole = tape_store:whole\n"
    )
    (tmp_path / "site" / "tape_store.py").write_text(EXPORTER)
    return {"PYTHONPATH": str(tmp_path / "site")}


def test_export_writes_what_the_registered_exporter_gives_as_canonical_json(
    run: Run, tmp_path: Path, exporter: dict[str, str]
) -> None:
    options = ["--export", "--store", "tape", "--session", "7", "--node-dir", tmp_path, "--claim", "quality"]

    printed = run(*options, "--narrative", "slow", **exporter)
    written = run(*options, "--narrative", "slow", "-o", tmp_path / "out.json", **exporter)

    expected: dict[str, Any] = {
        "calls": [], "session": "7", "dir": tmp_path.name, "claim": "quality", "narrative": "slow",
    }  # fmt: skip
    assert (printed.returncode, written.returncode) == (0, 0)
    assert printed.stdout == package_bytes(expected)
    assert (tmp_path / "out.json").read_bytes() == package_bytes(expected)
    assert written.stdout == b""


def test_an_exported_session_can_be_written_as_a_replay_artifact(
    run: Run, tmp_path: Path, evidence: Path, exporter: dict[str, str]
) -> None:
    options = ["--export", "--store", "whole", "--session", "7", "--node-dir", tmp_path]

    result = run(*options, "--format", "gaos-replay", **exporter)

    assert result.returncode == 0
    assert result.stdout == export_replay(read(HONEST.package()))


def test_heads_that_the_client_kept_show_a_tail_that_was_cut_off(run: Run, tmp_path: Path) -> None:
    signed = Honest(seats=SEATS)
    path = tmp_path / "signed.json"
    path.write_bytes(package_bytes(replace(signed, calls=signed.calls[:5]).package()))
    last = signed.submissions().entries[5].envelope  # type: ignore[union-attr]
    head = encode_base64(last.submission(signed.channel_id, signed.calls[5].request.encode()).head())

    without = run(path, "--offline", "--json")
    cut = run(path, "--offline", "--json", "--head", f"researcher={head}")
    malformed = run(path, "--offline", "--head", "researcher")

    assert (without.returncode, cut.returncode, malformed.returncode) == (0, 1, 2)
    assert statuses(cut)["submissions"] == "fail"
    assert b"[heads-invalid]" in malformed.stderr


def test_an_export_that_cannot_be_written_or_loaded_ends_with_2(
    run: Run, tmp_path: Path, exporter: dict[str, str]
) -> None:
    options = ["--export", "--session", "7", "--node-dir", tmp_path]

    unwritable = run(*options, "--store", "tape", "-o", tmp_path / "no" / "out", **exporter)
    broken = run(*options, "--store", "broken", **exporter)

    assert (unwritable.returncode, broken.returncode) == (2, 2)
    assert b"[file-unusable]" in unwritable.stderr
    assert b"[exporter-unknown]" in broken.stderr


def test_help_answers_without_loading_chain_libraries(run: Run) -> None:
    program = (
        "import sys\nfrom aioum.cli.verify_evidence import main\n"
        "code = main(['--help'])\n"
        "heavy = {'web3', 'aiohttp', 'pydantic', 'rich', 'coincurve'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)

    assert (result.returncode, result.stderr) == (0, b"")
    assert b"Exit codes: 0 nothing failed" in result.stdout


def test_a_log_that_the_verifier_names_counts_in_place_of_the_cards(run: Run, tmp_path: Path) -> None:
    honest, path = in_log(), tmp_path / "logged.json"
    rotated = logged(entry(honest).to_bytes(), key=OTHER_KEY).to_json()
    path.write_bytes(package_bytes(honest.package(log=rotated)))
    named = ("--log-origin", ORIGIN, "--log-key", encode_base64(OTHER_KEY.public_key))

    by_card = run(path, "--offline", "--json")
    by_verifier = run(path, "--offline", "--json", *named)
    by_half = run(path, "--offline", *named[:2])

    assert (by_card.returncode, statuses(by_card)["log"]) == (1, "fail")
    assert (by_verifier.returncode, statuses(by_verifier)["log"]) == (0, "na")
    assert json.loads(by_verifier.stdout)["checks"][-1]["details"]["namedBy"] == "verifier"
    assert by_half.returncode == 2
