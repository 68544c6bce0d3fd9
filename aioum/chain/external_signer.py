"""A signer outside of this process: clef or web3signer behind the `Signer` port."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog

from aioum.chain.errors import shown_url
from aioum.chain.external_signer_link import SignerEndpoint, SignerLink, opened_link
from aioum.chain.external_signer_wire import (
    SignerError,
    SignerKind,
    answer_invalid,
    require_account,
    signature_in,
    transaction_in,
    transaction_json,
    typed_data,
)
from aioum.core.canonical import JsonValue, canonical_bytes, parse_json
from aioum.core.errors import CanonicalError
from aioum.core.hextext import address_text
from aioum.core.payment import Domain, SignedMessage
from aioum.core.types import Address

__all__ = ["ExternalSigner", "SignerClient", "SignerEndpoint", "SignerError", "SignerKind", "opened_client"]

_MAX_LOGGED_CHARACTERS = 300

_log = structlog.get_logger(__name__)


class SignerClient:
    """JSON-RPC with one external signer; several accounts may share it."""

    def __init__(self, link: SignerLink, kind: SignerKind, shown: str) -> None:
        """Args: shown: the endpoint as log entries name it."""
        self.kind = kind
        self.shown = shown
        self._link = link
        self._ids = itertools.count(1)

    async def ask(self, method: str, params: list[JsonValue]) -> JsonValue:
        """Return the result of one request.

        Raises:
            SignerError: as `SignerLink.exchange`, and `signer-refused`.
        """
        number = next(self._ids)
        request: JsonValue = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        body = await self._link.exchange(canonical_bytes(request))
        try:
            answer = parse_json(body, max_bytes=len(body))
        except CanonicalError as error:
            raise answer_invalid("something else than JSON") from error
        if not isinstance(answer, dict):
            raise answer_invalid("something else than a JSON-RPC answer")
        refusal = answer.get("error")
        if refusal is not None:
            # Its words are for the log: the error itself may reach a node's clients.
            _log.warning(
                "signer-refused",
                signer=self.shown,
                method=method,
                answer=canonical_bytes(refusal).decode()[:_MAX_LOGGED_CHARACTERS],
            )
            raise SignerError(
                "the external signer refused",
                code="signer-refused",
                hint="its rules, or the person who was asked, said no; see the log of both",
            )
        if answer.get("id") != number or "result" not in answer:
            raise answer_invalid("the answer to another request")
        return answer["result"]


@asynccontextmanager
async def opened_client(endpoint: SignerEndpoint, kind: SignerKind) -> AsyncIterator[SignerClient]:
    """Prepare the way to a signer; nothing is sent yet.

    Raises:
        ConfigError: as `opened_link`.
    """
    async with opened_link(endpoint) as link:
        shown = endpoint.url if endpoint.url.startswith("unix:") else shown_url(endpoint.url)
        yield SignerClient(link, kind, shown)


class ExternalSigner:
    """Signs for one account that an external signer holds. It need not be deterministic."""

    def __init__(self, client: SignerClient, address: Address) -> None:
        """Args: address: the account; what another key signed is refused."""
        self._client = client
        self._address = address

    @property
    def address(self) -> Address:
        """The account."""
        return self._address

    def __repr__(self) -> str:
        return f"ExternalSigner({address_text(self._address)} at {self._client.shown})"

    async def check(self) -> None:
        """Ask whether the signer is there and has the account. Nothing is signed.

        Raises:
            SignerError: as `SignerClient.ask`, `signer-account-unknown`.
        """
        require_account(await self._client.ask(self._client.kind.list_method, []), self._address)

    async def sign(self, message: SignedMessage, domain: Domain) -> bytes:
        """See `Signer.sign`.

        Raises:
            SignerError: as `SignerClient.ask` and `signature_in`; `signer-message-invalid`.
        """
        typed = typed_data(message, domain, self._client.kind)
        shown: JsonValue = typed
        if self._client.kind is SignerKind.WEB3SIGNER:
            shown = canonical_bytes(typed).decode()
        answer = await self._client.ask(
            self._client.kind.message_method, [address_text(self._address), shown]
        )
        return signature_in(answer, message.digest(domain), self._address)

    async def sign_transaction(self, fields: Mapping[str, Any]) -> bytes:
        """See `Signer.sign_transaction`.

        Raises:
            SignerError: as `SignerClient.ask` and `transaction_in`.
        """
        asked = transaction_json(fields, self._address)
        answer = await self._client.ask(self._client.kind.transaction_method, [asked])
        return transaction_in(answer, fields, self._address)
