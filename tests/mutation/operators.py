"""The changes that are made, one at a time: each takes away something that a test should miss."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tests.mutation.syntax import Node, Source, Span, span_of


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes of a source that are replaced.

    Attributes:
        operator: kebab-case name of the kind of change.
        span: what is replaced.
        replacement: by what.
    """

    operator: str
    span: Span
    replacement: str


# The boundary, and the opposite.
_ORDERINGS: Final = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<")}
_EQUALITIES: Final = {"==": "!=", "!=": "=="}
# An equality of numbers also weakened to one side: too little, or too much, goes unnoticed.
_WEAKER: Final = {"==": ("<=", ">="), "!=": ("<", ">")}
_ARITHMETIC: Final = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+="}
_LOGIC: Final = {"&&": "||", "||": "&&"}
_YUL_SWAPS: Final = {"and": "or", "or": "and", "gt": "lt", "lt": "gt", "add": "sub", "sub": "add"}
_INTEGER: Final = re.compile(r"u?int\d+\b")
_NOTHING: Final = "{}"


def edits_of(source: Source, node: Node) -> Iterator[Edit]:
    """Every change of one node itself, without those of what is in it."""
    for operator in _BY_NODE.get(node["nodeType"], ()):
        yield from operator(source, node)


def _if(source: Source, node: Node) -> Iterator[Edit]:
    other = node.get("falseBody")
    gone = node if other is None else other
    if other is None or other["nodeType"] != "IfStatement":
        body = node["trueBody"] if other is None else other
        yield Edit(
            "delete-revert" if _reverts(body) else "delete-branch", _statement_span(source, gone), _NOTHING
        )
    yield from _condition(source, node)


def _statement_span(source: Source, node: Node) -> Span:
    """With the semicolon, which the compiler leaves out of most statements."""
    span = span_of(node)
    return Span(span.start, span.end + (source.content[span.end : span.end + 1] == b";"))


def _condition(source: Source, node: Node) -> Iterator[Edit]:
    condition = node.get("condition")
    if condition is not None and not _compares(condition):
        yield _negation("negate-condition", source, condition)


def _negation(name: str, source: Source, node: Node) -> Edit:
    if node["nodeType"] == "UnaryOperation" and node["operator"] == "!":
        return Edit(name, span_of(node), source.text(node["subExpression"]))
    return Edit(name, span_of(node), f"!({source.text(node)})")


def _compares(node: Node) -> bool:
    """Whether `node` is a comparison, whose opposite is among the changes of that comparison."""
    return node["nodeType"] == "BinaryOperation" and node["operator"] in (_ORDERINGS | _EQUALITIES)


def _reverts(body: Node) -> bool:
    statements = body["statements"] if body["nodeType"] == "Block" else [body]
    return bool(statements) and statements[-1]["nodeType"] == "RevertStatement"


def _binary(source: Source, node: Node) -> Iterator[Edit]:
    operator = node["operator"]
    left, right = node["leftExpression"], node["rightExpression"]
    between = Span(span_of(left).end, span_of(right).start)
    text = source.content[between.start : between.end].decode()
    if text.count(operator) != 1:
        # A parenthesis or a comment that holds the sign too: nothing here is worth guessing.
        return

    def swapped(name: str, other: str) -> Edit:
        return Edit(name, between, text.replace(operator, other))

    if operator in _ORDERINGS:
        for other in _ORDERINGS[operator]:
            yield swapped("compare", other)
    elif operator in _EQUALITIES:
        yield swapped("compare", _EQUALITIES[operator])
        if _is_number(left) and _is_number(right) and not (_is_zero(left) or _is_zero(right)):
            for other in _WEAKER[operator]:
                yield swapped("compare", other)
    elif operator in _LOGIC:
        yield swapped("swap-logic", _LOGIC[operator])
        yield Edit("drop-operand", span_of(node), f"({source.text(left)})")
        yield Edit("drop-operand", span_of(node), f"({source.text(right)})")
    elif operator in _ARITHMETIC:
        yield swapped("swap-arithmetic", _ARITHMETIC[operator])


def _is_number(node: Node) -> bool:
    kind = node["typeDescriptions"]["typeString"]
    return kind.startswith("int_const") or _INTEGER.fullmatch(kind) is not None


def _is_zero(node: Node) -> bool:
    return node["nodeType"] == "Literal" and node.get("value") == "0"


def _statement(source: Source, node: Node) -> Iterator[Edit]:
    span = _statement_span(source, node)
    if source.content[span.end - 1 : span.end] != b";":
        # The step of a `for`: without it the loop ends with the gas, which proves nothing.
        return
    expression = node["expression"]
    match expression["nodeType"]:
        case "Assignment" | "UnaryOperation":
            yield Edit("delete-assignment", span, _NOTHING)
        case "FunctionCall":
            name = "delete-revert" if expression["expression"].get("name") == "require" else "delete-call"
            yield Edit(name, span, _NOTHING)


def _assignment(source: Source, node: Node) -> Iterator[Edit]:
    operator = node["operator"]
    if operator in _ARITHMETIC:
        between = Span(span_of(node["leftHandSide"]).end, span_of(node["rightHandSide"]).start)
        text = source.content[between.start : between.end].decode()
        yield Edit("swap-arithmetic", between, text.replace(operator, _ARITHMETIC[operator]))


def _return(source: Source, node: Node) -> Iterator[Edit]:
    expression = node.get("expression")
    if expression is None:
        return
    kind = expression["typeDescriptions"]["typeString"]
    if kind == "bool":
        if not _compares(expression):
            yield _negation("return-value", source, expression)
    elif (zero := _zero(kind)) and source.text(expression) not in (zero, "0"):
        yield Edit("return-value", span_of(expression), zero)


def _zero(kind: str) -> str | None:
    if _INTEGER.fullmatch(kind):
        return f"{kind}(0)"
    if kind == "address":
        return "address(0)"
    if re.fullmatch(r"bytes\d+", kind):
        return f"{kind}(0)"
    return None


def _conditional(source: Source, node: Node) -> Iterator[Edit]:
    yield from _condition(source, node)
    # What a comparison's own changes leave out: always the one, always the other.
    for branch in ("trueExpression", "falseExpression"):
        yield Edit("fix-choice", span_of(node), f"({source.text(node[branch])})")


def _function(source: Source, node: Node) -> Iterator[Edit]:
    for invocation in node["modifiers"]:
        if invocation.get("kind") == "modifierInvocation":
            yield Edit("delete-modifier", span_of(invocation), "")


def _emit(source: Source, node: Node) -> Iterator[Edit]:
    yield Edit("delete-emit", _statement_span(source, node), _NOTHING)


def _arguments(source: Source, node: Node) -> Iterator[Edit]:
    """Two neighbors of one type change places: in events and calls, where the compiler sees no difference."""
    arguments = node.get("arguments") or []
    for one, other in pairwise(arguments):
        kinds = {argument["typeDescriptions"]["typeString"] for argument in (one, other)}
        texts = source.text(one), source.text(other)
        if len(kinds) == 1 and texts[0] != texts[1]:
            first, second = span_of(one), span_of(other)
            between = source.content[first.end : second.start].decode()
            yield Edit("swap-arguments", Span(first.start, second.end), texts[1] + between + texts[0])


def _constant(source: Source, node: Node) -> Iterator[Edit]:
    """A constant number one higher: what is asserted of a limit is asserted at the limit."""
    value = node.get("value")
    if node.get("constant") and value is not None and _is_number(value):
        yield Edit("constant", span_of(value), f"({source.text(value)}) + 1")


def _yul_statement(source: Source, node: Node) -> Iterator[Edit]:
    yield Edit("delete-assembly", span_of(node), _NOTHING)


def _yul_call(source: Source, node: Node) -> Iterator[Edit]:
    name = node["functionName"]
    if other := _YUL_SWAPS.get(name["name"]):
        yield Edit("swap-assembly", span_of(name), other)


def _block(source: Source, node: Node) -> Iterator[Edit]:
    """Reverts that stand behind other statements; one that stands alone goes with its `if`."""
    for statement in node["statements"][1:]:
        if statement["nodeType"] == "RevertStatement":
            yield Edit("delete-revert", _statement_span(source, statement), _NOTHING)


_Operator = Callable[[Source, Node], Iterator[Edit]]
_BY_NODE: Final[dict[str, tuple[_Operator, ...]]] = {
    "Assignment": (_assignment,),
    "BinaryOperation": (_binary,),
    "Block": (_block,),
    "Conditional": (_conditional,),
    "DoWhileStatement": (_condition,),
    "EmitStatement": (_emit,),
    "ExpressionStatement": (_statement,),
    "ForStatement": (_condition,),
    "FunctionCall": (_arguments,),
    "FunctionDefinition": (_function,),
    "IfStatement": (_if,),
    "Return": (_return,),
    "VariableDeclaration": (_constant,),
    "WhileStatement": (_condition,),
    "YulAssignment": (_yul_statement,),
    "YulExpressionStatement": (_yul_statement,),
    "YulFunctionCall": (_yul_call,),
}
