"""What is known of the endpoints of a pool: which may be asked, and how far each one is.

Nothing here does IO. Times are those of the clock handed in, which only has to go forward.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aioum.chain.errors import shown_url
from aioum.core.errors import ChainError, InvalidInput

# After these an endpoint is left alone for its time, even where nobody else is left to ask.
_REST_CODES: Final = ("rpc-rate-limited", "endpoint-wrong-chain")
_SEPARATOR: Final = re.compile(r"[,\s]+")
_RATE_LIMIT_CODES: Final = (-32005, -32029, 429)
_RATE_LIMIT_WORDS: Final = re.compile(r"request|rate|second|capacity", re.IGNORECASE)
# Words of a replica that does not have, or no longer has, what it was asked about.
_STATE_MISSING: Final = re.compile(
    r"header not found|missing trie node|unknown block|block not found|out ?of ?range", re.IGNORECASE
)
_INTERNAL_CODE: Final = -32603


def urls_in(text: str) -> tuple[str, ...]:
    """The endpoints in a list separated by commas or spaces, each once.

    Raises:
        InvalidInput: `endpoint-missing` where there is none.
    """
    found = tuple(dict.fromkeys(part for part in _SEPARATOR.split(text) if part))
    if not found:
        raise InvalidInput("no endpoint is named", code="endpoint-missing", hint="set an RPC URL")
    return found


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """How patient a pool is.

    Attributes:
        rest_seconds: how long an endpoint rests that failed once; twice as long with each further failure.
        max_rest_seconds: the longest rest.
        head_patience_seconds: a head that no endpoint reaches for so long is that of another history: a reset
            devnet, or a lie.
        probe_timeout_seconds: for asking one endpoint how far it is; nobody waits longer for a silent one.
    """

    rest_seconds: float = 1.0
    max_rest_seconds: float = 60.0
    head_patience_seconds: float = 30.0
    probe_timeout_seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class EndpointState:
    """One endpoint at a moment, for metrics and readiness.

    Attributes:
        url: without user, password, path and query.
        head: the newest block that it has told of; None before it was asked.
        resting_seconds: how long it is not asked from now on; 0 while it is in use.
        last_error_code: of its last failure since it last answered; None where there is none.
        failures: how often it failed in all, by reason code.
    """

    url: str
    head: int | None
    resting_seconds: float
    last_error_code: str | None
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_in_use(self) -> bool:
        """Whether it answered when it was asked last, as far as is known."""
        return self.last_error_code is None and self.resting_seconds <= 0


@dataclass(slots=True)
class PooledEndpoint:
    """One endpoint of a pool, as the pool knows it."""

    url: str
    clock: Callable[[], float]
    policy: PoolPolicy = PoolPolicy()
    is_verified: bool = False
    head: int | None = None
    head_read_at: float = 0.0
    resting_until: float = 0.0
    failures: int = 0
    last_error: ChainError | None = None
    failures_by_code: Counter[str] = field(default_factory=Counter)

    @property
    def is_resting(self) -> bool:
        """Whether it is not to be asked now."""
        return self.clock() < self.resting_until

    @property
    def has_to_rest(self) -> bool:
        """Whether asking it now would be wrong, not only unlikely to help."""
        error = self.last_error
        return self.is_resting and error is not None and error.code in _REST_CODES

    def saw_head(self, number: int) -> None:
        """Note the newest block that it told of."""
        self.head, self.head_read_at = number, self.clock()

    def answered(self) -> None:
        """Note that it works."""
        self.failures, self.resting_until, self.last_error = 0, 0.0, None

    def failed(self, error: ChainError, rest_seconds: float | None = None) -> None:
        """Note a failure: it rests, twice as long each time, at least `rest_seconds`, and never longer than
        the policy's longest rest.
        """
        wait = self.policy.rest_seconds * 2.0 ** min(self.failures, 10)
        self.failures += 1
        self.failures_by_code[error.code] += 1
        self.last_error = error
        # Whatever answers at this address afterwards may be another chain's.
        self.is_verified = False
        self.resting_until = self.clock() + min(max(wait, rest_seconds or 0.0), self.policy.max_rest_seconds)

    def state(self) -> EndpointState:
        """What may be shown of it."""
        return EndpointState(
            url=shown_url(self.url),
            head=self.head,
            resting_seconds=max(0.0, self.resting_until - self.clock()),
            last_error_code=None if self.last_error is None else self.last_error.code,
            failures=dict(self.failures_by_code),
        )


def rate_limited(url: str, facts: Mapping[str, Any]) -> ChainError:
    """The error for an endpoint that asks us to slow down."""
    return ChainError(
        f"{shown_url(url)} limits the rate of requests",
        code="rpc-rate-limited",
        hint="use an endpoint with a higher limit, or add another one",
        details=dict(facts),
    )


def wrong_chain(url: str, expected: int, found: int) -> ChainError:
    """The error for an endpoint of another chain."""
    return ChainError(
        f"{shown_url(url)} is an endpoint of chain {found}, not of chain {expected}",
        code="endpoint-wrong-chain",
        hint="take it out of the list of endpoints",
        details={"chain_id": found, "expected_chain_id": expected},
    )


def lagging(url: str, head: int | None, needed: int) -> ChainError:
    """The error for an endpoint that lies behind what is known of the chain."""
    return ChainError(
        f"{shown_url(url)} is at block {head}, and the chain at block {needed} or later",
        code="endpoint-lagging",
        hint="wait until it has caught up, or add another endpoint",
        details={"head": head, "needed": needed},
    )


def is_rate_limit(method: str, error: object) -> bool:
    """Whether a JSON-RPC error asks us to slow down. The same code also refuses a search with too many
    results, which no other endpoint would find less of.
    """
    if not isinstance(error, Mapping) or error.get("code") not in _RATE_LIMIT_CODES:
        return False
    return method != "eth_getLogs" or bool(_RATE_LIMIT_WORDS.search(str(error.get("message"))))


def is_elsewhere(error: object) -> bool:
    """Whether a JSON-RPC error is about the endpoint rather than about the question."""
    if not isinstance(error, Mapping):
        return False
    return error.get("code") == _INTERNAL_CODE or bool(_STATE_MISSING.search(str(error.get("message"))))
