import hashlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

from aioum.core import hashing
from aioum.core.hashing import gives_known_answers, keccak256, pycryptodome_keccak256, pysha3_keccak256


def test_the_hash_of_nothing_is_ethereums_and_has_32_bytes() -> None:
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert len(keccak256(b"x" * 1000)) == 32


def test_the_chosen_backend_and_pycryptodome_agree_around_every_block_border() -> None:
    for length in [*range(300), 1000, 4096]:
        data = bytes(position % 251 for position in range(length))
        assert keccak256(data) == pycryptodome_keccak256(data), length


def test_the_fast_backend_gives_the_known_answers_where_it_is_installed() -> None:
    fast = pysha3_keccak256()
    if fast is None:
        pytest.skip("safe-pysha3 is not installed")
    assert gives_known_answers(fast)
    assert keccak256(b"abc") == fast(b"abc")


def test_sha3_is_not_taken_for_keccak() -> None:
    assert not gives_known_answers(lambda data: hashlib.sha3_256(data).digest())


def test_another_module_named_sha3_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = ModuleType("sha3")
    stranger.keccak_256 = hashlib.sha3_256  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sha3", stranger)
    assert hashing._chosen_backend() is pycryptodome_keccak256


def test_a_module_named_sha3_without_keccak_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sha3", ModuleType("sha3"))
    assert pysha3_keccak256() is None
    assert hashing._chosen_backend() is pycryptodome_keccak256


def test_a_broken_library_stops_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sha3", None)
    wrong = SimpleNamespace(new=lambda *, data, digest_bits: hashlib.sha3_256(data))
    monkeypatch.setattr(hashing, "_pycryptodome_keccak", wrong)
    with pytest.raises(ImportError, match="known answers"):
        hashing._chosen_backend()
