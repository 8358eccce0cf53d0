# SPDX-License-Identifier: Apache-2.0
r"""Parses ltrace's filter expressions (ltrace(1), "FILTER EXPRESSIONS").

    [+-]SYMBOL@CALLER[+-]SYMBOL@CALLER…

A rule without a sign adds calls. If the first rule has a minus, all calls are added before it.
Both patterns are globs for the whole name, or POSIX basic regular expressions between slashes. A
`^` in front of a glob and a `$` behind it change nothing, as in ltrace(1). `/x@y/` is short for
`/x/@/y/`. A missing pattern is `*`. The image is the *caller*. It is matched by its soname, or by
its file name if it has none. A pattern that begins with a slash and is no regular expression is a
path. `MAIN` is the program itself.

Beyond ltrace, `%mem` is a set of functions. A comma separates rules like a plus, as in strace,
and a sign may follow it. Signs, commas and at-signs have no special meaning between slashes, in
brackets, and after a backslash (`@libstdc\+\+*`). In a path, a sign has no special meaning if a
slash follows later (`@/usr/lib/x86_64-linux-gnu/libc.so.6`), unless that slash begins the regular
expression of another rule (`@/lib/libc.so.6-*+/mem.*/`).
"""

from __future__ import annotations

from soscope.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.select.automaton import Automaton

MAIN = "MAIN"


class Pattern:
    """One pattern as the user wrote it. `text` has no slashes around a regular expression.

    `members` matches the functions of a set. It is None until the set was looked up.
    """

    __slots__ = ("is_regex", "members", "text")

    def __init__(self, text: str, *, is_regex: bool = False) -> None:
        self.text = text
        self.is_regex = is_regex
        self.members: Automaton | None = None

    @property
    def is_any(self) -> bool:
        """Return whether the pattern matches every name."""
        return self.text in ("", "*") and not self.is_regex

    @property
    def is_path(self) -> bool:
        """Return whether the pattern, if it is for an image, is matched with the image's path."""
        return self.text.startswith("/") and not self.is_regex

    @property
    def is_main(self) -> bool:
        """Return whether the pattern, if it is for an image, stands for the program itself."""
        return self.text == MAIN and not self.is_regex

    @property
    def is_set(self) -> bool:
        """Return whether the pattern, if it is for a symbol, names a set of functions like %mem."""
        return self.text.startswith("%") and not self.is_regex

    @property
    def is_plain(self) -> bool:
        """Return whether the pattern is one plain name without special characters."""
        return not self.is_regex and not self.is_set and not any(c in self.text for c in "*?[\\")


ANY = Pattern("*")


class Rule:
    """One rule of a chain. `word` is the text that the user wrote, "" for the implied rule."""

    __slots__ = ("caller", "include", "symbol", "word")

    def __init__(self, *, include: bool, symbol: Pattern, caller: Pattern, word: str) -> None:
        self.include = include
        self.symbol = symbol
        self.caller = caller
        self.word = word


def parse(expression: str) -> list[Rule]:
    """Parse one argument of `-e` into the rules of a chain, in order.

    Raises UsageError for an empty rule (`a++b`) or a regular expression without its second slash.
    Errors in the patterns themselves are not found here.
    """
    rules: list[Rule] = []
    if expression.startswith("-"):
        rules.append(Rule(include=True, symbol=ANY, caller=ANY, word=""))
    at = 0
    while True:
        begin = at
        include = not expression.startswith("-", at)
        if expression[at : at + 1] in ("+", "-"):
            at += 1
        symbol, caller, end = _rule(expression, at)
        if end == at:
            raise UsageError(
                f"filter expression '{expression}': a rule without a pattern at"
                f" {repr(expression[begin:]) if begin < len(expression) else 'its end'}",
                hint=r"a plus or minus that belongs to a name wants a backslash: '@libstdc\+\+*'",
                slug="filter-expression",
            )
        word = expression[begin:end]
        rules.append(
            Rule(include=include, symbol=symbol, caller=caller, word=word.removeprefix("+"))
        )
        if end == len(expression):
            return rules
        at = end
        if expression[at] == ",":
            at += 1


def parse_image(text: str) -> Pattern:
    """Parse an argument of --from or --to as the pattern of an image."""
    if len(text) > 1 and text[0] == text[-1] == "/":
        return Pattern(text[1:-1], is_regex=True)
    return Pattern(text)


def split_commas(text: str) -> list[str]:
    """Split at the commas that are neither in a regular expression nor in brackets."""
    words = []
    at = 0
    while at < len(text):
        regex_end = _slash(text, at + 1) if text[at] == "/" else -1
        if regex_end > 0 and text[regex_end + 1 : regex_end + 2] in ("", ","):
            end = regex_end + 1
        else:
            end = _glob_end(text, at, ",")
        if end > at:
            words.append(text[at:end])
        at = end + 1
    return words


def _rule(text: str, at: int) -> tuple[Pattern, Pattern, int]:
    """Parse SYMBOL@CALLER. Return both patterns and the index of the rule's end."""
    if text.startswith("/", at):
        end = _slash(text, at + 1)
        if end < 0:
            raise UsageError(
                f"filter expression '{text}': a regular expression without its second slash",
                slug="filter-expression",
            )
        inside = text[at + 1 : end]
        both = _glob_end(inside, 0, "@", escapes=False)
        if both < len(inside):
            return (
                _regex_or_any(inside[:both]),
                _regex_or_any(inside[both + 1 :]),
                _must_end(text, end + 1, "+-,"),
            )
        symbol = _regex_or_any(inside)
        at = _must_end(text, end + 1, "@+-,")
    else:
        end = _glob_end(text, at, "@+-,")
        symbol = Pattern(text[at:end] or "*")
        at = end
    if not text.startswith("@", at):
        return symbol, ANY, at
    caller, at = _caller(text, at + 1)
    return symbol, caller, at


def _caller(text: str, at: int) -> tuple[Pattern, int]:
    """Parse the caller behind the at-sign. Return its pattern and the index of its end."""
    if not text.startswith("/", at):
        end = _glob_end(text, at, "+-,")
        return Pattern(text[at:end] or "*"), end
    end = _slash(text, at + 1)
    if end > 0 and text[end + 1 : end + 2] in ("", "+", "-", ","):
        return _regex_or_any(text[at + 1 : end]), end + 1
    end = at
    while True:
        end = _glob_end(text, end, "+-,")
        if end == len(text) or text[end] == "," or not _inside_path(text, end + 1):
            return Pattern(text[at:end]), end
        end += 1


def _inside_path(text: str, at: int) -> bool:
    """Return whether a path continues behind the sign in front of `at`, as a slash follows."""
    slash = text.find("/", at, _glob_end(text, at, "@,"))
    if slash <= at:
        return False
    end = _slash(text, slash + 1) if text[slash - 1] in "+-" else -1
    # A slash right behind another sign begins a regular expression, if that has an end.
    return end < 0 or text[end + 1 : end + 2] not in ("", "@", "+", "-", ",")


def _regex_or_any(text: str) -> Pattern:
    """Return the pattern of a regular expression. An empty one matches every name."""
    return Pattern(text, is_regex=True) if text else ANY


def _must_end(text: str, at: int, enders: str) -> int:
    """Return `at` if a rule, or its symbol, ends there. Otherwise raise UsageError.

    It is called for the index after the closing slash of a regular expression.
    """
    if at < len(text) and text[at] not in enders:
        raise UsageError(
            f"filter expression '{text}': '{text[at:]}' after a regular expression",
            hint=r"a slash that belongs to the expression wants a backslash",
            slug="filter-expression",
        )
    return at


def _slash(text: str, at: int) -> int:
    """Return the index of the next slash that ends a regular expression, -1 if there is none."""
    end = _glob_end(text, at, "/", escapes=False)
    return end if end < len(text) else -1


def _glob_end(text: str, at: int, enders: str, *, escapes: bool = True) -> int:
    """Return the index of the next of `enders` outside brackets and escapes, or the end.

    With `escapes`, a backslash escapes in brackets, too, as in globs.
    """
    size = len(text)
    while at < size:
        char = text[at]
        if char in enders:
            return at
        if char == "\\":
            at += 1
        elif char == "[":
            at = _bracket_end(text, at, escapes=escapes)
        at += 1
    return size


def _without_escapes(text: str, at: int) -> str:
    """Return `text` with `__` for each backslash and the character behind it, from `at` on."""
    while (at := text.find("\\", at)) >= 0:
        text = text[:at] + "__" + text[at + 2 :]
        at += 2
    return text


def _bracket_end(text: str, at: int, *, escapes: bool) -> int:
    """Return the index of the bracket that closes the one at `at`, or `at` if there is none."""
    first = at + 1
    if text[first : first + 1] in ("!", "^"):
        first += 1
    if escapes:  # an escaped bracket closes nothing
        text = _without_escapes(text, first)
    end = text.find("]", first + 1)
    # In [[:alpha:]_] the first ] belongs to the class.
    inner = text.find("[:", first)
    while 0 <= inner < end:
        inner_end = text.find(":]", inner + 2)
        if inner_end < 0:
            break
        end = text.find("]", inner_end + 2)
        inner = text.find("[:", inner_end + 2)
    return end if end > 0 else at
