# SPDX-License-Identifier: Apache-2.0
"""What can be changed in a source, for tests/mutants.py: one thing in one line of a function."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple


class Change(NamedTuple):
    """A piece of a source, and what stands there instead."""

    line: int
    function: str  # its qualified name
    start: int  # characters of the file
    end: int
    after: str


# ---- Python ----------------------------------------------------------------------

_SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
_NO_CODE = {"annotation", "returns", "decorator_list"}  # fields of nodes
_OF_TYPES = {"isinstance", "issubclass", "cast"}
_OTHER = {"min": "max", "max": "min"}


def python_changes(source: str) -> list[Change]:
    """Return all changes that can be made in the functions of a module."""
    return list(_Module(source).walk(ast.parse(source)))


class _Module:
    """The source of a module: changes of its nodes."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines = source.split("\n")
        lengths = (len(line) + 1 for line in self._lines)
        self._starts = list(itertools.accumulate(lengths, initial=0))

    def walk(self, node: ast.AST, prefix: str = "", function: str = "") -> Iterator[Change]:
        """Yield the changes of a node and of all below it."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = prefix + node.name
            prefix = f"{function}.<locals>."
        elif isinstance(node, ast.ClassDef):
            prefix = f"{prefix}{node.name}."
        if function:
            for start, end, after in self._changes(node):
                line = self._source.count("\n", 0, start) + 1
                yield Change(line, function, start, end, after)
        for child in _children(node):
            yield from self.walk(child, prefix, function)

    def _changes(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Compare(left=left, ops=operators, comparators=others):
                for one, operator, other in zip([left, *others], operators, others, strict=False):
                    yield self._swap(one, other, operator)
            case ast.BoolOp(op=operator, values=values):
                for one, other in itertools.pairwise(values):
                    yield self._swap(one, other, operator)
            case ast.BinOp(left=one, op=operator, right=other):
                if type(operator) in _SWAPS and not _is_text(node):
                    yield self._swap(one, other, operator)
            case ast.AugAssign(target=target, op=operator, value=value):
                if type(operator) in _SWAPS and not _is_text(value):
                    yield self._swap(target, value, operator)
                yield *self._span(node), "pass"
            case ast.Expr(value=ast.Call()):
                yield *self._span(node), "pass"
            case ast.UnaryOp(op=ast.Not()):
                start = self._span(node)[0]
                without = re.compile(r"not\s*").match(self._source, start)
                yield start, without.end() if without else start, ""
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                start, end = self._span(node)
                yield start, end, _next(self._source[start:end])
            case ast.If(test=test) | ast.IfExp(test=test):
                yield from self._conditions(test, "True", "False")
            case ast.While(test=test):
                yield from self._conditions(test, "False")
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield from self._conditions(test, "True", "False")
            case ast.Return(value=ast.Constant(value=bool(answer)) as value):
                yield *self._span(value), str(not answer)
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield *self._span(value), "None"
            case ast.Continue():
                yield *self._span(node), "break"
            case ast.Break():
                yield *self._span(node), "continue"
            case ast.Slice(lower=lower, upper=upper):
                for bound in (lower, upper):
                    if bound and not isinstance(bound, ast.Constant | ast.UnaryOp):
                        start, end = self._span(bound)
                        yield start, end, f"({self._source[start:end]}) + 1"
            case ast.Call(func=ast.Name(id=("min" | "max") as name) as called):
                yield *self._span(called), _OTHER[name]

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        end_row, end_column = node.end_lineno or 0, node.end_col_offset or 0
        return self._at(node.lineno, node.col_offset), self._at(end_row, end_column)

    def _at(self, row: int, column: int) -> int:
        """Return the place of a column, which ast counts in bytes."""
        return self._starts[row - 1] + len(self._lines[row - 1].encode()[:column].decode())

    def _swap(self, one: ast.expr, other: ast.expr, operator: ast.AST) -> tuple[int, int, str]:
        """Replace the operator between two expressions; parentheses and comments may be there."""
        old, new = _SWAPS[type(operator)]
        start, end = self._span(one)[1], self._span(other)[0]
        between = _blank(self._source[start:end], re.compile("#.*"))
        match = re.search(r"\s+".join(map(re.escape, old.split())), between)
        assert match, self._source[start:end]
        return start + match.start(), start + match.end(), new

    def _conditions(self, test: ast.expr, *words: str) -> Iterator[tuple[int, int, str]]:
        names_something = any(isinstance(node, ast.NamedExpr) for node in ast.walk(test))
        if not isinstance(test, ast.Constant) and not names_something:
            for word in words:
                yield *self._span(test), word


def _children(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _OF_TYPES:
            return
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            # 3.11 does not know where the parts of an f-string are
            is_left_out = name in _NO_CODE or isinstance(child, ast.JoinedStr | ast.Assert)
            if isinstance(child, ast.AST) and not is_left_out:
                yield child


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.JoinedStr() | ast.Constant(value=str() | bytes()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_text(left) or _is_text(right)
    return False


def _next(number: str) -> str:
    """Return the number after that of a literal, in the same base."""
    value = int(number, 0) + 1
    return hex(value) if number[:2].lower() == "0x" else str(value)


def _blank(text: str, pattern: re.Pattern[str]) -> str:
    """Put blanks where the pattern matches: all else stays at its place."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


# ---- C ---------------------------------------------------------------------------

_PAIRS = "< <=,<= <,> >=,>= >,== !=,!= ==,+ -,- +,<< >>,>> <<,& |,| &,&& ||,|| &&,+= -=,-= +="
_C_SWAPS = dict(pair.split() for pair in _PAIRS.split(","))
_C_WORDS = {"continue": "break", "break": "continue", "true": "false", "false": "true"}
_C_WORDS |= {"++": "--", "--": "++"}
_NOT_C = re.compile(
    r"""//.* | /\*[\s\S]*?\*/ | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | ^[ \t]*\#(?:\\\n|.)*""",
    re.VERBOSE | re.MULTILINE,
)
_NO_CALL = r"(?!(?:if|for|while|switch|return)\b)"
_ASSEMBLY = re.compile(r"\b(?:__asm__|_Static_assert)\b[^;]*;")
_BODY = re.compile(r"^\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_OPERATOR = re.compile(r"(?<=\s)(?:[<>=!+-]=|<<|>>|&&|\|\||[<>+&|-])(?=\s)")
_WORD = re.compile(r"\b(?:continue|break|true|false)\b|\+\+|--")
_NUMBER = re.compile(r"(?<![\w.])(?:0x[0-9a-fA-F]+|[1-9][0-9]*|0)(?=[uUlL]*(?![\w.]))")
_ARRAY = re.compile(r"\t+(?!return\b)(?:\w+ )+\**\w+\[")  # where one is declared: room is no code
_CONDITION = re.compile(r"\b(if|while) (?=\()")
_CALL = re.compile(rf"^\t+({_NO_CALL}(?:\(void\))?[\w.>\[\]-]+)(?=\()", re.MULTILINE)
_COUNT = re.compile(r"^\t+([^;{}()=\n]+(?: [-+|&]= [^;{}]+|\+\+|--);)", re.MULTILINE)
_RETURN = re.compile(r"\breturn ([^;]+)(?=;)")


def c_changes(source: str) -> list[Change]:
    """Return all changes that can be made in the functions of a C source of the agent."""
    code = _blank(_blank(source, _NOT_C), _ASSEMBLY)
    changes = []
    for body in _BODY.finditer(code):
        head = re.split(r"[;}]|\n\s*\n", code[: body.start()].rstrip())[-1]
        names = [name for name in re.findall(r"(\w+)\(", head) if not name.startswith("__")]
        if names:
            for start, end, after in _c_pieces(code, body.start(1), body.end(1)):
                line = code.count("\n", 0, start) + 1
                changes.append(Change(line, names[0], start, end, after))
    return changes


def _c_pieces(code: str, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
    """Yield the changes of a function's body; comments and strings are blank in `code`."""
    for match in _OPERATOR.finditer(code, begin, end):
        if match[0] in _C_SWAPS:
            yield *match.span(), _C_SWAPS[match[0]]
    for match in _WORD.finditer(code, begin, end):
        yield *match.span(), _C_WORDS[match[0]]
    for match in _NUMBER.finditer(code, begin, end):
        if not _ARRAY.fullmatch(code, code.rfind("\n", 0, match.start()) + 1, match.start()):
            yield *match.span(), _next(match[0])
    for match in re.compile(r"!(?=[\w(*])").finditer(code, begin, end):
        yield *match.span(), ""
    for match in _CONDITION.finditer(code, begin, end):
        close = _closing(code, match.end())
        if code[match.end() : close] not in {"(0", "(1"}:
            for word in ("1", "0") if match[1] == "if" else ("0",):
                yield match.end() + 1, close, word
    for match in _CALL.finditer(code, begin, end):
        close = _closing(code, match.end())
        if code[close + 1] == ";":
            yield match.start(1), close + 2, ";"
    for match in _COUNT.finditer(code, begin, end):
        yield *match.span(1), ";"
    for match in _RETURN.finditer(code, begin, end):
        if match[1] not in {"0", "NULL", "true", "false"}:
            yield *match.span(1), "0"


def _closing(code: str, start: int) -> int:
    """Return where the parenthesis closes that opens at `start`."""
    depth = 0
    for match in re.compile("[()]").finditer(code, start):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1
