"""Where databases of a benchmark lie: on a real disk, for the temporary folder of many machines is memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_PARENT: Final = Path(__file__).resolve().parent.parent / ".aioum"


@contextmanager
def durable_folder() -> Iterator[Path]:
    """An empty folder within the checkout (ignored by git), removed at the end."""
    _PARENT.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="bench-", dir=_PARENT) as folder:
        yield Path(folder)
