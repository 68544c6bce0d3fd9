"""`aioum evidence publish` and `fetch`, and `verify-evidence` on URIs, as a person types them."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from aioum.cli import main as aioum
from aioum.cli import verify_evidence
from aioum.client.publication.unixfs import file_cid
from aioum.core.hashing import keccak256
from aioum.devnet.running import RunningDevnet
from tests.integration.publication.conftest import (
    TOKEN,
    FakeKubo,
    FakePinning,
    StartServer,
    other_cid,
    package,
)

EVIDENCE = package()
HASH_HEX = f"0x{keccak256(EVIDENCE).hex()}"
CID = str(file_cid(EVIDENCE))


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Shell:
    """Runs the commands off the loop, which serves them meanwhile."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    async def __call__(self, program: str, *arguments: object) -> Done:
        main = {"aioum": aioum.main, "verify-evidence": verify_evidence.main}[program]
        code = await asyncio.to_thread(main, [str(argument) for argument in arguments])
        out, err = self._capture.readouterr()
        return Done(code, out, err)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "evidence.json"
    path.write_bytes(EVIDENCE)
    return path


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


async def test_publishing_to_a_folder_prints_what_a_dispute_names(
    shell: Shell, file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "www"
    folder.mkdir()
    to = ("--to", "directory", "--directory", folder, "--base-url", "https://files.example/")
    done = await shell("aioum", "evidence", "publish", file, *to, "--json")
    uri = f"https://files.example/{HASH_HEX[2:]}.json"
    assert (done.code, json.loads(done.out)) == (
        0, {"uri": uri, "evidenceHash": HASH_HEX, "sizeBytes": len(EVIDENCE), "cid": None},
    )  # fmt: skip
    again = await shell("aioum", "evidence", "publish", file, *to)
    assert again.out.splitlines() == [
        f"uri            {uri}", f"evidence hash  {HASH_HEX}", f"size           {len(EVIDENCE)} bytes",
    ]  # fmt: skip
    assert f"--evidence-hash {HASH_HEX}" in again.err


async def test_a_package_goes_to_ipfs_and_comes_back_by_each_way(
    shell: Shell, file: Path, token_file: Path, start_server: StartServer, tmp_path: Path
) -> None:
    node, service = FakeKubo(), FakePinning(states=["pinned"])
    kubo, remote = await start_server(node.handle), await start_server(service.handle)
    for to in (
        ("--ipfs-api", kubo.url()),
        ("--ipfs-api", kubo.url(), "--pinning-service", remote.url("/psa"), "--token-file", token_file),
        (
            "--upload-url",
            remote.url("/upload"),
            "--token-file",
            token_file,
            "--upload-field",
            "network=public",
        ),
    ):
        done = await shell("aioum", "evidence", "publish", file, "--to", "ipfs", *to, "--json")
        assert (done.code, json.loads(done.out)) == (
            0,
            {"uri": f"ipfs://{CID}", "evidenceHash": HASH_HEX, "sizeBytes": len(EVIDENCE), "cid": CID},
        )
    assert service.uploads == [(EVIDENCE, {"network": "public"})]
    assert [pin["cid"] for pin in service.pins.values()] == [CID]

    copy = tmp_path / "copy.json"
    fetched = await shell(
        "aioum", "evidence", "fetch", f"ipfs://{CID}", "--ipfs-api", kubo.url(), "--evidence-hash", HASH_HEX,
        "-o", copy, "--json",
    )  # fmt: skip
    assert json.loads(fetched.out) == {
        "source": kubo.url(), "evidenceHash": HASH_HEX, "sizeBytes": len(EVIDENCE), "hashExpected": True,
    }  # fmt: skip
    assert copy.read_bytes() == EVIDENCE


async def test_a_node_that_answers_another_cid_ends_with_1(
    shell: Shell, file: Path, start_server: StartServer
) -> None:
    server = await start_server(FakeKubo(says=str(other_cid())).handle)
    done = await shell("aioum", "evidence", "publish", file, "--to", "ipfs", "--ipfs-api", server.url())
    assert (done.code, done.out) == (1, "")
    assert "[publish-cid-mismatch]" in done.err


@pytest.mark.parametrize(
    "content, mode, code",
    [
        (None, 0o600, "publish-token-unusable"),
        (b"", 0o600, "publish-token-unusable"),
        (b"two words", 0o600, "publish-token-unusable"),
        (b"two\nlines", 0o600, "publish-token-unusable"),
        (b"\xff", 0o600, "publish-token-unusable"),
        (b"x" * 9_000, 0o600, "publish-token-unusable"),
        (TOKEN.encode(), 0o640, "publish-token-exposed"),
    ],
)
async def test_a_token_is_taken_from_a_file_of_its_owner_alone(
    content: bytes | None, mode: int, code: str, shell: Shell, file: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
        token.chmod(mode)
    to = ("--to", "ipfs", "--upload-url", "https://upload.example", "--token-file", token)
    done = await shell("aioum", "evidence", "publish", file, *to)
    assert done.code == 1
    assert f"[{code}]" in done.err
    assert TOKEN not in done.err


@pytest.mark.parametrize(
    "options",
    [
        ("--to", "data", "--directory", "."),
        ("--to", "data", "--ipfs-api", "http://127.0.0.1:5001"),
        ("--to", "directory", "--directory", "."),
        ("--to", "directory", "--base-url", "https://files.example"),
        ("--to", "ipfs"),
        ("--to", "ipfs", "--base-url", "https://files.example"),
        ("--to", "ipfs", "--upload-url", "https://x.example"),
        ("--to", "ipfs", "--upload-url", "https://x.example", "--ipfs-api", "http://127.0.0.1:5001"),
        ("--to", "ipfs", "--ipfs-api", "http://127.0.0.1:5001", "--token-file", "token"),
        ("--to", "ipfs", "--ipfs-api", "http://127.0.0.1:5001", "--pin-timeout", "5"),
        ("--to", "ipfs", "--ipfs-api", "http://127.0.0.1:5001", "--upload-field", "a=b"),
        ("--to", "ipfs", "--ipfs-api", "http://127.0.0.1:5001", "--pinning-service", "https://x.example"),
        ("--to", "ipfs", "--ipfs-api", "127.0.0.1:5001"),
    ],
)
async def test_options_that_do_not_fit_the_target_are_wrong_usage(
    options: tuple[str, ...], shell: Shell, file: Path
) -> None:
    assert (await shell("aioum", "evidence", "publish", file, *options)).code == 2


async def test_an_upload_field_without_a_value_is_wrong_usage(
    shell: Shell, file: Path, token_file: Path
) -> None:
    to = ("--to", "ipfs", "--upload-url", "https://x.example", "--token-file", token_file)
    assert (await shell("aioum", "evidence", "publish", file, *to, "--upload-field", "network")).code == 2


async def test_a_file_that_is_too_large_or_no_package_is_not_published(
    shell: Shell, file: Path, tmp_path: Path
) -> None:
    done = await shell("aioum", "evidence", "publish", file, "--to", "data", "--max-bytes", len(EVIDENCE) - 1)
    assert (done.code, "[json-too-large]" in done.err) == (1, True)
    done = await shell("aioum", "evidence", "publish", tmp_path / "none", "--to", "data")
    assert (done.code, "[file-unusable]" in done.err) == (1, True)


async def test_fetching_writes_nothing_where_the_hash_is_another(
    shell: Shell, file: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.json"
    wrong = "0x" + "00" * 32
    done = await shell("aioum", "evidence", "fetch", file.as_uri(), "--evidence-hash", wrong, "-o", copy)
    assert (done.code, copy.exists()) == (1, False)
    assert "[evidence-hash-mismatch]" in done.err
    unnamed = await shell("aioum", "evidence", "fetch", file.as_uri(), "-o", copy)
    assert (unnamed.code, copy.read_bytes()) == (0, EVIDENCE)
    assert "nobody named the hash" in unnamed.err
    assert (await shell("aioum", "evidence", "fetch", file.as_uri(), "--json")).code == 2


# verify-evidence


async def test_a_package_is_verified_by_its_uri_and_hash(
    shell: Shell, start_server: StartServer, devnet: RunningDevnet
) -> None:
    async def served(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=EVIDENCE)

    server = await start_server(served)
    judged = ("--evidence-hash", HASH_HEX, "--deployment", devnet.deployment_file, "--json")
    for uri, options in (
        (server.url("/evidence.json"), ("--allow-private-addresses",)),
        (f"ipfs://{CID}", ("--ipfs-gateway", server.url())),
    ):
        done = await shell("verify-evidence", uri, *options, *judged)
        statuses = {check["name"]: check["status"] for check in json.loads(done.out)["checks"]}
        # The chain does not know this session, which is a finding about a package that was read.
        assert (done.code, statuses["session"], statuses["claimed-root"]) == (1, "fail", "pass")
    assert server.asked == ["/evidence.json", f"/ipfs/{CID}"]


async def test_local_uris_are_verified_offline(shell: Shell, file: Path) -> None:
    import base64

    inline = f"data:application/json;base64,{base64.b64encode(EVIDENCE).decode()}"
    for source in (str(file), file.as_uri(), inline):
        done = await shell("verify-evidence", source, "--offline", "--evidence-hash", HASH_HEX)
        assert (done.code, done.err) == (0, ""), source[:40]
        wrong = await shell("verify-evidence", source, "--offline", "--evidence-hash", "0x" + "ab" * 32)
        assert (wrong.code, wrong.out) == (2, ""), source[:40]
        assert "[evidence-hash-mismatch]" in wrong.err


async def test_a_hash_has_no_meaning_for_an_export(shell: Shell) -> None:
    done = await shell("verify-evidence", "--export", "--session", "1", "--evidence-hash", HASH_HEX)
    assert (done.code, "[usage]" in done.err) == (2, True)


@pytest.mark.parametrize(
    "source, options, code",
    [
        ("https://files.example/x", ("--offline",), "evidence-offline"),
        (f"ipfs://{CID}", ("--offline",), "evidence-offline"),
        ("https://127.0.0.1/x", (), "evidence-address-refused"),
        ("http://files.example/x", (), "plain-http-refused"),
        ("ftp://files.example/x", (), "evidence-scheme-unsupported"),
        ("ipfs://x", (), "cid-invalid"),
        ("data:,x", ("--offline",), "json-syntax"),
        ("data:,x", ("--offline", "--evidence-hash", "0x12"), "hex-invalid"),
        ("data:,xxxx", ("--offline", "--max-bytes", "3"), "evidence-too-large"),
        ("none.json", ("--offline",), "file-unusable"),
    ],
)
async def test_a_source_that_cannot_be_read_is_no_verdict(
    source: str, options: tuple[str, ...], code: str, shell: Shell
) -> None:
    done = await shell("verify-evidence", source, *options)
    assert (done.code, done.out) == (2, "")
    assert f"[{code}]" in done.err
