import os
from pathlib import Path

import pytest

from aioum.cli.diagnosis import folder_findings
from aioum.client.journal import JOURNAL_FILE


def found(data_dir: Path, min_free_bytes: int = 0) -> dict[str, tuple[str, str | None]]:
    return {
        finding.name: (finding.status.value, finding.code)
        for finding in folder_findings(data_dir, min_free_bytes)
    }


def test_a_folder_of_this_user_alone_is_in_order(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / JOURNAL_FILE).touch(mode=0o600)
    assert found(tmp_path) == {"data-folder": ("pass", None), "disk-space": ("pass", None)}


def test_a_folder_that_is_not_there_yet_is_no_failure_and_is_not_made(tmp_path: Path) -> None:
    assert found(tmp_path / "a" / "b")["data-folder"] == ("na", None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder_mode, file_mode", [(0o777, 0o600), (0o720, 0o600), (0o700, 0o640)])
def test_a_record_that_others_can_use_is_a_failure(tmp_path: Path, folder_mode: int, file_mode: int) -> None:
    (tmp_path / JOURNAL_FILE).touch()
    (tmp_path / JOURNAL_FILE).chmod(file_mode)
    tmp_path.chmod(folder_mode)
    assert found(tmp_path)["data-folder"] == ("fail", "data-dir-exposed")


def test_a_file_in_the_place_of_the_folder_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert found(tmp_path / "file")["data-folder"] == ("fail", "data-dir-unusable")
    assert found(tmp_path / "file" / "below")["data-folder"] == ("fail", "data-dir-unusable")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert found(tmp_path)["data-folder"] == ("fail", "data-dir-unusable")


def test_a_full_disk_is_a_failure(tmp_path: Path) -> None:
    assert found(tmp_path, min_free_bytes=2**62)["disk-space"] == ("fail", "disk-space-low")
