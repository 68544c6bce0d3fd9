"""What the commands of `aioum-node` have in common."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from aioum_node.logs import configure_logs
from aioum_node.settings import Settings, load_settings

Command = TypeVar("Command", bound=Callable[..., Any])

_SCALARS = (str, int, float, bool, Path)
_OWN_OPTIONS = frozenset({"node_dir"})


def settings_options(command: Command) -> Command:
    """Add an option for every setting that one word can express; lists and tables belong into the file."""
    for name, field in reversed(Settings.model_fields.items()):
        if (
            name not in _OWN_OPTIONS
            and isinstance(field.default, (*_SCALARS, type(None)))
            and name not in ("deterministic", "signer")
        ):
            flag = "--" + name.replace("_", "-")
            command = click.option(flag, name, default=None, help=field.description, metavar="VALUE")(command)
    command = click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path),
        help="settings file [node.toml in the folder]",
    )(command)
    return click.option("--dir", "node_dir", default=None, help="the node's folder", metavar="FOLDER")(
        command
    )


def loaded(config_file: Path | None, flags: dict[str, Any]) -> Settings:
    """The settings that a command was given, with logging as they say. Raises ConfigError."""
    settings = load_settings(config_file, flags)
    configure_logs(settings)
    return settings


def print_json(value: Any, indent: int | None = None) -> None:
    """Print JSON on stdout, now."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=indent))
    sys.stdout.flush()
