"""Where logs are: in folders, on the web, and by the cards of an operator's services."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.chain.client import Chain
from aioum.chain.model import Service
from aioum.chain.offered import offered_services
from aioum.client.http import Transport, node_base_url
from aioum.client.logs.web import READ_TIMEOUT_SECONDS
from aioum.client.node import NodeClient
from aioum.client.settings import ClientSettings
from aioum.core.card import Card, descriptor_hash, parse_card
from aioum.core.errors import AioumError, ConfigError, InvalidInput, OutcomeUnknown
from aioum.core.merkle import HASH_BYTES
from aioum.core.types import Address
from aioum.log.checkpoint import MAX_NOTE_BYTES, parse_checkpoint
from aioum.log.errors import ResourceMissing
from aioum.log.files import static_files
from aioum.log.monitor import LogIdentity
from aioum.log.paths import CHECKPOINT_PATH, TILE_WIDTH, TilePath
from aioum.log.tiles import MAX_BUNDLE_BYTES, Fetch

_GONE: Final = (404, 410)
_ELSEWHERE: Final = "look again later, or name a copy of the log at another place"
_AT_ONCE: Final = 8
_LOOKING: Final = ClientSettings(read_timeout_seconds=10.0, max_read_bytes=1024 * 1024)


@dataclass(frozen=True, slots=True)
class LogSource:
    """A log's static files.

    Attributes:
        where: the URL or folder, for people.
        fetch: gets a file; raises ResourceMissing, or OutcomeUnknown where nobody knows.
    """

    where: str
    fetch: Fetch

    async def note(self) -> bytes:
        """The signed checkpoint, longer than MAX_NOTE_BYTES at worst. Raises as `fetch`."""
        return await self.fetch(CHECKPOINT_PATH)


@dataclass(frozen=True, slots=True)
class LogTarget:
    """A log to look at.

    Attributes:
        max_delay_seconds: how long after it is final the operator promised to log a session, or None.
    """

    identity: LogIdentity
    source: LogSource
    max_delay_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Promises:
    """What an operator's services say of its logs now.

    Attributes:
        logs: each log once, with the longest delay that a card allows for it.
        silent: services whose card could not be had, with the reason.
        services: how many services take new sessions.
    """

    logs: tuple[LogTarget, ...]
    silent: tuple[tuple[int, AioumError], ...]
    services: int

    @property
    def identities(self) -> list[LogIdentity]:
        """The logs' names and keys."""
        return [target.identity for target in self.logs]


async def get(url: str, transport: Transport, max_bytes: int) -> bytes | None:
    """A file on the web; None where the server says that it has none.

    Raises:
        OutcomeUnknown: as `Transport.request`; `log-unreachable`, the server answers with another status.
        PolicyRefused: `log-address-refused`.
    """
    answer = await transport.request(
        "GET", url, headers={}, body=None, max_bytes=max_bytes, timeout_seconds=READ_TIMEOUT_SECONDS
    )
    if answer.status in _GONE:
        return None
    if answer.status != 200:
        raise OutcomeUnknown(
            f"{url} answered with status {answer.status}", code="log-unreachable", hint=_ELSEWHERE
        )
    return answer.body


def open_source(where: str, transport: Transport) -> LogSource:
    """The log at a URL, or in a folder: a log folder, or its public part.

    Raises:
        ConfigError: `log-missing`, there is no such folder, or it was never published.
    """
    if where.startswith(("http://", "https://")):
        return LogSource(where, _web_files(where.rstrip("/"), transport))
    folder = Path(where).expanduser()
    public = folder / "public" if (folder / "public").is_dir() else folder
    if not (public / CHECKPOINT_PATH).is_file():
        raise ConfigError(
            f"there is no log at {where}",
            code="log-missing",
            hint="name a folder with a file `checkpoint`, or a URL such as https://node.example/log",
        )
    files = static_files(public)

    async def fetch(path: str) -> bytes:
        try:
            if path == CHECKPOINT_PATH:
                return _read_note(public / CHECKPOINT_PATH)
            return await files(path)
        except OSError as error:
            raise OutcomeUnknown(
                f"{public / path}: {error.strerror}", code="log-unreachable", hint=_ELSEWHERE
            ) from error

    return LogSource(where, fetch)


async def promised_logs(chain: Chain, operator: Address, transport: Transport) -> Promises:
    """The logs that the cards of an operator's services name. Only a card whose hash is on-chain counts.

    Raises:
        ChainError: as `Chain`.
    """
    services = await offered_services(chain, operator, (await chain.head()).number)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def card_of(service: Service) -> tuple[str, Card] | AioumError:
        async with gate:
            try:
                return await _card(service, transport)
            except AioumError as error:
                return error

    found: dict[LogIdentity, LogTarget] = {}
    silent: list[tuple[int, AioumError]] = []
    for service, read in zip(services, await asyncio.gather(*map(card_of, services)), strict=True):
        if isinstance(read, AioumError):
            silent.append((service.service_id, read))
            continue
        url, card = read
        if card.log is not None and card.max_log_delay_seconds is not None:
            identity = LogIdentity(card.log.origin, card.log.public_key)
            delay = card.max_log_delay_seconds
            before = found.get(identity)
            if before is not None and before.max_delay_seconds is not None:
                delay = max(delay, before.max_delay_seconds)
            source = before.source if before else open_source(f"{url}/log", transport)
            found[identity] = LogTarget(identity, source, delay)
    return Promises(tuple(found.values()), tuple(silent), len(services))


async def place_given(given: Sequence[str], promises: Promises, transport: Transport) -> list[LogTarget]:
    """The logs at places that a person names, with the keys of the cards that name the same origins.

    Args:
        given: URLs and folders.
        promises: what the cards say.
        transport: to the web.

    Raises:
        ConfigError: `log-missing`; `log-key-unknown`, nobody says which key signs the log.
        ResourceMissing, OutcomeUnknown: the checkpoint cannot be had.
        CheckpointInvalid: it is none.
    """
    targets = []
    named = {target.identity.origin: target for target in promises.logs}
    for where in given:
        source = open_source(where, transport)
        origin = parse_checkpoint(await source.note()).origin
        if origin not in named:
            raise ConfigError(
                f"no card of the operator names the log {origin:.100} that is at {where}",
                code="log-key-unknown",
                hint="say whose log it is, with its origin and its public key",
            )
        targets.append(LogTarget(named[origin].identity, source, named[origin].max_delay_seconds))
    return targets


async def _card(service: Service, transport: Transport) -> tuple[str, Card]:
    url = node_base_url(service.descriptor_uri, allow_plain_http=False)
    value = (await NodeClient(transport, url, _LOOKING).describe()).get("card")
    if descriptor_hash(value) != service.terms.descriptor_hash:
        raise InvalidInput(
            f"{url} serves another card than is registered",
            code="card-mismatch",
            hint="only the operator can mend it: it serves the old card, or registers the new one",
        )
    return url, parse_card(value)


def _web_files(url: str, transport: Transport) -> Fetch:
    async def fetch(path: str) -> bytes:
        answer = await get(f"{url}/{path}", transport, _limit_bytes(path))
        if answer is None:
            raise ResourceMissing(f"{url}/{path} is not there")
        return answer

    return fetch


def _limit_bytes(path: str) -> int:
    if path == CHECKPOINT_PATH:
        return MAX_NOTE_BYTES
    return MAX_BUNDLE_BYTES if TilePath.parse(path).level is None else TILE_WIDTH * HASH_BYTES


def _read_note(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_NOTE_BYTES + 1)
    except FileNotFoundError as error:
        raise ResourceMissing(f"{path} is not there") from error
