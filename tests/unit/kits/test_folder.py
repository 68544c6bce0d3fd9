"""Folders: read without following links, written for reading alone."""

import os
import stat
from pathlib import Path

import pytest

from aioum.core.errors import ConfigError, InvalidInput
from aioum.kits.folder import read_folder, write_folder

FILES = {"a.txt": b"1", "b/c.txt": b"2", "b/d/e.txt": b""}


def refused(folder: Path, **limits: int) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_folder(folder, **limits)
    return caught.value.code


def test_what_is_written_is_read_and_anybody_may_read_it_but_not_change_it(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        write_folder(tmp_path / "kit", FILES)
    finally:
        os.umask(mask)
    assert read_folder(tmp_path / "kit") == FILES
    modes = {str(p.relative_to(tmp_path)): stat.S_IMODE(p.stat().st_mode) for p in tmp_path.rglob("*")}
    assert {path for path, mode in modes.items() if mode == 0o755} == {"kit", "kit/b", "kit/b/d"}
    assert {path for path, mode in modes.items() if mode == 0o444} == {f"kit/{path}" for path in FILES}


@pytest.mark.parametrize("what", ["link", "link-to-folder", "pipe"])
def test_links_and_pipes_are_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"")
    (tmp_path / "kit").mkdir()
    entry = tmp_path / "kit" / "entry"
    match what:
        case "link":
            entry.symlink_to(tmp_path / "real" / "a")
        case "link-to-folder":
            entry.symlink_to(tmp_path / "real")
        case _:
            os.mkfifo(entry)
    assert refused(tmp_path / "kit") == "folder-entry-not-regular"


def test_too_many_and_too_large_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "kit", FILES)
    assert refused(tmp_path / "kit", max_files=2) == "folder-too-many-files"
    assert refused(tmp_path / "kit", max_bytes=1) == "folder-too-large"
    assert read_folder(tmp_path / "kit", max_files=3, max_bytes=2) == FILES


def test_folders_count_too_so_that_endless_nests_of_them_end(tmp_path: Path) -> None:
    for i in range(10):
        (tmp_path / f"empty{i}").mkdir()
    assert refused(tmp_path, max_files=2) == "folder-too-many-files"


def test_a_name_that_no_kit_could_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "back\\slash").write_bytes(b"")
    assert refused(tmp_path) == "kit-path-unsafe"


def test_a_missing_folder_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_folder(tmp_path / "nowhere")
    assert caught.value.code == "folder-unreadable"
