"""How often one request is repeated, and how long a client waits in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import stamina
from stamina import Attempt

from aioum.client.settings import ClientSettings
from aioum.core.errors import OutcomeUnknown


def attempts(
    settings: ClientSettings,
    on: type[Exception] | Callable[[Exception], bool | float] = OutcomeUnknown,
) -> AsyncIterator[Attempt]:
    """The attempts at one request; each is a context manager around it, and the last lets its error out.

    Args:
        settings: number of attempts and pauses.
        on: what is tried again; a function may say after how many seconds.
    """
    return stamina.retry_context(
        on=on,
        attempts=settings.retry_attempts,
        timeout=settings.retry_timeout_seconds,
        wait_initial=settings.retry_wait_initial_seconds,
        wait_max=settings.retry_wait_max_seconds,
        wait_jitter=settings.retry_wait_initial_seconds,
    )
