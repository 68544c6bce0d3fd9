"""Which operators are looked at, and where their logs are at each look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.chain.client import Chain
from aioum.client.logs.sources import LogTarget, Promises, open_source, place_given, promised_logs
from aioum.client.logs.web import Web
from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import AioumError, ConfigError
from aioum.core.hextext import address
from aioum.core.submission.framing import decode_base64
from aioum.core.types import Address
from aioum.log.audit import Level, Remark
from aioum.log.checkpoint import require_origin
from aioum.log.compare import judge_identity
from aioum.log.monitor import LogIdentity, OperatorState

MAX_CONFIG_BYTES: Final = 1_048_576
MAX_OPERATORS: Final = 1_000

_MEMBERS: Final = {"operators", "peers"}
_OPERATOR_MEMBERS: Final = {"operator", "log", "origin", "publicKey", "maxDelaySeconds"}
_MAX_DELAY_SECONDS: Final = 31_536_000


@dataclass(frozen=True, slots=True)
class Followed:
    """An operator to look at.

    Attributes:
        places: URLs and folders of its logs; none: where its cards say.
        identity: name and key of the log at the one place; None: what its cards say.
        max_delay_seconds: None: what its cards promise.
    """

    operator: Address
    places: tuple[str, ...] = ()
    identity: LogIdentity | None = None
    max_delay_seconds: int | None = None

    async def targets(
        self, chain: Chain, state: OperatorState, web: Web
    ) -> tuple[list[LogTarget], list[Remark]]:
        """The logs to look at now: those that are named, and those that were followed before.

        Raises:
            ChainError: as `Chain`.
            ConfigError, ResourceMissing, OutcomeUnknown, CheckpointInvalid: as `place_given`.
        """
        if self.identity is not None:
            return [LogTarget(self.identity, open_source(place, web.named)) for place in self.places], []
        promises = await promised_logs(chain, self.operator, web.found)
        targets = list(promises.logs)
        if self.places:
            targets = await place_given(self.places, promises, web.named)
        remarks = [
            Remark(
                "card-unreachable",
                Level.PENDING,
                f"the card of service {service_id} cannot be had: {error}",
                {"serviceId": str(service_id), "reason": error.code},
            )
            for service_id, error in promises.silent
        ]
        remarks += self._judge(state, promises)
        known = {target.identity.origin for target in targets}
        for origin, log in state.logs.items():
            if origin not in known:
                try:
                    source = open_source(log.where, web.found)
                    targets.append(LogTarget(log.identity, source, log.max_delay_seconds))
                except ConfigError as error:
                    remarks.append(Remark("log-unreachable", Level.ALERT, str(error), {"origin": origin}))
        if not targets:
            text = "no card of the operator's services can be had that names a log"
            remarks.append(Remark("log-not-promised", Level.ALERT, text))
        return targets, remarks

    def _judge(self, state: OperatorState, promises: Promises) -> list[Remark]:
        remarks = judge_identity(self.operator, state.logs, promises.identities)
        # What is not named may be named by a card that cannot be had, and who retired names nothing.
        complete = promises.services and not promises.silent
        return [remark for remark in remarks if complete or remark.level is not Level.ALERT]


def read_config(path: Path) -> tuple[list[Followed], list[str]]:
    """Operators and peers that a configuration file names.

    Raises:
        ConfigError: `monitor-config-invalid`.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MAX_CONFIG_BYTES + 1)
    try:
        value = parse_json(content, max_bytes=MAX_CONFIG_BYTES)
        if not isinstance(value, dict) or not value.keys() <= _MEMBERS:
            raise ConfigError(f"expected an object with {', '.join(sorted(_MEMBERS))}")
        operators, peers = value.get("operators", []), value.get("peers", [])
        if not isinstance(operators, list) or len(operators) > MAX_OPERATORS:
            raise ConfigError(f"operators is no list of at most {MAX_OPERATORS}")
        if not isinstance(peers, list):
            raise ConfigError("peers is no list")
        return [_followed(item) for item in operators], [_text(item, "a peer") for item in peers]
    except AioumError as error:
        raise ConfigError(
            f"{path}: {error}",
            code="monitor-config-invalid",
            hint='write it like {"operators": [{"operator": "0x…"}], "peers": ["https://…/"]}',
        ) from error


def require_distinct(followed: Sequence[Followed]) -> None:
    """Return if no operator is named twice.

    Raises:
        ConfigError: `monitor-config-invalid`.
    """
    if len({item.operator for item in followed}) != len(followed):
        raise ConfigError(
            "an operator is named twice",
            code="monitor-config-invalid",
            hint="name it once, in the file or as an option; all its logs are looked at together",
        )


def _followed(value: JsonValue) -> Followed:
    if not isinstance(value, dict) or not value.keys() <= _OPERATOR_MEMBERS:
        raise ConfigError(f"an operator is no object with {', '.join(sorted(_OPERATOR_MEMBERS))}")
    origin, key, place = value.get("origin"), value.get("publicKey"), value.get("log")
    delay = value.get("maxDelaySeconds")
    if (origin is None) != (key is None) or (origin is not None and place is None):
        raise ConfigError("origin and publicKey belong together, and go with log")
    if delay is not None and (type(delay) is not int or not 0 <= delay <= _MAX_DELAY_SECONDS):
        raise ConfigError(f"maxDelaySeconds is no number up to {_MAX_DELAY_SECONDS}")
    return Followed(
        address(value.get("operator")),
        () if place is None else (_text(place, "log"),),
        None
        if origin is None
        else LogIdentity(require_origin(_text(origin, "origin")), decode_base64(key, 32)),
        delay,
    )


def _text(value: JsonValue, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{what} is no text: {value!r:.40}")
    return value
