"""Whose request it is behind proxies."""

import pytest

from aioum_node.limits.addresses import ProxyTrust, counted_as, parsed_address

INSIDE = ("10.0.0.0/8", "::1/128")


def client(peer: str | None, *values: str, networks: tuple[str, ...] = INSIDE) -> str | None:
    found = ProxyTrust(networks, "x-forwarded-for").client(peer, values)
    return None if found is None else str(found)


def test_stranger_is_who_connects_whatever_its_header_says() -> None:
    assert client("203.0.113.9", "198.51.100.1") == "203.0.113.9"
    assert client("203.0.113.9", "198.51.100.1", networks=()) == "203.0.113.9"


@pytest.mark.parametrize(
    "values, found",
    [
        (("198.51.100.1",), "198.51.100.1"),
        (("198.51.100.1, 10.0.0.7",), "198.51.100.1"),
        # What stands left of the first stranger is that stranger's own word.
        (("192.0.2.66, 198.51.100.1",), "198.51.100.1"),
        (("192.0.2.66", "198.51.100.1, 10.0.0.7"), "198.51.100.1"),
        (("10.0.0.1, 198.51.100.1",), "198.51.100.1"),
        (("2001:db8::1",), "2001:db8::1"),
        (("[2001:db8::1]:443",), "2001:db8::1"),
        (("198.51.100.1:5000",), "198.51.100.1"),
        (("::ffff:198.51.100.1",), "198.51.100.1"),
    ],
)
def test_client_is_the_right_most_address_that_is_no_trusted_proxy(
    values: tuple[str, ...], found: str
) -> None:
    assert client("10.0.0.2", *values) == found


@pytest.mark.parametrize("value", ["unknown", "198.51.100.1, _hidden", "1.2.3.4.5", "x" * 10_000])
def test_proxy_answers_for_a_client_whom_it_cannot_name(value: str) -> None:
    assert client("10.0.0.2", value) == "10.0.0.2"


def test_request_of_a_trusted_proxy_without_a_client_is_its_own() -> None:
    assert client("10.0.0.2") is None
    assert client("10.0.0.2", "10.0.0.3, 10.0.0.4") is None
    assert client("::ffff:10.0.0.2") is None


def test_forwarded_header_is_read_where_it_is_the_one_that_proxies_write() -> None:
    trust = ProxyTrust(INSIDE, "forwarded")

    for value in (
        "for=198.51.100.1;proto=https",
        'proto=http;For="198.51.100.1:47011", for=10.0.0.3',
        'for="[2001:db8::1]", for=198.51.100.1',
    ):
        assert str(trust.client("10.0.0.2", [value])) == "198.51.100.1"
    assert str(trust.client("10.0.0.2", ['for="[2001:db8:cafe::17]:4711"'])) == "2001:db8:cafe::17"
    assert str(trust.client("10.0.0.2", ["proto=http"])) == "10.0.0.2"


def test_limits_count_by_ipv4_address_and_by_ipv6_network() -> None:
    def counted(text: str) -> str:
        address = parsed_address(text)
        assert address is not None
        return counted_as(address)

    assert counted("::ffff:198.51.100.1") == counted("198.51.100.1") == "198.51.100.1"
    assert counted("2001:db8::1") == counted("2001:db8::ffff:1") == "2001:db8::/64"
    assert counted("2001:db8:0:1::1") != counted("2001:db8::1")


def test_client_without_an_address_is_nobody() -> None:
    assert client(None, "198.51.100.1") is None
    assert client("not an address", "198.51.100.1") is None
