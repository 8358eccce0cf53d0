# SPDX-License-Identifier: Apache-2.0
"""How functions fail: the results in that case, and the errors in their manuals.

Most of it is in `FAILS` and `ERRNO` of a declaration. prototypes/failures.txt has the errors, and
the results of functions whose result alone does not show that they failed.
"""

from __future__ import annotations

from soscope.errors import FormatError, UsageError
from soscope.prototypes import row
from soscope.prototypes.errnos import ERRNOS
from soscope.wire import layout

_VALUES = {
    layout.ERROR_INT_NEGATIVE: -1,
    layout.ERROR_LONG_NEGATIVE: -1,
    layout.ERROR_NULL: 0,
    layout.ERROR_MINUS_ONE: -1,
    layout.ERROR_INT_NONZERO: -1,
    layout.ERROR_INT_ZERO: 0,
    layout.ERROR_INT_MINUS_ONE: -1,
}
_NAMED = {"NULL": 0, "EOF": -1, "0": 0, "-1": -1}
_NUMBERS = {name: number for number, (name, _) in ERRNOS.items()}
_NUMBERS |= {"EWOULDBLOCK": 11, "EDEADLOCK": 35, "ENOTSUP": 95}
_LARGEST = 4095  # largest errno

# An entry of failures.txt: a function's result ("" if its declaration has it), errors.
Listed = tuple[str, tuple[str, ...]]


def read(text: str, file: str) -> dict[str, Listed]:
    """Read prototypes/failures.txt. Raises FormatError with file and line."""
    listed: dict[str, Listed] = {}
    for number, said in _entries(text):
        head, colon, errors = said.partition(":")
        names, _, value = head.partition("=")
        value = value.strip()
        if not colon or not names.split() or (value and value not in _NAMED):
            raise FormatError(f"{file}:{number}: it is not NAME… [= VALUE]: ERROR…", field="line")
        for name in names.split():
            if name in listed:
                raise FormatError(f"{file}:{number}: '{name}' is there twice", field=name)
            listed[name] = value, tuple(errors.split())
    return listed


def _entries(text: str) -> list[tuple[int, str]]:
    """Return the entries, each with the number of its first line."""
    entries: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        said = line.split("#", 1)[0]
        if said[:1].isspace() and entries:
            first, begun = entries.pop()
            entries.append((first, f"{begun} {said.strip()}"))
        elif said.strip():
            entries.append((number, said.strip()))
    return entries


class Failure:
    """How one function fails.

    `value` is its result in that case; None means the number of the error. `sets_errno` tells
    that it sets errno, too. `errors` are the names in its manual.
    """

    __slots__ = ("_enum", "errors", "name", "sets_errno", "value")

    def __init__(
        self, name: str, value: int | None, errors: tuple[str, ...], *, enum: dict[int, str] | None
    ) -> None:
        self.name = name
        self.value = value
        self.errors = errors
        self.sets_errno = value is not None
        self._enum = enum

    def number(self, error: str) -> int:
        """Return the number of an error by its name or digits. Raises UsageError."""
        if self._enum is None:
            return errno_number(error)
        for number, known in self._enum.items():
            if known == error:
                return number
        if _is_number(error) and int(error):
            return int(error)
        names = ", ".join(list(self._enum.values())[:4])
        raise UsageError(f"'{error}' is no error of {self.name}, which has its own: {names}, …")

    def outcome(self, error: str | None) -> tuple[int, int | None]:
        """Return the result and the new errno, None if it is not changed.

        If `error` is None, the first error in the manual is taken. Raises UsageError.
        """
        if error is None and self.errors:
            error = self.errors[0]
        if error is None:
            if self.value is not None and not self.sets_errno:
                return self.value, None
            raise UsageError(f"the manual of {self.name} lists no errors: error= is missing")
        number = self.number(error)
        if self.value is None:
            return number, None
        return self.value, number if self.sets_errno else None


def failure_of(
    name: str, of: row.FunctionRow, listed: Listed | None, enums: dict[str, dict[int, str]]
) -> Failure | None:
    """Return how a function fails, by its row and its entry in failures.txt; None if not known."""
    _, _, _, _, result, rule, where, *_ = of
    value, errors = listed or ("", ())
    if result is None or (rule not in _VALUES and not value):
        return None
    enum = None
    if where == row.ERRNO_NONE and result[3][0] == row.SHOW_ENUM:
        enum = {number: known for number, known in enums[result[3][3]].items() if number}
    if where == row.ERRNO_RESULT or enum is not None:
        return Failure(name, None, errors, enum=enum)
    failure = Failure(name, _NAMED[value] if value else _VALUES[rule], errors, enum=None)
    failure.sets_errno = where != row.ERRNO_NONE
    return failure


def result_kind(of: row.FunctionRow) -> str:
    """Return the kind of a result that is not in an integer register, "" for all others."""
    result = of[4]
    if result is None:
        return ""
    how = result[3][0]
    if how == row.SHOW_STRUCT:
        return "struct"
    if how == row.SHOW_COMPLEX:
        return "complex number"
    return "float" if how in (row.SHOW_FLOAT, row.SHOW_LONG_DOUBLE) else ""


def errno_number(error: str) -> int:
    """Return the number of an errno by its name or digits. Raises UsageError."""
    if error in _NUMBERS:
        return _NUMBERS[error]
    if _is_number(error) and 0 < int(error) <= _LARGEST:
        return int(error)
    from difflib import get_close_matches

    near = get_close_matches(error, _NUMBERS, n=1)
    hint = f"did you mean {near[0]}?" if near else "errno(3) lists the names"
    raise UsageError(f"'{error}' is no errno", hint=hint)


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 10
