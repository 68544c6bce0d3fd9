"""Options that say whose log a proof has to lead to."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.log_options import LogKey
from aioum.options.common import Command, with_options

if TYPE_CHECKING:
    from aioum.log.monitor import LogIdentity


class LogOrigin(click.ParamType[str]):
    """A log's name, on the command line."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text."""
        from aioum.core.errors import AioumError
        from aioum.log.checkpoint import require_origin

        try:
            return require_origin(value)
        except AioumError as error:
            self.fail(f"{error}; it is {error.hint}", param, ctx)


def named_log_options(function: Command) -> Command:
    """Add `--log-origin` and `--log-key`; the command takes one `known_log`, a `LogIdentity` or None."""

    @functools.wraps(function)
    def command(*args: Any, log_origin: str | None, log_key: bytes | None, **kwargs: Any) -> Any:
        if (log_origin is None) != (log_key is None):
            raise click.UsageError("--log-origin and --log-key belong together")
        return function(*args, known_log=_identity(log_origin, log_key), **kwargs)

    return with_options(
        command,
        click.option(
            "--log-key",
            type=LogKey(),
            metavar="BASE64",
            help="Key that signs this log's checkpoints, as you learned it from its owner.",
        ),
        click.option(
            "--log-origin",
            type=LogOrigin(),
            metavar="TEXT",
            help="Name of the log that the log proof has to lead to, with --log-key. Of a session it is by "
            "default the log that its card names.",
        ),
    )


def _identity(origin: str | None, public_key: bytes | None) -> LogIdentity | None:
    if origin is None or public_key is None:
        return None
    from aioum.log.monitor import LogIdentity

    return LogIdentity(origin, public_key)
