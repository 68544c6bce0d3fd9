"""The node's checks as one writes them first."""

from __future__ import annotations

from collections.abc import Sequence

import rfc8785

from aioum.core.canonical import JsonValue
from aioum.core.errors import SignatureInvalid
from aioum.core.payment import Domain, SignedMessage
from aioum.core.types import Address
from aioum_node.access import ClientSignatures
from benchmarks.naive.signatures import recover_with_eth_account


def canonical_request_with_rfc8785(tool_id: str, arguments: JsonValue) -> str:
    """The canonical request by the library."""
    return rfc8785.dumps({"arguments": arguments, "tool": tool_id}).decode()


class NaiveClientSignatures(ClientSignatures):
    """Recovers signers with eth-account."""

    async def require(
        self, message: SignedMessage, domain: Domain, signature: bytes, signers: Sequence[Address]
    ) -> None:
        """Check that one of `signers` signed. Raises SignatureInvalid `signer-mismatch`."""
        if recover_with_eth_account(message, domain, signature) not in signers:
            raise SignatureInvalid(
                "signed by somebody else than the session's client", code="signer-mismatch"
            )
