"""`aioum run`."""

from __future__ import annotations

import click

from aioum.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "keygen": ("aioum.cli.run_keys:keygen", "Make a key that seals runs."),
        "seal": ("aioum.cli.run_seal:seal", "Seal a run from its folder, also after a crash."),
        "verify": ("aioum.cli.run_verify:verify", "Verify a capsule or a disclosure."),
        "show": ("aioum.cli.run_show:show", "Show what happened in a run, and inside of what."),
        "disclose": ("aioum.cli.run_disclose:disclose", "Show chosen events or contents, and nothing else."),
        "forge-demo": (
            "aioum.cli.run_forge:forge_demo",
            "Attack a sealed run, and see what each attack is refused for.",
        ),
    },
)
def run() -> None:
    """Seal, verify and disclose recorded runs."""
