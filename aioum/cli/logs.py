"""Log entries of the libraries below, for commands that send transactions."""

from __future__ import annotations

import logging
import sys

import structlog


def logs_to_stderr() -> None:
    """Warnings and worse go to standard error: standard output is the answer's alone."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
