import base64
from collections.abc import Callable

import pytest

from aioum.core.errors import AioumError
from aioum.core.submission.keys import VerifyingKey
from aioum.log.checkpoint import (
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    Checkpoint,
    key_id,
    parse_checkpoint,
    read_checkpoint,
    sign_checkpoint,
)
from aioum.log.tree import EMPTY_ROOT
from tests.unit.log.samples import KEY, ORIGIN, OTHER_KEY, verified

ROOT = bytes(range(100, 132))
CHECKPOINT = Checkpoint(ORIGIN, 20_852_163, ROOT)
NOTE = sign_checkpoint(CHECKPOINT, KEY)
ROOT_TEXT = base64.b64encode(ROOT).decode()


def signed(text: str, name: str = ORIGIN) -> bytes:
    """A note over any text at all, with a valid signature."""
    signature = key_id(name, KEY.public_key) + KEY.sign(text.encode())
    return f"{text}\n— {name} {base64.b64encode(signature).decode()}\n".encode()


def line(name: str, data: bytes) -> bytes:
    return f"— {name} {base64.b64encode(data).decode()}\n".encode()


def refusal(note: bytes, origin: str = ORIGIN, public_key: bytes = KEY.public_key) -> str:
    with pytest.raises(AioumError) as caught:
        read_checkpoint(note, origin, public_key)
    return caught.value.code


def with_size(size: str) -> bytes:
    return signed(f"{ORIGIN}\n{size}\n{ROOT_TEXT}\n")


def with_root(root: str) -> bytes:
    return signed(f"{ORIGIN}\n7\n{root}\n")


def test_a_signed_checkpoint_reads_back() -> None:
    assert verified(NOTE) == CHECKPOINT == parse_checkpoint(NOTE)
    assert NOTE.startswith(f"{ORIGIN}\n20852163\n{ROOT_TEXT}\n\n— {ORIGIN} ".encode())
    assert sign_checkpoint(CHECKPOINT, KEY) == NOTE


def test_a_checkpoint_of_the_go_checksum_database_has_its_key_id_and_its_signature_fits() -> None:
    # Its origin is not its key's name, so it is no checkpoint of ours; the writing is the same.
    name, text = "sum.golang.org", "20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    public_key = base64.b64decode("Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8")[1:]
    signature = base64.b64decode(
        "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8="
    )
    assert key_id(name, public_key) == signature[:4] == bytes.fromhex("033de0ae")
    VerifyingKey(public_key).verify(f"go.sum database tree\n{text}".encode(), signature[4:])
    root = base64.b64decode("CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=")
    assert Checkpoint(name, 20_852_163, root).text() == f"{name}\n{text}"


def test_an_empty_log_has_a_checkpoint() -> None:
    empty = Checkpoint(ORIGIN, 0, EMPTY_ROOT)
    assert verified(sign_checkpoint(empty, KEY)) == empty


@pytest.mark.parametrize(
    "size",
    [
        "1_000",
        "+1",
        "-1",
        "007",
        "00",
        "",
        " 7",
        "7 ",
        "7.0",
        "1e3",
        "0x7",
        "٧",
        "７",
        "²",
        str(2**62),
        "9" * 40,
    ],
)
def test_a_size_of_any_other_spelling_is_refused_though_it_is_signed(size: str) -> None:
    expected = "checkpoint-layout-malformed" if size == "" else "checkpoint-size-malformed"
    assert refusal(with_size(size)) == expected


@pytest.mark.parametrize(
    "root",
    [
        ROOT_TEXT[:-1],
        ROOT_TEXT + "=",
        ROOT_TEXT + ROOT_TEXT,
        # Stray bits behind the last byte.
        ROOT_TEXT[:-2] + chr(ord(ROOT_TEXT[-2]) + 1) + "=",
        ROOT_TEXT.replace("=", ""),
        " " + ROOT_TEXT,
        ROOT_TEXT + " ",
        ROOT.hex(),
        base64.urlsafe_b64encode(b"\xff" * 32).decode(),
        base64.b64encode(ROOT[:31]).decode(),
        base64.b64encode(ROOT + b"\0").decode(),
    ],
)
def test_a_root_with_a_base64_tail_or_another_spelling_is_refused_though_it_is_signed(root: str) -> None:
    assert refusal(with_root(root)) == "checkpoint-root-malformed"


def test_a_root_of_no_entries_other_than_the_hash_of_nothing_is_refused() -> None:
    assert refusal(with_size("0")) == "checkpoint-root-malformed"


@pytest.mark.parametrize(
    "note, code",
    [
        (NOTE[:-1], "checkpoint-layout-malformed"),
        (NOTE + b"\n", "checkpoint-layout-malformed"),
        (b"", "checkpoint-layout-malformed"),
        (b"\n\n", "checkpoint-layout-malformed"),
        (NOTE.replace(b"\n\n", b"\n"), "checkpoint-layout-malformed"),
        (NOTE.partition(b"\n\n")[0] + b"\n\n", "checkpoint-layout-malformed"),
        (signed(f"{ORIGIN}\n7\n"), "checkpoint-layout-malformed"),
        (signed(f"{ORIGIN}\n7\n{ROOT_TEXT}\n\n"), "checkpoint-layout-malformed"),
        (signed(f"\n{ORIGIN}\n7\n{ROOT_TEXT}\n"), "checkpoint-layout-malformed"),
        (signed(f"{ORIGIN}\n7\n{ROOT_TEXT}\nextension\n"), "checkpoint-extension-unexpected"),
        (NOTE.replace(b"\n", b"\r\n"), "checkpoint-encoding-invalid"),
        (NOTE.replace(b"20852163", b"20852163\r"), "checkpoint-encoding-invalid"),
        (NOTE.replace(b"20852163", b"20852163\0"), "checkpoint-encoding-invalid"),
        (b"\xff" + NOTE, "checkpoint-encoding-invalid"),
        (b"\xef\xbb\xbf" + NOTE, "checkpoint-origin-invalid"),
        (signed(f"example.com/log b\n7\n{ROOT_TEXT}\n"), "checkpoint-origin-invalid"),
        (signed(f"other.example/log\n7\n{ROOT_TEXT}\n"), "checkpoint-origin-unexpected"),
        (b"x" * (MAX_NOTE_BYTES + 1), "checkpoint-too-large"),
    ],
)
def test_a_note_of_another_layout_is_refused(note: bytes, code: str) -> None:
    assert refusal(note) == code


@pytest.mark.parametrize(
    "lines, code",
    [
        (line(ORIGIN, key_id(ORIGIN, KEY.public_key) + bytes(64)), "checkpoint-signature-duplicate"),
        (NOTE.partition(b"\n\n")[2], "checkpoint-signature-duplicate"),
        (2 * line("witness.example/w", b"abcd" + bytes(72)), "checkpoint-signature-duplicate"),
        (line("witness.example/w", b"abcd"), "checkpoint-signature-malformed"),
        (line("wit+ness", b"abcde"), "checkpoint-signature-malformed"),
        (line("wit\u2003ness", b"abcde"), "checkpoint-signature-malformed"),
        (line("", b"abcde"), "checkpoint-signature-malformed"),
        (b"- w YWJjZGU=\n", "checkpoint-signature-malformed"),
        ("— w YWJjZGU\n".encode(), "checkpoint-signature-malformed"),
        ("— w YWJjZGV=\n".encode(), "checkpoint-signature-malformed"),
        ("— w YWJjZGU= \n".encode(), "checkpoint-signature-malformed"),
        ("— w YWJjZGU=YWJjZGU=\n".encode(), "checkpoint-signature-malformed"),
        ("—  w YWJjZGU=\n".encode(), "checkpoint-signature-malformed"),
        (
            b"".join(line(f"w{number}", b"abcde") for number in range(MAX_SIGNATURES)),
            "checkpoint-signatures-too-many",
        ),
    ],
)
def test_a_further_signature_line_that_is_malformed_or_doubled_spoils_the_note(
    lines: bytes, code: str
) -> None:
    assert refusal(NOTE + lines) == code


def test_well_formed_signatures_of_others_are_passed_over() -> None:
    others = b"".join(line(f"witness.example/{number}", b"abcd" + bytes(72)) for number in range(16))
    rotated = line(ORIGIN, b"abcd" + bytes(64))
    assert verified(NOTE + others + rotated) == CHECKPOINT
    head, _, tail = NOTE.partition(b"\n\n")
    assert verified(head + b"\n\n" + others + tail) == CHECKPOINT


def test_a_checkpoint_that_the_log_did_not_sign_is_refused() -> None:
    text = NOTE.partition(b"\n\n")[0] + b"\n\n"
    assert refusal(text + line("witness.example/w", b"abcd" + bytes(64))) == "checkpoint-signature-missing"
    assert refusal(sign_checkpoint(CHECKPOINT, OTHER_KEY)) == "checkpoint-key-mismatch"
    assert refusal(NOTE, public_key=OTHER_KEY.public_key) == "checkpoint-key-mismatch"
    good = key_id(ORIGIN, KEY.public_key)
    for forged in (bytes(64), KEY.sign(b"other"), KEY.sign(text[:-1]) + b"\0", KEY.sign(text[:-1])[:-1]):
        assert refusal(text + line(ORIGIN, good + forged)) == "checkpoint-signature-invalid"


def test_a_genuine_signature_does_not_fit_another_size() -> None:
    assert refusal(NOTE.replace(b"20852163", b"20852164")) == "checkpoint-signature-invalid"


def test_a_key_of_small_order_is_refused() -> None:
    identity = bytes((1,)) + bytes(31)
    text = CHECKPOINT.text()
    forged = key_id(ORIGIN, identity) + identity + bytes(32)
    assert refusal(f"{text}\n".encode() + line(ORIGIN, forged), public_key=identity) == (
        "checkpoint-key-invalid"
    )


@pytest.mark.parametrize(
    "make, code",
    [
        (lambda: Checkpoint("", 1, ROOT), "checkpoint-origin-invalid"),
        (lambda: Checkpoint("a b", 1, ROOT), "checkpoint-origin-invalid"),
        (lambda: Checkpoint("a+b", 1, ROOT), "checkpoint-origin-invalid"),
        (lambda: Checkpoint("a\n", 1, ROOT), "checkpoint-origin-invalid"),
        (lambda: Checkpoint("\ud800", 1, ROOT), "checkpoint-origin-invalid"),
        (lambda: Checkpoint("a" * 256, 1, ROOT), "checkpoint-origin-invalid"),
        (lambda: Checkpoint(ORIGIN, -1, ROOT), "checkpoint-size-malformed"),
        (lambda: Checkpoint(ORIGIN, 2**62, ROOT), "checkpoint-size-malformed"),
        (lambda: Checkpoint(ORIGIN, 1, ROOT[1:]), "checkpoint-root-malformed"),
    ],
)
def test_a_checkpoint_that_could_not_be_written_cannot_be_made(make: Callable[[], object], code: str) -> None:
    with pytest.raises(AioumError) as caught:
        make()
    assert caught.value.code == code


def test_every_changed_byte_of_a_note_is_noticed() -> None:
    for position in range(len(NOTE)):
        for mask in (1, 0x20, 0x80):
            changed = bytearray(NOTE)
            changed[position] ^= mask
            with pytest.raises(AioumError):
                verified(bytes(changed))
