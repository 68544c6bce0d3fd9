"""How options are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Command = Callable[..., Any]


def with_options(function: Command, *options: Callable[[Command], Command]) -> Command:
    """Add options; the last is listed first in the help."""
    for option in options:
        function = option(function)
    return function


def http_url(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of an option that takes an endpoint; anything but an http(s) URL is wrong usage."""
    if value is not None and not value.startswith(("http://", "https://")):
        raise click.BadParameter("expected an http:// or https:// URL")
    return value
