"""Where an evidence package is published: options, and the publisher that they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from aioum.options.common import Command, http_url, with_options

if TYPE_CHECKING:
    from aioum.client.publication import Publisher, Reach

TARGETS: Final = ("directory", "ipfs", "data")

_OPTIONS: Final = {
    "directory": ("directory", "base_url"),
    "ipfs": ("ipfs_api", "pinning_service", "upload_url", "upload_fields", "token_file", "pin_timeout"),
    "data": (),
}
_EVERY_TARGET: Final = ("timeout_seconds", "allow_plain_http")
_FILE: Final = click.Path(dir_okay=False)


def target_options(function: Command) -> Command:
    """Add the options that say where to, for `publisher_of`."""
    return with_options(
        function,
        click.option(
            "--allow-plain-http",
            is_flag=True,
            help="Allow services and base URLs without TLS that are not on this machine.",
        ),
        click.option(
            "--timeout",
            "timeout_seconds",
            type=click.FloatRange(0.1, 3_600),
            default=60.0,
            show_default=True,
            metavar="SECONDS",
            help="Longest time for one request.",
        ),
        click.option(
            "--pin-timeout",
            type=click.FloatRange(0.1, 86_400),
            metavar="SECONDS",
            help="With --pinning-service: longest wait until it has the file; by default 300.",
        ),
        click.option(
            "--token-file",
            type=_FILE,
            metavar="FILE",
            help="File with the access token of the pinning service or the endpoint, mode 0600.",
        ),
        click.option(
            "--upload-field",
            "upload_fields",
            multiple=True,
            metavar="NAME=VALUE",
            help="With --upload-url: a further field of the form, such as network=public.",
        ),
        click.option(
            "--upload-url",
            metavar="URL",
            callback=http_url,
            help="ipfs: post the file to this endpoint, which answers with its CID.",
        ),
        click.option(
            "--pinning-service",
            metavar="URL",
            callback=http_url,
            help="ipfs: also have it pinned by this service (IPFS Pinning Service API).",
        ),
        click.option(
            "--ipfs-api",
            metavar="URL",
            callback=http_url,
            help="ipfs: RPC of the Kubo node to add it to, such as http://127.0.0.1:5001.",
        ),
        click.option(
            "--base-url", metavar="URL", callback=http_url, help="directory: what the folder is served as."
        ),
        click.option(
            "--directory",
            type=click.Path(file_okay=False),
            metavar="DIR",
            help="directory: folder to write to; it must exist.",
        ),
    )


def separated(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a command was given for `publisher_of`, and the rest."""
    names = {name for owned in (*_OPTIONS.values(), _EVERY_TARGET) for name in owned}
    return (
        {name: value for name, value in options.items() if name in names},
        {name: value for name, value in options.items() if name not in names},
    )


def require_of(target: str | None, options: dict[str, Any]) -> None:
    """Refuse options of other targets than the one that was named, if one was.

    Raises:
        click.UsageError: there is one.
    """
    for owner, names in _OPTIONS.items():
        for name in names:
            if owner != target and options[name]:
                raise click.UsageError(f"{_flag(name)} belongs to --to {owner}")


def publisher_of(target: str, options: dict[str, Any]) -> Publisher:
    """The publisher that was named.

    Raises:
        click.UsageError: an option is missing, or belongs to another target.
        ConfigError: as `read_token`.
    """
    require_of(target, options)
    from aioum.client.publication import DataUriPublisher, DirectoryPublisher, Reach

    reach = Reach(timeout_seconds=options["timeout_seconds"], allow_plain_http=options["allow_plain_http"])
    if target == "data":
        return DataUriPublisher()
    if target == "directory":
        from pathlib import Path

        _require(options, "directory", "base_url")
        return DirectoryPublisher(Path(options["directory"]), options["base_url"], reach)
    return _ipfs_publisher(options, reach)


def _ipfs_publisher(options: dict[str, Any], reach: Reach) -> Publisher:
    from pathlib import Path

    from aioum.client.publication import KuboPublisher, PinningPublisher, UploadPublisher, read_token

    if options["pin_timeout"] and not options["pinning_service"]:
        raise click.UsageError("--pin-timeout belongs to --pinning-service")
    if options["upload_url"]:
        for name in ("ipfs_api", "pinning_service"):
            if options[name]:
                raise click.UsageError(f"{_flag(name)} and --upload-url are two ways: give one")
        _require(options, "token_file")
        token = read_token(Path(options["token_file"]))
        return UploadPublisher(options["upload_url"], token, reach, _fields(options["upload_fields"]))
    if options["upload_fields"]:
        raise click.UsageError("--upload-field belongs to --upload-url")
    if not options["ipfs_api"]:
        raise click.UsageError("--to ipfs needs --ipfs-api or --upload-url")
    kubo = KuboPublisher(options["ipfs_api"], reach)
    if not options["pinning_service"]:
        if options["token_file"]:
            raise click.UsageError("--token-file belongs to --pinning-service or --upload-url")
        return kubo
    _require(options, "token_file")
    return PinningPublisher(
        options["pinning_service"],
        read_token(Path(options["token_file"])),
        kubo,
        reach,
        pin_timeout_seconds=options["pin_timeout"] or 300.0,
    )


def _fields(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    fields = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.UsageError(f"--upload-field is NAME=VALUE, got {text!r:.100}")
        fields.append((name, value))
    return tuple(fields)


def _require(options: dict[str, Any], *names: str) -> None:
    for name in names:
        if not options[name]:
            raise click.UsageError(f"{_flag(name)} is missing")


def _flag(name: str) -> str:
    return "--" + name.removesuffix("s" if name == "upload_fields" else "").replace("_", "-")
