"""A library that sells answers about its documents: Python functions as paid tools.

The documents are the text files below the folder that AIOUM_LIBRARY_DIR names, by default `documents` beside
this file. They can change at any time, so only `wordcount`, which needs none, gives equal answers for ever.
"""

import os
import re
from pathlib import Path
from typing import Annotated, TypedDict

from pydantic import Field

from aioum_node.tools import ToolError, tool

SUFFIXES = frozenset({".md", ".txt", ".py", ".sol", ".toml"})
MAX_DOCUMENTS = 2_000
MAX_DOCUMENT_BYTES = 262_144
MAX_MATCHES = 20

Text = Annotated[str, Field(max_length=50_000)]
Name = Annotated[str, Field(max_length=300, description="a name that the tool documents lists")]


class Heading(TypedDict):
    """One heading of an outline; `level` from 1."""

    level: int
    line: int
    title: str


class Match(TypedDict):
    """One line that holds what was searched; lines count from 1."""

    document: str
    line: int
    text: str


@tool(price="0.0005", timeout_seconds=5, deterministic=True)
def wordcount(text: Text) -> dict[str, int]:
    """Counts the words, lines and characters of a text."""
    return {"characters": len(text), "lines": len(text.splitlines()), "words": len(text.split())}


@tool(price="0.0005", timeout_seconds=10)
def documents(prefix: Annotated[str, Field(max_length=300)] = "") -> list[str]:
    """Lists the documents whose names begin with a text."""
    return [name for name in sorted(_documents()) if name.startswith(prefix)]


@tool(price="0.001", timeout_seconds=10)
def outline(document: Name) -> list[Heading]:
    """The headings of a Markdown document, with level and line."""
    headings: list[Heading] = []
    fenced = False
    for number, line in enumerate(_read(document).splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and (found := re.match(r"(#{1,6})\s+(.+?)\s*#*$", line)):
            headings.append({"level": len(found[1]), "line": number, "title": found[2]})
    return headings


@tool(price="0.001", timeout_seconds=10)
def sentence(document: Name, number: Annotated[int, Field(ge=1, le=100_000)]) -> str:
    """One sentence of a document, counted from 1."""
    words = " ".join(_read(document).split())
    sentences = [part for part in re.split(r"(?<=[.!?])\s+", words) if part]
    if number > len(sentences):
        raise ToolError(f"the document has {len(sentences)} sentences")
    return sentences[number - 1]


@tool(price="0.002", timeout_seconds=20)
def search(query: Annotated[str, Field(min_length=2, max_length=200)]) -> list[Match]:
    """Lines of all documents that hold a text in any letter case; at most 20."""
    wanted = query.casefold()
    matches: list[Match] = []
    for name in sorted(_documents()):
        for number, line in enumerate(_read(name).splitlines(), start=1):
            if wanted in line.casefold():
                matches.append({"document": name, "line": number, "text": line.strip()[:200]})
                if len(matches) == MAX_MATCHES:
                    return matches
    return matches


def _folder() -> Path:
    named = os.environ.get("AIOUM_LIBRARY_DIR")
    return Path(named) if named else Path(__file__).resolve().parent / "documents"


def _documents() -> dict[str, Path]:
    """Names to files. Hidden folders, and those that package tools fill, are not part of the library."""
    folder = _folder()
    found: dict[str, Path] = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] not in "._" and name != "node_modules")
        for name in sorted(files):
            path = Path(parent) / name
            if (
                path.suffix in SUFFIXES
                and not path.is_symlink()
                and path.stat().st_size <= MAX_DOCUMENT_BYTES
            ):
                found[path.relative_to(folder).as_posix()] = path
                if len(found) == MAX_DOCUMENTS:
                    return found
    return found


def _read(document: str) -> str:
    path = _documents().get(document)
    if path is None:
        raise ToolError("there is no such document")
    return path.read_text(encoding="utf-8", errors="replace")
