"""The tools of the service. `AIOUM_DOCUMENTS` names the folder they read; nothing outside it is served."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import Field

from aioum_node.tools import ToolError, tool

_SUFFIXES = {".md", ".py", ".sol", ".toml", ".txt"}
_MAX_DOCUMENT_BYTES = 1_048_576
_HEADING = re.compile(r"^(#{1,6} .+|class \w+.*|(?:async )?def \w+.*|contract \w+.*|    function \w+.*)")

Words = Annotated[str, Field(min_length=1, max_length=200)]
DocumentPath = Annotated[str, Field(min_length=1, max_length=300, description="path as `search` returns it")]


@tool(price="0.001", timeout_seconds=5, deterministic=True)
def wordcount(text: Annotated[str, Field(max_length=60_000)]) -> dict[str, int]:
    """Counts the lines, words and characters of a text."""
    return {"characters": len(text), "lines": len(text.splitlines()), "words": len(text.split())}


@tool(price="0.004", timeout_seconds=20)
def search(words: Words, limit: Annotated[int, Field(ge=1, le=50)] = 5) -> list[dict[str, str | int]]:
    """Finds lines that hold all the words, in the order of their paths."""
    wanted = words.lower().split()
    found: list[dict[str, str | int]] = []
    for path in _documents():
        for number, line in enumerate(_read(path).splitlines(), start=1):
            if all(word in line.lower() for word in wanted):
                found.append({"line": number, "path": _name(path), "text": line.strip()[:200]})
                if len(found) == limit:
                    return found
    return found


@tool(price="0.002", timeout_seconds=5)
def outline(path: DocumentPath) -> list[str]:
    """Lists a document's headings, or a source's classes and functions."""
    return [line.rstrip() for line in _read(_inside(path)).splitlines() if _HEADING.match(line)][:200]


@tool(price="0.002", timeout_seconds=5)
def excerpt(
    path: DocumentPath, first: Annotated[int, Field(ge=1)], count: Annotated[int, Field(ge=1, le=100)] = 10
) -> str:
    """Returns lines of a document as they are."""
    lines = _read(_inside(path)).splitlines()
    if first > len(lines):
        raise ToolError(f"{path} has {len(lines)} lines")
    return "\n".join(lines[first - 1 : first - 1 + count])


def _root() -> Path:
    return Path(os.environ.get("AIOUM_DOCUMENTS", ".")).resolve()


def _documents() -> list[Path]:
    root = _root()
    return sorted(
        path
        for path in root.rglob("*")
        if path.suffix in _SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(root).parts)
    )


def _inside(name: str) -> Path:
    path = (_root() / name).resolve()
    if not path.is_relative_to(_root()) or path.suffix not in _SUFFIXES or not path.is_file():
        raise ToolError(f"there is no document {name}")
    return path


def _read(path: Path) -> str:
    if path.stat().st_size > _MAX_DOCUMENT_BYTES:
        raise ToolError(f"{_name(path)} is larger than {_MAX_DOCUMENT_BYTES} bytes")
    return path.read_text(encoding="utf-8", errors="replace")


def _name(path: Path) -> str:
    return path.relative_to(_root()).as_posix()
