"""Reading evidence packages (PROTOCOL 7).

Only the package's frame is judged here. Calls, vouchers, attestations, receipts and the statement stay JSON
as they came: whether they are right is what the numbered checks say, and a wrong one must not stop the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from aioum.core.amounts import parse_amount
from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue, parse_json
from aioum.core.errors import InvalidInput
from aioum.core.evidence import DISCLOSED, MAX_PACKAGE_BYTES, WHOLE, ChannelFacts, Claim, ServiceTerms
from aioum.core.hextext import address, bytes32, channel_id
from aioum.core.payment import Domain, Terms
from aioum.core.types import Bytes32, ChannelId

JsonObject = dict[str, JsonValue]
Parsed = TypeVar("Parsed")

_MAX_UINT32: Final = 2**32 - 1
_MAX_UINT256: Final = 2**256 - 1
_POSITIVE: Final = re.compile(r"[1-9][0-9]{0,77}", re.ASCII)
_KINDS: Final[dict[type, str]] = {
    dict: "an object", list: "an array", str: "text", bool: "a boolean", int: "a number", float: "a number",
    type(None): "null",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EvidencePackage:
    """A package whose frame is well-formed; nothing in it is proven yet.

    Attributes:
        domain: chain and PaymentManager that the package names.
        calls: entries as they came; formatVersion 2 entries carry a `proof`.
        call_count: number of calls of the session: that of `calls`, or what formatVersion 2 states.
        channel_id, channel, terms, card, receipts, statement, submissions, log: None where the package
            carries none.
    """

    format_version: int
    session_id: int
    domain: Domain
    claim: Claim
    narrative: str
    calls: tuple[JsonValue, ...]
    vouchers: tuple[JsonValue, ...]
    results_root: Bytes32
    attestations: tuple[JsonValue, ...]
    call_count: int
    channel_id: ChannelId | None = None
    channel: ChannelFacts | None = None
    terms: ServiceTerms | None = None
    card: JsonObject | None = None
    receipts: tuple[JsonValue, ...] | None = None
    statement: JsonValue = None
    submissions: JsonValue = None
    log: JsonValue = None

    @property
    def disclosed(self) -> bool:
        """Whether only chosen calls are shown (formatVersion 2)."""
        return self.format_version == DISCLOSED


def parse_package(data: str | bytes, *, max_bytes: int = MAX_PACKAGE_BYTES) -> EvidencePackage:
    """Read a package's text through the strict loader.

    Raises:
        CanonicalError: not JSON by PROTOCOL 1; the code names the rule.
        InvalidInput: as `read_package`.
    """
    return read_package(parse_json(data, max_bytes=max_bytes))


def read_package(value: JsonValue) -> EvidencePackage:
    """Read a package from JSON that came through the strict loader. Members that are not known are ignored.

    Raises:
        InvalidInput: `package-version-unknown`; `package-malformed`, naming the first member that is wrong.
    """
    try:
        package = Members(value)
    except InvalidInput as error:
        raise InvalidInput(f"not an evidence package: {error}", code="package-malformed") from error
    version = package.read("formatVersion", _version)
    if version not in (WHOLE, DISCLOSED):
        raise InvalidInput(
            f"formatVersion {version} is not known; known: {WHOLE}, {DISCLOSED}",
            code="package-version-unknown",
            hint="a newer aioum may read it",
        )
    calls = package.read("calls", _list)
    return EvidencePackage(
        format_version=version,
        session_id=package.read("sessionId", read_positive_text),
        domain=Domain(package.read("chainId", read_chain_id), package.read("paymentManager", address)),
        claim=package.read("claim", _claim),
        narrative=package.optional("narrative", _text) or "",
        calls=calls,
        vouchers=package.read("vouchers", _list),
        results_root=package.read("resultsRoot", bytes32),
        attestations=package.optional("attestations", _list) or (),
        call_count=len(calls) if version == WHOLE else package.read("callCount", _call_count),
        channel_id=package.optional("channelId", channel_id),
        channel=package.optional("channel", channel_from_json),
        terms=package.optional("terms", terms_from_json),
        card=package.optional("card", read_object),
        receipts=package.optional("receipts", _list),
        statement=package.optional("statement", read_object),
        submissions=package.optional("submissions", read_object),
        log=package.optional("log", read_object),
    )


class Members:
    """An object whose members are read one by one; a refusal names the member by its path.

    Raises:
        InvalidInput: it is no object.
    """

    def __init__(self, members: JsonValue) -> None:
        self._members = read_object(members)

    def read(self, name: str, parse: Callable[[JsonValue], Parsed]) -> Parsed:
        """A member that has to be there. Raises InvalidInput `package-malformed`."""
        if name not in self._members:
            raise _malformed(name, "missing")
        try:
            return parse(self._members[name])
        except InvalidInput as error:
            inner = error.details.get("member")
            reason = str(error.details.get("reason", error))
            raise _malformed(f"{name}.{inner}" if inner else name, reason) from error

    def optional(self, name: str, parse: Callable[[JsonValue], Parsed]) -> Parsed | None:
        """A member, or None where it is absent. Raises InvalidInput `package-malformed`."""
        return self.read(name, parse) if name in self._members else None


def _malformed(member: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"package member {member}: {reason}",
        code="package-malformed",
        details={"member": member, "reason": reason},
    )


def channel_from_json(value: JsonValue) -> ChannelFacts:
    """The `channel` member, as `channel_to_json` gives it. Raises InvalidInput `package-malformed`."""
    channel = Members(value)
    return ChannelFacts(
        payer=channel.read("payer", address),
        payee=channel.read("payee", address),
        token=channel.read("token", address),
        authorized_signer=channel.read("authorizedSigner", address),
        nonce=channel.read("nonce", bytes32),
        terms_hash=channel.read("termsHash", bytes32),
        roster_hash=channel.read("rosterHash", bytes32),
    )


def terms_from_json(value: JsonValue) -> ServiceTerms:
    """The `terms` member, as `terms_to_json` gives it. Raises InvalidInput `package-malformed`."""
    terms = Members(value)
    return ServiceTerms(
        registry=terms.optional("registry", address),
        service_id=terms.read("serviceId", read_positive_text),
        terms=Terms(
            operator=terms.read("operator", address),
            payee=terms.read("payee", address),
            token=terms.read("token", address),
            receipt_signer=terms.read("receiptSigner", address),
            arbitrator=terms.read("arbitrator", address),
            descriptor_hash=terms.read("descriptorHash", bytes32),
            commit_required=terms.read("commitRequired", _boolean),
            dispute_window_seconds=terms.read("disputeWindow", _uint32),
            ruling_period_seconds=terms.read("rulingPeriod", _uint32),
            dispute_bond=terms.read("disputeBond", parse_amount),
        ),
    )


def read_object(value: JsonValue) -> JsonObject:
    """An object. Raises InvalidInput."""
    if not isinstance(value, dict):
        raise InvalidInput(f"expected an object, got {_kind(value)}")
    return value


def _list(value: JsonValue) -> tuple[JsonValue, ...]:
    if not isinstance(value, list):
        raise InvalidInput(f"expected an array, got {_kind(value)}")
    return tuple(value)


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"expected text, got {_kind(value)}")
    return value


def _boolean(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"expected true or false, got {_kind(value)}")
    return value


def _integer(value: JsonValue, least: int, most: int) -> int:
    # A bool is an int to Python; a float is what the loader makes of `1.0`.
    if type(value) is not int or not least <= value <= most:
        raise InvalidInput(f"expected an integer {least}…{most}, got {value!r:.40}")
    return value


def _version(value: JsonValue) -> int:
    return _integer(value, 0, MAX_SAFE_INTEGER)


def read_chain_id(value: JsonValue) -> int:
    """A chain's id. Raises InvalidInput."""
    return _integer(value, 1, MAX_SAFE_INTEGER)


def _call_count(value: JsonValue) -> int:
    return _integer(value, 1, MAX_SAFE_INTEGER)


def _uint32(value: JsonValue) -> int:
    return _integer(value, 0, _MAX_UINT32)


def _claim(value: JsonValue) -> Claim:
    if value not in tuple(Claim):
        raise InvalidInput(f"expected one of {', '.join(Claim)}, got {value!r:.40}")
    return Claim(value)


def read_positive_text(value: JsonValue) -> int:
    """A number from 1 to 2^256-1 as decimal text. Raises InvalidInput."""
    if not isinstance(value, str) or not _POSITIVE.fullmatch(value) or int(value) > _MAX_UINT256:
        raise InvalidInput(f"expected a positive integer as text, got {value!r:.40}")
    return int(value)


def _kind(value: JsonValue) -> str:
    return _KINDS[type(value)]
