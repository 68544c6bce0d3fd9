"""How a command ends when it does not end well: `error:` and `hint:` on standard error, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from dataclasses import dataclass

import click

from aioum.cli.plain import printable
from aioum.core.errors import AioumError

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130


@dataclass(slots=True)
class Invocation:
    """What one run of the program knows outside of its commands.

    Attributes:
        verbose: whether `-v` was given: then an error comes with its traceback.
    """

    verbose: bool = False


def report(error: BaseException, *, verbose: bool) -> int:
    """Tell a person about `error` and return the exit code.

    Raises:
        BaseException: `error` itself where it is a request to leave, such as SystemExit.
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return WRONG_USAGE
    if isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and error.errno == errno.EPIPE):
        # The reader went away, as `head` does. What is still buffered must not raise once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    if verbose and not isinstance(error, click.ClickException | click.Abort):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "aioum"
        complain(error.format_message(), "usage", f"{command} --help")
        return WRONG_USAGE
    if isinstance(error, click.Abort | KeyboardInterrupt):
        complain("interrupted", "interrupted", None)
        return INTERRUPTED
    if isinstance(error, AioumError):
        complain(str(error), error.code, error.hint)
        return FAILED
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return report(error.exceptions[0], verbose=False)
    if isinstance(error, OSError):
        what = error.strerror or str(error)
        complain(f"{error.filename}: {what}" if error.filename else what, "file-unusable", None)
        return FAILED
    if not isinstance(error, Exception):
        raise error
    complain(f"{type(error).__name__}: {error}", "internal-error", "this is a fault of aioum; -v shows where")
    return FAILED


def warn(text: str) -> None:
    """Say something on standard error that does not change the exit code."""
    click.echo(f"warning: {printable(text)}", err=True)


def complain(message: str, code: str, hint: str | None) -> None:
    """Print one error, with what can be done about it."""
    click.echo(f"error: {printable(message)} [{code}]", err=True)
    if hint:
        click.echo(f"hint: {printable(hint)}", err=True)
