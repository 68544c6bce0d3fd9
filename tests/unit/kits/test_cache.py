"""The cache: checked at every use, never written over."""

import os
import stat
from pathlib import Path

import pytest

from aioum.core.errors import ConfigError, InvalidInput
from aioum.kits.cache import CacheMismatch, KitCache
from aioum.kits.kit import Kit
from tests.unit.kits.samples import make_kit

KIT = make_kit()


@pytest.fixture
def cache(tmp_path: Path) -> KitCache:
    return KitCache(tmp_path / "kits")


def test_a_stored_kit_is_found_under_its_digest_and_is_for_its_owner_alone(cache: KitCache) -> None:
    assert cache.load(KIT.digest) is None
    place = cache.store(KIT)
    assert place.name == KIT.digest.removeprefix("sha256:") + ".gaos-verifier"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert cache.load(KIT.digest) == KIT
    assert [entry.name for entry in cache.folder.iterdir()] == [place.name]


def test_storing_twice_keeps_the_first_file(cache: KitCache) -> None:
    first = cache.store(KIT).stat().st_ino
    assert cache.store(KIT).stat().st_ino == first


@pytest.mark.parametrize(
    "content", [b"", KIT.archive[:-1], KIT.archive + b"\0", make_kit(program=b"other").archive]
)
def test_other_bytes_are_a_mismatch_and_stay_as_they_are(cache: KitCache, content: bytes) -> None:
    place = cache.store(KIT)
    place.write_bytes(content)
    with pytest.raises(CacheMismatch) as caught:
        cache.load(KIT.digest)
    assert caught.value.code == "kit-cache-mismatch"
    with pytest.raises(CacheMismatch):
        cache.store(KIT)
    assert place.read_bytes() == content
    assert len(list(cache.folder.iterdir())) == 1


def put(cache: KitCache, what: str, kit: Kit) -> Path:
    place = cache.store(kit)
    place.unlink()
    match what:
        case "link":
            elsewhere = cache.folder / "elsewhere"
            elsewhere.write_bytes(kit.archive)
            place.symlink_to(elsewhere)
        case "folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
    return place


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_is_no_regular_file_is_a_mismatch_even_with_the_right_bytes(cache: KitCache, what: str) -> None:
    put(cache, what, KIT)
    with pytest.raises(CacheMismatch):
        cache.load(KIT.digest)


@pytest.mark.parametrize(
    "digest", ["", "sha256:", "../../etc/passwd", "sha256:" + "G" * 64, "sha256:../" + "0" * 61]
)
def test_only_digests_name_kits(cache: KitCache, digest: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        cache.load(digest)
    assert caught.value.code == "kit-digest-invalid"


def test_a_digest_of_bytes_that_are_no_kit_is_a_mismatch(cache: KitCache) -> None:
    from aioum.kits.archive import content_digest

    cache.store(KIT)
    digest = content_digest(b"not a kit")
    cache.place(digest).write_bytes(b"not a kit")
    with pytest.raises(CacheMismatch):
        cache.load(digest)


def test_a_cache_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError) as caught:
        KitCache(tmp_path / "file" / "kits").store(KIT)
    assert caught.value.code == "kit-cache-unusable"
