"""`verify-evidence --export`: a node's own record of a session, by the exporter that the node registers."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol

from aioum.cli.output import fact
from aioum.core.errors import ConfigError, InvalidInput
from aioum.core.evidence import package_bytes

ENTRY_POINT_GROUP: Final = "aioum.exporters"


class Exporter(Protocol):
    """What an entry point of the group refers to."""

    def __call__(self, *, session: str, node_dir: Path, claim: str, narrative: str) -> dict[str, Any]:
        """The package of a session, by session id or channel id.

        Raises:
            AioumError: there is no such session or store.
        """
        ...


def find_exporter(store: str) -> Exporter:
    """The exporter of a kind of store.

    Raises:
        ConfigError: `exporter-unknown`, none of that name is installed, or it does not load.
    """
    installed = entry_points(group=ENTRY_POINT_GROUP)
    for entry_point in installed:
        if entry_point.name == store:
            try:
                exporter: Exporter = entry_point.load()
            except (ImportError, AttributeError) as error:
                raise ConfigError(
                    f"the exporter of {store!r} does not load: {error}", code="exporter-unknown"
                ) from error
            return exporter
    names = ", ".join(sorted(installed.names)) or "none"
    raise ConfigError(
        f"no exporter for the store {store!r:.80} is installed",
        code="exporter-unknown",
        hint=f"installed: {names}",
    )


def export_to(
    output: Path | None,
    *,
    store: str,
    session: str,
    node_dir: Path,
    claim: str,
    narrative: str,
    as_replay: bool = False,
) -> None:
    """Write the package, or the session as a `gaos.replay` artifact, to a file or to standard output.

    Raises:
        ConfigError: `exporter-unknown`.
        InvalidInput: `file-unusable`, the file cannot be written.
        AioumError: whatever the exporter raises.
    """
    package = find_exporter(store)(session=session, node_dir=node_dir, claim=claim, narrative=narrative)
    if as_replay:
        from aioum.cli.export_replay import replay_from_package

        data = replay_from_package(package)
    else:
        data = package_bytes(package)
    if output is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        _replace(output, data)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {output}: {error.strerror or error}", code="file-unusable"
        ) from error
    fact(f"{len(data)} bytes with {len(package['calls'])} calls written to {output}")


def _replace(path: Path, data: bytes) -> None:
    """Write so that a crash leaves the old file or the new one, never half of it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
            raise
