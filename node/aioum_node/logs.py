"""Structured logs on stderr. Tracebacks never show local variables: those hold what clients asked."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from aioum_node.settings import Settings


def configure_logs(settings: Settings) -> None:
    """Send log entries to stderr in the form and from the level that the settings name."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
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
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *final,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=max(level, logging.WARNING), stream=sys.stderr)
