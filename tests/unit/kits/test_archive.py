"""The canonical archive: one form for the same files, and nothing else is read."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.errors import InvalidInput
from aioum.kits.archive import MAX_ARCHIVE_BYTES, MAX_FILES, read_archive, write_archive

FILES = {"b/inner.txt": b"second", "a.txt": b"first", "empty": b"", "whole-block": bytes(512)}
ARCHIVE = write_archive(FILES)


def code_of(archive: bytes) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_archive(archive)
    return caught.value.code


def foreign(*members: tuple[str, bytes], **attributes: object) -> bytes:
    """A ustar as another program writes it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o444
            for attribute, value in attributes.items():
                setattr(info, attribute, value)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_what_is_written_is_read_and_other_programs_read_it_too() -> None:
    assert read_archive(ARCHIVE) == FILES
    with tarfile.open(fileobj=io.BytesIO(ARCHIVE)) as tar:
        assert [member.name for member in tar] == sorted(FILES)
        assert all((m.mode, m.uid, m.gid, m.mtime, m.isreg()) == (0o444, 0, 0, 0, True) for m in tar)


def test_the_order_of_the_files_makes_no_difference() -> None:
    assert write_archive(dict(reversed(FILES.items()))) == ARCHIVE


NAME = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="/\\"), min_size=1, max_size=6
)
PATHS = st.lists(NAME, min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(PATHS, st.binary(max_size=1500), max_size=6))
def test_every_set_of_files_comes_back_or_is_refused_for_a_path(files: dict[str, bytes]) -> None:
    archive, refusal = b"", ""
    try:
        archive = write_archive(files)
    except InvalidInput as error:
        refusal = error.code
    if refusal:
        assert refusal == "kit-path-unsafe"
    else:
        assert len(archive) % 512 == 0
        assert read_archive(archive) == files


@given(st.data())
def test_one_changed_byte_outside_of_contents_is_noticed(data: st.DataObject) -> None:
    files = {"a": b"x" * 100}
    archive = bytearray(write_archive(files))
    position = data.draw(st.integers(0, len(archive) - 1).filter(lambda i: not 512 <= i < 612))
    archive[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(InvalidInput):
        read_archive(bytes(archive))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/x",
        "../x",
        "a/../b",
        "a/./b",
        "./a",
        "a//b",
        "a/",
        "a\\b",
        "a\0b",
        "a\nb",
        "x" * 101,
        "é" * 51,
        "\ud800",
    ],
)
def test_unsafe_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        write_archive({path: b""})
    assert caught.value.code == "kit-path-unsafe"


def test_a_path_of_exactly_100_bytes_is_accepted() -> None:
    assert list(read_archive(write_archive({"é" * 50: b"x"}))) == ["é" * 50]


def test_a_file_that_is_also_a_folder_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        write_archive({"a": b"", "a/b/c": b""})
    assert caught.value.code == "kit-path-unsafe"


def cut(archive: bytes) -> bytes:
    """The archive with an end of exactly two blocks; tar pads to twenty."""
    written = archive.rstrip(b"\0")
    return written.ljust(-(-len(written) // 512) * 512, b"\0") + bytes(1024)


def test_python_s_own_tar_writes_the_same_bytes_but_for_the_end() -> None:
    theirs = foreign(*sorted(FILES.items()))
    assert code_of(theirs) == "kit-archive-malformed"
    assert theirs.rstrip(b"\0") == ARCHIVE.rstrip(b"\0")


@pytest.mark.parametrize(
    "attributes",
    [{"mode": 0o644}, {"uid": 1}, {"gid": 1}, {"mtime": 1}, {"uname": "root"}, {"linkname": "b"}],
)
def test_other_attributes_are_not_canonical(attributes: dict[str, object]) -> None:
    assert code_of(cut(foreign(("a", b"1"), **attributes))) == "kit-not-canonical"


@pytest.mark.parametrize("names", ["ba", "aa"])
def test_another_order_and_doubles_are_not_canonical(names: str) -> None:
    assert code_of(cut(foreign(*((name, b"1") for name in names)))) == "kit-not-canonical"


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_nothing_but_regular_files_is_read(kind: bytes) -> None:
    assert code_of(cut(foreign(("a", b""), type=kind, linkname="b"))) == "kit-entry-not-regular"


def test_limits_of_size_and_count() -> None:
    assert code_of(bytes(MAX_ARCHIVE_BYTES + 512)) == "kit-too-large"
    many = {f"f{i}": b"" for i in range(MAX_FILES)}
    assert len(read_archive(write_archive(many))) == MAX_FILES
    with pytest.raises(InvalidInput) as caught:
        write_archive(many | {"one-more": b""})
    assert caught.value.code == "kit-too-many-files"
    with pytest.raises(InvalidInput) as caught:
        write_archive({"a": bytes(MAX_ARCHIVE_BYTES)})
    assert caught.value.code == "kit-too-large"


def test_reading_stops_at_the_first_entry_too_many() -> None:
    many = b"".join(write_archive({f"f{i:04}": b""})[:512] for i in range(MAX_FILES + 1)) + bytes(1024)
    assert code_of(many) == "kit-too-many-files"


@pytest.mark.parametrize("size", [b"00000000001 ", b"0000000001\0\0", b"77777777777\0", b"\x80" + bytes(11)])
def test_sizes_in_other_spellings_or_beyond_the_end_are_refused(size: bytes) -> None:
    header = bytearray(write_archive({"a": b"1"}))
    header[124:136] = size
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header[:512])
    assert code_of(bytes(header)) == "kit-archive-malformed"
