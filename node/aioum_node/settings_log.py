"""Settings of the transparency log that a node keeps; units are in their names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings


class TransparencyLogSettings(BaseSettings):
    """Where the log lies, what is promised of it, and how often it is anchored; `Settings` has them all."""

    transparency_log: bool | None = Field(
        None,
        description="keep a transparency log and promise on the card that every session will be in it; none: "
        "yes with a SQLite store, no with a shared one",
    )
    transparency_log_folder: Path = Field(
        Path("log"), description="folder of the log; its part public can be served by any web server"
    )
    transparency_log_origin: Annotated[str, Field(max_length=255)] = Field(
        "",
        description="the log's name, for ever; an address without its scheme, such as example.com/log; "
        "empty: aioum-log/ and the operator's address",
    )
    transparency_log_key_file: Path = Field(
        Path("log.key"),
        description="key that signs the log's checkpoints, mode 0600; made at the first start of a node with "
        "a store of its own",
    )
    transparency_log_former_keys: tuple[str, ...] = Field(
        (), description="public keys, in base64, that signed the log's checkpoints before this one"
    )
    transparency_log_register_file: Path = Field(
        Path("log.checkpoint"),
        description="says how far the log was published, so that a restored one is noticed; leave it out of "
        "backups, best on another disk than the log; with a shared store it is in the database",
    )
    transparency_log_interval_seconds: Annotated[float, Field(gt=0, le=3_600)] = Field(
        5.0, description="pause between looks for final sessions"
    )
    max_log_delay_seconds: Annotated[int, Field(ge=60, le=31_536_000)] = Field(
        3_600,
        description="promised on the card: so long after a session is final on-chain it is in the log at the "
        "latest",
    )
    anchor_interval_seconds: Annotated[int, Field(ge=0, le=31_536_000)] = Field(
        86_400,
        description="a log that has grown is anchored on-chain so long after its last anchor; 0: never",
    )
