import json
from pathlib import Path

import pytest

from aioum.cli.main import main
from aioum.core.evidence import disclose, package_bytes
from aioum.core.hashing import keccak256
from aioum.core.hextext import to_hex
from tests.unit.log.samples import ORIGIN
from tests.unit.verify.honest import CHARGES, Honest
from tests.unit.verify.logged import log_member

HONEST = Honest()


@pytest.fixture
def package_file(tmp_path: Path) -> Path:
    """A package of an honest session."""
    path = tmp_path / "evidence.json"
    path.write_bytes(package_bytes(HONEST.package()))
    return path


def test_a_package_is_summarized_in_numbers(package_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence", "show", str(package_file), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["channelId"] == to_hex(HONEST.channel_id)
    assert summary["resultsRoot"] == to_hex(HONEST.root)
    assert (summary["callCount"], summary["shownCalls"], summary["failedCalls"]) == (6, 6, 1)
    assert summary["tools"] == {"clock": 1, "uppercase": 5}
    assert summary["charged"] == summary["statedSpent"] == summary["highestVoucher"] == str(sum(CHARGES))
    assert summary["evidenceHash"] == to_hex(keccak256(package_file.read_bytes()))


def test_the_place_in_a_log_is_shown_and_a_proof_that_is_none_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logged.json"
    for log, shown in (
        (log_member(HONEST), {"origin": ORIGIN, "index": 5, "size": 11}),
        ({"checkpoint": "…"}, None),
    ):
        path.write_bytes(package_bytes(HONEST.package(log=log)))
        assert main(["evidence", "show", str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["log"] == shown
        assert main(["evidence", "show", str(path)]) == 0
        assert (f"entry 5 of 11 in {ORIGIN}" in capsys.readouterr().out) == (shown is not None)


def test_a_person_is_told_that_nothing_was_checked(
    package_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evidence", "show", str(package_file)]) == 0
    assert f"verify-evidence {package_file}" in capsys.readouterr().err


def test_hidden_calls_are_counted_and_not_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "part.json"
    path.write_bytes(package_bytes(disclose(HONEST.package(), [1, 4])))
    assert main(["evidence", "show", str(path), "--calls", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["callCount"], summary["shownCalls"], summary["receipts"]) == (6, 2, 2)
    assert [call["index"] for call in summary["calls"]] == [1, 4]


def test_a_package_full_of_nonsense_in_its_frame_is_still_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = HONEST.package()
    package["calls"] = [{"index": [], "toolId": 7}, "x", {"toolId": "\x1b[2J", "response": "\ud800"}]
    package["vouchers"] = [{"cumulativeAmount": "-1"}, None]
    package["receipts"] = [{"index": 0, "charge": 5}]
    package["card"] = {"name": ["x"]}
    package["narrative"] = "one\n\x1b]0;title\x07two"
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(package).replace("\\ud800", "?"))
    for arguments in (["--calls"], ["--calls", "--json"]):
        assert main(["evidence", "show", str(path), *arguments]) == 0
        assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, code",
    [
        ("{", "json-syntax"),
        ('{"formatVersion": 3}', "package-version-unknown"),
        ("[]", "package-malformed"),
    ],
)
def test_a_file_that_is_no_package_is_refused_by_its_rule(
    content: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(content)
    assert main(["evidence", "show", str(path)]) == 1
    assert f"[{code}]" in capsys.readouterr().err


def test_a_file_that_does_not_exist_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evidence", "show", str(tmp_path / "none.json")]) == 1
    assert "[file-unusable]" in capsys.readouterr().err
