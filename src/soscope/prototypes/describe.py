# SPDX-License-Identifier: Apache-2.0
"""Turn a declaration into what printing (row.py) and capturing (capture.py) need.

Places follow the System V psABI for x86-64: integers and pointers in six registers, float
and double in eight, long double and what finds no register on the stack, in words of eight
bytes above the return address.
"""

from __future__ import annotations

from _collections_abc import Container

from soscope.errors import FormatError
from soscope.prototypes import row
from soscope.prototypes.constants import ConstantSets
from soscope.prototypes.ctype import (
    FLOAT,
    INT,
    LONG_DOUBLE,
    POINTER,
    STRUCT,
    VOID,
    Function,
    Parameter,
    Struct,
    Type,
)
from soscope.wire import layout

_INT_REGISTERS = 6
_FLOAT_REGISTERS = 8
_RULES = {
    ("<", "0", 4): layout.ERROR_INT_NEGATIVE,
    ("<", "0", 8): layout.ERROR_LONG_NEGATIVE,
    ("==", "NULL", 8): layout.ERROR_NULL,
    ("==", "-1", 8): layout.ERROR_MINUS_ONE,
    ("!=", "0", 4): layout.ERROR_INT_NONZERO,
    ("==", "0", 4): layout.ERROR_INT_ZERO,
    ("==", "-1", 4): layout.ERROR_INT_MINUS_ONE,
}
_COMPARISONS = (">", ">=", "!=", "==")
_ZEROS = ("0", "NULL")
# Structures whose content depends on itself; the printer knows them.
_SOCKET_ADDRESS = "sockaddr"

# Words about what a pointer leads to.
_FOLLOWED = {"IN", "OUT", "BYTES", "LIMIT", "STRING", "FOLLOW", "FOLLOW_UNLESS_0"}


class DescribedArgument:
    """An argument, or a result, with what decides how it is captured.

    `length` holds the tokens of BYTES, `most` those of LIMIT; `size` is that of one thing the
    pointer leads to; `writes` says when the call has written there, None: never.
    """

    __slots__ = (
        "count",
        "follow",
        "format",
        "index",
        "leads",
        "length",
        "most",
        "name",
        "place",
        "show",
        "size",
        "target",
        "type",
        "unless_0",
        "writes",
    )

    def __init__(self, name: str, of: Type, place: int, index: int) -> None:
        self.name = name
        self.type = of
        self.place = place
        self.index = index
        self.show: row.Show = (row.SHOW_WORD, 8, False, "")
        self.leads = row.LEADS_NOWHERE
        self.target: row.Show | None = None
        self.count = 0
        self.size = 0
        self.writes: row.Writes = None
        self.follow = False
        self.unless_0: list[str] = []
        self.format = ""
        self.length: list[str] = []
        self.most: list[str] = []

    def kept(self) -> row.ArgumentRow:
        """Return what printing needs."""
        return (
            self.type.text,
            self.place,
            self.index,
            self.show,
            self.leads,
            self.target,
            self.count,
            self.writes,
        )


class Description:
    """A function with places, ways of showing, and rules; `kept()` is what is kept of it."""

    def __init__(self, function: Function, sets: ConstantSets, structs: dict[str, Struct]) -> None:
        self.function = function
        self._sets = sets
        self._structs = structs
        self._next = [0, 0, 0]
        self.arguments = [self._argument(declared) for declared in function.parameters]
        for argument, parameter in zip(self.arguments, function.parameters, strict=True):
            if "OUT" in parameter.words:
                argument.writes = self._writes(parameter.name, parameter.words["OUT"])
        self.optionals = self._optionals()
        self.tail, self.words = self._tail()
        self.result = self._result()
        self.error_rule = self._error_rule()
        self.errno = self._errno()

    def kept(self) -> row.FunctionRow:
        """Return the row that is kept."""
        optionals = tuple(
            (*condition, tuple(argument.kept() for argument in arguments))
            for condition, arguments in zip(self._conditions(), self.optionals, strict=True)
        )
        return (
            self.function.name,
            tuple(argument.kept() for argument in self.arguments),
            optionals,
            self.tail,
            self.result.kept() if self.result else None,
            self.error_rule,
            self.errno,
            self.function.source,
        )

    def number_of(self, name: str) -> int:
        """Return the number of the argument `name`. Raises FormatError."""
        for number, argument in enumerate(self.arguments):
            if argument.name == name:
                return number
        raise self._fail(f"'{name}' is no parameter")

    def _fail(self, what: str) -> FormatError:
        function = self.function
        return FormatError(f"{function.where}: {function.name}: {what}", field=function.name)

    # ---- places

    def _place(self, of: Type) -> tuple[int, int]:
        if of.kind == LONG_DOUBLE:
            at = self._next[row.PLACE_STACK]
            at += at % 2  # 16-byte aligned, as the first stack argument is
            self._next[row.PLACE_STACK] = at + 2
            return row.PLACE_STACK, at
        place = row.PLACE_FLOAT if of.kind == FLOAT else row.PLACE_INT
        if of.kind == STRUCT and of.size > 8:
            raise self._fail(f"a '{of.text}' by value is not supported")
        limit = _FLOAT_REGISTERS if place == row.PLACE_FLOAT else _INT_REGISTERS
        if self._next[place] == limit:
            place = row.PLACE_STACK
        index = self._next[place]
        self._next[place] += 1
        return place, index

    # ---- arguments

    def _argument(self, parameter: Parameter) -> DescribedArgument:
        argument = DescribedArgument(parameter.name, parameter.type, *self._place(parameter.type))
        words = {**parameter.type.words, **parameter.words}
        self._fill(argument, words, is_result=False)
        argument.count = parameter.count or argument.count
        argument.unless_0 = words.get("FOLLOW_UNLESS_0", [])
        argument.follow = "FOLLOW" in words or bool(argument.unless_0)
        if argument.follow and not argument.leads:
            raise self._fail(f"FOLLOW of '{argument.name}', which leads nowhere")
        argument.format = words["FORMAT"][0] if "FORMAT" in words else ""
        if argument.place != row.PLACE_INT and argument.leads:
            # The agent follows registers only.
            if not _FOLLOWED.isdisjoint(words):
                raise self._fail(f"'{argument.name}' is on the stack and cannot be followed")
            argument.leads = row.LEADS_NOWHERE
        return argument

    def _fill(
        self, argument: DescribedArgument, words: dict[str, list[str]], *, is_result: bool
    ) -> None:
        of = argument.type
        if of.kind != POINTER:
            argument.show = self._show(of, words)
            return
        argument.show = self._show(of, {} if "OUT" in words else words)
        argument.length = words.get("BYTES", [])
        argument.most = words.get("LIMIT", [])
        target = of.target
        if "POINTER" in words or target is None:
            return
        follow = "OUT" in words or "IN" in words
        is_text = target.kind == INT and (target.is_char or target.text == "wchar_t")
        if argument.length and target.text != f"struct {_SOCKET_ADDRESS}":
            argument.leads = row.LEADS_TO_BYTES
        elif is_text and (is_result or target.is_const or "STRING" in words or follow):
            argument.leads = row.LEADS_TO_STRING if target.is_char else row.LEADS_TO_WIDE
        elif follow and target.kind == STRUCT:
            self._fill_struct(argument, target)
        elif follow and target.kind != VOID:
            argument.leads = row.LEADS_TO_VALUES
            argument.target = self._show(target, {**target.words, **words})
            argument.size = target.size
            argument.count = 1
        elif follow:
            raise self._fail(f"'{argument.name}' leads to something unknown")

    def _fill_struct(self, argument: DescribedArgument, target: Type) -> None:
        name = target.text.split()[-1]
        if name == _SOCKET_ADDRESS:
            argument.leads = row.LEADS_TO_SOCKET
            # struct sockaddr_un where its length is known, else struct sockaddr_in6
            argument.size = 110 if argument.length else 28
            return
        if name not in self._structs:
            raise self._fail(f"'{target.text}' is not in structs.h")
        argument.leads = row.LEADS_TO_STRUCT
        argument.target = (row.SHOW_STRUCT, target.size, False, name)
        argument.size = self._structs[name].size

    def _show(self, of: Type, words: dict[str, list[str]]) -> row.Show:
        enum = words.get("ENUM", [])
        try:
            if enum[1:2] == [","]:
                # What it depends on has been passed before it: its number is known.
                names = [parameter.name for parameter in self.function.parameters]
                if enum[2] not in names:
                    raise self._fail(f"'{enum[2]}' is no parameter")
                detail = f"{_set(enum[0], self._sets.enums)}:{names.index(enum[2])}"
                return row.SHOW_BY, of.size, of.signed, detail
            return how_shown(of, words, self._sets, self._structs)
        except FormatError as error:
            raise self._fail(error.message) from None

    # ---- the rest of a function

    def _writes(self, name: str, tokens: list[str]) -> row.Writes:
        """Return what OUT(...) says: when the call has written what `name` leads to."""
        terms = " ".join(tokens).split(",")
        if not tokens:
            raise self._fail(
                f"OUT of '{name}' does not say when it is written: OUT(success), "
                "OUT(result > 0), OUT(always)"
            )
        return tuple(self._term(name, term.split()) for term in terms if term.split() != ["always"])

    def _term(self, name: str, words: list[str]) -> tuple[int, str]:
        """Return one condition of row.Writes: `success`, or a number compared with 0."""
        if words == ["success"]:
            if "FAILS" not in self.function.words:
                raise self._fail(f"OUT(success) of '{name}', but nothing says when it FAILS")
            return row.WRITES_SUCCESS, ""
        operator = "".join(words[1:-1])
        if len(words) < 3 or (operator not in _COMPARISONS):
            raise self._fail(f"OUT({' '.join(words)}) of '{name}' is not understood")
        if words[-1] == "NAN" and words[0] == "result" and operator == "!=":
            return row.WRITES_RESULT, "number"
        if words[-1] not in _ZEROS:
            raise self._fail(f"OUT of '{name}' compares with '{words[-1]}', not with 0 or NULL")
        if words[0] == "result":
            if self.function.result.kind not in (INT, POINTER):
                raise self._fail(f"OUT of '{name}': the result is no integer")
            return row.WRITES_RESULT, operator
        number = self.number_of(words[0])
        if self.arguments[number].place != row.PLACE_INT:
            raise self._fail(f"OUT of '{name}': '{words[0]}' is not in an integer register")
        return number, operator

    def _optionals(self) -> list[list[DescribedArgument]]:
        # All alternatives begin in the same register.
        start, furthest = list(self._next), list(self._next)
        alternatives = []
        for optional in self.function.optionals:
            self._next = list(start)
            alternatives.append([self._argument(parameter) for parameter in optional.parameters])
            furthest = [max(pair) for pair in zip(furthest, self._next, strict=True)]
        self._next = furthest
        return alternatives

    def _conditions(self) -> list[tuple[int, str, tuple[int, ...]]]:
        conditions = []
        for optional in self.function.optionals:
            number = self.number_of(optional.name) if optional.name else -1
            for value in optional.values:
                if value not in self._sets.values:
                    raise self._fail(f"constant '{value}' is not in constants.txt")
            values = tuple(self._sets.values[value] for value in optional.values)
            conditions.append((number, optional.operator, values))
        return conditions

    def _tail(self) -> tuple[str, int]:
        function = self.function
        formats = [argument.format for argument in self.arguments if argument.format]
        if not function.variadic:
            if formats:
                raise self._fail("FORMAT of a function without '...'")
            return row.TAIL_NONE, 0
        if formats:
            if formats[0] not in (row.TAIL_PRINTF, row.TAIL_SCANF):
                raise self._fail(f"FORMAT({formats[0]}) is not known")
            return formats[0], 0
        if "WORDS" in function.words:
            count = int(function.words["WORDS"][0])
            named = sum(argument.place == row.PLACE_INT for argument in self.arguments)
            if named + count > _INT_REGISTERS:
                raise self._fail("more WORDS than registers")
            return f"{row.TAIL_WORDS}{count}", count
        return (row.TAIL_NONE if self.optionals else row.TAIL_OPEN), 0

    def _result(self) -> DescribedArgument | None:
        of = self.function.result
        if of.kind == VOID:
            return None
        place, index = row.PLACE_INT, 0
        if of.kind == FLOAT:
            place = row.PLACE_FLOAT
        elif of.kind == LONG_DOUBLE or of.size > 8:
            place = row.PLACE_NONE
        result = DescribedArgument("", of, place, index)
        words = {**of.words, **self.function.words}
        words.pop("IN", None)
        self._fill(result, words, is_result=True)
        result.follow = "FOLLOW" in words
        if result.follow and result.leads != row.LEADS_TO_STRING:
            raise self._fail("FOLLOW of a result that is no string")
        return result

    def _error_rule(self) -> int:
        tokens = self.function.words.get("FAILS")
        if tokens is None:
            return layout.ERROR_NONE
        of = self.function.result
        key = (
            "".join(tokens[: 2 if tokens[1] == "=" else 1]),
            "".join(tokens[2 if tokens[1] == "=" else 1 :]),
        )
        rule = _RULES.get((*key, of.size))
        if rule is None or of.kind not in (INT, POINTER):
            raise self._fail(f"FAILS({' '.join(tokens)}) is not known for '{of.text}'")
        return rule

    def _errno(self) -> str:
        where = self.function.words.get("ERRNO", [row.ERRNO_OWN])[0]
        if where not in (row.ERRNO_OWN, row.ERRNO_CHANGED, row.ERRNO_RESULT, row.ERRNO_NONE):
            raise self._fail(f"ERRNO({where}) is not known")
        return where


def how_shown(
    of: Type, words: dict[str, list[str]], sets: ConstantSets, structs: dict[str, Struct]
) -> row.Show:
    """Return how a value of the type `of` is shown. Raises FormatError."""
    if "ENUM" in words:
        if len(words["ENUM"]) > 1:
            raise FormatError("ENUM by another argument is for arguments alone")
        return row.SHOW_ENUM, of.size, of.signed, _set(words["ENUM"][0], sets.enums)
    if "FLAGS" in words:
        return row.SHOW_FLAGS, of.size, of.signed, _set(words["FLAGS"][0], sets.flags)
    if of.kind == POINTER:
        return row.SHOW_POINTER, 8, False, ""
    if of.kind == FLOAT:
        return row.SHOW_FLOAT, of.size, True, ""
    if of.kind == LONG_DOUBLE:
        return row.SHOW_LONG_DOUBLE, of.size, True, ""
    if of.kind == STRUCT:
        name = of.text.split()[-1]
        if name not in structs:
            raise FormatError(f"'{of.text}' is not in structs.h", field=name)
        return row.SHOW_STRUCT, structs[name].size, False, name
    how = row.SHOW_DECIMAL
    if "OCTAL" in words:
        how = row.SHOW_OCTAL
    elif "HEX" in words:
        how = row.SHOW_HEX
    elif "BOOL" in words:
        how = row.SHOW_BOOL
    elif "CHAR" in words or of.is_char:
        wide = of.text in ("wchar_t", "wint_t")
        how = row.SHOW_WCHAR if wide else row.SHOW_CHAR
    return how, of.size, of.signed or "SIGNED" in words, ""


def _set(name: str, known: Container[str]) -> str:
    if name not in known:
        raise FormatError(f"there is no set '{name}' of this kind", field=name)
    return name
