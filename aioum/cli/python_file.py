"""Importing a Python file that a person names: an adapter's, a scoring plugin's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from aioum.core.errors import ConfigError


def import_file(file: Path, name: str) -> ModuleType:
    """Import a file. Its code runs in this process, with all that this process may do.

    Args:
        file: the file.
        name: of the module that it becomes.

    Raises:
        ConfigError: `adapter-unusable`.
    """
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ConfigError(f"{file} is no Python file", code="adapter-unusable")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses, among others, look their own module up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{file}: {type(error).__name__}: {error}", code="adapter-unusable") from error
    return module
