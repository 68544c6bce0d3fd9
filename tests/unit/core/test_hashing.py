import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace

import pytest
from Crypto.Hash import keccak

from aioum.core import hashing
from aioum.core.hashing import (
    gives_known_answers,
    keccak256,
    keccak256_pairs,
    openssl_keccak256,
    pycryptodome_keccak256,
    pycryptodome_pairs,
    pysha3_keccak256,
)


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


def test_openssls_keccak_gives_the_known_answers_where_there_is_one() -> None:
    fast = openssl_keccak256()
    if fast is None:
        pytest.skip("Python's OpenSSL has no Keccak-256")
    assert gives_known_answers(fast)


def with_openssl(monkeypatch: pytest.MonkeyPatch, hash_name: str | None) -> None:
    """Stands in for an OpenSSL whose `keccak-256` is the named hash, or that has none."""
    monkeypatch.setitem(sys.modules, "sha3", None)

    def new(name: str, data: bytes = b"") -> SimpleNamespace:
        if hash_name is None:
            raise ValueError(f"unsupported hash type {name}")
        digest = pycryptodome_keccak256(data) if hash_name == "keccak" else hashlib.sha3_256(data).digest()
        return SimpleNamespace(digest=lambda: digest)

    monkeypatch.setattr(hashing, "hashlib", SimpleNamespace(new=new))


def test_openssls_keccak_is_chosen_where_safe_pysha3_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    with_openssl(monkeypatch, "keccak")
    assert hashing._chosen_backend() is not pycryptodome_keccak256
    assert gives_known_answers(hashing._chosen_backend())
    assert hashing._chosen_pairs() is not pycryptodome_pairs
    assert hashing._chosen_pairs()(b"", [b"a", b"bc"]) == [keccak256(b"abc")]


def test_an_openssl_that_answers_with_sha3_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with_openssl(monkeypatch, "sha3")
    assert hashing._chosen_backend() is pycryptodome_keccak256


def test_pairs_are_hashed_alike_by_every_backend() -> None:
    for prefix in (b"", b"\x01", b"p" * 137):
        for count in range(6):
            nodes = [bytes((index,)) * (32 + index) for index in range(count)]
            expected = [
                keccak256(prefix + nodes[index] + nodes[index + 1]) for index in range(0, count - 1, 2)
            ]
            assert keccak256_pairs(prefix, nodes) == expected
            assert pycryptodome_pairs(prefix, nodes) == expected


def test_without_a_faster_keccak_pycryptodome_hashes_pairs_by_its_c_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_openssl(monkeypatch, None)
    assert hashing._chosen_pairs() is pycryptodome_pairs


def test_pairs_are_hashed_one_by_one_where_pycryptodome_was_rebuilt_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_openssl(monkeypatch, None)
    monkeypatch.setattr(hashing, "_pycryptodome_keccak", SimpleNamespace(new=keccak.new))
    pairs = hashing._chosen_pairs()
    assert pairs is not pycryptodome_pairs
    assert pairs(b"\x01", [b"a", b"b", b"c"]) == [keccak256(b"\x01ab")]


def test_threads_that_hash_pairs_together_do_not_disturb_each_other() -> None:
    nodes = [bytes((index,)) * 32 for index in range(200)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: pycryptodome_pairs(b"\x01", nodes), range(16)))
    assert all(result == keccak256_pairs(b"\x01", nodes) for result in results)
