"""One exception tree. Every error has a stable `code` and, where a person can act, a `hint`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class AioumError(Exception):
    """Base of everything aioum raises.

    Attributes:
        code: stable kebab-case reason code; added, never renamed or reused (PROTOCOL 10).
        hint: what a person can do about it, or None.
        details: machine-readable facts beside the message, JSON-serializable.
    """

    default_code: ClassVar[str] = "internal-error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})


class InvalidInput(AioumError):
    """The caller handed in something malformed; nothing was changed."""

    default_code = "invalid-input"


class CanonicalError(InvalidInput):
    """A value or text has no canonical JSON form (PROTOCOL 1); the code names the rule."""

    default_code = "json-invalid"


class ProofInvalid(AioumError):
    """A Merkle proof does not verify."""

    default_code = "proof-invalid"


class SignatureInvalid(AioumError):
    """A signature is malformed, malleable or not by the expected signer."""

    default_code = "signature-invalid"


class Refused(AioumError):
    """The operator's rules refuse a step; state is unchanged (PROTOCOL 3)."""

    default_code = "refused"


class PolicyRefused(AioumError):
    """The caller's own policy (limits, allow-lists) refuses a step."""

    default_code = "policy-refused"


class Divergence(AioumError):
    """The peer's signed word contradicts our own record: stop paying, keep the evidence."""

    default_code = "divergence"


class OutcomeUnknown(AioumError):
    """An effect may or may not have happened. Look it up or repeat the very same request; never guess."""

    default_code = "outcome-unknown"


class ChainError(AioumError):
    """The chain or its endpoint refused or failed."""

    default_code = "chain-error"


class ContractReverted(ChainError):
    """A contract refused. The code names the custom error of ours that it refused with, so tell by the class
    whether it did; where the reason is not one of ours the code is the default one.
    """

    default_code = "contract-reverted"


class TransactionReverted(ContractReverted):
    """A contract refused a transaction that is mined: that is final, and its gas is spent."""

    default_code = "transaction-reverted"


class ConfigError(AioumError):
    """Configuration, key store or deployment is missing or contradictory."""

    default_code = "config-invalid"
