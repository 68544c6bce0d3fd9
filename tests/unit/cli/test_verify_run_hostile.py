"""Artifacts that were made to break the reader or the judge: each ends with a code, none with a traceback."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioum.cli.main import main
from tests.unit.replay.recorded import Run, amount, honest

ADAPTER = Path(__file__).parent.parent / "replay" / "counter_adapter.py"

Keep = Callable[[bytes], Path]


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    """Writes bytes into a file."""

    def write(content: bytes) -> Path:
        path = tmp_path / "run.gaos-replay.jsonl"
        path.write_bytes(content)
        return path

    return write


def verify(*arguments: object) -> int:
    return main(["verify-run", *map(str, arguments)])


def nested(depth: int) -> bytes:
    run = honest(calls=1)
    inner = b"[" * depth + b"]" * depth
    return run.data().replace(b'"payload":{"amount":1}', b'"payload":' + inner)


def large_command(size: int) -> bytes:
    run = Run(goals=(1,))
    command = amount(1) | {"note": "x" * (size - len('{"amount":1,"note":""}'))}
    fields = run.submitted("alpha", amount(1))
    fields["canonicalCommand"] = json.dumps(command, separators=(",", ":"))
    given = {"wireId": "Action 1", "canonicalId": "Action 1", "seat": "alpha", "payload": 1} | fields
    run.step(given)
    return run.data()


HOSTILE: dict[str, tuple[bytes, int]] = {
    "empty": (b"", 2),
    "blank": (b"\n\n", 2),
    "no text": (b"\xff\xfe\x00", 2),
    "depth 500": (nested(500), 2),
    "depth 100,000": (nested(100_000), 2),
    "command of 64 KiB": (large_command(65_536), 1),
    "command of 64 KiB + 1": (large_command(65_537), 2),
    "number that is none": (honest().data().replace(b'"cursor":1', b'"cursor":NaN'), 2),
    "number too large": (honest().data().replace(b'"cursor":1', b'"cursor":9007199254740993'), 2),
    "number of a million digits": (
        honest().data().replace(b'"cursor":1', b'"cursor":' + b"9" * 1_000_000),
        2,
    ),
    "whole number as a fraction": (honest().data().replace(b'"cursor":1', b'"cursor":1.0'), 2),
    "truth as a number": (honest().data().replace(b'"cursor":1', b'"cursor":true'), 2),
    "unpaired surrogate": (honest().data().replace(b'"alpha-1"', b'"\\ud800"'), 2),
    "cut in the middle": (honest().data()[:-40], 2),
    "header alone": (honest().data().split(b"\n")[0] + b"\n", 0),
    "lines that end with CRLF": (honest().data().replace(b"\n", b"\r\n"), 0),
}


@pytest.mark.parametrize("data, code", HOSTILE.values(), ids=HOSTILE)
def test_hostile_artifacts_end_with_a_code_and_no_traceback(
    data: bytes, code: int, keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(keep(data), "--adapter", ADAPTER, "--profile", "paid") in ((code,) if code else (0, 1))
    assert "Traceback" not in capsys.readouterr().err


def require_no_fault_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert "internal-error" not in printed


def every_kind() -> bytes:
    run = Run(goals=(9, 2), window_ticks=3, seats={"alpha": 5, "beta": 1})
    run.interest()
    run.call()
    run.interaction({"look": 1})
    run.commit(run.commitment(7))
    run.mismatch(8)
    run.reveal(7)
    run.time_out()
    run.call(8, sign=False)
    run.sign_head()
    run.add("checkpoint", tick=0, digest=1)
    run.add("extension", lane="l", record={"a": 1})
    run.next_level()
    run.call(2, seat="beta")
    return run.data()


SAMPLE = every_kind()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_mutated_artifact_ends_0_1_or_2(
    keep: Keep, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    mutated = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(mutated) - 1))
        piece = data.draw(
            st.sampled_from([b"", b"0", b"-1", b"1e400", b"null", b'"', b"{}", b"[", b"\n", b"true", b"\xc3"])
            | st.binary(max_size=4)
        )
        mutated[start : start + data.draw(st.integers(0, 12))] = piece
    profile = data.draw(st.sampled_from(["gaos", "paid"]))
    code = verify(keep(bytes(mutated)), "--adapter", ADAPTER, "--profile", profile)
    assert code in (0, 1, 2)
    require_no_fault_of_ours(capsys)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_record_whose_member_was_replaced_ends_0_1_or_2(
    keep: Keep, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    lines = [json.loads(line) for line in SAMPLE.splitlines()]
    target: Any = data.draw(st.sampled_from(lines))
    while True:
        inner = [
            value
            for value in (target.values() if isinstance(target, dict) else target)
            if value and isinstance(value, dict | list)
        ]
        if not inner or data.draw(st.booleans()):
            break
        target = data.draw(st.sampled_from(inner))
    key = data.draw(st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target))))
    target[key] = data.draw(
        st.sampled_from([None, True, 0, -1, 2**53, 0.5, 1e300, "", "x", "\ud800", [], {}, [[]], {"a": {}}])
    )
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert verify(keep(content), "--adapter", ADAPTER, "--profile", "paid") in (0, 1, 2)
    require_no_fault_of_ours(capsys)


def test_a_key_that_is_repeated_is_refused_under_paid_and_read_as_the_formats_tools_read_it_under_gaos(
    keep: Keep, capsys: pytest.CaptureFixture[str]
) -> None:
    repeated = keep(
        honest().data().replace(b'"payload":{"amount":1}', b'"payload":{"amount":9,"amount":1}', 1)
    )
    assert verify(repeated, "--adapter", ADAPTER, "--profile", "gaos") == 0
    assert verify(repeated, "--adapter", ADAPTER, "--profile", "paid") == 2
    assert "json-duplicate-key" in capsys.readouterr().err
