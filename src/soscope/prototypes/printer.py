# SPDX-License-Identifier: Apache-2.0
"""Print the calls of one function, from what the agent kept of them."""

from __future__ import annotations

from soscope.model.call import ENDED_RETURN, Exit
from soscope.model.capture import DATA_NULL, DATA_TRUNCATED, DATA_UNREADABLE, RESULT_ITEM, Captured
from soscope.model.slot import is_error
from soscope.prototypes import conversion, escape, row, show
from soscope.prototypes.argument import REST, UNKNOWN_TYPE, Argument
from soscope.prototypes.show import Names, Shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_UNKNOWN_WORDS = 4
_INT_REGISTERS = 6
_MISSING = "?"  # was not recorded
_REST = Argument(REST, REST, None)


def unknown_words(captured: Captured) -> list[Argument]:
    """Show the first words of a call of an unknown function, the last with a mark.

    Registers are shown, not arguments: nobody knows how many there are.
    """
    return _guessed(captured.words[:_UNKNOWN_WORDS])


def _guessed(words: tuple[int, ...]) -> list[Argument]:
    arguments = [Argument(UNKNOWN_TYPE, *show.word(one)) for one in words]
    if arguments:
        arguments[-1].text += f" {UNKNOWN_TYPE}"
    return arguments


def unknown_result(result: int | None) -> Argument:
    """Show the result of an unknown function."""
    if result is None:
        return Argument(UNKNOWN_TYPE, _MISSING, None)
    return Argument(UNKNOWN_TYPE, *show.word(result))


class Printer:
    """Prints calls of one known function. `known_at_entry` arguments do not change later."""

    def __init__(self, of: row.FunctionRow, names: Names) -> None:
        _, arguments, optionals, tail, result, error_rule, errno, _ = of
        self._names = names
        self._arguments = [_Place(one, names) for one in arguments]
        self._optionals = [
            (number, operator, values, _Place(one, names))
            for number, operator, values, one in optionals
        ]
        self._tail = tail
        self._result = None if result is None else _Place(result, names)
        self._error_rule = error_rule
        self._errno = errno
        self._integers = sum(one.place == row.PLACE_INT for one in self._arguments)
        outs = [number for number, one in enumerate(self._arguments) if one.out]
        self.known_at_entry = outs[0] if outs else None

    def arguments(self, captured: Captured, limit: int, after: Exit | None) -> list[Argument]:
        """Show the arguments; with `after`, those that the call filled in as well."""
        filled = after is not None and self._has_filled(after)
        at_exit = after.captured if after is not None and filled else None
        result = after.result if after is not None and filled else None
        shown = [
            one.argument(number, captured, at_exit if one.out else captured, limit, result)
            for number, one in enumerate(self._arguments)
        ]
        for number, operator, values, one in self._optionals:
            if _holds(number, operator, values, shown):
                shown.append(one.argument(len(shown), captured, captured, limit, None))
                break
        if self._tail:
            shown += self._rest(captured, limit)
        return shown

    def result(self, after: Exit, limit: int) -> Argument | None:
        """Show the result; None where the function has none."""
        one = self._result
        if one is None:
            return None
        if after.result is None:
            return Argument(one.type, _MISSING, None)
        captured = after.captured
        words = Captured((after.result,), (), captured.floats, captured.data)
        return one.argument(RESULT_ITEM, words, words, limit, None)

    def failure_errno(self, after: Exit) -> int | None:
        """Return the errno that tells why the call failed; None: it did not, or none does."""
        if after.result is None or not is_error(self._error_rule, after.result):
            return None
        if self._errno == row.ERRNO_NONE:
            return None
        return after.result & 0x7FFF_FFFF if self._errno == row.ERRNO_RESULT else after.errno

    def _has_filled(self, after: Exit) -> bool:
        if after.ended != ENDED_RETURN or after.result is None:
            return False
        if is_error(self._error_rule, after.result):
            return False
        result = self._result
        # fgets at the end of a file: no failure, and nothing was filled in.
        return not (result and result.how == row.SHOW_POINTER and after.result == 0)

    def _rest(self, captured: Captured, limit: int) -> list[Argument]:
        if self._tail.startswith(row.TAIL_WORDS):
            count = self._integers + int(self._tail.removeprefix(row.TAIL_WORDS))
            return _guessed(captured.words[self._integers : count])
        if self._tail == row.TAIL_OPEN:
            return [_REST]
        numbers = [n for n, one in enumerate(self._arguments) if one.type == "const char *"]
        data = captured.data.get(numbers[-1])
        if data is None or data[1] & (DATA_NULL | DATA_UNREADABLE):
            return [_REST]
        taken, complete = conversion.arguments_of(data[2], self._tail)
        rest = _Variadic(captured, self._integers, len(self._arguments), self._names, limit)
        shown_rest = rest.show(taken)
        if not complete or data[1] & DATA_TRUNCATED or len(shown_rest) < len(taken):
            shown_rest.append(_REST)
        return shown_rest


def _holds(number: int, operator: str, values: tuple[int, ...], shown: list[Argument]) -> bool:
    if number < 0:
        return True
    value = shown[number].value
    if not isinstance(value, int):
        return False
    if operator == "&":
        return any(value & one for one in values)
    return value in values


class _Place:
    """One argument or the result: where it is and how it is shown."""

    def __init__(self, of: row.ArgumentRow, names: Names) -> None:
        self.type, self.place, self.index, how, self.leads, self.target, self.count, self.out = of
        self.how, self.size = how[0], how[1]
        self._is_bytes = self.leads == row.LEADS_TO_BYTES
        self._names = names
        self._show: Callable[[int], Shown] | None = None
        if self.place != row.PLACE_NONE and self.how != row.SHOW_LONG_DOUBLE:
            self._show = show.scalar(how, names)

    def argument(
        self,
        item: int,
        captured: Captured,
        followed: Captured | None,
        limit: int,
        result: int | None,
    ) -> Argument:
        """Show it. `followed` has what it leads to, if that can be shown."""
        if self.leads and followed is not None:
            data = followed.data.get(item)
            if data is not None:
                _, flags, content = data
                if flags & DATA_NULL:
                    return Argument(self.type, "nil", 0)
                # No bytes of a call that did return some: how many was not known.
                lost = self.out and not content and bool(result) and self._is_bytes
                if not flags & DATA_UNREADABLE and not lost:
                    led = self._led(content, bool(flags & DATA_TRUNCATED), limit)
                    if led is not None:
                        return Argument(self.type, *led)
            elif self._is_bytes and result == 0:
                return Argument(self.type, '""', "")
        return Argument(self.type, *self._own(captured))

    def _own(self, captured: Captured) -> Shown:
        if self.place == row.PLACE_FLOAT and self.index < len(captured.floats):
            value = show.float_of(captured.floats[self.index], self.size)
            return (show.number(value) if self.size == 8 else show.single_number(value)), value
        if self._show is None:
            pair = captured.stack[self.index : self.index + 2]
            if self.place == row.PLACE_STACK and len(pair) == 2:
                return show.long_double(*pair)
            return _MISSING, None
        words = captured.words if self.place == row.PLACE_INT else captured.stack
        if self.place == row.PLACE_FLOAT or self.index >= len(words):
            return _MISSING, None
        return self._show(words[self.index])

    def _led(self, content: bytes, cut: bool, limit: int) -> Shown | None:
        if self.leads in (row.LEADS_TO_STRING, row.LEADS_TO_BYTES):
            return escape.string(content, limit, cut=cut), escape.value(content)
        if self.leads == row.LEADS_TO_WIDE:
            return escape.wide_string(content, limit)
        if self.leads == row.LEADS_TO_SOCKET and len(content) >= 2:
            return show.socket_address(content, self._names, limit), None
        if self.target is None or len(content) < self.target[1]:
            return None
        if self.leads == row.LEADS_TO_STRUCT:
            return show.structure(content, self.target[3], self._names), None
        return show.values(content, self.target, self._names)


class _Variadic:
    """Walks through the arguments behind a format, as va_arg would."""

    def __init__(
        self, captured: Captured, integers: int, item: int, names: Names, limit: int
    ) -> None:
        self._captured = captured
        self._integer = integers
        self._float = 0
        self._stack = 0
        self._item = item
        self._names = names
        self._limit = limit

    def show(self, taken: list[conversion.Taken]) -> list[Argument]:
        """Show as many as were recorded, up to the first that was not."""
        shown: list[Argument] = []
        for of, how, string in taken:
            one = self._one(how, string)
            if one is None:
                break
            shown.append(Argument(of, *one))
            self._item += 1
        return shown

    def _one(self, how: row.Show, string: str) -> Shown | None:
        if how[0] == row.SHOW_LONG_DOUBLE:
            self._stack += self._stack % 2
            pair = self._captured.stack[self._stack : self._stack + 2]
            self._stack += 2
            return show.long_double(*pair) if len(pair) == 2 else None
        if how[0] == row.SHOW_FLOAT and self._float < 8:
            at = self._float
            self._float += 1
            floats = self._captured.floats
            return (show.number(floats[at]), floats[at]) if at < len(floats) else None
        word = self._word(how[0] == row.SHOW_FLOAT)
        if string:
            led = self._string(string)
            if led is not None:
                return led
        return None if word is None else show.scalar(how, self._names)(word)

    def _word(self, on_stack: bool) -> int | None:
        if not on_stack and self._integer < _INT_REGISTERS:
            words, at = self._captured.words, self._integer
            self._integer += 1
        else:
            words, at = self._captured.stack, self._stack
            self._stack += 1
        return words[at] if at < len(words) else None

    def _string(self, string: str) -> Shown | None:
        data = self._captured.data.get(self._item)
        if data is None or data[1] & (DATA_NULL | DATA_UNREADABLE):
            return None  # nil, or its address
        if string == conversion.WIDE:
            return escape.wide_string(data[2], self._limit)
        cut = bool(data[1] & DATA_TRUNCATED)
        return escape.string(data[2], self._limit, cut=cut), escape.value(data[2])
