"""The hook that pays: what schemathesis generates for a tool becomes a call with a voucher or an envelope."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from schemathesis import AuthContext, AuthProvider, Case, GenerationMode, HookContext, Response

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import AioumError
from aioum.core.payment import CloseRequest, Domain, ReadAccess, Voucher
from aioum.core.signing import LocalKey
from aioum.core.submission.canonical import canonical_json_text
from aioum.core.transcript import canonical_request
from aioum.core.types import ChannelId
from aioum.core.wire import (
    RECEIPT_HEADER,
    Challenge,
    Credential,
    SignedReceipt,
    close_request_json,
    read_access_header,
)
from tests.contract_http.live import PRICE
from tests.pens import Pen

TOOL_PATH = "/tools/{toolId}"


@dataclass
class Purse:
    """The client's accounting of an unsigned session: the next voucher pays for the next call."""

    channel_id: ChannelId
    highest: int = 0
    spent: int = 0

    def next_amount(self) -> int:
        """More than ever before, and enough."""
        self.highest = max(self.highest + 1, self.spent + PRICE)
        return self.highest


@dataclass
class PayingHook:
    """Signs for one client with an unsigned session and a signed one; counts what came back.

    Attributes:
        answers: method, path and status → how often.
        paid: kind of session → calls that were paid, run and answered 200.
    """

    key: LocalKey
    domain: Domain
    challenge: Challenge
    purse: Purse
    pen: Pen
    signed_calls: int = 0
    answers: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)
    _number: int = 0
    _last: str = ""

    def filter_body(self, context: HookContext, body: Any) -> bool:
        """Leave out objects that are valid by their schema and are not read, by rules that no schema can say.

        These are the loader's limits on numbers and depth; and a whole number is not spelled `1.0`.
        """
        if not isinstance(body, dict) or not all(isinstance(name, str) for name in body):
            return True
        try:
            canonical_json_text(parse_json(json.dumps(body), max_bytes=20_000))
        except (AioumError, TypeError, ValueError):
            return False
        return not isinstance(body.get("callCount"), float)

    def before_call(self, context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
        """Pay for a tool's call, or sign a close of the client's session."""
        self._number += 1
        valid = case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE
        if case.operation.path == TOOL_PATH:
            self._pay(case, valid)
        elif not valid or not case.operation.path.startswith("/sessions/"):
            return
        elif self._number % 3:
            case.path_parameters["channelId"] = "0x" + self.purse.channel_id.hex()
        if case.operation.path.endswith("/close") and self._number % 2:
            # Never the true count: the session has to stay open.
            request = CloseRequest(self.purse.channel_id, 999_999_999)
            case.body = close_request_json(request, self._sign(request))

    def after_call(self, context: HookContext, case: Case, response: Response) -> None:
        """Count, and take over what the call cost."""
        self.answers[case.operation.method.upper(), case.operation.path, response.status_code] += 1
        receipt = response.headers.get(RECEIPT_HEADER.lower())
        if receipt:
            word = SignedReceipt.from_header(receipt[0]).receipt
            unsigned = word.channel_id == self.purse.channel_id
            self.paid["unsigned" if unsigned else "signed"] += response.status_code == 200
            if unsigned:
                self.purse.spent += word.charge

    def reading(self) -> type[AuthProvider[str]]:
        """Authorizes the reads of the unsigned session."""
        hook = self

        class Reading:
            def get(self, case: Case, context: AuthContext) -> str:
                access = ReadAccess(hook.purse.channel_id, int(time.time()) + 600)
                return read_access_header(access, hook._sign(access))

            def set(self, case: Case, data: str, context: AuthContext) -> None:
                case.headers["Authorization"] = data

        return Reading

    def _pay(self, case: Case, valid: bool) -> None:
        kind = self._number % 10
        if not valid:
            # Deeper than the first check: whatever is wrong is wrong with a call that was paid for.
            if kind < 5 and not isinstance(case.headers.get("Authorization"), bytes):
                case.headers["Authorization"] = self._voucher().header()
            return
        case.path_parameters["toolId"] = "echo"
        if kind == 9:
            case.headers.pop("Authorization", None)
        elif kind == 8 and self._last:
            case.headers["Authorization"] = self._last
        elif kind >= 6 and isinstance(case.body, dict):
            case.headers["Authorization"] = self._submission(case.body).header()
        else:
            self._last = case.headers["Authorization"] = self._voucher().header()

    def _voucher(self) -> Credential:
        channel_id, amount = self.purse.channel_id, self.purse.next_amount()
        signature = self._sign(Voucher(channel_id, amount))
        return Credential(self.challenge, "voucher", channel_id, amount, signature)

    def _submission(self, arguments: dict[str, Any]) -> Credential:
        request = canonical_request("echo", parse_json(canonical_bytes(arguments), max_bytes=10**6)).encode()
        envelope = self.pen.sign(request, self.signed_calls)
        self.signed_calls += 1
        amount = PRICE * self.signed_calls
        signature = self._sign(Voucher(self.pen.channel_id, amount))
        return Credential(
            self.challenge,
            "voucher",
            self.pen.channel_id,
            amount,
            signature,
            submission=envelope.to_json(),
        )

    def _sign(self, message: Any) -> bytes:
        return self.key.sign_digest(message.digest(self.domain))
