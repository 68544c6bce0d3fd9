"""Finding a service and checking it before anything is paid: node, card and registry must say the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from aioum.chain.model import Service
from aioum.client.context import ClientContext
from aioum.client.http import node_base_url
from aioum.client.policy import check_card, check_terms
from aioum.core.canonical import JsonValue, canonical_bytes, canonical_text, parse_json
from aioum.core.card import MAX_CARD_BYTES, Card, Tool, descriptor_hash, parse_card
from aioum.core.errors import InvalidInput, PolicyRefused
from aioum.core.evidence import ServiceTerms
from aioum.core.hextext import address
from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.framing import MAX_COMMAND_BYTES
from aioum.core.types import Bytes32
from aioum.core.wire import JsonObject

_REFERENCES: Final = ('"$ref"', '"$dynamicRef"', '"$recursiveRef"')
# Two references to each next definition double the work with every definition: these give 256-fold work.
_MAX_REFERENCES: Final = 16


@dataclass(frozen=True)
class Offer:
    """A service as it can be bought now. Card, terms and registry were checked against each other.

    Attributes:
        node_url: base URL of the node.
        terms_hash: of the current terms; a session opened on this offer names it.
        card_json: the card's canonical bytes.
    """

    node_url: str
    service: ServiceTerms
    terms_hash: Bytes32
    card: Card
    card_json: bytes

    @property
    def service_id(self) -> int:
        """The service's number in its registry."""
        return self.service.service_id


async def find_offer(context: ClientContext, service: str | int) -> Offer:
    """Fetch and check what a service offers.

    Args:
        context: the client.
        service: a node's URL, or a service id whose descriptorURI names the node's card.

    Raises:
        InvalidInput: `node-url-invalid`, `node-description-invalid`, `card-invalid`, `card-too-large`.
        PolicyRefused: `service-unknown`, `service-mismatch`, `wrong-chain`, `registry-not-allowed`, and as
            `check_terms` and `check_card`.
        OutcomeUnknown: the node did not answer.
    """
    if isinstance(service, int) or service.isdecimal():
        registered = await _registered(context, int(service))
        url = node_base_url(registered.descriptor_uri, allow_plain_http=context.policy.allow_plain_http)
        described = await context.node(url).describe()
        if described.get("serviceId") != str(registered.service_id):
            raise PolicyRefused(
                f"the node at {url} serves service {described.get('serviceId')!r:.40}, "
                f"not {registered.service_id}",
                code="service-mismatch",
            )
    else:
        url = node_base_url(service, allow_plain_http=context.policy.allow_plain_http)
        described = await context.node(url).describe()
        _require_our_chain(context, described)
        registered = await _registered(context, _service_id(described))
    _require_our_chain(context, described)
    check_terms(context.policy, context.known, registered.terms)
    value = described.get("card")
    card = parse_card(value)
    card_json = canonical_bytes(value)
    if len(card_json) > MAX_CARD_BYTES:
        # Found before anything is deposited: a kept session reads its card within this limit.
        raise InvalidInput(
            f"the card has {len(card_json)} bytes, at most {MAX_CARD_BYTES} are read", code="card-too-large"
        )
    check_card(context.known, registered.terms, card, descriptor_hash(value))
    terms = ServiceTerms(context.known.service_registry, registered.service_id, registered.terms)
    return Offer(url, terms, registered.terms_hash, card, card_json)


async def _registered(context: ClientContext, service_id: int) -> Service:
    registered = await context.chain.service(service_id)
    if registered is None:
        raise PolicyRefused(
            f"the registry has no service {service_id} that takes sessions",
            code="service-unknown",
            hint="list the services, or check the deployment",
        )
    return registered


def _service_id(described: JsonObject) -> int:
    value = described.get("serviceId")
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 78:
        raise InvalidInput(f"serviceId is no number: {value!r:.80}", code="node-description-invalid")
    return int(value)


def _require_our_chain(context: ClientContext, described: JsonObject) -> None:
    if described.get("chainId") != context.known.domain.chain_id:
        raise PolicyRefused(
            f"the node works on chain {described.get('chainId')!r:.40}, the client on "
            f"{context.known.domain.chain_id}",
            code="wrong-chain",
        )
    try:
        registry = address(described.get("serviceRegistry"))
    except InvalidInput as error:
        raise InvalidInput(str(error), code="node-description-invalid") from error
    if registry != context.known.service_registry:
        raise PolicyRefused(
            "the node's service is in another registry than the client's deployment names",
            code="registry-not-allowed",
            hint="connect with the deployment of that registry if you trust it",
        )


def require_tool(card: Card, tool_id: str) -> Tool:
    """The tool of that id. Raises InvalidInput `tool-unknown`."""
    tool = card.tool(tool_id)
    if tool is None:
        offered = ", ".join(item.id for item in card.tools)
        raise InvalidInput(
            f"the service has no tool {tool_id!r:.80}", code="tool-unknown", hint=f"it has: {offered:.500}"
        )
    return tool


def check_arguments(tool: Tool, arguments: dict[str, JsonValue]) -> None:
    """Hold arguments against the tool's schema before anything is paid; the node judges for itself again.

    A schema that this check cannot evaluate without network access or back-tracking, or whose references
    could multiply the work without bound, is left to the node: the operator wrote it.

    Raises:
        InvalidInput: `arguments-invalid`.
    """
    schema: dict[str, Any] = tool.input_schema
    text = canonical_text(schema)
    if sum(text.count(reference) for reference in _REFERENCES) > _MAX_REFERENCES:
        return
    try:
        validator = jsonschema_rs.validator_for(
            schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
        )
        first = next(validator.iter_errors(arguments), None)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return
    if first is not None:
        where = "/".join(str(part) for part in first.instance_path)
        raise InvalidInput(
            f"arguments of {tool.id}{' at ' + where if where else ''}: {first.message:.300}",
            code="arguments-invalid",
            hint="the card says which arguments the tool takes",
        )


def check_request(card: Card, request: bytes, *, signed: bool) -> None:
    """Refuse a request that no node would take, before it is signed: what was signed cannot be replaced.

    Args:
        card: of the session.
        request: canonical bytes.
        signed: whether a seat signs it; then its bytes are canonical under the submission scheme as well
            (PROTOCOL 1).

    Raises:
        InvalidInput: `request-too-large`, `request-not-portable`.
        CanonicalError: `json-number-unsafe`.
    """
    limit = min(card.limits.max_request_bytes, MAX_COMMAND_BYTES) if signed else card.limits.max_request_bytes
    if len(request) > limit:
        raise InvalidInput(
            f"the canonical request has {len(request)} of at most {limit} bytes", code="request-too-large"
        )
    if signed and canonical_json(parse_json(request, max_bytes=limit)) != request:
        raise InvalidInput(
            "the arguments have keys that two rules of canonical JSON put in different orders",
            code="request-not-portable",
            hint="name the members with characters of the basic plane",
        )
