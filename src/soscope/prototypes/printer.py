# SPDX-License-Identifier: Apache-2.0
"""Print the calls of one function from the data that the agent captured."""

from __future__ import annotations

from math import isnan
from struct import pack, unpack

from soscope.model.call import (
    DATA_NULL,
    DATA_TRUNCATED,
    DATA_UNREADABLE,
    ENDED_RETURN,
    ERRNO_ITEM,
    RESULT_ITEM,
    VALUES_ITEM,
    VECTORS_ITEM,
    Captured,
    Exit,
)
from soscope.model.image import ERROR_NONE, is_error
from soscope.prototypes import catalog, formats, show
from soscope.prototypes.byfields import ByFields, Unlike, nothing, word_text
from soscope.prototypes.formats import REST, UNKNOWN_TYPE, Argument, string_argument, wide_argument
from soscope.prototypes.show import NamedTypes, Shown, long_double

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.model.call import Fields
    from soscope.prototypes.byfields import Text, Texts
    from soscope.prototypes.show import Shower


# Print the arguments behind a format, as va_arg would read them.

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

    def show(self, taken: list[formats.Taken], stored: Captured | None = None) -> list[Argument]:
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

    def texts(self, taken: list[formats.Taken]) -> list[str]:
        """Return only the texts of the arguments of `show`."""
        shown: list[str] = []
        captured, item = self._captured, self._item
        words, data, shower = captured.words, captured.data, self._names.shower
        for _, how, string, _ in taken:
            kind = how[0]
            # quicker than a tuple that is made for each argument
            if kind == catalog.SHOW_LONG_DOUBLE or kind == catalog.SHOW_FLOAT:  # noqa: PLR1714
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
                if string == formats.WIDE:
                    shown.append(show.wide_string(content, self._limit, cut=cut)[0])
                else:
                    shown.append(show.string(content, self._limit, cut=cut))
            elif number is None:
                break
            else:
                shown.append(number[0])
            item += 1
        return shown

    def _one(self, of: str, how: catalog.Show, string: str) -> Argument | None:
        led = self._string(of, string) if string else None
        shown = self._scalar(how)
        is_address = how[0] == catalog.SHOW_POINTER or bool(string)
        return led or (None if shown is None else Argument(of, *shown, is_address=is_address))

    def _scalar(self, how: catalog.Show) -> Shown | None:
        if how[0] == catalog.SHOW_LONG_DOUBLE:
            self._stack += self._stack % 2
            pair = self._captured.stack[self._stack : self._stack + 2]
            self._stack += 2
            return long_double(*pair) if len(pair) == 2 else None
        if how[0] == catalog.SHOW_FLOAT and self._float < 8:
            at = self._float
            self._float += 1
            floats = self._captured.floats
            return (show.number(floats[at]), floats[at]) if at < len(floats) else None
        word = self._word(how[0] == catalog.SHOW_FLOAT)
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
        argument = wide_argument if string == formats.WIDE else string_argument
        return argument(of, data[2], self._limit, cut=bool(data[1] & DATA_TRUNCATED))


class Listed(Variadic):
    """Reads the values of a va_list, which were captured in order."""

    def __init__(self, captured: Captured, item: int, names: NamedTypes, limit: int) -> None:
        super().__init__(captured, _INT_REGISTERS, item, names, limit)
        values = captured.data[VALUES_ITEM][2]
        self._values = unpack(f"<{len(values) // 8}Q", values)
        self._value = 0

    def _scalar(self, how: catalog.Show) -> Shown | None:
        if how[0] != catalog.SHOW_LONG_DOUBLE:
            word = self._word(how[0] == catalog.SHOW_FLOAT)
            return None if word is None else self._names.shower(how)(word)
        pair = self._values[self._value : self._value + 2]
        self._value += 2
        return long_double(*pair) if len(pair) == 2 else None

    def _word(self, on_stack: bool) -> int | None:
        del on_stack
        at = self._value
        self._value = at + 1
        return self._values[at] if at < len(self._values) else None


UNKNOWN_WORDS = 4
_MOST_FORMATS = 1 << 10  # formats cached for one function
_WORD_SIZE = 8
_MISSING = "?"  # text for a value that was not recorded
_FORMATS = ("const char *", "const wchar_t *")
# Where the agent stores the registers of a result: rax, rdx, xmm0, xmm1, then st0.
_RESULT_AT = {0: 0, 1: 8, catalog.SECOND_FLOAT: 16, catalog.SECOND_FLOAT + 1: 24}
_X87_AT = 32
_REST = Argument(REST, REST, None)


def unknown_words(captured: Captured) -> list[Argument]:
    """Return the first words of a call of an unknown function, the last with a mark.

    These are registers, not arguments, because the number of arguments is not known.
    """
    return _guessed(captured.words[:UNKNOWN_WORDS])


def _guessed(words: tuple[int, ...]) -> list[Argument]:
    arguments = [Argument(UNKNOWN_TYPE, *show.word(word), guess=True) for word in words]
    if arguments:
        arguments[-1].marked(f" {UNKNOWN_TYPE}")
    return arguments


def unknown_result(result: int | None) -> Argument:
    """Return the result of an unknown function: a register, although it may have no result."""
    if result is None:
        return Argument(UNKNOWN_TYPE, _MISSING, None, guess=True)
    text, value = show.word(result)
    return Argument(UNKNOWN_TYPE, f"{text} {UNKNOWN_TYPE}", value, guess=True)


class Printer:
    """Prints calls of one known function; the first `known_at_entry` arguments do not change."""

    def __init__(self, of: catalog.FunctionRow, names: NamedTypes) -> None:
        _, arguments, optionals, tail, result, error_rule, errno, others, *_ = of
        self._names = names
        self._arguments = [ArgumentPlace(argument, names) for argument in arguments]
        widest = max((each.size for each in self._arguments if each.is_vector), default=0)
        self._result = None if result is None else ArgumentPlace(result, names)
        for place in self._arguments:
            place.is_decided_by(self._arguments, self._result)
            place.distance = widest
        self._optionals = [
            (conditions, [ArgumentPlace(argument, names) for argument in places])
            for conditions, places in optionals
        ]
        self._others: dict[int, list[tuple[catalog.Conditions, ArgumentPlace]]] = {}
        for number, conditions, argument in others:
            place = ArgumentPlace(argument, names)
            place.is_decided_by(self._arguments, self._result)
            self._others.setdefault(number, []).append((conditions, place))
        # a va_list is printed as its values, if they are known
        self._is_listed = tail.startswith(catalog.TAIL_LISTED)
        self._tail = tail.removeprefix(catalog.TAIL_LISTED)
        self._format = max(
            (n for n, place in enumerate(self._arguments) if place.type in _FORMATS), default=0
        )
        self._is_wide = bool(self._arguments) and self._arguments[self._format].type == _FORMATS[1]
        # format -> its arguments, and whether all of it was understood
        self._formats: dict[bytes, tuple[list[formats.Taken], bool]] = {}
        self._error_rule = error_rule
        self._errno = errno
        self._integers = sum(argument.place == catalog.PLACE_INT for argument in self._arguments)
        places = [*enumerate(self._arguments)]
        places += [(number, each) for number, row in self._others.items() for _, each in row]
        places += [(len(self._arguments), each) for _, row in self._optionals for each in row]
        late = [number for number, place in places if place.writes is not None]
        if self._tail == catalog.TAIL_SCANF:
            late.append(len(self._arguments) - self._is_listed)
        self.known_at_entry = min(late, default=None)
        self.result_is_alone = errno != catalog.ERRNO_CHANGED and (
            self._result is None or self._result.alone(0) is not None
        )

    def arguments(self, captured: Captured, limit: int, after: Exit | None) -> list[Argument]:
        """Return the arguments; with `after`, also arguments that the call filled in."""
        places, has_tail = self._places(captured)
        shown = [
            self._argument(number, place, captured, limit, after)
            for number, place in enumerate(places)
        ]
        return shown + self._rest(captured, limit, after) if has_tail else shown

    def texts(self, captured: Captured, limit: int, after: Exit | None) -> list[str]:
        """Return only the `shown` of `arguments`, for lines of a trace, which is quicker."""
        places, has_tail = self._places(captured)
        shown = [
            place.text(number, captured, limit)
            if place.writes is None
            else self._written(number, place, captured, limit, after)
            for number, place in enumerate(places)
        ]
        return shown + self._rest_texts(captured, limit, after) if has_tail else shown

    def _places(self, captured: Captured) -> tuple[list[ArgumentPlace], bool]:
        """Return the argument types of a call, and whether there is a tail behind them."""
        places = self._arguments
        if self._is_listed:
            is_known = VALUES_ITEM in captured.data and self._format in captured.data
            return (places[:-1], True) if is_known else (places, False)
        if self._others:
            places = [self._chosen(number, captured) for number in range(len(places))]
        for conditions, tail in self._optionals:
            if self._hold(conditions, captured):
                return [*places, *tail], False
        return places, bool(self._tail)

    def _argument(
        self, number: int, place: ArgumentPlace, captured: Captured, limit: int, after: Exit | None
    ) -> Argument:
        if place.writes is None:
            return place.argument(number, captured, captured, limit, None)
        followed = captured if place.is_in_out else None
        passed = place.argument(number, captured, followed, limit, None)
        if after is not None and self._has_written(place.writes, captured, after):
            place.fill(passed, number, captured, after, limit)
        return passed

    def _written(
        self, number: int, place: ArgumentPlace, captured: Captured, limit: int, after: Exit | None
    ) -> str:
        """Return only the text of an argument to whose target the call may write."""
        if after is not None and place.writes is not None and place.shows_written:
            _, flags, content = after.captured.data.get(number, (0, 0, b""))
            if content and not flags and self._has_written(place.writes, captured, after):
                return show.string(content, limit)
        return self._argument(number, place, captured, limit, after).shown

    def _chosen(self, number: int, captured: Captured) -> ArgumentPlace:
        """Return the type of argument `number` in a call."""
        for conditions, place in self._others.get(number, ()):
            if self._hold(conditions, captured):
                return place
        return self._arguments[number]

    def _hold(self, conditions: catalog.Conditions, captured: Captured) -> bool:
        """Return whether all of `conditions` are true for a call."""
        for number, operator, values in conditions:
            value = self._arguments[number].number(captured.words)
            if value is None:
                return False
            if operator == "&":
                if not any(value & flag for flag in values):
                    return False
            elif value not in values:
                return False
        return True

    def result(self, after: Exit, limit: int) -> Argument | None:
        """Return the result, None if the function has none."""
        place = self._result
        if place is None:
            return None
        if after.result is None:
            return Argument(place.type, _MISSING, None)
        captured = after.captured
        words = Captured((after.result,), (), captured.floats, captured.data)
        return place.argument(RESULT_ITEM, words, words, limit, None)

    def by_fields(self, fields: Fields, limit: int) -> Texts | None:
        """Return the functions that make the text of `texts` for calls with these fields.

        They raise Unlike for a call that they cannot print. Return None if they could print no
        call.
        """
        if self._others or self._optionals or self._tail.startswith(catalog.TAIL_WORDS):
            return None
        makes = ByFields(fields, self._names, limit, self._arguments)
        try:
            parts = [
                makes.part(number, place, self._result, self._error_rule)
                for number, place in enumerate(self._arguments)
            ]
            if self._is_listed and not {VALUES_ITEM, self._format} <= fields.data.keys():
                return makes.texts(parts, is_open=False)
            if self._is_listed:
                parts.pop()
            if self._tail in (catalog.TAIL_PRINTF, catalog.TAIL_SCANF):
                if self._is_wide:
                    return None
                integers = None if self._is_listed else self._integers
                return makes.with_format(parts, self._format, self._tail, integers)
        except Unlike:
            return None
        return makes.texts(parts, is_open=bool(self._tail))

    def result_text(self) -> tuple[Text | None, int]:
        """Return the function that prints the result by its field, and the error rule.

        If the result is an error by that rule, more must be printed. The function is None if the
        result takes more than its field.
        """
        if self._result is None:
            return nothing, ERROR_NONE
        if self._result.alone(0) is None:
            return None, ERROR_NONE
        return word_text(self._result.shown_as, self._names), self._error_rule

    def failure_errno(self, after: Exit) -> int | None:
        """Return the errno of a failed call, None if it did not fail or has no errno."""
        if after.result is None or not is_error(self._error_rule, after.result):
            return None
        if self._errno == catalog.ERRNO_NONE:
            return None
        if self._errno == catalog.ERRNO_CHANGED and not _has_changed(after):
            return None
        return after.result & 0x7FFF_FFFF if self._errno == catalog.ERRNO_RESULT else after.errno

    def _has_written(
        self, writes: tuple[tuple[int, str], ...], before: Captured, end: Exit
    ) -> bool:
        """Return whether a call with this end has written an argument, by `writes`."""
        if end.ended != ENDED_RETURN or end.result is None:
            return False
        for number, operator in writes:
            if number == catalog.WRITES_SUCCESS:
                holds = not is_error(self._error_rule, end.result)
            elif operator == "number":
                holds = not any(map(isnan, end.captured.floats))
            else:
                place = self._result if number == catalog.WRITES_RESULT else self._arguments[number]
                words = (end.result,) if number == catalog.WRITES_RESULT else before.words
                holds = place is not None and place.compares(operator, words)
            if not holds:
                return False
        return True

    def _rest(self, captured: Captured, limit: int, after: Exit | None) -> list[Argument]:
        if self._tail.startswith(catalog.TAIL_WORDS):
            count = self._integers + int(self._tail.removeprefix(catalog.TAIL_WORDS))
            return _guessed(captured.words[self._integers : count])
        taken, complete = self._taken(captured)
        stored = None if after is None else after.captured
        shown = self._variadic(captured, limit).show(taken, stored) if taken else []
        if not complete or len(shown) < len(taken):
            shown.append(_REST)
        return shown

    def _rest_texts(self, captured: Captured, limit: int, after: Exit | None) -> list[str]:
        if self._tail.startswith(catalog.TAIL_WORDS) or self._tail == catalog.TAIL_SCANF:
            return [argument.shown for argument in self._rest(captured, limit, after)]
        taken, complete = self._taken(captured)
        shown = self._variadic(captured, limit).texts(taken) if taken else []
        if not complete or len(shown) < len(taken):
            shown.append(REST)
        return shown

    def _variadic(self, captured: Captured, limit: int) -> Variadic:
        if self._is_listed:
            return Listed(captured, len(self._arguments) - 1, self._names, limit)
        return Variadic(captured, self._integers, len(self._arguments), self._names, limit)

    def _taken(self, captured: Captured) -> tuple[list[formats.Taken], bool]:
        """Return the arguments that a call's format takes, and whether all of it was understood."""
        data = None if self._tail == catalog.TAIL_OPEN else captured.data.get(self._format)
        if data is None or data[1] & (DATA_NULL | DATA_UNREADABLE):
            return [], False
        known = self._formats.get(data[2])
        if known is None:
            text = show.narrowed(data[2]) if self._is_wide else data[2]
            known = formats.printf_arguments_of(text, self._tail)
            if len(self._formats) >= _MOST_FORMATS:
                self._formats.clear()
            self._formats[data[2]] = known
        return known if not data[1] & DATA_TRUNCATED else (known[0], False)


def _has_changed(after: Exit) -> bool:
    """Return whether errno is known to differ from its value at the entry.

    An unchanged value may be from an earlier call.
    """
    kept = after.entry.captured.data.get(ERRNO_ITEM) if after.entry is not None else None
    return kept is not None and after.errno != int.from_bytes(kept[2], "little", signed=True)


class ArgumentPlace:
    """One argument or the result: its location and its format."""

    def __init__(self, of: catalog.ArgumentRow, names: NamedTypes) -> None:
        self.type, self.place, self.index, how, self.leads, self.target = of[:6]
        self._counted_by = of[6]
        self._counter: ArgumentPlace | None = None
        self._is_counted_by_result = of[6] == catalog.BY_RESULT
        self.writes, self.is_in_out, self.name = of[7:]
        self.how, self.size, self.signed, self._detail = self.shown_as = how
        self.decider: ArgumentPlace | None = None
        self.is_bytes = self.leads == catalog.POINTS_TO_BYTES
        self._is_address = self.how == catalog.SHOW_POINTER or self.type.endswith("*")
        self._names = names
        self.is_wide = self.size > _WORD_SIZE
        self.is_vector = self.place == catalog.PLACE_VECTOR
        self.distance = 0  # bytes between captured whole vector registers
        self.show: Shower | None = None
        if (
            self.place in (catalog.PLACE_INT, catalog.PLACE_FLOAT, catalog.PLACE_STACK)
            and not self.is_wide
        ):
            self.show = names.shower(how)
        # its text depends only on this register
        self.is_plain = self.place == catalog.PLACE_INT and not self.leads and self.show is not None
        self.is_string = self.leads in (catalog.POINTS_TO_STRING, catalog.POINTS_TO_BYTES)
        self.shows_written = self.is_string and not self.is_in_out

    def is_decided_by(self, arguments: list[ArgumentPlace], result: ArgumentPlace | None) -> None:
        """Record the argument that decides the names of this one, or the number of its elements."""
        if self._is_counted_by_result:
            self._counter = result
        elif self._counted_by < 0:
            self._counter = arguments[~self._counted_by]
        if self.how == catalog.SHOW_BY:
            self._detail, _, number = self._detail.partition(":")
            self.decider = arguments[int(number)]
            self.is_plain = False

    def alone(self, index: int) -> Shower | None:
        """Return the function that prints it from integer register `index`.

        The result is None if another register or argument is needed.
        """
        if self.place != catalog.PLACE_INT or self.index != index or self.leads or self.decider:
            return None
        return self.show

    def number(self, words: tuple[int, ...]) -> int | None:
        """Return its value in the integer registers `words`, None if it was not captured."""
        if self.index >= len(words):
            return None
        bits = 8 * self.size
        value = words[self.index] & ((1 << bits) - 1)
        return value - (1 << bits) if self.signed and value >> (bits - 1) else value

    def compares(self, operator: str, words: tuple[int, ...]) -> bool:
        """Return whether its value in `words` is known, and its comparison with 0 is true."""
        value = self.number(words)
        if value is None:
            return False
        if operator == ">":
            return value > 0
        if operator == ">=":
            return value >= 0
        return (value != 0) == (operator == "!=")

    def text(self, item: int, captured: Captured, limit: int) -> str:
        """Return only the text of `argument`, for data that a call does not write."""
        if self.is_plain:
            words = captured.words
            if self.index < len(words) and self.show is not None:
                return self.show(words[self.index])[0]
        elif self.is_string:
            data = captured.data.get(item)
            if data is not None and data[2] and not data[1]:
                return show.string(data[2], limit)
        return self.argument(item, captured, captured, limit, None).text

    def argument(
        self,
        item: int,
        captured: Captured,
        followed: Captured | None,
        limit: int,
        result: int | None,
    ) -> Argument:
        """Return the argument; `followed` has the data at its target, if they can be printed."""
        shown = None
        if self.place in (catalog.PLACE_RESULT, catalog.PLACE_MEMORY) or (
            self.is_vector and item == RESULT_ITEM
        ):
            shown = Argument(self.type, *self._result(captured))
        elif self.leads and followed is not None:
            shown = self._followed(item, followed, limit, result, captured)
        if shown is None:
            shown = Argument(self.type, *self._own(captured), is_address=self._is_address)
        shown.name = self.name
        return shown

    def fill(self, passed: Argument, item: int, before: Captured, after: Exit, limit: int) -> None:
        """Add the data that a call has written to the argument that was passed."""
        out = self._followed(item, after.captured, limit, after.result, before)
        if out is None or out.is_address:  # unknown, or nil
            return
        if not self.is_in_out:
            passed.shown = out.text
        elif out.text == passed.text:
            return
        else:
            passed.shown = f"{passed.text} => {out.text}"
        out.name = self.name
        passed.out = out

    def _followed(
        self,
        item: int,
        followed: Captured,
        limit: int,
        result: int | None,
        before: Captured,
    ) -> Argument | None:
        """Return the data at its target, None if not known; `before` is from the entry."""
        data = followed.data.get(item)
        if data is None:
            return string_argument(self.type, b"", limit) if self.is_bytes and result == 0 else None
        _, flags, content = data
        if flags & DATA_NULL:
            return Argument(self.type, "nil", 0, is_address=True)
        # No bytes, although the call returned some: their number was not known.
        if flags & DATA_UNREADABLE or (not content and bool(result) and self.is_bytes):
            return None
        if self.leads in (catalog.POINTS_TO_STRING, catalog.POINTS_TO_BYTES):
            return string_argument(self.type, content, limit, cut=bool(flags & DATA_TRUNCATED))
        if self.leads == catalog.POINTS_TO_WIDE:
            return wide_argument(self.type, content, limit, cut=bool(flags & DATA_TRUNCATED))
        if self.leads == catalog.POINTS_TO_STRING_AT:
            to = string_argument(self.type, content, limit, cut=bool(flags & DATA_TRUNCATED))
            to.text = to.shown = f"[{to.text}]"
            return to
        counted = before.words
        if self._is_counted_by_result and result is not None:
            counted = (result,)
        led = self._led(content, limit, before, counted)
        return None if led is None else Argument(self.type, *led)

    def _own(self, captured: Captured) -> Shown:
        if self.place == catalog.PLACE_FLOAT and self.how != catalog.SHOW_FLOAT:
            if self.index >= len(captured.floats):
                return _MISSING, None
            pair = pack("<d", captured.floats[self.index])  # floats: a complex number, or fields
            return show.record(pair, self.shown_as, self._names)
        if self.place == catalog.PLACE_FLOAT and self.index < len(captured.floats):
            value = show.float_of(captured.floats[self.index], self.size)
            return (show.number(value) if self.size == 8 else show.single_number(value)), value
        if self.place == catalog.PLACE_REGISTERS or self.show is None or self.is_wide:
            data = self._wide(captured)
            return (
                (_MISSING, None) if data is None else show.record(data, self.shown_as, self._names)
            )
        words = captured.words if self.place == catalog.PLACE_INT else captured.stack
        if self.place == catalog.PLACE_FLOAT or self.index >= len(words):
            return _MISSING, None
        if self.decider is not None:
            return self._decided(words)
        return self.show(words[self.index])

    def _wide(self, captured: Captured) -> bytes | None:
        """Return the bytes of a value larger than a word, None if they were not captured."""
        if self.is_vector:
            kept = captured.data.get(VECTORS_ITEM, (0, 0, b""))[2]
            at = self.index * self.distance
            return kept[at : at + self.size] if len(kept) >= at + self.size else None
        if self.place == catalog.PLACE_STACK:
            words = captured.stack[self.index : self.index + (self.size + 7) // 8]
            data = b"".join(word.to_bytes(8, "little") for word in words)
            return data if len(data) >= self.size else None
        parts = []
        for register in catalog.unpacked(self.index, self.size):
            if register < catalog.SECOND_FLOAT:
                if register >= len(captured.words):
                    return None
                parts.append(captured.words[register].to_bytes(8, "little"))
            elif register - catalog.SECOND_FLOAT < len(captured.floats):
                parts.append(pack("<d", captured.floats[register - catalog.SECOND_FLOAT]))
            else:
                return None
        return b"".join(parts)

    def _result(self, captured: Captured) -> Shown:
        """Return the text of a result that is not only in the first register."""
        _, flags, content = captured.data.get(RESULT_ITEM, (0, DATA_NULL, b""))
        if flags & (DATA_NULL | DATA_UNREADABLE):
            return _MISSING, None
        if self.place == catalog.PLACE_RESULT:
            if self.index == catalog.SECOND_X87:
                content = content[_X87_AT:]
            else:
                at = [_RESULT_AT[each] for each in catalog.unpacked(self.index, self.size)]
                content = b"".join(content[each : each + 8] for each in at)
        if len(content) < self.size:
            return _MISSING, None
        return show.record(content, self.shown_as, self._names)

    def _decided(self, words: tuple[int, ...]) -> Shown:
        """Return the name of a constant that depends on another argument, else the number."""
        decides = self.decider.number(words) if self.decider is not None else None
        enums = self._names.enums
        names = enums[enums[self._detail][decides]] if decides in enums[self._detail] else {}
        value = self.number(words)
        return names.get(value, str(value)) if value is not None else _MISSING, value

    def _led(
        self, content: bytes, limit: int, before: Captured, counted: tuple[int, ...]
    ) -> Shown | None:
        if self.leads == catalog.POINTS_TO_SOCKET and len(content) >= 2:
            return show.socket_address(content, self._names, limit), None
        count = None if self._counter is None else self._counter.number(counted)
        if self.leads == catalog.POINTS_TO_DESCRIPTORS and count is not None:
            return show.descriptor_set(content, count, self._names), None
        if self.target is None:
            return None
        if self._counter is not None:
            return show.values(content, self.target, self._names, count)
        if len(content) < self.target[1]:
            return None
        if self.leads == catalog.POINTS_TO_STRUCT:
            return show.record(content, self.target, self._names)[0], None
        if self.leads == catalog.POINTS_TO_FIELDS:
            name, _, number = self.target[3].partition(":")
            _, flags, text = before.data.get(int(number), (0, DATA_UNREADABLE, b""))
            only = None if flags else show.members_of(text)
            return show.structure(content, name, self._names, only=only), None
        return show.values(content, self.target, self._names)
