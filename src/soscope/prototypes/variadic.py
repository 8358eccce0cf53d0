# SPDX-License-Identifier: Apache-2.0
"""Print the arguments behind a format, as va_arg would read them."""

from __future__ import annotations

from struct import unpack

from soscope.model.call import DATA_NULL, DATA_TRUNCATED, DATA_UNREADABLE, VALUES_ITEM, Captured
from soscope.prototypes import conversion, escape, formats, row, show
from soscope.prototypes.argument import Argument, string_argument, wide_argument
from soscope.prototypes.longdouble import long_double
from soscope.prototypes.show import NamedTypes, Shown

_INT_REGISTERS = 6


class Variadic:
    """Reads the arguments behind a format in order, as va_arg would."""

    def __init__(
        self, captured: Captured, integers: int, item: int, names: NamedTypes, limit: int
    ) -> None:
        self._captured = captured
        self._integer = integers
        self._float = 0
        self._stack = 0
        self._item = item
        self._names = names
        self._limit = limit

    def show(self, taken: list[conversion.Taken], stored: Captured | None = None) -> list[Argument]:
        """Return the arguments that were recorded, up to the first that was not.

        `stored` has the data that the call has stored at their targets.
        """
        shown: list[Argument] = []
        for of, how, string, fill in taken:
            argument = self._one(of, how, string)
            if argument is None:
                break
            if fill is not None and stored is not None and self._item in stored.data:
                data = stored.data[self._item]
                out = formats.stored(of, fill, data, self._limit, self._names)
                if out is not None:
                    argument.out, argument.shown = out, out.text
            shown.append(argument)
            self._item += 1
        return shown

    def texts(self, taken: list[conversion.Taken]) -> list[str]:
        """Return only the texts of the arguments of `show`."""
        shown: list[str] = []
        captured, item = self._captured, self._item
        words, data, shower = captured.words, captured.data, self._names.shower
        for _, how, string, _ in taken:
            kind = how[0]
            # quicker than a tuple that is made for each argument
            if kind == row.SHOW_LONG_DOUBLE or kind == row.SHOW_FLOAT:  # noqa: PLR1714
                number = self._scalar(how)
            elif self._integer < _INT_REGISTERS:
                at = self._integer
                self._integer = at + 1
                number = shower(how)(words[at]) if at < len(words) else None
            else:
                number = self._scalar(how)
            if string and item in data and not data[item][1] & (DATA_NULL | DATA_UNREADABLE):
                _, flags, content = data[item]
                cut = bool(flags & DATA_TRUNCATED)
                if string == conversion.WIDE:
                    shown.append(escape.wide_string(content, self._limit, cut=cut)[0])
                else:
                    shown.append(escape.string(content, self._limit, cut=cut))
            elif number is None:
                break
            else:
                shown.append(number[0])
            item += 1
        return shown

    def _one(self, of: str, how: row.Show, string: str) -> Argument | None:
        led = self._string(of, string) if string else None
        shown = self._scalar(how)
        is_address = how[0] == row.SHOW_POINTER or bool(string)
        return led or (None if shown is None else Argument(of, *shown, is_address=is_address))

    def _scalar(self, how: row.Show) -> Shown | None:
        if how[0] == row.SHOW_LONG_DOUBLE:
            self._stack += self._stack % 2
            pair = self._captured.stack[self._stack : self._stack + 2]
            self._stack += 2
            return long_double(*pair) if len(pair) == 2 else None
        if how[0] == row.SHOW_FLOAT and self._float < 8:
            at = self._float
            self._float += 1
            floats = self._captured.floats
            return (show.number(floats[at]), floats[at]) if at < len(floats) else None
        word = self._word(how[0] == row.SHOW_FLOAT)
        return None if word is None else self._names.shower(how)(word)

    def _word(self, on_stack: bool) -> int | None:
        if not on_stack and self._integer < _INT_REGISTERS:
            words, at = self._captured.words, self._integer
            self._integer += 1
        else:
            words, at = self._captured.stack, self._stack
            self._stack += 1
        return words[at] if at < len(words) else None

    def _string(self, of: str, string: str) -> Argument | None:
        data = self._captured.data.get(self._item)
        if data is None or data[1] & (DATA_NULL | DATA_UNREADABLE):
            return None  # NULL, or only its address
        argument = wide_argument if string == conversion.WIDE else string_argument
        return argument(of, data[2], self._limit, cut=bool(data[1] & DATA_TRUNCATED))


class Listed(Variadic):
    """Reads the values of a va_list, which were captured in order."""

    def __init__(self, captured: Captured, item: int, names: NamedTypes, limit: int) -> None:
        super().__init__(captured, _INT_REGISTERS, item, names, limit)
        values = captured.data[VALUES_ITEM][2]
        self._values = unpack(f"<{len(values) // 8}Q", values)
        self._value = 0

    def _scalar(self, how: row.Show) -> Shown | None:
        if how[0] != row.SHOW_LONG_DOUBLE:
            word = self._word(how[0] == row.SHOW_FLOAT)
            return None if word is None else self._names.shower(how)(word)
        pair = self._values[self._value : self._value + 2]
        self._value += 2
        return long_double(*pair) if len(pair) == 2 else None

    def _word(self, on_stack: bool) -> int | None:
        del on_stack
        at = self._value
        self._value = at + 1
        return self._values[at] if at < len(self._values) else None
