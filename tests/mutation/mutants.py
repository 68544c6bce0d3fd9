"""Mutants: sources with one change each, and names for them that outlive edits elsewhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutation.operators import Edit, edits_of
from tests.mutation.syntax import Node, Source, Span, children

# Play money for development chains, and declarations without code.
_LEFT_OUT: Final = ("DevToken.sol", "interfaces/")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed source.

    Attributes:
        identifier: `FILE.FUNCTION/OPERATOR/NUMBER`; the number counts the operator's changes in the function,
            from 1.
        file: path of the source, relative to the folder of the sources.
        line: where the change starts, from 1.
        operator: the kind of change.
        before: the source's lines that the change touches, without what is common to all their beginnings.
        after: these lines, changed.
        span: bytes of the source that are replaced.
        replacement: what replaces them.
    """

    identifier: str
    file: str
    line: int
    operator: str
    before: str
    after: str
    span: Span
    replacement: str

    @property
    def change(self) -> str:
        """The change on one line; an explanation names it, so that it never slips to another mutant."""
        return f"{_on_one_line(self.before)} => {_on_one_line(self.after)}"

    def apply(self, content: bytes) -> bytes:
        """The mutated source, of the original."""
        return _spliced(content, self.span, self.replacement)


def is_mutated(name: str) -> bool:
    """Whether the source of this name, relative to the folder of the sources, is one that has mutants."""
    return not name.startswith(_LEFT_OUT)


def hash_of(contracts: Path) -> str:
    """SHA-256, in hex, over names and contents of all sources that have mutants, in the names' order."""
    folder = contracts / "src"
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.sol"), key=lambda path: path.relative_to(folder).as_posix()):
        name = path.relative_to(folder).as_posix()
        if is_mutated(name):
            content = path.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def mutants_of(sources: Iterable[Source]) -> list[Mutant]:
    """All mutants of these sources, in the order of the text; one for each changed text."""
    return [mutant for source in sources if is_mutated(source.name) for mutant in _of_one(source)]


def _of_one(source: Source) -> Iterator[Mutant]:
    numbers: Counter[tuple[str, str]] = Counter()
    seen = {source.content}
    for scope, edit in _edits(source):
        content = _spliced(source.content, edit.span, edit.replacement)
        if content not in seen:
            seen.add(content)
            numbers[scope, edit.operator] += 1
            yield _mutant(source, f"{scope}/{edit.operator}/{numbers[scope, edit.operator]}", edit)


def _spliced(content: bytes, span: Span, replacement: str) -> bytes:
    return content[: span.start] + replacement.encode() + content[span.end :]


def _edits(source: Source) -> Iterator[tuple[str, Edit]]:
    stem = source.name.removesuffix(".sol")
    for part in children(source.tree):
        if part["nodeType"] != "ContractDefinition":
            yield from _edits_within(source, part, f"{stem}.{part.get('name', '')}")
            continue
        contract = stem if part["name"] == Path(stem).name else f"{stem}:{part['name']}"
        names = Counter(member.get("name", "") for member in part["nodes"])
        for member in part["nodes"]:
            name = member.get("name") or member.get("kind", "")
            if names[name] > 1 and "parameters" in member:
                kinds = (
                    kind["typeDescriptions"]["typeString"] for kind in member["parameters"]["parameters"]
                )
                name += f"({','.join(kinds)})"
            yield from _edits_within(source, member, f"{contract}.{name}")


def _edits_within(source: Source, node: Node, scope: str) -> Iterator[tuple[str, Edit]]:
    for edit in edits_of(source, node):
        yield scope, edit
    for child in children(node):
        yield from _edits_within(source, child, scope)


def _mutant(source: Source, identifier: str, edit: Edit) -> Mutant:
    content, span = source.content, edit.span
    start = content.rfind(b"\n", 0, span.start) + 1
    end = content.find(b"\n", span.end)
    end = len(content) if end == -1 else end
    before = content[start:end].decode()
    after = _spliced(
        content[start:end], Span(span.start - start, span.end - start), edit.replacement
    ).decode()
    indent = len(before) - len(before.lstrip(" "))
    return Mutant(
        identifier=identifier,
        file=source.name,
        line=source.line(span.start),
        operator=edit.operator,
        before=_dedented(before, indent),
        after=_dedented(after, indent),
        span=span,
        replacement=edit.replacement,
    )


def _dedented(lines: str, columns: int) -> str:
    return "\n".join(
        line[min(columns, len(line) - len(line.lstrip(" "))) :].rstrip() for line in lines.split("\n")
    )


def _on_one_line(lines: str) -> str:
    return " ".join(lines.split())
