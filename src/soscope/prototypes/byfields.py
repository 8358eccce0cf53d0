# SPDX-License-Identifier: Apache-2.0
"""Print the arguments of calls with the same shape, for which common work is done only once.

Each argument of a shape has one function and one index in the fields of a call. If this module
does not support an argument, or if one call differs, `Printer.texts` prints it, which supports
everything.
"""

from __future__ import annotations

from soscope.model.call import (
    DATA_NULL,
    DATA_TRUNCATED,
    DATA_UNREADABLE,
    RESULT,
    VALUES_ITEM,
    Fields,
    Unpacked,
)
from soscope.model.image import ERROR_BITS, ERROR_NONE, is_error
from soscope.prototypes import catalog, formats, show
from soscope.prototypes.formats import REST, UNKNOWN_TYPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from soscope.prototypes.printer import ArgumentPlace
    from soscope.prototypes.show import NamedTypes

    Text = Callable[[Any, int], str]  # text of one field, given the fields and an index
    Part = tuple[Text, int]

_INT_REGISTERS = 6
_FLOAT_REGISTERS = 8
_VALUES = 3  # 8-byte values in a piece
_MOST_FORMATS = 1 << 8
_MOST_NAMES = 1 << 12
_MOST_STRINGS = 1 << 8  # texts cached for one argument


class Unlike(Exception):  # noqa: N818  no error
    """One call differs from most calls of its shape."""


class Texts:
    """Functions that print the arguments of calls of one shape: of a `single` call, or of `many`.

    Both take the fields of calls, and raise Unlike for a call that they cannot print.
    """

    __slots__ = ("many", "single")

    def __init__(
        self,
        single: Callable[[Unpacked], str],
        many: Callable[[list[Unpacked]], list[str]] | None = None,
    ) -> None:
        self.single = single
        self.many = many or (lambda rows: list(map(single, rows)))


class ByFields:
    """Makes the functions for calls of one shape; strings have at most `limit` bytes."""

    def __init__(
        self, fields: Fields, names: NamedTypes, limit: int, arguments: list[ArgumentPlace]
    ) -> None:
        self._fields = fields
        self._names = names
        self._limit = limit
        self._arguments = arguments

    # ---- declared arguments ----

    def part(
        self, number: int, place: ArgumentPlace, result: ArgumentPlace | None, error_rule: int
    ) -> Part:
        """Return the function that prints an argument. Raises Unlike if fields are not enough."""
        fields = self._fields
        if place.writes is not None:
            if number in fields.back and place.shows_written:
                return self._written(fields.back[number], self._holds(place, result, error_rule))
            if number in fields.back or (place.is_in_out and number in fields.data):
                raise Unlike
            text, at = self.own(place)
            # if there were no bytes, nothing was captured, either
            return (_unless_none(text) if place.is_bytes else text), at
        if place.leads and number in fields.data:
            if not place.is_string:
                raise Unlike
            at, pieces = fields.data[number]
            return self._string(pieces, self.own(place)), at
        return self.own(place)

    def own(self, place: ArgumentPlace) -> Part:
        """Return the function that prints an argument's register or stack word itself."""
        fields = self._fields
        if place.decider is not None or place.is_wide:
            raise Unlike
        if place.place == catalog.PLACE_FLOAT and place.how == catalog.SHOW_FLOAT:
            if place.index >= len(fields.floats):
                raise Unlike
            return _float(place.size), fields.floats[place.index]
        rows = {catalog.PLACE_INT: fields.words, catalog.PLACE_STACK: fields.stack}
        places = rows.get(place.place, [])
        if place.show is None or place.index >= len(places):
            raise Unlike
        return word_text(place.shown_as, self._names), places[place.index]

    def _holds(
        self, place: ArgumentPlace, result: ArgumentPlace | None, error_rule: int
    ) -> Callable[[Any], bool]:
        """Return a function that tells whether a call has written an argument."""
        fails = ERROR_NONE
        compared: list[tuple[int, int, int, str]] = []  # index, mask, sign, compared with
        for number, operator in place.writes or ():
            if operator == "number":
                raise Unlike
            if number == catalog.WRITES_SUCCESS:
                fails = error_rule
                continue
            which = result if number == catalog.WRITES_RESULT else self._arguments[number]
            places = [RESULT] if number == catalog.WRITES_RESULT else self._fields.words
            if which is None or which.index >= len(places):
                raise Unlike
            bits = 8 * which.size
            sign = 1 << bits - 1 if which.signed else 0
            compared.append((places[which.index], (1 << bits) - 1, sign, operator))

        failed = ERROR_BITS.get(fails)
        if failed is not None and not compared:  # quicker than the general case below
            return lambda of: not of[RESULT] & failed
        if failed is not None and len(compared) == 1:
            [(only, wanted, is_signed, how)] = compared
            if how == ">" and not is_signed:
                return lambda of: not of[RESULT] & failed and of[only] & wanted != 0

        def holds(of: Any) -> bool:
            if fails and is_error(fails, of[RESULT]):
                return False
            for at, mask, sign, operator in compared:
                value = of[at] & mask
                if operator == ">":
                    if not value or value & sign:
                        return False
                elif operator == ">=":
                    if value & sign:
                        return False
                elif (value != 0) != (operator == "!="):
                    return False
            return True

        return holds

    def _string(self, pieces: int, own: Part, null: str | None = "nil") -> Text:
        """Return the function that prints a string; `null`: text for NULL, None: the register."""
        limit, string = self._limit, show.string
        text, register = own
        known: dict[bytes, str] = {}

        def shown(of: Any, at: int) -> str:
            content = of[at + 2] if pieces == 1 else b"".join(of[at + 2 : at + 2 + pieces])
            content = content[: of[at]]
            flags = of[at + 1]
            if flags:
                if flags & DATA_NULL and null is not None:
                    return null
                if flags & (DATA_NULL | DATA_UNREADABLE):
                    return text(of, register)
                return string(content, limit, cut=bool(flags & DATA_TRUNCATED))
            known_text = known.get(content)
            if known_text is None:
                if len(known) >= _MOST_STRINGS:
                    known.clear()
                known_text = known[content] = string(content, limit)
            return known_text

        return shown

    def _written(self, where: tuple[int, int], holds: Callable[[Any], bool]) -> Part:
        place, pieces = where
        limit, string = self._limit, show.string

        def shown(of: Any, at: int) -> str:
            content = of[at + 2] if pieces == 1 else b"".join(of[at + 2 : at + 2 + pieces])
            if of[at + 1] or not of[at] or not holds(of):
                raise Unlike
            return string(content[: of[at]], limit)

        return shown, place

    # ---- arguments behind a format ----

    def texts(self, parts: list[Part], *, is_open: bool) -> Texts:
        """Return the functions that print all arguments; `is_open`: there may be more of them."""
        if is_open:
            parts = [*parts, (_rest, 0)]
        if len(parts) == 1:
            text, place = parts[0]
            return Texts(lambda of: text(of, place))
        template = ", ".join(["%s"] * len(parts))
        return Texts(
            lambda of: ", ".join([text(of, at) for text, at in parts]),
            lambda rows: _many(rows, template, parts),
        )

    def with_format(
        self, parts: list[Part], format_: int, language: str, integers: int | None
    ) -> Texts:
        """Return `texts` with the arguments that the format in argument `format_` describes.

        `integers` integer registers are in use before them. None means that they are in a
        va_list. Raises Unlike if the format was not captured.
        """
        if format_ not in self._fields.data:
            raise Unlike
        place, pieces = self._fields.data[format_]
        known: dict[bytes, list[Part]] = {}
        end = place + 2 + pieces

        def many(rows: list[Any]) -> list[str]:
            first = rows[0]
            if [of[place:end] for of in rows].count(first[place:end]) < len(rows):
                return list(map(shown, rows))
            shown(first)
            tail = known[b"".join(first[place + 2 : end])[: first[place]]]
            template = ["%s"] * len(tail)
            template[format_] = tail[format_][0](first, place).replace("%", "%%")
            changing = [part for number, part in enumerate(tail) if number != format_]
            return _many(rows, ", ".join(template), changing)

        def shown(of: Any) -> str:
            content = of[place + 2] if pieces == 1 else b"".join(of[place + 2 : place + 2 + pieces])
            content = content[: of[place]]
            if of[place + 1]:
                raise Unlike
            tail = known.get(content)
            if tail is None:
                if len(known) >= _MOST_FORMATS:
                    known.clear()
                taken, is_complete = formats.printf_arguments_of(content, language)
                if integers is None:
                    tail = self._listed(taken, len(parts))
                else:
                    tail = self._behind(taken, integers)
                if not is_complete:
                    tail.append((_rest, 0))
                # its text stays the same, as the format does
                is_same = (_same(parts[format_][0](of, place)), place)
                tail = [*parts[:format_], is_same, *parts[format_ + 1 :], *tail]
                known[content] = tail
            return ", ".join([text(of, at) for text, at in tail])

        return Texts(shown, many)

    def _listed(self, taken: list[formats.Taken], first: int) -> list[Part]:
        """Return the functions that print a format's arguments from a va_list."""
        parts: list[Part] = []
        place, pieces = self._fields.data[VALUES_ITEM]
        for number, (of, how, string, fill) in enumerate(taken):
            piece, at = divmod(number, _VALUES)
            if how[0] == catalog.SHOW_LONG_DOUBLE or string == formats.WIDE or piece >= pieces:
                return [_UNLIKE]
            part = _value(word_text(how, self._names), place, 8 * at, 8 * number), place + 2 + piece
            if string and first + number in self._fields.data:
                where, count = self._fields.data[first + number]
                part = self._string(count, part, None), where
            if fill and first + number in self._fields.back:
                part = self._stored(of, fill, *self._fields.back[first + number])
            parts.append(part)
        return parts

    def _behind(self, taken: list[formats.Taken], integers: int) -> list[Part]:
        """Return the functions that print a format's arguments, as they were passed."""
        parts: list[Part] = []
        words, floats = self._fields.words, self._fields.floats
        stack = float_at = 0
        for item, (of, how, string, fill) in enumerate(taken, len(self._arguments)):
            if how[0] == catalog.SHOW_LONG_DOUBLE:
                return [_UNLIKE]
            if how[0] == catalog.SHOW_FLOAT and float_at < _FLOAT_REGISTERS:
                if float_at >= len(floats):
                    return [_UNLIKE]
                part = _float(how[1]), floats[float_at]
                float_at += 1
            else:
                if how[0] != catalog.SHOW_FLOAT and integers < _INT_REGISTERS:
                    places, at = words, integers
                    integers += 1
                else:
                    places, at = self._fields.stack, stack
                    stack += 1
                if at >= len(places):
                    return [_UNLIKE]
                part = word_text(how, self._names), places[at]
            if string and item in self._fields.data:
                if string == formats.WIDE:
                    return [_UNLIKE]
                where, pieces = self._fields.data[item]
                part = self._string(pieces, part, None), where
            if fill and item in self._fields.back:
                part = self._stored(of, fill, *self._fields.back[item])
            parts.append(part)
        return parts

    def _stored(self, of: str, fill: formats.Fill, place: int, pieces: int) -> Part:
        """Return the function that prints what scanf has stored at an argument's target."""
        limit, names = self._limit, self._names

        def shown(fields: Any, at: int) -> str:
            content = b"".join(fields[at + 2 : at + 2 + pieces])[: fields[at]]
            stored = formats.stored(of, fill, (0, fields[at + 1], content), limit, names)
            if stored is None:
                raise Unlike
            return stored.text

        return shown, place


def _many(rows: list[Unpacked], template: str, parts: list[Part]) -> list[str]:
    """Return `template` for each of `rows`, filled with the texts of `parts`."""
    columns = [[text(of, at) for of in rows] for text, at in parts]
    if not columns:
        return [template % ()] * len(rows)
    return [template % texts for texts in zip(*columns, strict=True)]


def unknown(fields: Fields, most: int) -> Texts:
    """Return the functions that print the words of an unknown function, the last with a mark."""
    *places, last = fields.words[:most]

    def shown(of: Any) -> str:
        texts = [show.word(of[at])[0] for at in places]
        return ", ".join([*texts, unknown_word(of, last)])

    return Texts(shown)


def unknown_word(of: Any, at: int) -> str:
    """Return a word as text, with the mark for an unknown type."""
    return f"{show.word(of[at])[0]} {UNKNOWN_TYPE}"


def nothing(of: Any, at: int) -> str:
    """Return the text for the result of a function that has none."""
    del of, at
    return "<void>"


def word_text(of: catalog.Show, names: NamedTypes) -> Text:
    """Return the function that prints a number of up to eight bytes, as `names.shower(of)` does."""
    how, size, signed, _ = of
    mask, top = (1 << 8 * size) - 1, 1 << (8 * size - 1)
    if how == catalog.SHOW_POINTER:

        def pointer(of: Any, at: int) -> str:
            value = of[at]
            return f"{value:#x}" if value else "nil"

        return pointer
    if how == catalog.SHOW_DECIMAL and signed:

        def decimal(of: Any, at: int) -> str:
            value = of[at] & mask
            return str(value - mask - 1) if value & top else str(value)

        return decimal
    if how == catalog.SHOW_DECIMAL:
        return lambda of, at: str(of[at] & mask)
    shower = names.shower(of)
    if how not in (catalog.SHOW_ENUM, catalog.SHOW_FLAGS):
        return lambda of, at: shower(of[at])[0]
    known: dict[int, str] = {}

    def named(of: Any, at: int) -> str:
        value = of[at]
        text = known.get(value)
        if text is None:
            if len(known) >= _MOST_NAMES:
                known.clear()
            text = known[value] = shower(value)[0]
        return text

    return named


def _float(size: int) -> Text:
    if size == 8:
        return lambda of, at: show.number(of[at])
    return lambda of, at: show.single_number(show.float_of(of[at], size))


def _value(text: Text, values: int, at: int, before: int) -> Text:
    """Return the function for the word at byte `at` of a piece that follows `before` bytes."""

    def shown(of: Any, piece: int) -> str:
        if of[values] < before + 8:
            raise Unlike
        return text((int.from_bytes(of[piece][at : at + 8], "little"),), 0)

    return shown


def _same(shown: str) -> Text:
    return lambda _of, _at: shown


def _unless_none(text: Text) -> Text:
    """Return `text` for calls whose result is not 0; for others it raises Unlike."""

    def shown(of: Any, at: int) -> str:
        if not of[RESULT]:
            raise Unlike
        return text(of, at)

    return shown


def _rest(of: Any, at: int) -> str:
    del of, at
    return REST


def _unlike(of: Any, at: int) -> str:
    del of, at
    raise Unlike


_UNLIKE = _unlike, 0
