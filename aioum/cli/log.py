"""`aioum log`."""

from __future__ import annotations

import click

from aioum.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "audit": ("aioum.cli.log_audit:audit", "Hold an operator's log against the chain."),
        "monitor": (
            "aioum.cli.log_monitor:monitor",
            "Follow logs, and notice when one is rewritten or split.",
        ),
        "append": ("aioum.cli.log_append:append", "Append a sealed run to a log of your own."),
        "fsck": ("aioum.cli.log_folder:fsck", "Hash everything in a log folder again."),
    },
)
def log() -> None:
    """Audit and monitor transparency logs."""
