"""Solidity sources and their syntax trees, from the pinned compiler through py-solc-x."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import solcx

Node = dict[str, Any]

REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` to `end` of a source, end excluded."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Source:
    """One source file.

    Attributes:
        name: path relative to the folder of the sources, with `/`.
        content: its bytes; spans count in them, not in characters.
        tree: the compiler's syntax tree of the file.
    """

    name: str
    content: bytes
    tree: Node

    def text(self, node: Node) -> str:
        """What stands where `node` was parsed."""
        span = span_of(node)
        return self.content[span.start : span.end].decode()

    def line(self, offset: int) -> int:
        """Number of the line, from 1, that the byte at `offset` stands in."""
        return self.content.count(b"\n", 0, offset) + 1


def parse(contracts: Path) -> list[Source]:
    """Parse and type-check all sources of a project of contracts.

    Args:
        contracts: its folder, with `src`; dependencies lie in the `node_modules` beside it, if there are any.

    Raises:
        solcx.exceptions.SolcError: they do not compile.
    """
    folder = contracts / "src"
    contents = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.sol"))
    }
    output = solcx.compile_standard(
        {
            "language": "Solidity",
            "sources": {f"src/{name}": {"content": content.decode()} for name, content in contents.items()},
            "settings": {
                "outputSelection": {"*": {"": ["ast"]}},
                "remappings": ["@openzeppelin/contracts/=node_modules/@openzeppelin/contracts/"],
            },
        },
        solc_binary=REPOSITORY / "scripts" / "solc",
        base_path=contracts.parent,
        allow_paths=contracts.parent,
    )
    return [
        Source(name, content, output["sources"][f"src/{name}"]["ast"]) for name, content in contents.items()
    ]


def span_of(node: Mapping[str, Any]) -> Span:
    """Where a node stands in its file."""
    start, length, _ = map(int, node["src"].split(":"))
    return Span(start, start + length)


def children(node: Node) -> Iterator[Node]:
    """Direct children in the order of the source."""
    found = [
        child
        for value in node.values()
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, dict) and "nodeType" in child
    ]
    # A block of assembly hides its own tree behind its dialect's flags.
    if node["nodeType"] == "InlineAssembly":
        found = [node["AST"]]
    return iter(sorted(found, key=lambda child: span_of(child).start))


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, each before its children."""
    yield node
    for child in children(node):
        yield from walk(child)
