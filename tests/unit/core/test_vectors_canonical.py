import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes, canonical_text, parse_json
from aioum.core.errors import CanonicalError
from aioum.core.hashing import keccak256

LIMIT = 1 << 20

REFUSAL_CODES = {
    '{"a":1,"a":2}': "json-duplicate-key",
    '{"a":9007199254740993}': "json-number-unsafe",
    '{"a":-9007199254740993}': "json-number-unsafe",
    '{"a":1e400}': "json-number-not-finite",
    '{"a":NaN}': "json-number-not-finite",
    '{"a":Infinity}': "json-number-not-finite",
    '{"a":"\\ud800"}': "json-lone-surrogate",
    '{"\\udc00":1}': "json-lone-surrogate",
    '{"a":01}': "json-syntax",
    "[1,]": "json-syntax",
    "": "json-syntax",
    '{"a":1} x': "json-trailing-bytes",
}


@pytest.fixture
def vectors(load_vectors: Callable[[str], Any]) -> Any:
    return load_vectors("canonical-json.json")


def double(bits_hex: str) -> float:
    number: float = struct.unpack(">d", bytes.fromhex(bits_hex))[0]
    return number


def test_each_case_gets_its_canonical_bytes_and_hash(vectors: Any) -> None:
    assert len(vectors["cases"]) == 10
    for case in vectors["cases"]:
        value = parse_json(case["input_json"], max_bytes=LIMIT)
        assert canonical_text(value) == case["canonical"], case["name"]
        assert canonical_bytes(value).hex() == case["canonical_utf8_hex"], case["name"]
        assert "0x" + keccak256(canonical_bytes(value)).hex() == case["keccak256"], case["name"]
        assert canonical_text(parse_json(case["canonical"], max_bytes=LIMIT)) == case["canonical"]


def test_each_number_has_its_es6_text_and_the_loader_reads_that_text_back(vectors: Any) -> None:
    assert len(vectors["numbers"]) == 33
    for case in vectors["numbers"]:
        number = double(case["ieee754"])
        assert canonical_text(number) == case["text"]
        assert parse_json(case["text"], max_bytes=LIMIT) == number


def test_each_rejected_text_is_refused_by_the_rule_it_breaks(vectors: Any) -> None:
    assert set(vectors["rejected_json"]) == set(REFUSAL_CODES)
    for text in vectors["rejected_json"]:
        with pytest.raises(CanonicalError) as caught:
            parse_json(text, max_bytes=LIMIT)
        assert caught.value.code == REFUSAL_CODES[text], text


def test_rfc_8785s_six_documents_get_their_bytes(shared_vectors_dir: Path) -> None:
    folder = shared_vectors_dir / "jcs"
    names = sorted(path.stem for path in (folder / "input").glob("*.json"))
    assert names == ["arrays", "french", "structures", "unicode", "values", "weird"]
    for name in names:
        value = parse_json((folder / "input" / f"{name}.json").read_bytes(), max_bytes=LIMIT)
        assert canonical_bytes(value) == bytes.fromhex((folder / "outhex" / f"{name}.txt").read_text()), name
        # The output files end in a newline or not, as their editors left them.
        assert canonical_bytes(value) == (folder / "output" / f"{name}.json").read_bytes().rstrip(b"\n"), name


def test_rfc_8785s_first_hundred_thousand_number_texts(shared_vectors_dir: Path) -> None:
    recipe = json.loads((shared_vectors_dir / "jcs" / "es6-numbers.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256()
    for count, bits in enumerate(islice(es6_test_numbers(recipe), 100_000), start=1):
        number: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
        text = canonical_text(number)
        read = parse_json(text, max_bytes=LIMIT)
        assert isinstance(read, int | float)
        assert float(read) == number
        digest.update(f"{bits:x},{text}\n".encode())
        if count in (1_000, 10_000, 100_000):
            assert digest.hexdigest() == recipe["sha256_of_first_lines"][str(count)]


def es6_test_numbers(recipe: Any) -> Iterator[int]:
    """Bits of the test's doubles, by the recipe of the vectors."""
    for bits_hex in recipe["static"]:
        yield int(bits_hex, 16)
    start = int(recipe["serial_start"], 16)
    yield from range(start, start + recipe["serial_count"])
    block = bytes(32)
    while True:
        for bits in struct.unpack("<4Q", block):
            exponent_is_all_ones = bits >> 52 & 0x7FF == 0x7FF
            if bits << 1 & (1 << 64) - 1 and not exponent_is_all_ones:
                yield bits
        block = hashlib.sha256(block).digest()
