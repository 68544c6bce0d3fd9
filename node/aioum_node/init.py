"""A new node's folder: keys, a working configuration, tools to begin with."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioum.core.errors import ConfigError, InvalidInput
from aioum.core.signing import LocalKey
from aioum.core.types import Address
from aioum_node.keys.identity import create_operator, write_private
from aioum_node.settings import CONFIG_FILE, Settings

TOOLS_FOLDER: Final = "tools"
STARTER_MODULE: Final = "starter_tools"
ADMIN_TOKEN_FILE: Final = Path("admin.token")
MAX_KEY_CHARACTERS: Final = 1_000

_CONFIG: Final = """\
# Settings of this node; flags and AIOUM_* variables win over them. `aioum-node settings` shows all.
service_name = {service_name}
{files}
# Folders that Python tools are imported from, and the tools: Python functions, commands, HTTP services.
python_path = ["{folder}"]

[[tools]]
python = "{module}"

# [[tools]]
# id = "sort-lines"
# command = ["sort"]
# price = "0.0005"
# description = "Sorts the lines of the canonical request."

# [[tools]]
# id = "translate"
# http = "http://127.0.0.1:9000/translate"
# trusted_host = "127.0.0.1"
# price = "0.002"
# timeout_seconds = 20
# input_schema = {{type = "object", properties = {{text = {{type = "string"}}}}, required = ["text"]}}
"""

_TOOLS: Final = '''\
"""Tools of this node. Each function with @tool is for sale; its type hints describe its arguments."""

from typing import Annotated

from pydantic import Field

from aioum_node.tools import tool


@tool(price="0.001", timeout_seconds=5, deterministic=True)
def wordcount(text: Annotated[str, Field(max_length=50_000)]) -> dict[str, int]:
    """Counts the words, lines and characters of a text."""
    return {"characters": len(text), "lines": len(text.splitlines()), "words": len(text.split())}


@tool(price="0.001", timeout_seconds=5, deterministic=True)
def longest_words(
    text: Annotated[str, Field(max_length=50_000)], count: Annotated[int, Field(ge=1, le=100)] = 5
) -> list[str]:
    """The longest words of a text, longest first, each once."""
    return sorted(set(text.split()), key=lambda word: (-len(word), word))[:count]
'''


@dataclass(frozen=True, slots=True)
class NewNode:
    """What `init_node` made."""

    node_dir: Path
    config_file: Path
    operator: Address


def init_node(
    settings: Settings,
    *,
    key: LocalKey | None = None,
    deployment_file: Path | None = None,
    template: Path | None = None,
) -> NewNode:
    """Make a node's folder. Nothing that exists is replaced.

    Args:
        settings: name the folder, the service, the key files and the file of the admin port's token.
        key: the operator's; None makes a fresh one.
        deployment_file: written into the configuration; None leaves the running devnet's.
        template: a folder with a `node.toml` and what it needs, copied instead of the usual beginning.
            Where it names a file of the admin port's token, none is made.

    Raises:
        ConfigError: `node-exists`, `template-invalid`, and those of `create_operator`.
    """
    config_file = settings.node_dir / CONFIG_FILE
    if config_file.exists():
        raise ConfigError(
            f"{config_file} exists already", code="node-exists", hint="choose another folder with --dir"
        )
    named = {} if template is None else _settings_of(template)
    settings.node_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    operator = create_operator(settings, key)
    files = ""
    if deployment_file is not None:
        files += f"deployment_file = {_quoted(str(deployment_file.resolve()))}\n"
    if "admin_token_file" not in named:
        files += f"admin_token_file = {_quoted(str(_create_admin_token(settings)))}\n"
    config = _starter(settings, files) if template is None else _copied(settings, template, files)
    # Last: a folder with this file is complete.
    config_file.write_text(config, encoding="utf-8")
    return NewNode(settings.node_dir, config_file, operator.address)


def _settings_of(template: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((template / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{template} has no {CONFIG_FILE} that can be read", code="template-invalid"
        ) from error


def _create_admin_token(settings: Settings) -> Path:
    """Make the token that the admin port asks for, where there is none; the file as settings name it."""
    file = settings.admin_token_file or ADMIN_TOKEN_FILE
    path = settings.path(file)
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode() + b"\n")
    return file


def _starter(settings: Settings, files: str) -> str:
    tools = settings.node_dir / TOOLS_FOLDER
    tools.mkdir(exist_ok=True)
    starter = tools / f"{STARTER_MODULE}.py"
    if not starter.exists():
        starter.write_text(_TOOLS, encoding="utf-8")
    return _CONFIG.format(
        service_name=_quoted(settings.service_name),
        files=files,
        folder=TOOLS_FOLDER,
        module=STARTER_MODULE,
    )


def _copied(settings: Settings, template: Path, files: str) -> str:
    for source in sorted(template.rglob("*")):
        relative = source.relative_to(template)
        hidden = any(part.startswith((".", "__")) for part in relative.parts)
        target = settings.node_dir / relative
        if source.is_file() and not hidden and relative != Path(CONFIG_FILE) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return files + (template / CONFIG_FILE).read_text(encoding="utf-8")


def read_key(source: str) -> LocalKey:
    """Read a private key as hex text from a file, or from stdin for `-`; it is never an argument.

    Raises:
        ConfigError: `key-unreadable`.
        InvalidInput: `key-invalid`.
    """
    try:
        if source == "-":
            text = sys.stdin.read(MAX_KEY_CHARACTERS)
        else:
            with Path(source).open(encoding="ascii") as file:
                text = file.read(MAX_KEY_CHARACTERS)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read a key from {source}", code="key-unreadable") from error
    return LocalKey.from_hex(text)


def devnet_key(number: int) -> LocalKey:
    """The well-known key of a devnet account. Raises InvalidInput `account-unknown`."""
    from aioum.devnet.accounts import well_known_keys

    keys = well_known_keys()
    if not 0 <= number < len(keys):
        raise InvalidInput(
            f"the devnet has the accounts 0 to {len(keys) - 1}, not {number}", code="account-unknown"
        )
    return keys[number]


def _quoted(text: str) -> str:
    """A TOML basic string: JSON's escapes are a subset of TOML's."""
    return json.dumps(text)
