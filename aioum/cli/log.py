"""`aioum log`."""

from __future__ import annotations

import click

from aioum.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={"fsck": ("aioum.cli.log_folder:fsck", "Hash everything in a log folder again.")},
)
def log() -> None:
    """Check transparency logs."""
