"""Tables `[signer]` and `[[retired_receipt_keys]]`: keys outside of the process, keys of former terms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aioum.chain.external_signer_wire import SignerKind


class SignerSettings(BaseModel):
    """The `[signer]` table; every key that is named here is not read from a key store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="`https://…`, `http://…` on this machine, or `unix:PATH` of clef's socket")
    kind: SignerKind = Field(SignerKind.WEB3SIGNER, description="the dialect: `web3signer` or `clef`")
    operator: str = Field("", description="address of the operator's key; empty: its key store")
    receipts: str = Field(
        "", description="address of the receipt signer's key; empty: its key store, or the operator's key"
    )
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = Field(
        10.0, description="limit of one request; more where a person confirms"
    )
    check_seconds: Annotated[float, Field(gt=0)] = Field(
        15.0, description="pause between trial signatures, which keep readiness honest"
    )
    ca_file: Path | None = Field(None, description="PEM of the authority of the signer's certificate")
    certificate_file: Path | None = Field(None, description="PEM of the node's own certificate")
    certificate_key_file: Path | None = Field(None, description="PEM of its key")
    token_file: Path | None = Field(None, description="file with a bearer token, mode 0600")


class RetiredKey(BaseModel):
    """One `[[retired_receipt_keys]]` table: a key that terms of open sessions still name.

    Attributes:
        key_file, password_file: its key store.
        address: its address in the external signer, in place of a key store.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key_file: Path | None = None
    password_file: Path | None = None
    address: str = ""

    @model_validator(mode="after")
    def _one_place(self) -> RetiredKey:
        in_store = self.key_file is not None and self.password_file is not None
        partly = self.key_file is not None or self.password_file is not None
        if in_store == bool(self.address) or partly != in_store:
            raise ValueError("a retired key has either key_file and password_file, or address")
        return self


def signer_table() -> str:
    """The `[signer]` table's members as Markdown: name, default, meaning."""
    lines = ["| member | default | meaning |", "|---|---|---|"]
    for name, field in SignerSettings.model_fields.items():
        if field.is_required():
            default = "required"
        else:
            default = "none" if field.default in (None, "") else f"`{field.default}`"
        lines.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(lines) + "\n"
