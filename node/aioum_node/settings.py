"""The node's settings: flags over `AIOUM_*` environment over the TOML file over defaults.

Every limit carries its unit in its name. Relative paths are taken from the node's folder. No secret is a
setting: keys lie in key stores, their passwords in files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from aioum.core.card import TOOL_ID_PATTERN
from aioum.core.errors import ConfigError
from aioum_node.settings_chain import ChainSettings
from aioum_node.settings_disputes import DisputeSettings
from aioum_node.settings_limits import LimitSettings
from aioum_node.settings_log import TransparencyLogSettings
from aioum_node.settings_signer import RetiredKey, SignerSettings

CONFIG_FILE: Final = "node.toml"
ENVIRONMENT_PREFIX: Final = "AIOUM_"
DEFAULT_NODE_DIR: Final = Path("~/.aioum/node")

Port = Annotated[int, Field(ge=0, le=65_535)]
Folder = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]


class ToolSettings(BaseModel):
    """One `[[tools]]` table: exactly one of `python`, `command`, `http` and `wasm`.

    Attributes:
        python: `module:function`, or `module` for every function it declares with `@tool`.
        command: program and arguments; started without a shell.
        http: URL that arguments are posted to.
        trusted_host: the URL's host, where it may be this machine or one of the own network.
        wasm: file of a WebAssembly module (wasi-preview1).
        price: text in whole tokens (`"0.001"`), or an integer of base units.
        input_schema, input_schema_file: JSON Schema of the arguments; derived from type hints for Python.
        pass_environment: variables of the node that the command sees; `environment` sets further ones.
        environment_from_files: further variables, each with the file of its value, mode 0600.
        headers_from_files: header name → file of its value, mode 0600, for secrets of an http tool.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    python: str | None = None
    command: Annotated[tuple[str, ...] | None, Field(min_length=1)] = None
    http: Annotated[str | None, Field(pattern=r"^https?://")] = None
    trusted_host: str | None = None
    wasm: Path | None = None
    id: Annotated[str | None, Field(pattern=TOOL_ID_PATTERN)] = None
    description: str | None = None
    price: str | StrictInt | None = None
    timeout_seconds: Annotated[int | None, Field(ge=1, le=300)] = None
    deterministic: bool | None = None
    input_schema: dict[str, Any] | None = None
    input_schema_file: Path | None = None
    content_type: str = "application/json"
    directory: Path = Path(".")
    environment: dict[str, str] = Field(default_factory=dict)
    pass_environment: tuple[str, ...] = ("PATH",)
    headers: dict[str, str] = Field(default_factory=dict)
    headers_from_files: dict[str, Path] = Field(default_factory=dict)
    environment_from_files: dict[str, Path] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_kind(self) -> ToolSettings:
        if sum(kind is not None for kind in (self.python, self.command, self.http, self.wasm)) != 1:
            raise ValueError("a tool has exactly one of python, command, http and wasm")
        if self.python is None and (self.id is None or self.price is None):
            raise ValueError("a command, http or wasm tool needs an id and a price")
        if self.trusted_host is not None and self.http is None:
            raise ValueError("trusted_host belongs to an http tool")
        return self


class DeterministicSettings(BaseModel):
    """How strangers re-execute the service (`[deterministic]`), pinned by digest (PROTOCOL 6).

    Attributes:
        module: for kind `wasm`, SHA-256 of the module; by default that of the wasm tools' file.
        entry: a command line, or for kind `wasm` the exported function (default `_start`).
        uri: where strangers find the module.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["docker", "wasm", "command"]
    image: str | None = None
    module: str | None = None
    entry: str | None = None
    uri: str | None = None


class Settings(ChainSettings, DisputeSettings, TransparencyLogSettings, LimitSettings):
    """Everything that can be configured; `settings_table` documents it."""

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True)

    node_dir: Folder = Field(DEFAULT_NODE_DIR.expanduser(), description="folder of keys, card and store")
    service_name: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        "aioum service", description="name on the card"
    )
    realm: Annotated[str, Field(pattern=r"^[ !#-\[\]-~]{1,200}$")] = Field(
        "aioum", description="realm of payment challenges"
    )
    public_url: str = Field(
        "", description="URL that clients reach the node at, published on-chain; empty: the listening address"
    )
    listen_host: str = Field("127.0.0.1", description="address of the public port")
    listen_port: Port = Field(8402, description="public port; 0 takes a free one")
    admin_host: str = Field("127.0.0.1", description="address of the admin port (metrics); keep it private")
    admin_port: Port = Field(9402, description="admin port; 0 takes a free one")

    deployment_file: Path | None = Field(None, description="deployments file; none: the running devnet's")
    rpc_url: str = Field(
        "",
        description="HTTP endpoint of the chain, or several of it, separated by commas or spaces; "
        "empty: the deployment's",
    )
    rpc_url_file: Path | None = Field(
        None, description="file with what rpc_url would say, mode 0600, where an endpoint's URL holds a key"
    )
    rpc_timeout_seconds: Annotated[float, Field(gt=0, le=120)] = Field(
        10.0, description="limit of one request"
    )
    confirmations: Annotated[int, Field(ge=1, le=1_000)] = Field(
        1, description="blocks that make a deposit final, its own included; 12 or more on a public chain"
    )
    watermark_file: Path = Field(
        Path("watermark"),
        description="says how far the store was answered from, so that a restored one is noticed; leave it "
        "out of backups, best in a folder on another disk than the store",
    )
    store: Literal["sqlite", "postgresql"] = Field(
        "sqlite",
        description="where sessions lie: a SQLite file in the node's folder, or a PostgreSQL database that "
        "several nodes share",
    )
    database_url_file: Path = Field(
        Path("database.url"), description="file that holds the PostgreSQL database's URL, mode 0600"
    )
    database_schema: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] = Field(
        "aioum", description="schema of the store's tables in the PostgreSQL database"
    )
    process_silence_seconds: Annotated[float, Field(ge=1, le=600)] = Field(
        15.0,
        description="a process that shares the PostgreSQL database and is silent for so long counts as dead: "
        "its running calls are recorded as interrupted",
    )
    operator_key_file: Path = Field(Path("operator.key.json"), description="key store of the operator")
    operator_password_file: Path = Field(Path("operator.password"), description="its password, mode 0600")
    receipt_key_file: Path | None = Field(
        None, description="key store of the receipt signer; none: the operator's key signs receipts"
    )
    receipt_password_file: Path | None = Field(None, description="its password, mode 0600")
    signer: SignerSettings | None = Field(
        None, description="keys in clef or web3signer in place of key stores; see docs/external-signer.md"
    )
    retired_receipt_keys: tuple[RetiredKey, ...] = Field(
        (), description="former receipt signers, for sessions whose terms name them; see docs/runbook.md"
    )
    payee: str = Field("", description="address that is paid; empty: the operator")
    token: str = Field("", description="symbol or address of the token; empty: the deployment's only one")
    commit_required: bool = Field(
        True, description="register terms that forbid settling without an anchored root"
    )

    min_deposit: str | StrictInt = Field(
        "0", description="smallest deposit accepted: whole tokens as text, or base units"
    )
    suggested_calls: Annotated[int, Field(ge=1)] = Field(
        100, description="calls that a challenge's suggested deposit pays for"
    )
    accept_plain_channels: bool = Field(False, description="accept channels without terms")
    accept_uncommitted_sessions: bool = Field(False, description="accept sessions whose terms need no root")
    require_signed: bool = Field(
        False, description="accept only sessions whose calls are signed by the seats of a roster"
    )
    max_seats: Annotated[int, Field(ge=1, le=64)] = Field(64, description="most seats of a session's roster")
    accept_contract_signers: bool = Field(
        False,
        description="accept vouchers signed by contracts (ERC-1271); these can be revoked after service",
    )

    max_request_bytes: Annotated[int, Field(ge=1, le=16_777_216)] = Field(
        65_536, description="largest request body and canonical request"
    )
    body_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        20.0, description="how long a request's body may take to arrive"
    )
    max_response_bytes: Annotated[int, Field(ge=1, le=67_108_864)] = Field(
        1_048_576, description="largest response of a tool"
    )
    max_unpaid_calls: Annotated[int, Field(ge=1)] = Field(8, description="failed calls that seal a session")
    max_concurrent_calls: Annotated[int, Field(ge=1)] = Field(
        256, description="calls running in the whole node"
    )
    max_in_flight: Annotated[int, Field(ge=1, le=256)] = Field(
        16, description="calls of one signed session that may be open together; on the card"
    )
    turn_wait_ms: Annotated[int, Field(ge=0, le=60_000)] = Field(
        2_000,
        description="how long a signed call waits for an earlier one that has not arrived, milliseconds",
    )
    max_waiting_calls: Annotated[int, Field(ge=1)] = Field(
        256, description="signed calls of the whole node that wait for an earlier one"
    )
    max_concurrent_openings: Annotated[int, Field(ge=1)] = Field(
        16, description="openings and top-ups being looked up on the chain"
    )
    opening_wait_seconds: Annotated[float, Field(ge=0, le=120)] = Field(
        20.0, description="how long a request waits for its transaction to become final"
    )
    retry_after_seconds: Annotated[int, Field(ge=1)] = Field(2, description="advice in Retry-After")
    page_calls: Annotated[int, Field(ge=1, le=1_000)] = Field(
        100, description="calls in one page of a transcript"
    )
    page_bytes: Annotated[int, Field(ge=1)] = Field(
        4_194_304, description="size at which a page of a transcript ends early"
    )
    cached_sessions: Annotated[int, Field(ge=1)] = Field(
        10_000, description="sessions whose facts stay in memory"
    )
    function_threads: Annotated[int, Field(ge=1, le=1_000)] = Field(
        16, description="threads for Python tools; calls wait for a free one within their timeouts"
    )
    wasm_processes: Annotated[int, Field(ge=1, le=1_000)] = Field(
        4, description="WebAssembly tools running at once; others wait within their timeouts"
    )
    upstream_connect_seconds: Annotated[float, Field(gt=0)] = Field(
        5.0, description="connecting to an http tool"
    )
    upstream_connections: Annotated[int, Field(ge=1)] = Field(
        64, description="open connections per http tool"
    )

    transcript_retention_ms: Annotated[int, Field(ge=0)] = Field(
        604_800_000, description="how long a settled transcript is kept, milliseconds"
    )
    session_idle_seconds: Annotated[int, Field(ge=1)] = Field(
        86_400, description="sessions without a call for this long are settled"
    )
    watch_interval_seconds: Annotated[float, Field(gt=0)] = Field(
        2.0, description="pause between looks at the chain"
    )
    chain_silence_seconds: Annotated[float, Field(gt=0)] = Field(
        60.0, description="without a look at the chain for so long, paid calls are refused"
    )
    settle_interval_seconds: Annotated[float, Field(gt=0)] = Field(
        5.0, description="pause between looks for sessions to settle"
    )
    exit_alert_seconds: Annotated[int, Field(ge=0, le=2_592_000)] = Field(
        400,
        description="a client may withdraw in so many seconds, and its session is not settled: an alert, "
        "settlement-deadline-near",
    )
    retention_interval_seconds: Annotated[float, Field(gt=0)] = Field(
        3_600.0, description="pause between removals of old transcripts"
    )
    receipt_timeout_seconds: Annotated[float, Field(gt=0)] = Field(
        120.0, description="waiting for a transaction before its outcome counts as unknown"
    )
    shutdown_seconds: Annotated[float, Field(ge=0)] = Field(
        30.0, description="how long a stopping node waits for running calls"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least severe log entries"
    )
    log_format: Literal["console", "json"] = Field("console", description="form of log entries on stderr")

    python_path: tuple[Path, ...] = Field((), description="folders that Python tools are imported from")
    tools: tuple[ToolSettings, ...] = Field((), description="the tools; see ToolSettings")
    deterministic: DeterministicSettings | None = Field(
        None, description="how strangers re-execute the service"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Constructor arguments only: `load_settings` merges the sources, and tests see no environment."""
        return (init_settings,)

    def path(self, relative: Path) -> Path:
        """A path of the configuration; a relative one begins at the node's folder."""
        return self.node_dir / relative.expanduser()


def load_settings(config_file: Path | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings of a node.

    Args:
        config_file: the TOML file; None reads `node.toml` in the node's folder, where there is one.
        flags: setting → value from the command line; None values are not given.

    Raises:
        ConfigError: `config-missing` (a file that was named), `config-malformed` (no TOML), `config-invalid`.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        above_file = {**EnvSettingsSource(Settings)(), **given}
        folder = Settings(**above_file).node_dir
        file = _read_toml(config_file or folder / CONFIG_FILE, required=config_file is not None)
        if config_file is not None:
            file.setdefault("node_dir", config_file.resolve().parent)
        return Settings(**{**file, **above_file})
    except ValidationError as error:
        raise _invalid(error) from error
    except SettingsError as error:
        raise ConfigError(
            str(error), hint="lists and tables in the environment are written as JSON"
        ) from error


def _read_toml(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if required:
            raise ConfigError(
                f"no such file: {path}", code="config-missing", hint="aioum-node init"
            ) from error
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}", code="config-malformed") from error


def _invalid(error: ValidationError) -> ConfigError:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return ConfigError(
        f"setting {where or '(root)'}: {first['msg']}", hint="aioum-node settings lists every setting"
    )


def settings_table() -> str:
    """Every setting as a Markdown table: TOML name, environment variable, default, meaning."""
    lines = ["| setting | environment | default | meaning |", "|---|---|---|---|"]
    # What a node is comes first, then what bounds it.
    for name, field in sorted(Settings.model_fields.items(), key=lambda item: _groups(item[0])):
        default = "~/.aioum/node" if name == "node_dir" else _shown(field.default)
        lines.append(f"| `{name}` | `{ENVIRONMENT_PREFIX}{name.upper()}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"


def _groups(name: str) -> tuple[bool, ...]:
    groups = (LimitSettings, ChainSettings, TransparencyLogSettings, DisputeSettings)
    return tuple(name in group.model_fields for group in groups)


def _shown(value: Any) -> str:
    if value is None or value == () or value == "":
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
