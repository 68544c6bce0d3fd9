"""Where the key comes from: a key store with its password, a key file, or a devnet's well-known account.

Never from an argument or a variable of the environment: both can be read by other processes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.core.errors import ConfigError
from aioum.options.common import Command, with_options

if TYPE_CHECKING:
    from aioum.core.signing import LocalKey

DEVNET_CHAIN_ID = 31_337
MAX_SECRET_FILE_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class KeySource:
    """Which key a person means. At most one of `key_store`, `key_file` and `devnet_account` is given.

    Attributes:
        key_store: a version 3 key store file.
        password_file: holds the password of `key_store`; None asks for it on the terminal.
        key_file: holds `0x` and 64 hex digits.
        devnet_account: position among the devnet's well-known accounts, from 0.
    """

    key_store: Path | None = None
    password_file: Path | None = None
    key_file: Path | None = None
    devnet_account: int | None = None

    def load(self, chain_id: int) -> LocalKey:
        """Load the key for use on the chain `chain_id`.

        Raises:
            ConfigError: `key-missing`, `devnet-account-refused`, `key-file-exposed`, `key-file-unusable`,
                `password-file-unusable`, `password-missing`, or what `load_keystore` raises.
            InvalidInput: `key-invalid`.
        """
        if self.devnet_account is not None:
            return _devnet_key(self.devnet_account, chain_id)
        if self.key_file is not None:
            return key_in_file(self.key_file)
        if self.key_store is not None:
            from aioum.chain.keystore import load_keystore

            return load_keystore(self.key_store, read_password(self.key_store, self.password_file))
        raise ConfigError(
            "no key was given",
            code="key-missing",
            hint="name one with --key-store or --key-file; on a local devnet --devnet-account 1 will do",
        )


def read_password(store: Path, password_file: Path | None, *, confirm: bool = False) -> str:
    """The password of a key store, from a file or from the person at the terminal.

    Args:
        store: what it is the password of.
        password_file: None asks.
        confirm: ask twice, for a new password.

    Raises:
        ConfigError: `password-file-unusable` or `password-missing`.
    """
    if password_file is not None:
        text = _read_secret(password_file, "password-file-unusable")
        return text.removesuffix("\n").removesuffix("\r")
    try:
        answer: str = click.prompt(
            f"Password of {store}", hide_input=True, confirmation_prompt=confirm, err=True
        )
    except click.Abort:
        raise ConfigError(
            f"the password of {store} is missing",
            code="password-missing",
            hint="type it when asked, or name a file that holds it with --password-file",
        ) from None
    return answer


def key_in_file(path: Path) -> LocalKey:
    """The key of a file with `0x` and 64 hex digits that only its owner can read.

    Raises:
        ConfigError: `key-file-exposed`, `key-file-unusable`.
        InvalidInput: `key-invalid`.
    """
    from aioum.core.signing import LocalKey

    if os.name == "posix" and path.exists() and path.stat().st_mode & 0o077:
        raise ConfigError(
            f"the key file {path} can be read by others", code="key-file-exposed", hint=f"chmod 600 {path}"
        )
    return LocalKey.from_hex(_read_secret(path, "key-file-unusable"))


def relayer_option(function: Command) -> Command:
    """Add the option that names who sends for a payer without gas; the command takes `relayer_key_file`."""
    return click.option(
        "--relayer-key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        envvar="AIOUM_RELAYER_KEY_FILE",
        show_envvar=True,
        help="Key of an account that pays the gas of opening and top-up; yours only authorizes (EIP-3009).",
    )(function)


def key_options(function: Command) -> Command:
    """Add the options that name a key; the command takes one `key_source`."""

    @functools.wraps(function)
    def command(
        *args: Any,
        key_store: Path | None,
        password_file: Path | None,
        key_file: Path | None,
        devnet_account: int | None,
        **kwargs: Any,
    ) -> Any:
        source = choose_key_source(
            {"--key-store": key_store, "--key-file": key_file, "--devnet-account": devnet_account},
            password_file,
        )
        return function(*args, key_source=source, **kwargs)

    path = click.Path(path_type=Path, dir_okay=False)
    return with_options(
        command,
        click.option(
            "--devnet-account",
            type=click.IntRange(0, 9),
            metavar="0…9",
            envvar="AIOUM_DEVNET_ACCOUNT",
            show_envvar=True,
            help="Use this well-known account of a local devnet.",
        ),
        click.option(
            "--key-file",
            type=path,
            metavar="FILE",
            envvar="AIOUM_KEY_FILE",
            show_envvar=True,
            help="File with a private key as 0x and 64 hex digits.",
        ),
        click.option(
            "--password-file",
            type=path,
            metavar="FILE",
            envvar="AIOUM_PASSWORD_FILE",
            show_envvar=True,
            help="File with the key store's password; without it you are asked.",
        ),
        click.option(
            "--key-store",
            type=path,
            metavar="FILE",
            envvar="AIOUM_KEY_STORE",
            show_envvar=True,
            help="Encrypted key store (version 3).",
        ),
    )


def choose_key_source(named: Mapping[str, Any], password_file: Path | None) -> KeySource:
    """Make one source of what the command line and the environment named.

    An option on the command line outranks variables of the environment.

    Args:
        named: `--key-store`, `--key-file` and `--devnet-account` with their values, None where not named.
        password_file: as in `KeySource`.

    Raises:
        click.UsageError: more than one was named in the same place.
    """
    given = {option: value for option, value in named.items() if value is not None}
    typed = {option: value for option, value in given.items() if _was_typed(option)}
    chosen = typed or given
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} name different keys; give one of them")
    return KeySource(
        key_store=chosen.get("--key-store"),
        password_file=password_file,
        key_file=chosen.get("--key-file"),
        devnet_account=chosen.get("--devnet-account"),
    )


def _was_typed(option: str) -> bool:
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return True
    source = ctx.get_parameter_source(option.removeprefix("--").replace("-", "_"))
    return source is click.core.ParameterSource.COMMANDLINE


def _devnet_key(position: int, chain_id: int) -> LocalKey:
    if chain_id != DEVNET_CHAIN_ID:
        raise ConfigError(
            f"the devnet's accounts are known to everyone, and chain {chain_id} is no devnet",
            code="devnet-account-refused",
            hint=f"use --key-store or --key-file; --devnet-account works on chain {DEVNET_CHAIN_ID} alone",
        )
    from aioum.devnet.accounts import well_known_keys

    return well_known_keys()[position]


def _read_secret(path: Path, code: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SECRET_FILE_BYTES + 1)
        if len(content) > MAX_SECRET_FILE_BYTES:
            raise ConfigError(f"{path} is longer than {MAX_SECRET_FILE_BYTES} bytes", code=code)
        return content.decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", code=code) from error
    except UnicodeDecodeError:
        raise ConfigError(f"{path} holds no text", code=code) from None
