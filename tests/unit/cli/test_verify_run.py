import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from aioum.cli.main import main
from aioum.core.submission.framing import encode_base64
from tests.unit.replay.recorded import PAID, Run, honest

ADAPTER = Path(__file__).parent.parent / "replay" / "counter_adapter.py"

Keep = Callable[..., Path]


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    """Writes a run, or bytes, into a file."""

    def write(content: Run | bytes, name: str = "run.gaos-replay.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.data())
        return path

    return write


def verify(*arguments: object) -> int:
    return main(["verify-run", *map(str, arguments)])


def report(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def broken() -> Run:
    run = honest()
    del run.lines[1]
    return run


def test_exit_codes_are_0_for_trusted_0_for_unverifiable_and_1_for_rejected(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(keep(honest()), "--adapter", ADAPTER) == 0
    assert capsys.readouterr().out.startswith(
        "trusted · gaos.replay 1.4 · replay consistent · signatures signed\n"
    )
    assert verify(keep(honest())) == 0
    assert capsys.readouterr().out.startswith("unverifiable · ")
    assert verify(keep(broken())) == 1
    assert capsys.readouterr().out.startswith("rejected · ")


def test_the_report_says_every_fact_with_a_mark(keep: Keep, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(keep(broken()), "--adapter", ADAPTER, "--profile", "paid") == 1
    out = capsys.readouterr().out
    for row in ("✗ replay", "✗ signatures", "✓ submissions", "○ timeouts", "○ terms", "○ completeness"):
        assert f"\n{row}" in out
    assert "[chain-mismatch]" in out
    assert "profile       paid, as asked for run-7" in out


def test_a_long_list_is_cut_for_a_person(keep: Keep, capsys: pytest.CaptureFixture[str]) -> None:
    run = honest(calls=30, seats={f"seat-{n}": 1 for n in range(30)} | {"alpha": 1})
    del run.lines[0]
    assert verify(keep(run)) == 1
    out = capsys.readouterr().out
    assert out.count("\nproblem: ") == 20
    assert "and 10 more; --json lists up to a hundred" in out
    assert "and 11 more seats; --json lists them" in out


@pytest.mark.parametrize("adapter", [True, False])
@pytest.mark.parametrize("make", [honest, broken, lambda: Run(goals=(0,)), lambda: honest(PAID)])
def test_the_json_report_has_the_documented_form(
    make: Callable[[], Run], adapter: bool, keep: Keep, capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    schema = json.loads((repository / "docs" / "verify-run.schema.json").read_text(encoding="utf-8"))
    code = verify(keep(make()), "--json", *(("--adapter", ADAPTER) if adapter else ()))
    found = report(capsys)
    jsonschema_rs.validate(schema, found)
    assert found["exitCode"] == code


COMMAND = "import sys; from aioum.cli.main import main; sys.exit(main())"


def test_standard_input_is_read_for_a_dash() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "verify-run", "-", "--json"],
        input=honest().data(),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["signatures"]["state"] == "signed"


def test_the_profile_is_chosen_by_the_session_id_and_said(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    verify(keep(honest(PAID)), "--json", "--adapter", ADAPTER)
    found = report(capsys)
    assert (found["profile"], found["profileBy"], found["terms"]) == ("paid", "session-id", "claimed")
    verify(keep(honest()), "--json", "--profile", "paid")
    found = report(capsys)
    assert (found["profile"], found["profileBy"], found["terms"]) == ("paid", "caller", "unbound")


def test_a_paid_session_has_an_adapter_of_its_own(keep: Keep, capsys: pytest.CaptureFixture[str]) -> None:
    verify(keep(honest(PAID)), "--json")
    assert report(capsys)["adapterRan"] is True
    verify(keep(honest()), "--json")
    assert report(capsys)["adapterRan"] is False


def cut() -> tuple[Run, str]:
    """A run whose last call was cut off, and the head that its seat kept."""
    run = honest()
    run.lines.pop()
    return run, encode_base64(run.heads["alpha"])


def test_a_retained_head_catches_a_truncated_tail(keep: Keep, capsys: pytest.CaptureFixture[str]) -> None:
    run, head = cut()
    assert verify(keep(run), "--json") == 0
    assert report(capsys)["completeness"] == "not_checked"
    assert verify(keep(run), "--json", "--head", f"alpha={head}") == 1
    found = report(capsys)
    assert (found["completeness"], found["reasons"][0]) == ("failed", "retained-head-missing")


@pytest.mark.parametrize("several", [False, True])
def test_retained_heads_are_read_from_a_file(
    several: bool, keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    run, head = cut()
    early = encode_base64(run.retained["alpha"][1])
    heads = keep(json.dumps({"alpha": [early, head] if several else head}).encode(), "heads.json")
    assert verify(keep(run), "--heads", heads) == 1
    assert "[retained-head-missing]" in capsys.readouterr().out
    assert verify(keep(honest()), "--heads", heads) == 0
    assert "✓ completeness" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["alpha", "=AAAA", "alpha=AAAA", "alpha=", "alpha=%%"])
def test_a_retained_head_of_another_form_is_wrong_usage(
    text: str, keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(keep(honest()), "--head", text) == 2
    assert "[heads-invalid]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content, code", [("[]", "heads-invalid"), ('{"a": 1}', "heads-invalid"), ("{", "json-syntax")]
)
def test_a_file_of_heads_of_another_form_is_wrong_usage(
    content: str, code: str, keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(keep(honest()), "--heads", keep(content.encode(), "heads.json")) == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_what_cannot_be_read_is_2(keep: Keep, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in (
        ([tmp_path / "absent"], "file-unusable"),
        ([tmp_path], "file-unusable"),
        ([], "usage"),
        ([keep(honest()), "--profile", "strict"], "usage"),
        ([keep(honest()), "--max-bytes", "100"], "artifact-too-large"),
        ([keep(honest()), "--adapter", tmp_path / "absent.py"], "adapter-unusable"),
        ([keep(honest()), "--adapter", tmp_path], "adapter-unusable"),
        ([keep(honest()), "--heads", tmp_path / "absent"], "file-unusable"),
    ):
        assert verify(*arguments) == 2, arguments
        assert f"[{code}]" in capsys.readouterr().err


FAULTY = {
    "import raise": ("raise ValueError('x')", "adapter-unusable"),
    "import leaves": ("raise SystemExit(0)", "adapter-unusable"),
    "no syntax": ("def", "adapter-unusable"),
    "no function": ("x = 1", "adapter-unusable"),
    "no callable": ("recheck_replay = 1", "adapter-unusable"),
    "raises": ("def recheck_replay(a): raise KeyError('x')", "adapter-failed"),
    "leaves": ("def recheck_replay(a): raise SystemExit(0)", "adapter-failed"),
    "recurses": ("def recheck_replay(a): return recheck_replay(a)", "adapter-failed"),
    "no memory": ("def recheck_replay(a): raise MemoryError", "adapter-failed"),
    "nothing": ("def recheck_replay(a): pass", "adapter-result-invalid"),
    "no ok": ("def recheck_replay(a): return {'problems': []}", "adapter-result-invalid"),
}


@pytest.mark.parametrize("source, code", FAULTY.values(), ids=FAULTY)
def test_an_adapter_that_fails_gives_no_verdict(
    source: str, code: str, keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(keep(honest()), "--adapter", keep(source.encode(), "adapter.py"), "--json") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"[{code}]" in printed.err
    assert "Traceback" not in printed.err


def test_the_traceback_of_an_adapter_is_shown_when_it_was_asked_for(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = keep(b"def recheck_replay(a): raise KeyError('lost')", "adapter.py")
    assert verify(keep(honest()), "--adapter", adapter, "-v") == 2
    assert "KeyError: 'lost'" in capsys.readouterr().err


def test_an_interruption_is_no_verdict(keep: Keep) -> None:
    adapter = keep(b"def recheck_replay(a): raise KeyboardInterrupt", "adapter.py")
    assert verify(keep(honest()), "--adapter", adapter) == 130


def test_what_an_adapter_prints_stays_out_of_the_report(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (
        b"print('at import')\ndef recheck_replay(a):\n    print('while running')\n    return {'ok': True}\n"
    )
    assert verify(keep(honest()), "--adapter", keep(source, "adapter.py"), "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["adapterRan"] is True
    assert printed.err == "at import\nwhile running\n"


def test_a_gaos_adapter_that_knows_the_decoded_artifact_only_works_unchanged(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    source = b"""
def recheck_replay(artifact):
    goal = artifact["header"]["levels"][0]["level"]["goal"]
    inputs = [each for record in artifact.get("records", []) for each in record["inputs"]]
    total = sum(each["payload"]["amount"] for each in inputs)
    lanes = {"submissions": "verified", "timeouts": "not_applicable", "problems": []}
    return {"ok": total == goal and len(artifact["actions"]) == 3, "problems": [], "semantics": lanes}
"""
    assert verify(keep(honest()), "--adapter", keep(source, "adapter.py"), "--json") == 0
    assert report(capsys)["verdict"] == "trusted"


def test_words_of_a_stranger_do_not_reach_the_terminal_raw(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    run = honest(seats={"alpha": 1, "\x1b[2J\u202e": 1})
    run.lines[0]["inputs"][0]["seat"] = "\x1b[2J\u202e"
    verify(keep(run))
    out = capsys.readouterr().out
    assert not {"\x1b", "\u202e"} & set(out)


def test_a_reader_that_goes_away_is_no_verdict(keep: Keep) -> None:
    run = Run(seats={f"seat-{n}": 1 for n in range(2_000)}, goals=(0,))
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "verify-run", str(keep(run)), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert b"Traceback" not in process.stderr.read()
    assert process.wait() == 2


def test_the_command_starts_without_the_chain(keep: Keep) -> None:
    source = (
        "import sys; from aioum.cli.main import main; main(['verify-run', sys.argv[1]]); "
        "heavy = {'web3', 'aiohttp', 'pydantic', 'eth_abi', 'rich', 'asyncio'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    arguments = [sys.executable, "-c", source, str(keep(honest()))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_collector_is_left_as_it_was(keep: Keep) -> None:
    assert gc.isenabled()
    verify(keep(honest()))
    assert gc.isenabled()
