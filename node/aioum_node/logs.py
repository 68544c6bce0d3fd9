"""Structured logs on stderr. Tracebacks never show local variables: those hold what clients asked."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from aioum_node.settings import Settings


class _Stderr:
    """Stderr as it is now. A full disk behind it loses entries, and must not end what they are about."""

    def __init__(self) -> None:
        self._file = sys.stderr

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


def configure_logs(settings: Settings) -> None:
    """Send log entries to stderr in the form and from the level that the settings name.

    What libraries say through `logging` and `warnings` comes in the same form, from level warning on.
    """
    stderr = _Stderr()
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final: list[Any]
    if settings.log_format == "json":
        final = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        final = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    structlog.configure(
        processors=[*common, *final],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Writes a line at once: a thread's entry never ends up inside another one.
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", stderr)),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler])
    logging.captureWarnings(True)
