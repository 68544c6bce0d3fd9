"""An external signer signs what it was asked, and only that: anything else that it may answer is refused."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp.test_utils import unused_port
from eth_account import Account

from aioum.chain.external_signer import ExternalSigner, SignerEndpoint, SignerKind, opened_client
from aioum.chain.external_signer_link import MAX_ANSWER_BYTES, MAX_CONCURRENT_REQUESTS
from aioum.core.errors import AioumError
from aioum.core.hextext import address_text
from aioum.core.payment import (
    CallReceipt,
    CloseRequest,
    Domain,
    ReadAccess,
    SignedMessage,
    Statement,
    Voucher,
)
from aioum.core.signing import LocalKey, require_signer
from aioum.core.types import Address, Bytes32, ChannelId
from tests.fake_signer import (
    FakeSigner,
    HttpAnswer,
    Refusal,
    served_over_http,
    served_over_socket,
    with_high_s,
)
from tests.unit.chain.certificates import Certificates, made_certificates

KEY = LocalKey(b"\5" * 32)
STRANGER = LocalKey(b"\6" * 32)
DOMAIN = Domain(31337, Address(b"\1" * 20))
CHANNEL = ChannelId(b"\2" * 32)
RECEIPT = CallReceipt(CHANNEL, 3, Bytes32(b"\3" * 32), 7)
TRANSACTION: dict[str, Any] = {
    "type": 2,
    "chainId": 31337,
    "nonce": 3,
    "to": bytes(DOMAIN.payment_manager),
    "data": b"\1\2",
    "value": 0,
    "gas": 50_000,
    "maxFeePerGas": 10,
    "maxPriorityFeePerGas": 1,
}
CLEF, WEB3SIGNER = SignerKind.CLEF, SignerKind.WEB3SIGNER


@asynccontextmanager
async def connected(fake: FakeSigner, **changes: Any) -> AsyncIterator[ExternalSigner]:
    async with (
        served_over_http(fake) as url,
        opened_client(SignerEndpoint(url, **changes), fake.kind) as client,
    ):
        yield ExternalSigner(client, KEY.address)


async def code_of(asked: Awaitable[Any]) -> str:
    with pytest.raises(AioumError) as caught:
        await asked
    return caught.value.code


async def code_with(tamper: Callable[[str, Any], Any], *, transaction: bool = False) -> str:
    async with connected(FakeSigner([KEY], tamper=tamper)) as signer:
        return await code_of(
            signer.sign_transaction(TRANSACTION) if transaction else signer.sign(RECEIPT, DOMAIN)
        )


@pytest.mark.parametrize("kind", SignerKind)
@pytest.mark.parametrize(
    "message",
    [
        Voucher(CHANNEL, 2**128 - 1),
        ReadAccess(CHANNEL, 2**64 - 1),
        CloseRequest(CHANNEL, 0),
        RECEIPT,
        Statement(CHANNEL, 2**53 + 1, Bytes32(b"\4" * 32), 10**30 + 1),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_every_message_is_signed_as_the_key_itself_would_sign_it(
    kind: SignerKind, message: SignedMessage
) -> None:
    async with connected(FakeSigner([STRANGER, KEY], kind)) as signer:
        signature = await signer.sign(message, DOMAIN)

    assert signature == KEY.sign_digest(message.digest(DOMAIN))


@pytest.mark.parametrize("kind", SignerKind)
@pytest.mark.parametrize("changes", [{}, {"to": b"", "data": b"\1" * 24_000}, {"value": 2**200}])
async def test_a_transaction_is_signed_exactly_as_it_was_asked(
    kind: SignerKind, changes: dict[str, Any]
) -> None:
    fields = TRANSACTION | changes
    async with connected(FakeSigner([KEY], kind)) as signer:
        raw = await signer.sign_transaction(fields)

    assert raw == bytes(Account.sign_transaction(fields, KEY.secret_bytes()).raw_transaction)


async def test_clef_is_asked_over_its_own_socket(tmp_path: Path) -> None:
    fake = FakeSigner([KEY], CLEF)
    async with (
        served_over_socket(fake, tmp_path / "clef.ipc") as url,
        opened_client(SignerEndpoint(url), CLEF) as client,
    ):
        signer = ExternalSigner(client, KEY.address)
        await signer.check()
        signature = await signer.sign(RECEIPT, DOMAIN)
        raw = await signer.sign_transaction(TRANSACTION)

    assert [method for method, _ in fake.asked] == [
        "account_list", "account_signTypedData", "account_signTransaction",
    ]  # fmt: skip
    require_signer(RECEIPT.digest(DOMAIN), signature, KEY.address)
    assert Account.recover_transaction(raw) == address_text(KEY.address)


async def test_a_signature_that_is_another_one_each_time_is_good_each_time() -> None:
    async with connected(FakeSigner([KEY], entropy=True)) as signer:
        first, second = await signer.sign(RECEIPT, DOMAIN), await signer.sign(RECEIPT, DOMAIN)

    assert first != second
    for signature in (first, second):
        require_signer(RECEIPT.digest(DOMAIN), signature, KEY.address)


async def test_parity_written_as_zero_or_one_is_understood() -> None:
    def plain_parity(method: str, result: str) -> str:
        return result[:-2] + {"1b": "00", "1c": "01"}[result[-2:]]

    async with connected(FakeSigner([KEY], tamper=plain_parity)) as signer:
        assert await signer.sign(RECEIPT, DOMAIN) == KEY.sign_digest(RECEIPT.digest(DOMAIN))


async def test_an_account_that_the_signer_lacks_is_found_before_anything_is_signed() -> None:
    fake = FakeSigner([STRANGER])
    async with connected(fake) as signer:
        code = await code_of(signer.check())

    assert (code, fake.asked) == ("signer-account-unknown", [("eth_accounts", [])])
    assert await code_of_check(lambda method, result: "none") == "signer-answer-invalid"


async def code_of_check(tamper: Callable[[str, Any], Any]) -> str:
    async with connected(FakeSigner([KEY], tamper=tamper)) as signer:
        return await code_of(signer.check())


async def test_what_another_key_signed_is_refused() -> None:
    def by_another(method: str, result: Any) -> str:
        return "0x" + STRANGER.sign_digest(RECEIPT.digest(DOMAIN)).hex()

    def of_another_message(method: str, result: Any) -> str:
        return "0x" + KEY.sign_digest(Voucher(CHANNEL, 1).digest(DOMAIN)).hex()

    def transaction_by_another(method: str, result: Any) -> str:
        return (
            "0x" + bytes(Account.sign_transaction(TRANSACTION, STRANGER.secret_bytes()).raw_transaction).hex()
        )

    assert await code_with(by_another) == "signer-wrong-address"
    assert await code_with(of_another_message) == "signer-wrong-address"
    assert await code_with(transaction_by_another, transaction=True) == "signer-wrong-address"


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("chainId", "0x1"),
        ("nonce", "0x4"),
        ("maxPriorityFeePerGas", "0x2"),
        ("maxFeePerGas", "0xb"),
        ("gas", "0xc351"),
        ("to", "0x" + "07" * 20),
        ("value", "0x1"),
        ("data", "0x0103"),
        ("accessList", [{"address": "0x" + "07" * 20, "storageKeys": []}]),
    ],
)
async def test_a_transaction_that_differs_in_one_field_is_refused_and_the_field_named(
    field: str, changed: Any
) -> None:
    fake = FakeSigner([KEY])

    def tamper(method: str, result: Any) -> str:
        return "0x" + fake.transaction(fake.asked[-1][1][0], **{field: changed}).hex()

    fake.tamper = tamper
    async with connected(fake) as signer:
        with pytest.raises(AioumError) as caught:
            await signer.sign_transaction(TRANSACTION)

    assert (caught.value.code, caught.value.details) == ("signer-altered", {"field": field})


async def test_a_transaction_of_another_type_is_refused() -> None:
    def legacy(method: str, result: Any) -> str:
        fields = {name: TRANSACTION[name] for name in ("chainId", "nonce", "to", "data", "value", "gas")}
        signed = Account.sign_transaction(fields | {"gasPrice": 10}, KEY.secret_bytes())
        return "0x" + bytes(signed.raw_transaction).hex()

    assert await code_with(legacy, transaction=True) == "signer-altered"


async def test_a_signature_with_a_high_s_is_refused() -> None:
    assert await code_with(lambda method, result: with_high_s(result)) == "signer-high-s"


@pytest.mark.parametrize(
    "answer",
    [None, 7, [], {}, "", "0x", "0x1234", "0x" + "00" * 65, "0x" + "ff" * 65, "00" * 65, {"raw": None}],
    ids=repr,
)
async def test_an_answer_that_is_no_signature_is_refused(answer: Any) -> None:
    assert await code_with(lambda method, result: answer) == "signer-answer-invalid"


@pytest.mark.parametrize(
    "answer", [None, {}, {"raw": 7}, "0x02", "0x02c0", "0x02ff", "nothing", "0x02f8" + "00" * 40], ids=repr
)
async def test_an_answer_that_is_no_transaction_is_refused(answer: Any) -> None:
    code = await code_with(lambda method, result: answer, transaction=True)
    assert code == "signer-answer-invalid"


async def test_a_transaction_with_bytes_after_it_or_an_unsigned_one_is_refused() -> None:
    fake = FakeSigner([KEY])

    def unsigned(method: str, result: str) -> str:
        size = len(bytes.fromhex(result[2:])) - 67
        return "0x02" + f"{0xC0 + size - 1:02x}" + result[6 : 6 + 2 * (size - 2)] + "808080"

    assert await code_with(lambda method, result: result + "00", transaction=True) == "signer-answer-invalid"
    fake.tamper = unsigned
    async with connected(fake) as signer:
        assert await code_of(signer.sign_transaction(TRANSACTION)) == "signer-answer-invalid"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"jsonrpc":"2.0","id":999,"result":"0x"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"id":1,"id":1}',
    ],
)
async def test_an_answer_that_is_no_json_rpc_is_refused(body: bytes) -> None:
    def garbage(method: str, result: Any) -> Any:
        raise HttpAnswer(body)

    assert await code_with(garbage) == "signer-answer-invalid"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "signer-refused"),
        (403, "signer-refused"),
        (302, "signer-answer-invalid"),
        (404, "signer-answer-invalid"),
        (500, "signer-unreachable"),
        (503, "signer-unreachable"),
    ],
)
async def test_an_http_status_says_what_happened(status: int, code: str) -> None:
    def failing(method: str, result: Any) -> Any:
        raise HttpAnswer(b"no", status)

    assert await code_with(failing) == code


async def test_a_refusal_is_said_without_the_signers_words() -> None:
    def refusing(method: str, result: Any) -> Any:
        raise Refusal

    async with connected(FakeSigner([KEY], tamper=refusing)) as signer:
        with pytest.raises(AioumError) as caught:
            await signer.sign(RECEIPT, DOMAIN)

    assert caught.value.code == "signer-refused"
    assert "denied" not in str(caught.value)


async def test_an_answer_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    def endless(method: str, result: Any) -> Any:
        raise HttpAnswer(b" " * (MAX_ANSWER_BYTES + 1))

    assert await code_with(endless) == "signer-answer-too-large"
    fake = FakeSigner([KEY], CLEF, tamper=endless)
    async with (
        served_over_socket(fake, tmp_path / "clef.ipc") as url,
        opened_client(SignerEndpoint(url), CLEF) as client,
    ):
        assert await code_of(ExternalSigner(client, KEY.address).check()) == "signer-answer-too-large"


async def test_a_signer_that_does_not_answer_is_waited_for_in_bounded_time() -> None:
    async with connected(FakeSigner([KEY], silent=True), timeout_seconds=0.05) as signer:
        assert await code_of(signer.sign(RECEIPT, DOMAIN)) == "signer-timeout"


async def test_requests_beyond_a_number_wait_for_their_turn() -> None:
    fake = FakeSigner([KEY], silent=True)
    async with connected(fake, timeout_seconds=60) as signer:
        asked = [asyncio.create_task(signer.sign(RECEIPT, DOMAIN)) for _ in range(40)]
        while fake.open < MAX_CONCURRENT_REQUESTS:
            await asyncio.sleep(0.01)
        fake.released.set()
        await asyncio.gather(*asked)

    assert (fake.most_open, len(fake.asked)) == (MAX_CONCURRENT_REQUESTS, 40)


async def test_a_signer_that_is_away_is_unreachable(tmp_path: Path) -> None:
    for url in (f"http://127.0.0.1:{unused_port()}/", f"unix:{tmp_path}/missing.ipc"):
        async with opened_client(SignerEndpoint(url), CLEF) as client:
            assert await code_of(ExternalSigner(client, KEY.address).check()) == "signer-unreachable"


async def test_a_socket_that_closes_without_an_answer_is_unreachable(tmp_path: Path) -> None:
    def nothing(method: str, result: Any) -> Any:
        raise HttpAnswer(b'{"half')

    fake = FakeSigner([KEY], CLEF, tamper=nothing)
    async with (
        served_over_socket(fake, tmp_path / "clef.ipc") as url,
        opened_client(SignerEndpoint(url), CLEF) as client,
    ):
        assert await code_of(ExternalSigner(client, KEY.address).check()) == "signer-unreachable"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "signer-url-invalid"),
        ("ftp://127.0.0.1/", "signer-url-invalid"),
        ("unix:", "signer-url-invalid"),
        ("http://", "signer-url-invalid"),
        ("https://user:word@127.0.0.1/", "signer-url-invalid"),
        ("http://signer.example/", "signer-url-insecure"),
        ("http://10.0.0.1:9000/", "signer-url-insecure"),
    ],
)
async def test_a_way_that_cannot_be_trusted_is_not_taken(url: str, code: str) -> None:
    async def connect() -> None:
        async with opened_client(SignerEndpoint(url), CLEF):
            pass

    assert await code_of(connect()) == code


@dataclass(frozen=True, slots=True)
class Contradicting(SignedMessage):
    """Its JSON says another thing than its digest."""

    amount: int
    TYPE: ClassVar[str] = "Contradicting(bytes32 channelId,uint64 amount)"
    TYPE_HASH: ClassVar[bytes] = Voucher.TYPE_HASH

    def words(self) -> bytes:
        return self.amount.to_bytes(32, "big")


@dataclass(frozen=True, slots=True)
class Untyped(Contradicting):
    TYPE: ClassVar[str] = "Untyped(bytes32 channelId)"


@pytest.mark.parametrize("message", [Contradicting(CHANNEL, 1), Untyped(CHANNEL, 1)])
async def test_a_signer_is_never_asked_for_another_digest_than_the_message_has(
    message: SignedMessage,
) -> None:
    fake = FakeSigner([KEY])
    async with connected(fake) as signer:
        assert await code_of(signer.sign(message, DOMAIN)) == "signer-message-invalid"

    assert fake.asked == []


async def test_a_token_is_sent_and_not_shown() -> None:
    fake = FakeSigner([KEY])
    async with connected(fake, token="s3cret") as signer:
        await signer.check()

    assert fake.headers[0]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(SignerEndpoint("https://signer.example/", token="s3cret"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return made_certificates(tmp_path_factory.mktemp("certificates"))


def requiring_a_client(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_a_signer_behind_tls_is_asked_with_both_certificates_checked(
    certificates: Certificates,
) -> None:
    fake = FakeSigner([KEY])
    async with served_over_http(fake, requiring_a_client(certificates)) as url:
        known = SignerEndpoint(
            url,
            ca_file=certificates.authority,
            certificate_file=certificates.client,
            certificate_key_file=certificates.client_key,
        )
        async with opened_client(known, WEB3SIGNER) as client:
            await ExternalSigner(client, KEY.address).check()
        for stranger in (SignerEndpoint(url), SignerEndpoint(url, ca_file=certificates.authority)):
            async with opened_client(stranger, WEB3SIGNER) as client:
                assert await code_of(ExternalSigner(client, KEY.address).check()) == "signer-unreachable"

    assert len(fake.asked) == 1


async def test_a_certificate_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    url = "https://127.0.0.1/"
    for endpoint in (
        SignerEndpoint(url, ca_file=tmp_path / "missing.pem"),
        SignerEndpoint(url, certificate_file=tmp_path / "empty.pem"),
    ):

        async def connect(endpoint: SignerEndpoint = endpoint) -> None:
            async with opened_client(endpoint, WEB3SIGNER):
                pass

        assert await code_of(connect()) == "signer-file-unusable"


async def test_an_idle_connection_that_was_closed_is_opened_again() -> None:
    fake = FakeSigner([KEY])
    count = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if count == 1:
            writer.close()
            return
        body = await fake.answer(await reader.readexactly(size))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, family=socket.AF_INET)
    async with (
        server,
        opened_client(
            SignerEndpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"), WEB3SIGNER
        ) as client,
    ):
        await ExternalSigner(client, KEY.address).check()

    assert count == 2


def test_a_signer_shows_neither_path_nor_token_of_its_endpoint() -> None:
    async def shown() -> str:
        async with opened_client(SignerEndpoint("https://signer.example/secret?token=x"), CLEF) as client:
            return repr(ExternalSigner(client, KEY.address))

    assert asyncio.run(shown()) == f"ExternalSigner({address_text(KEY.address)} at https://signer.example)"
