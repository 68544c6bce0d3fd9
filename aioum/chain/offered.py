"""Which services an operator offers, however many others there are."""

from __future__ import annotations

from aioum.chain.client import Chain
from aioum.chain.events import ServiceRegistered, ServiceRetired, ServiceUpdated
from aioum.chain.model import Service
from aioum.chain.scan import logs_between
from aioum.core.errors import ChainError
from aioum.core.hextext import to_hex
from aioum.core.types import Address, Bytes32


async def offered_services(chain: Chain, operator: Address, last: int) -> list[Service]:
    """The operator's services that take new sessions, by id.

    Costs one request for each 2,000 blocks, and one for each of these services.

    Args:
        chain: where.
        operator: that the terms name.
        last: block number as of which.

    Raises:
        ChainError: as `Chain`.
    """
    current: dict[int, tuple[Bytes32, str]] = {}
    topics = [None, None, None, to_hex(bytes(12) + operator)]
    async for log in logs_between(chain.rpc, chain.service_registry, chain.first_block, last, topics):
        for event in chain.decode([log]):
            match event.body:
                case ServiceRetired() as retired:
                    current.pop(retired.service_id, None)
                case (ServiceRegistered() | ServiceUpdated()) as offered:
                    current[offered.service_id] = (offered.terms_hash, offered.descriptor_uri)
    services = []
    for service_id, (terms_hash, uri) in sorted(current.items()):
        registered = await chain.terms(terms_hash, last)
        if registered is None:
            raise ChainError(
                f"the registry has no terms {to_hex(terms_hash)} of its service {service_id}",
                code="rpc-response-invalid",
            )
        services.append(Service(service_id, terms_hash, registered.terms, uri))
    return services
