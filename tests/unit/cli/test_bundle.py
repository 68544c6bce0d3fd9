"""The commands `aioum bundle`, on real folders."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aioum.cli import bundle_folder
from aioum.cli.bundle_folder import write_folder
from aioum.cli.main import cli, main
from aioum.core.submission.keys import SubmissionKey
from aioum.trust.package import bundle_files
from aioum.trust.submission_facts import Fact
from tests.unit.trust.authorities import KEY, attested, material
from tests.unit.trust.comparisons import (
    CLOCK,
    MANIFEST,
    PLUGIN,
    manifest_json,
    packed,
    replays,
    statement,
    timed,
    with_statements,
)

ADAPTER = f"""
from tests.unit.replay.counter_adapter import recheck_replay
print("noise of an adapter")
SCORING = "{PLUGIN}"
def score_episode(artifact, episode):
    steps = artifact["header"]["totals"]["totalActionsUsed"]
    return {{"score": steps, "terminalOutcome": {{"steps": steps}}}}
"""
EPISODE = "episodes/count-seed-7-episode-0.gaos-replay.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "submission"
    write_folder(path, bundle_files(packed()))
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_json(), indent=2))
    (tmp_path / "adapter.py").write_text(ADAPTER)
    return path


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    result = CliRunner().invoke(cli, ["bundle", *map(str, arguments)], standalone_mode=False, obj=None)
    assert result.exception is None or isinstance(result.return_value, int), result.exception
    return int(result.return_value or 0), result.stdout, result.stderr


def verify(folder: Path, *options: str | Path, manifest: bool = True) -> tuple[int, str, str]:
    given = ("--manifest", folder.parent / "manifest.json") if manifest else ()
    return run("verify", folder, *given, "--adapter", folder.parent / "adapter.py", *options)


def report(folder: Path, *options: str | Path, manifest: bool = True) -> tuple[int, Any]:
    code, out, _ = verify(folder, "--json", *options, manifest=manifest)
    found = json.loads(out)
    assert found["exitCode"] == code
    return code, found


def test_a_valid_submission_is_0_and_its_report_has_every_fact(folder: Path) -> None:
    code, found = report(folder)

    assert (code, found["valid"], found["evidenceVerdict"]) == (0, True, "trusted")
    assert found["manifestDigest"] == MANIFEST.digest_hex
    assert found["aggregate"] == {"aggregateScore": 3.625, "taskScores": {"count": 2.5, "weigh": 4.0}}
    assert {fact.value for fact in Fact} < found["facts"].keys()
    assert [each["id"] for each in found["episodes"]] == [each.id for each in MANIFEST.plan()]


def test_a_person_reads_the_verdict_first(folder: Path) -> None:
    code, out, err = verify(folder)

    assert code == 0
    assert out.splitlines()[0].startswith("valid · evidence trusted · package ")
    assert "noise of an adapter" not in out
    assert "noise of an adapter" in err


def test_a_submission_that_does_not_hold_is_1_with_its_reasons(folder: Path, tmp_path: Path) -> None:
    bundle = packed()
    better = replace(bundle.episodes[0], score=99)
    write_folder(tmp_path / "forged", bundle_files(replace(bundle, episodes=(better, *bundle.episodes[1:]))))

    code, found = report(tmp_path / "forged")

    assert code == 1
    assert [each["code"] for each in found["reasons"]] == ["content-digest-differs", "score-differs"]
    _, out, _ = verify(tmp_path / "forged")
    assert out.startswith("not valid · evidence rejected · ")
    assert "[score-differs]" in out


def test_the_digest_of_the_manifest_takes_the_place_of_its_file(folder: Path) -> None:
    assert report(folder, "--manifest-digest", MANIFEST.digest_hex, manifest=False)[0] == 0

    code, found = report(folder, "--manifest-digest", "0" * 64, manifest=False)

    assert (code, found["reasons"][0]["code"]) == (1, "manifest-differs")
    assert {found["facts"][fact.value] for fact in Fact} == {"not-observed"}


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--manifest-digest", "xyz"),
        ("--manifest-digest", "0" * 64, "--manifest", "absent.json"),
        ("--manifest", "absent.json"),
    ],
)
def test_without_one_manifest_from_elsewhere_nothing_is_judged(
    folder: Path, options: tuple[str, ...]
) -> None:
    assert verify(folder, *options, manifest=False)[0] == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("raise SystemExit(0)", "adapter-unusable"),
        ("x = 1", "adapter-unusable"),
        ("def score_episode(a, e): ...", "scoring-plugin-missing"),
        ("SCORING = 'other@1'\ndef score_episode(a, e): ...", "scoring-plugin-missing"),
    ],
)
def test_an_adapter_that_cannot_be_used_is_2(folder: Path, text: str, code: str) -> None:
    (folder.parent / "adapter.py").write_text(text)

    exit_code, out, err = verify(folder)

    assert (exit_code, out) == (2, "")
    assert f"[{code}]" in err


def replaced_by_link(folder: Path) -> None:
    (folder / EPISODE).rename(folder.parent / "replay")
    (folder / EPISODE).symlink_to(folder.parent / "replay")


def episodes_elsewhere(folder: Path) -> None:
    (folder / "episodes").rename(folder.parent / "elsewhere")
    (folder / "episodes").symlink_to(folder.parent / "elsewhere")


def pipe_in_place_of_a_file(folder: Path) -> None:
    (folder / "README.md").unlink()
    os.mkfifo(folder / "README.md")


@pytest.mark.parametrize(
    "change",
    [
        replaced_by_link,
        episodes_elsewhere,
        pipe_in_place_of_a_file,
        lambda folder: (folder / "more").mkdir(),
        lambda folder: (folder / "episodes" / "more").mkdir(),
        lambda folder: (folder / ".hidden").write_text(""),
        lambda folder: (folder / "link").symlink_to("/nowhere"),
        lambda folder: (folder / EPISODE).unlink(),
    ],
)
def test_a_folder_with_links_or_other_files_is_no_submission(folder: Path, change: Any) -> None:
    change(folder)

    code, out, err = verify(folder)

    assert (code, out) == (2, "")
    assert "[bundle-file-set]" in err


def test_a_folder_that_is_none_is_2(folder: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path / "adapter.py"):
        assert run("verify", path, "--manifest", tmp_path / "manifest.json")[0] == 2


def test_no_more_than_the_limits_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_PACKAGE_BYTES", "MAX_FILES"):
        with monkeypatch.context() as patch:
            patch.setattr(bundle_folder, name, 5)
            code, _, err = verify(folder)
        assert code == 2
        assert "[bundle-too-large]" in err


def test_statements_count_by_the_keys_that_the_verifier_pins(folder: Path, tmp_path: Path) -> None:
    bundle = packed(of=timed())
    write_folder(tmp_path / "timed", bundle_files(with_statements(bundle, statement(bundle))))
    digest = ("--manifest-digest", bundle.manifest.digest_hex)
    pins = tmp_path / "pins.json"

    def pin(key: SubmissionKey) -> int:
        pins.write_text(json.dumps({"keys": [CLOCK.to_json() | {"key": material(key).to_json()}]}))
        return report(tmp_path / "timed", *digest, "--pins", pins, manifest=False)[0]

    assert report(tmp_path / "timed", *digest, manifest=False)[0] == 1
    assert pin(SubmissionKey(bytes(31) + b"\x09")) == 1
    assert pin(KEY) == 0
    pins.write_text('{"keys": [1]}')
    code, _, err = verify(tmp_path / "timed", *digest, "--pins", pins, manifest=False)
    assert code == 2
    assert "[pins-invalid]" in err


@pytest.fixture
def pack_options(folder: Path, tmp_path: Path) -> list[str]:
    """What `pack` is told, but for the folder to make."""
    source = tmp_path / "replays"
    source.mkdir()
    for episode_id, data in replays().items():
        (source / f"{episode_id}.gaos-replay.jsonl").write_bytes(data)
    names = ["--submission", "2026-07", "--agent", "shop-7", "--adapter", str(tmp_path / "adapter.py")]
    return ["pack", str(tmp_path / "manifest.json"), str(source), *names]


def test_replays_are_packed_into_a_submission_that_verifies(
    folder: Path, pack_options: list[str], tmp_path: Path
) -> None:
    code, out, _ = run(*pack_options, "-o", tmp_path / "made", "--json")

    assert code == 0
    assert json.loads(out)["packageDigest"] == report(tmp_path / "made")[1]["packageDigest"]
    assert sorted(os.listdir(tmp_path / "made")) == sorted(os.listdir(folder))


def test_packing_replaces_no_folder(
    folder: Path, pack_options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bundle", *pack_options, "-o", str(folder)]) == 1
    assert "File exists [file-unusable]" in capsys.readouterr().err
    assert report(folder)[0] == 0


def test_packing_of_too_few_replays_leaves_no_folder(pack_options: list[str], tmp_path: Path) -> None:
    (tmp_path / "replays" / Path(EPISODE).name).unlink()

    assert main(["bundle", *pack_options, "-o", str(tmp_path / "new")]) == 1
    assert not (tmp_path / "new").exists()


def test_attestations_about_the_content_can_be_added_after_packing(folder: Path) -> None:
    bundle = packed()
    added = with_statements(bundle, attested(subject_digest=bundle.content_digest))
    (folder / "submission.json").write_bytes(bundle_files(added)["submission.json"])

    assert report(folder)[0] == 0
