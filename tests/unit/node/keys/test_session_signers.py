"""Keys in an external signer: which are named, how they are found, what a node does when they are away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.external_signer import ExternalSigner, SignerEndpoint, opened_client
from aioum.chain.signers import as_signer
from aioum.core.errors import AioumError, ConfigError
from aioum.core.hextext import address_text
from aioum.core.payment import Domain
from aioum.core.signing import LocalKey
from aioum.core.types import Address
from aioum_node.keys.identity import Identity, create_operator, opened_identity
from aioum_node.keys.session_signers import opened_signers
from aioum_node.readiness import Readiness
from aioum_node.settings import Settings
from aioum_node.settings_signer import RetiredKey, SignerSettings, signer_table
from tests.fake_signer import FakeSigner, Refusal, served_over_http

OPERATOR = LocalKey(b"\5" * 32)
RECEIPTS = LocalKey(b"\6" * 32)
RETIRED = LocalKey(b"\7" * 32)
DOMAIN = Domain(31337, Address(b"\1" * 20))


@pytest.fixture
def fake() -> FakeSigner:
    return FakeSigner([OPERATOR, RECEIPTS, RETIRED], entropy=True)


@pytest.fixture
async def url(fake: FakeSigner) -> AsyncIterator[str]:
    async with served_over_http(fake) as served:
        yield served


async def addresses_of(settings: Settings) -> list[Address]:
    async with opened_identity(settings) as identity:
        return [key.address for key in (identity.operator, identity.receipt_signer, *identity.retired)]


def signer(url: str, **changes: Any) -> SignerSettings:
    return SignerSettings(url=url, **changes)


async def test_a_key_that_is_named_needs_no_key_store(url: str, tmp_path: Path) -> None:
    outside = signer(url, operator=address_text(OPERATOR.address), receipts=address_text(RECEIPTS.address))
    assert await addresses_of(Settings(node_dir=tmp_path, signer=outside)) == [
        OPERATOR.address,
        RECEIPTS.address,
    ]


async def test_each_key_chooses_its_place(url: str, tmp_path: Path) -> None:
    settings = Settings(
        node_dir=tmp_path,
        signer=signer(url, receipts=address_text(RECEIPTS.address)),
        retired_receipt_keys=(
            RetiredKey(address=address_text(RETIRED.address)),
            RetiredKey(key_file=Path("operator.key.json"), password_file=Path("operator.password")),
        ),
    )
    local = create_operator(settings, LocalKey(b"\x08" * 32))

    assert await addresses_of(settings) == [local.address, RECEIPTS.address, RETIRED.address, local.address]


async def test_the_operator_outside_signs_receipts_too_unless_others_are_named(
    url: str, tmp_path: Path
) -> None:
    settings = Settings(node_dir=tmp_path, signer=signer(url, operator=address_text(OPERATOR.address)))
    assert await addresses_of(settings) == [OPERATOR.address, OPERATOR.address]


async def test_a_token_comes_from_a_file_that_nobody_else_may_read(
    fake: FakeSigner, url: str, tmp_path: Path
) -> None:
    outside = signer(url, operator=address_text(OPERATOR.address), token_file=Path("signer.token"))
    settings = Settings(node_dir=tmp_path, signer=outside)
    codes = []
    for rights in (None, 0o644, 0o600):
        if rights is not None:
            (tmp_path / "signer.token").write_text("s3cret\n")
            (tmp_path / "signer.token").chmod(rights)
        try:
            await addresses_of(settings)
        except ConfigError as error:
            codes.append(error.code)

    assert codes == ["secret-file-missing", "secret-file-exposed"]
    assert [headers["Authorization"] for headers in fake.headers] == ["Bearer s3cret"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"operator": "0x1234"}, "signer-address-invalid"),
        ({"operator": "0x" + "77" * 20}, "signer-account-unknown"),
        ({"operator": "0x" + "77" * 20, "url": "ftp://x"}, "signer-url-invalid"),
    ],
)
async def test_a_key_that_cannot_be_had_is_said_at_the_start(
    url: str, tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    settings = Settings(node_dir=tmp_path, signer=SignerSettings(**{"url": url, **changes}))
    with pytest.raises(AioumError) as caught:
        await addresses_of(settings)

    assert caught.value.code == code


async def test_a_retired_key_outside_needs_an_external_signer(tmp_path: Path) -> None:
    retired = RetiredKey(address=address_text(RETIRED.address))
    settings = Settings(node_dir=tmp_path, retired_receipt_keys=(retired,))
    with pytest.raises(ConfigError) as caught:
        await addresses_of(settings)

    assert caught.value.code == "signer-missing"


@pytest.mark.parametrize(
    "key",
    [
        {},
        {"key_file": Path("a")},
        {"key_file": Path("a"), "password_file": Path("b"), "address": "c"},
        {"password_file": Path("b"), "address": "c"},
    ],
)
def test_a_retired_key_lies_in_one_place(key: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="either key_file and password_file, or address"):
        RetiredKey(**key)


def test_the_page_of_the_signer_has_the_table_of_its_settings(repository: Path) -> None:
    assert signer_table() in (repository / "docs" / "external-signer.md").read_text(encoding="utf-8")


class Watched:
    """A node's signers with one key outside."""

    def __init__(self, url: str, folder: Path, clock: list[float]) -> None:
        self.clock = clock
        self.readiness = Readiness(lambda: clock[0])
        self.settings = Settings(
            node_dir=folder,
            signer=signer(url, receipts=address_text(RECEIPTS.address), check_seconds=1, timeout_seconds=1),
        )

    async def refused_at_start(self) -> str:
        with pytest.raises(AioumError) as caught:
            async with (
                opened_identity(self.settings) as identity,
                opened_signers(self.settings, identity, DOMAIN, self.readiness),
            ):
                pass
        return caught.value.code


@pytest.fixture
def watched(url: str, tmp_path: Path) -> Watched:
    settings = Watched(url, tmp_path, [100.0])
    create_operator(settings.settings, OPERATOR)
    return settings


async def test_a_signer_that_signs_something_else_is_found_at_the_start(
    fake: FakeSigner, watched: Watched
) -> None:
    fake.tamper = lambda method, result: (
        result if method == "eth_accounts" else "0x" + OPERATOR.sign_digest(b"\1" * 32).hex()
    )

    assert await watched.refused_at_start() == "signer-wrong-address"


async def test_a_node_is_not_ready_while_its_signer_refuses_and_ready_when_it_answers_again(
    fake: FakeSigner, watched: Watched
) -> None:
    def refuse(method: str, result: Any) -> Any:
        raise Refusal

    codes: list[str] = []
    async with (
        opened_identity(watched.settings) as identity,
        opened_signers(watched.settings, identity, DOMAIN, watched.readiness, codes.append) as signers,
    ):
        assert watched.readiness.missing() == []
        (loop,) = signers.loops
        watching = asyncio.create_task(loop())
        try:
            async with asyncio.timeout(30):
                fake.tamper = refuse
                while watched.readiness.missing() != ["signer"]:
                    await asyncio.sleep(0.01)
                fake.tamper = lambda method, result: result
                while watched.readiness.missing():
                    await asyncio.sleep(0.01)
        finally:
            watching.cancel()
            await asyncio.wait([watching])
    assert set(codes) == {"signer-refused"}


async def test_a_signer_that_a_program_hands_in_has_its_signatures_kept(
    fake: FakeSigner, url: str, tmp_path: Path
) -> None:
    async with opened_client(SignerEndpoint(url), fake.kind) as client:
        identity = Identity(OPERATOR, ExternalSigner(client, RECEIPTS.address))
        settings = Settings(node_dir=tmp_path)
        async with opened_signers(settings, identity, DOMAIN, Readiness(lambda: 0.0)) as signers:
            assert len(signers.loops) == 1

    assert (tmp_path / "signatures.sqlite3").exists()


async def test_a_node_whose_watch_hangs_is_not_ready_after_a_while(watched: Watched) -> None:
    async with (
        opened_identity(watched.settings) as identity,
        opened_signers(watched.settings, identity, DOMAIN, watched.readiness),
    ):
        watched.clock[0] += 5

        assert watched.readiness.missing() == ["signer"]


async def test_local_keys_need_no_file_and_no_watch(tmp_path: Path) -> None:
    readiness = Readiness(lambda: 0.0)
    identity = Identity(OPERATOR, as_signer(RECEIPTS), (RETIRED,))
    async with opened_signers(Settings(node_dir=tmp_path), identity, DOMAIN, readiness) as signers:
        assert signers.signers.addresses == {RECEIPTS.address, RETIRED.address}
        assert signers.loops == ()

    assert list(tmp_path.iterdir()) == []
    assert readiness.missing() == []
