# SPDX-License-Identifier: Apache-2.0
"""Parse and evaluate conditions on calls: `--where 'size > 1MiB and not ret == NULL'`."""

from __future__ import annotations

import re

from soscope.errors import UsageError
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.select.patterns import Automaton

    # (value, its text in a line of a trace, whether only its beginning is known)
    Value = tuple[float | str, str, bool]
    View = Callable[[str], Value | None]
    Test = Callable[[View], bool | None]
    Operand = Callable[[View], Value | None]


# The tokens of a condition: numbers with units, texts, names, operators.

NUMBER = "number"
TEXT = "text"  # a text in quotation marks
NAME = "name"
CONSTANT = "constant"  # a name in capitals, which stands for itself
OPERATOR = "operator"
END = "end"

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))(?P<unit>[A-Za-zµ]*)"
    r"|(?P<text>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator><=|>=|==|!=|!~|&&|\|\||[<>=~&!()]))"
)
_WORDS = frozenset({"and", "or", "not"})

_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "k": 1 << 10, "g": 1 << 30, "t": 1 << 40,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
    "ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9,
    "h": 3600 * 10**9,
}  # fmt: skip


class Token(Record):
    """One token: its kind, its text, and its value if it is a number."""

    kind: str
    text: str
    value: float = 0


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a condition. The last one has the kind END. Raises UsageError."""
    tokens = []
    at, end = 0, len(text.rstrip())
    while at < end:
        matched = _TOKEN.match(text, at)
        if matched is None:
            raise _error(text, f"unexpected '{text[at:].strip()}'")
        at = matched.end()
        kind = matched.lastgroup
        word = matched.group("number") or matched.group("text") or matched.group(0).strip()
        if matched.group("number"):
            tokens.append(Token(NUMBER, matched.group(0).strip(), _number(text, matched)))
        elif kind == "text":
            tokens.append(Token(TEXT, re.sub(r"\\(.)", r"\1", word[1:-1])))
        elif kind == "name" and word not in _WORDS:
            is_constant = word == word.upper() and any(map(str.isalpha, word))
            tokens.append(Token(CONSTANT if is_constant else NAME, word))
        else:
            tokens.append(Token(OPERATOR, word))
    return [*tokens, Token(END, "")]


def _number(text: str, matched: re.Match[str]) -> float:
    digits, unit = matched.group("number"), matched.group("unit")
    if unit in ("m", "M"):
        raise _error(text, f"'{digits}{unit}': {digits}min is minutes, {digits}MiB is mebibytes")
    factor = _UNITS.get(unit.lower())
    if factor is None:
        raise _error(text, f"'{unit}' is no unit", hint="sizes: 64k, 1MiB, 1MB; times: 10ms, 1.5s")
    value = int(digits, 0 if "x" in digits.lower() else 10) if _is_whole(digits) else float(digits)
    scaled = value * factor
    return int(scaled) if unit and scaled == int(scaled) else scaled


def _is_whole(digits: str) -> bool:
    return "x" in digits.lower() or not any(character in ".eE" for character in digits)


def _error(text: str, what: str, *, hint: str | None = None) -> UsageError:
    return UsageError(f"--where '{text}': {what}", hint=hint, slug="where")


# Conditions on single calls: `--where 'size > 1MiB and not ret == NULL'`.
#
#     or        and {("or" | "||") and}
#     and       not {("and" | "&&") not}
#     not       ("not" | "!") not | "(" or ")" | test
#     test      operand [("<" | "<=" | ">" | ">=" | "==" | "!=" | "~" | "!~" | "&") operand]
#     operand   number with unit | 'text' | CONSTANT | name
#
# The value of a name may be unknown for a call, or not known yet. A test of the name is then
# neither true nor false, and neither is a condition that depends on the test. Such a call is not
# selected.

_COMPARING = ("<", "<=", ">", ">=", "==", "!=", "~", "!~", "&")
_NULLS = {"NULL": 0, "nil": 0, "true": 1, "false": 0}


class Address(int):
    """The value of a pointer. It can equal a number, but is neither larger nor smaller than one."""

    __slots__ = ()


class Condition:
    """A condition. `names` are the names in it, and `text` is the text that the user wrote."""

    __slots__ = ("_test", "names", "text")

    def __init__(self, text: str) -> None:
        """Compile the condition. Raises UsageError."""
        parser = _ConditionParser(text)
        self.text = text
        self._test = parser.whole()
        self.names = frozenset(parser.names)

    def holds(self, view: View) -> bool | None:
        """Return whether the condition holds for a call, None if that is unknown.

        `view` returns the value of a name, None if the value is unknown.
        """
        return self._test(view)


class _ConditionParser:
    """Recursive descent over the tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self.names: set[str] = set()

    def whole(self) -> Test:
        test = self._or()
        if self._next.kind != END:
            raise self._unexpected()
        return test

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _takes(self, *words: str) -> str | None:
        """Consume the next token and return it if it is one of `words`. Otherwise return None.

        A quoted text is none of them.
        """
        token = self._next
        if token.kind not in (TEXT, END) and token.text in words:
            self._at += 1
            return token.text
        return None

    def _unexpected(self) -> UsageError:
        token = self._next
        what = "it ends too early" if token.kind == END else f"unexpected '{token.text}'"
        return UsageError(
            f"--where '{self._text}': {what}",
            hint="for example: --where 'ret < 0 and errno != EAGAIN', --where 'size > 1MiB'",
            slug="where",
        )

    def _or(self) -> Test:
        tests = [self._and()]
        while self._takes("or", "||"):
            tests.append(self._and())
        return tests[0] if len(tests) == 1 else lambda view: _any(tests, view)

    def _and(self) -> Test:
        tests = [self._not()]
        while self._takes("and", "&&"):
            tests.append(self._not())
        return tests[0] if len(tests) == 1 else lambda view: _all(tests, view)

    def _not(self) -> Test:
        if self._takes("not", "!"):
            test = self._not()

            def negated(view: View) -> bool | None:
                said = test(view)
                return None if said is None else not said

            return negated
        if self._takes("("):
            test = self._or()
            if not self._takes(")"):
                raise self._unexpected()
            return test
        return self._test()

    def _test(self) -> Test:
        left, left_token = self._operand()
        operator = self._takes(*_COMPARING, "=")
        if operator is None:
            if left_token.kind != NAME:
                raise self._unexpected()
            return lambda view: _is_true(left(view))
        if operator in ("~", "!~"):
            return self._matching(left, wanted=operator == "~")
        right, right_token = self._operand()
        if CONSTANT in (left_token.kind, right_token.kind):
            if left_token.kind == CONSTANT:
                left, right, left_token, right_token = right, left, right_token, left_token
            return self._named(left, left_token, right_token.text, operator)
        operator = "==" if operator == "=" else operator
        return lambda view: _compare(left(view), right(view), operator)

    def _named(self, left: Operand, token: Token, name: str, operator: str) -> Test:
        """Return a test that compares a value with a constant by its name in a trace line."""
        if token.kind != NAME or operator not in ("==", "=", "!=", "&"):
            raise UsageError(
                f"--where '{self._text}': {name} is compared by its name: with ==, != or &",
                slug="where",
            )

        def test(view: View) -> bool | None:
            value = left(view)
            if value is None:
                return None
            if operator == "&":
                return name in value[1].split("|")
            return (value[1] == name) == (operator != "!=")

        return test

    def _matching(self, left: Operand, *, wanted: bool) -> Test:
        from soscope.select.patterns import compile_glob

        token = self._next
        if token.kind not in (TEXT, NAME, CONSTANT):
            raise self._unexpected()
        self._at += 1
        automaton = compile_glob(token.text)
        return lambda view: _matches(left(view), automaton, wanted=wanted)

    def _operand(self) -> tuple[Operand, Token]:
        token = self._next
        if token.kind not in (NUMBER, TEXT, NAME, CONSTANT):
            raise self._unexpected()
        self._at += 1
        if token.kind == NAME and token.text not in _NULLS:
            name = token.text
            self.names.add(name)
            return (lambda view: view(name)), token
        if token.text in _NULLS and token.kind != TEXT:
            token = Token(NUMBER, token.text, _NULLS[token.text])
        value = token.text if token.kind in (TEXT, CONSTANT) else token.value
        literal = value, token.text, False
        return (lambda _: literal), token


def _any(tests: list[Test], view: View) -> bool | None:
    """Return the logical or of tests with the values true, false and unknown (None)."""
    unknown = False
    for test in tests:
        said = test(view)
        if said:
            return True
        unknown |= said is None
    return None if unknown else False


def _all(tests: list[Test], view: View) -> bool | None:
    """Return the logical and of tests with the values true, false and unknown (None)."""
    unknown = False
    for test in tests:
        said = test(view)
        if said is False:
            return False
        unknown |= said is None
    return None if unknown else True


def _is_true(value: Value | None) -> bool | None:
    return None if value is None else bool(value[0])


def _compare(left: Value | None, right: Value | None, operator: str) -> bool | None:
    """Compare two values. Return None if they cannot be compared."""
    if left is None or right is None:
        return None
    first, second = left[0], right[0]
    if isinstance(first, str) or isinstance(second, str):
        if operator not in ("==", "!="):
            return None
        equal = _equal_texts(left, right)
        return None if equal is None else equal == (operator == "==")
    if operator == "&":
        if isinstance(first, float) or isinstance(second, float):
            return None
        return bool(first & second)
    if operator in ("==", "!="):
        return (first == second) == (operator == "==")
    if isinstance(first, Address) or isinstance(second, Address):
        return None
    if operator in ("<", "<="):
        return first < second or (operator == "<=" and first == second)
    return first > second or (operator == ">=" and first == second)


def _equal_texts(left: Value, right: Value) -> bool | None:
    """Return whether two values are the same text. A number equals no text.

    If one of them is cut and they may be equal, return None.
    """
    (first, _, cut), (second, _, second_cut) = left, right
    if not isinstance(first, str) or not isinstance(second, str):
        return False
    if not cut and not second_cut:
        return first == second
    # Only the beginning of at least one text is known.
    begins = second.startswith(first) if cut else first.startswith(second)
    return None if begins else False


def _matches(value: Value | None, automaton: Automaton, *, wanted: bool) -> bool | None:
    if value is None or value[2]:
        return None
    text = value[0] if isinstance(value[0], str) else value[1]
    return automaton.matches(text.encode("utf-8", "surrogateescape")) == wanted
