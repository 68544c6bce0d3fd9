"""What every command is told on its command line or in the environment, and the options that say it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.failures import Invocation
from aioum.options.common import Command, http_url, with_options

if TYPE_CHECKING:
    from aioum.chain.deployments import Deployment


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the client's record and the contracts are, and how to print.

    Attributes:
        data_dir: folder of the client's journal.
        deployment_file: the deployments file, or None: the local devnet's.
        rpc_url: endpoint to use instead of the one in the deployments file, or None.
        as_json: whether the result goes to standard output as JSON.
    """

    data_dir: Path
    deployment_file: Path | None
    rpc_url: str | None
    as_json: bool

    def deployment(self) -> Deployment:
        """The contracts to work with.

        Raises:
            ChainError: `deployment-missing` or `deployment-invalid`.
        """
        from aioum.chain.deployments import find_deployment

        found = find_deployment(self.deployment_file)
        return found if self.rpc_url is None else replace(found, rpc_url=self.rpc_url)


def examples(*commands: str) -> str:
    """The end of a command's help: lines that a person could type."""
    # The control character keeps click from filling the lines as if they were prose.
    return "\b\n" + "\n".join(
        ["Examples:" if len(commands) > 1 else "Example:", *(f"  {c}" for c in commands)]
    )


def verbose_option(function: Command) -> Command:
    """Add `-v`."""

    def remember(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.ensure_object(Invocation).verbose = True

    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Show an error's traceback.",
    )(function)


def json_option(function: Command) -> Command:
    """Add `--json`, for the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(function)


def common_options(function: Command) -> Command:
    """Add the options of commands that use the record and the chain; the command takes one `settings`."""

    @functools.wraps(function)
    def command(
        *args: Any,
        data_dir: Path | None,
        deployment_file: Path | None,
        rpc_url: str | None,
        as_json: bool,
        **kwargs: Any,
    ) -> Any:
        if data_dir is None:
            from aioum.client.marketplace import default_data_dir

            data_dir = default_data_dir()
        settings = Settings(data_dir.expanduser(), deployment_file, rpc_url, as_json)
        return function(*args, settings=settings, **kwargs)

    return with_options(
        command,
        verbose_option,
        json_option,
        click.option(
            "--rpc",
            "rpc_url",
            metavar="URL",
            envvar="AIOUM_RPC_URL",
            show_envvar=True,
            callback=http_url,
            help="Chain endpoint, in place of the one in the deployments file.",
        ),
        click.option(
            "--deployment",
            "deployment_file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            envvar="AIOUM_DEPLOYMENT",
            show_envvar=True,
            help="Deployments file; by default the local devnet's.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path),
            metavar="DIR",
            envvar="AIOUM_DATA_DIR",
            show_envvar=True,
            help="Folder of your sessions' record; by default ~/.aioum/client.",
        ),
    )
