"""Settings that bound what strangers, clients and tools may use of a node; units are in their names."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        ip_network(text)
    return texts


class LimitSettings(BaseSettings):
    """Limits of connections, requests, openings and commands; `Settings` has them all."""

    admin_token_file: Path | None = Field(
        None,
        description="file with the token that the admin port asks for, mode 0600; init makes one; "
        "needed where admin_host is not a loopback address",
    )
    trusted_proxies: Annotated[tuple[str, ...], AfterValidator(_networks)] = Field(
        ("127.0.0.0/8", "::1/128"),
        description="networks whose proxies are believed in what they say of a client's address; "
        "requests of a proxy that names no client are not limited by address",
    )
    forwarded_header: Literal["x-forwarded-for", "forwarded"] = Field(
        "x-forwarded-for", description="header that trusted proxies write clients' addresses into"
    )
    max_connections: Annotated[int, Field(ge=1)] = Field(
        4_096, description="open connections of the public port; further ones are answered with 503"
    )
    max_connections_per_address: Annotated[int, Field(ge=1)] = Field(
        256, description="open connections of one address that is no trusted proxy; others get 429"
    )
    max_header_bytes: Annotated[int, Field(ge=1_024)] = Field(
        65_536, description="request line and all headers of a request"
    )
    header_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        10.0, description="how long a request's headers may take to arrive, from its first byte"
    )
    idle_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        75.0, description="how long a connection without a request stays open"
    )
    write_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        30.0, description="how long a client may leave what was sent to it unread"
    )
    address_requests_per_second: Annotated[float, Field(gt=0)] = Field(
        200.0, description="lasting rate of requests of one address (IPv6: of one /64 network)"
    )
    address_request_burst: Annotated[int, Field(ge=1)] = Field(
        1_000, description="requests of one address at once, above the lasting rate"
    )
    session_requests_per_second: Annotated[float, Field(gt=0)] = Field(
        1_000.0, description="lasting rate of signed requests of one session"
    )
    session_request_burst: Annotated[int, Field(ge=1)] = Field(
        2_000, description="signed requests of one session at once, above the lasting rate"
    )
    rate_limit_entries: Annotated[int, Field(ge=16)] = Field(
        65_536, description="addresses, and sessions, whose rates are remembered"
    )
    max_openings_per_address: Annotated[int, Field(ge=1)] = Field(
        4, description="openings and top-ups of one address that are looked up at once"
    )
    max_concurrent_reads: Annotated[int, Field(ge=1)] = Field(
        32, description="reads of sessions that are being sent; further ones are answered with 503"
    )
    max_reads_per_session: Annotated[int, Field(ge=1)] = Field(
        4, description="reads of one session that are being sent; further ones are answered with 503"
    )
    command_runs: Annotated[int, Field(ge=1, le=10_000)] = Field(
        64, description="command tools running at once; others wait within their timeouts"
    )
    command_cpu_seconds: Annotated[int, Field(ge=1)] = Field(
        300, description="processor time of each process of a command tool"
    )
    command_memory_bytes: Annotated[int, Field(ge=8_388_608)] = Field(
        1_073_741_824,
        description="writable memory of each process of a command tool, and resident memory of all together",
    )
    command_processes: Annotated[int, Field(ge=1)] = Field(
        64, description="processes that one run of a command tool may have at once"
    )
    command_open_files: Annotated[int, Field(ge=8)] = Field(
        256, description="open files of each process of a command tool"
    )
    command_file_bytes: Annotated[int, Field(ge=0)] = Field(
        67_108_864, description="size of each file that a command tool writes"
    )
