"""Which addresses may be asked for a kit, and what of their answers is kept."""

import ipaddress

import pytest

from aioum.core.errors import AioumError, PolicyRefused
from aioum.kits.fetch import FetchFailed, fetch_kit, require_mirror_url, require_public_address
from aioum.kits.kit import read_kit
from aioum.kits.reference import KitReference
from tests.unit.kits.samples import make_kit, reference_to

KIT = make_kit()


class Mirrors:
    """Mirrors in memory; an address that is not there does not answer."""

    def __init__(self, **contents: bytes) -> None:
        self.contents = {f"https://{name}.example/kit": content for name, content in contents.items()}
        self.asked: list[str] = []

    async def fetch(self, url: str, *, max_bytes: int) -> bytes:
        self.asked.append(url)
        if url not in self.contents:
            raise FetchFailed("nothing there")
        return self.contents[url][: max_bytes + 1]


def urls(*names: str) -> list[str]:
    return [f"https://{name}.example/kit" for name in names]


async def test_the_first_mirror_with_the_right_bytes_is_the_source_and_the_rest_is_not_asked() -> None:
    other = make_kit(program=b"another").archive
    mirrors = Mirrors(wrong=other, longer=KIT.archive + b"\0", right=KIT.archive, unasked=KIT.archive)
    reference = reference_to(KIT, *urls("silent", "wrong", "longer", "right", "unasked"))
    fetched = await fetch_kit(reference, mirrors)
    assert fetched.kit == read_kit(KIT.archive)
    assert fetched.source == "https://right.example/kit"
    assert [failure.code for failure in fetched.failures] == [
        "kit-mirror-unreachable",
        "kit-mirror-mismatch",
        "kit-mirror-mismatch",
    ]
    assert mirrors.asked == urls("silent", "wrong", "longer", "right")


async def test_without_a_right_mirror_there_is_no_kit() -> None:
    fetched = await fetch_kit(reference_to(KIT, *urls("wrong")), Mirrors(wrong=b"<html>"))
    assert (fetched.kit, fetched.source) == (None, None)


async def test_bytes_with_the_named_digest_that_are_no_kit_are_not_one() -> None:
    from aioum.kits.archive import content_digest

    reference = KitReference(content_digest(b"x"), 1, tuple(urls("a")))
    fetched = await fetch_kit(reference, Mirrors(a=b"x"))
    assert [failure.code for failure in fetched.failures] == ["kit-archive-malformed"]


async def test_addresses_that_are_not_https_are_not_even_asked() -> None:
    mirrors = Mirrors()
    reference = reference_to(KIT, "http://a.example/kit", "file:///etc/passwd", "ftp://a.example", "https://")
    fetched = await fetch_kit(reference, mirrors)
    assert [failure.code for failure in fetched.failures] == [
        "kit-mirror-not-https",
        "kit-mirror-not-https",
        "kit-mirror-not-https",
        "kit-mirror-url-invalid",
    ]
    assert mirrors.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "https://user@a.example/",
        "https://user:secret@a.example/",
        "https://a.example/#part",
        "https://a.example:port/",
        "https://a.example:99999/",
        "https://a.example/with space",
        "https://a.example/\r\nHost: b",
        "https://a.example\\@b.example/",
        "https://ä.example/",
        "https://[::1/",
        "https:///kit",
        "https://a.example/" + "x" * 2_048,
    ],
)
def test_odd_addresses_are_refused(url: str) -> None:
    with pytest.raises(AioumError) as caught:
        require_mirror_url(url)
    assert caught.value.code == "kit-mirror-url-invalid"


@pytest.mark.parametrize(
    "url", ["https://a.example/kit?x=1", "https://a.example:8443/kit", "HTTPS://A.example/"]
)
def test_plain_https_addresses_are_taken(url: str) -> None:
    require_mirror_url(url)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "fec0::1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
    ],
)
def test_addresses_of_the_own_network_are_refused_however_they_are_wrapped(address: str) -> None:
    with pytest.raises(PolicyRefused) as caught:
        require_public_address(ipaddress.ip_address(address))
    assert caught.value.code == "kit-mirror-address-refused"


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_public_addresses_are_taken(address: str) -> None:
    require_public_address(ipaddress.ip_address(address))
