"""When a session's settlement that came to nothing has its next turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aioum.core.types import ChannelId

_FIRST_PAUSE_SECONDS: Final = 2
_LONGEST_PAUSE_SECONDS: Final = 600
# Of a client's grace at most this part is spent on one pause; afterwards it may withdraw at any moment.
_PART_OF_GRACE: Final = 10
_PAUSE_AFTER_GRACE_SECONDS: Final = 60
# Reasons to wait that only somebody else can change, and not soon.
_SLOW: Final = frozenset({"channel-not-on-chain", "nothing-earned", "outcome-unknown", "session-suspect"})
# Failures that are over as soon as the chain can be seen again.
_CHAIN_SILENT: Final = ("rpc-", "endpoint-", "block-missing")


@dataclass(slots=True)
class _Pause:
    """How often a session's turn came to nothing, and when (unix milliseconds) it has the next."""

    failures: int = 0
    until_ms: int = 0
    code: str | None = None


class Pauses:
    """Pauses that grow with every failure, but never past what a leaving client's grace allows.

    Args:
        now_ms: unix milliseconds.
        seconds_left: of the grace of a session's client; None where it does not leave.
    """

    def __init__(self, now_ms: Callable[[], int], seconds_left: Callable[[ChannelId], float | None]) -> None:
        self._now_ms = now_ms
        self._seconds_left = seconds_left
        self._pauses: dict[ChannelId, _Pause] = {}

    def is_due(self, channel_id: ChannelId) -> bool:
        """Whether the session may have its turn now."""
        pause = self._pauses.get(channel_id)
        return pause is None or pause.until_ms <= self._now_ms()

    def waits(self, channel_id: ChannelId, reason: str) -> bool:
        """Note that there was nothing to do; whether the reason is another one than before."""
        pause = self._pauses.get(channel_id)
        is_new = pause is None or pause.code != reason
        if pause is None or is_new:
            pause = self._pauses[channel_id] = _Pause(code=reason)
        if reason in _SLOW:
            self._lengthen(channel_id, pause)
        return is_new

    def failed(self, channel_id: ChannelId, code: str) -> None:
        """Note a failure."""
        pause = self._pauses.setdefault(channel_id, _Pause())
        pause.code = code
        self._lengthen(channel_id, pause)

    def end(self, channel_id: ChannelId) -> None:
        """Let the session have its next turn at once."""
        self._pauses.pop(channel_id, None)

    def chain_is_back(self) -> None:
        """End the pauses of those that failed because the chain could not be asked."""
        for channel_id, pause in list(self._pauses.items()):
            if pause.code is not None and pause.code.startswith(_CHAIN_SILENT):
                del self._pauses[channel_id]

    def _lengthen(self, channel_id: ChannelId, pause: _Pause) -> None:
        seconds = float(min(_FIRST_PAUSE_SECONDS << min(pause.failures, 16), _LONGEST_PAUSE_SECONDS))
        left = self._seconds_left(channel_id)
        if left is not None:
            cap = left / _PART_OF_GRACE if left > 0 else _PAUSE_AFTER_GRACE_SECONDS
            seconds = min(seconds, max(cap, _FIRST_PAUSE_SECONDS))
        pause.failures += 1
        pause.until_ms = self._now_ms() + int(seconds * 1_000)
