# SPDX-License-Identifier: Apache-2.0
"""The steps of one call as a picture: one column for each image, with equal steps in one row.

Code is at the left of a column, the slot and the function at its right. The path of the first
call has one colour, the path of later calls another one, and steps of both are grey. The file
contains everything it shows: nothing is loaded, and no script runs.
"""

from __future__ import annotations

import textwrap
from itertools import pairwise, zip_longest

from soscope.binfmt.listing import Line
from soscope.inspect.explain.callway import (
    CALL_SITE,
    FIRST,
    HELPER,
    RESOLVER,
    STUB,
    THUNK,
    CallWay,
    Explanation,
    FilePart,
    Importer,
)
from soscope.inspect.explain.resolvers import laziness_of
from soscope.model.filemap import LAZY, UNBOUND, FileSlot
from soscope.model.record import Record
from soscope.report.explain import code_text, nothing, said
from soscope.report.explain import title as title_of
from soscope.report.words import escaped, shortened

FIRST_CALL = "#d9480f"
LATER = "#2b8a3e"
BOTH = "#495867"
_INK, _QUIET, _EDGE, _PAGE = "#1f2933", "#616e7c", "#cbd2d9", "#f7f9fb"
_TINTS = {FIRST_CALL: "#fff1e8", LATER: "#e9f7ec", BOTH: "#edf1f5"}

_CODE, _CODE_WIDE = 14, 8.45  # font size, width of a letter
_TEXT, _TEXT_WIDE = 14, 7.3
_HEAD = 16
_TITLE_WIDE = 15.5  # width of a letter of size 26
_LINE = 20
_BAND = 32  # height of a card's head
_PAD = 14
_GAP = 38  # gap between rows, with an arrow in it
_GUTTER = 96  # gap between code and slot
_RIGHT = 290  # width of slot and function
_COLUMNS = 72  # gap between the columns of images
_MARGIN = 40
_TOP = 150
_LEAST, _MOST = 440, 660  # width of a card with code, at least and at most
_LONG_NAME = 25
_KEY = 70  # distance of the text behind a key

_ROWS = (CALL_SITE, THUNK, STUB, HELPER, FIRST, RESOLVER)


class _Text(Record):
    """One line in a card. `kind` is "code" or "text", and `colour` is its colour.

    `key` is shown before the text, in a column of its own, None if there is no such column.
    """

    text: str
    kind: str = "text"
    colour: str = _INK
    key: str | None = None


class _Card:
    """A box with a head and lines. `x` and `y` are its upper left corner."""

    __slots__ = ("colour", "head", "lines", "where", "width", "x", "y")

    def __init__(self, head: str, where: str, lines: list[_Text], colour: str) -> None:
        self.head = head
        self.where = where
        self.lines = lines
        self.colour = colour
        self.x = self.y = self.width = 0.0

    @property
    def height(self) -> float:
        return _BAND + len(self.lines) * _LINE + (_PAD if self.lines else 0)

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


class _Column:
    """One image: its cards by row, the slot and the function, and its left edge."""

    def __init__(self, image: Importer, head: list[str]) -> None:
        """Make the cards of the first route. `head` are the lines above the column."""
        self.image = image
        self.head = head
        self.way: CallWay | None = image.ways[0] if image.ways else None
        self.part: FilePart | None = None if self.way is None else self.way.file
        self.cards: dict[str, _Card] = {}
        self.slot: _Card | None = None
        self.function: _Card | None = None
        self.x = 0.0
        self.code = float(_LEAST)
        if self.way is not None and self.part is not None:
            self._make(self.way, self.part)

    @property
    def width(self) -> float:
        return self.code + _GUTTER + _RIGHT

    def _make(self, way: CallWay, part: FilePart) -> None:
        longest = max(
            (len(line) for step in way.steps for line in _code_lines(step.lines)), default=0
        )
        self.code = min(max(longest * _CODE_WIDE + 2 * _PAD, _LEAST), _MOST)
        letters = int((self.code - 2 * _PAD) / _CODE_WIDE)
        for name in _ROWS[:-1]:
            step = way.step(name)
            if step is None:
                continue
            colour = FIRST_CALL if name in (HELPER, FIRST) else BOTH
            called = part.sites[0].call.vaddr if name == CALL_SITE and part.sites else None
            lines = [
                _Text(
                    _cut(shown, letters), "code", _INK if called in (None, line.vaddr) else _QUIET
                )
                for line, shown in zip(step.lines, _code_lines(step.lines), strict=True)
            ]
            if not lines:
                lines = [_Text(line, colour=_QUIET) for line in self._wrapped(step.notes[0])]
            self.cards[name] = _Card(step.title, step.where, lines, colour)
        self.cards[RESOLVER] = self._resolver(part)
        self.slot = _slot_card(part.slot)
        name = shortened(way.symbol or "the function", _LONG_NAME)
        owner = "this file" if part.slot.defined_here else way.provider or "whoever has it first"
        self.function = _Card(name, "", [_Text(f"in {_tail(owner, 34)}", colour=_QUIET)], LATER)

    def _wrapped(self, text: str, used: float = 0) -> list[str]:
        letters = int((self.code - 2 * _PAD - used) / _TEXT_WIDE)
        return textwrap.wrap(text, letters, break_on_hyphens=False)

    def _resolver(self, part: FilePart) -> _Card:
        if part.slot.binding != LAZY:
            text = "writes the address before any call: there is no first call of another kind"
            if part.slot.binding == UNBOUND:
                text = "does nothing about this slot: no record binds it"
            lines = [_Text(line) for line in self._wrapped(text)]
            return _Card("the loader", "when it loads the image", lines, BOTH)
        letters = int((self.code - 2 * _PAD) / _CODE_WIDE)
        lines = []
        for given in part.given:
            lines.append(_Text(_cut(f"{given.place} = {given.text}", letters), "code"))
            lines += [
                _Text(line, colour=_QUIET, key="") for line in self._wrapped(given.meaning, _KEY)
            ]
        name = "the loader's resolver"
        if part.generations:
            newest = part.generations[0]
            name = newest.name.partition(",")[0].partition(" or ")[0]
            for label, text in (
                ("saves", newest.saves),
                ("vectors", newest.vectors),
                ("stack", newest.aligns),
                ("then", newest.calls),
            ):
                pieces = self._wrapped(text, _KEY)
                lines += [
                    _Text(line, key=key) for key, line in zip_longest([label], pieces, fillvalue="")
                ]
        where = part.generations[0].loader if part.generations else ""
        return _Card(name, where, lines, FIRST_CALL)

    def foot(self) -> list[str]:
        """Return which other calls take the first route, and further notes."""
        letters = int(self.width / _TEXT_WIDE)
        if self.way is None or self.part is None:
            return textwrap.wrap(nothing(self.image), letters)
        notes = [f"wrong: {fault}" for fault in self.way.wrong]
        if self.part.slot.binding == LAZY:
            notes.append(laziness_of(self.image.loader, self.image.arch) or "")
            first, later = self.part.instructions
            if first:
                notes.append(
                    f"first call: {first} instructions to the resolver; later ones: {later}"
                )
        return [line for note in notes for line in textwrap.wrap(note, letters)]


def document(explanation: Explanation) -> str:
    """Return the text of the picture of an explanation of files."""
    columns = [_Column(image, title_of(explanation, image)) for image in explanation.images]
    bottom = _place(columns)
    feet = [column.foot() for column in columns]
    width = columns[-1].x + columns[-1].width + _MARGIN
    height = bottom + 34 + max(map(len, feet)) * _LINE + _MARGIN
    title = _title(explanation.images[-1].symbol, width)
    size = f'width="{width:.0f}" height="{height:.0f}"'
    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height:.0f}"'
            ' font-family="Helvetica, Arial, DejaVu Sans, sans-serif">'
        ),
        f"<title>{escaped(title)}</title>",
        f"<defs>{''.join(map(_marker, (FIRST_CALL, LATER, BOTH)))}</defs>",
        f'<rect {size} fill="{_PAGE}"/>',
        _text(_MARGIN, 50, title, size=26, weight="bold"),
        *_legend(columns),
    ]
    for column, foot in zip(columns, feet, strict=True):
        lines += _drawn(column)
        for index, note in enumerate(foot):
            lines.append(_text(column.x, bottom + 34 + index * _LINE, note, colour=_QUIET))
    if len(columns) > 1:
        x = columns[1].x - _COLUMNS / 2
        lines.append(f'<path d="M{x:.0f} {_TOP - 46}V{height - _MARGIN:.0f}" stroke="{_EDGE}"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


# ---- layout ----


def _place(columns: list[_Column]) -> float:
    """Place all cards. Return the lower edge of the lowest one."""
    x: float = _MARGIN
    for column in columns:
        column.x = x
        x += column.width + _COLUMNS
    y: float = _TOP
    has_stub = any(STUB in column.cards for column in columns)
    for name in _ROWS:
        cards = [column.cards[name] for column in columns if name in column.cards]
        if not cards:
            continue
        tall = max(card.height for card in cards)
        for column in columns:
            card = column.cards.get(name)
            if card is not None:
                card.x, card.y, card.width = column.x, y, column.code
            if name == (STUB if has_stub else CALL_SITE) and column.slot is not None:
                column.slot.x = column.x + column.code + _GUTTER
                column.slot.width = _RIGHT
                column.slot.y = y
                tall = max(tall, column.slot.height)
        if name == RESOLVER:
            for column in columns:
                if column.function is not None:
                    column.function.x = column.x + column.code + _GUTTER
                    column.function.width = _RIGHT
                    column.function.y = y + max(tall - column.function.height, 64)
                    tall = max(tall, column.function.height + 64)
        y += tall + _GAP
    return y - _GAP


# ---- drawing ----


def _drawn(column: _Column) -> list[str]:
    first, *rest = column.head
    lines = [
        _text(column.x, _TOP - 32, shortened(first, 48), size=18, weight="bold"),
        *(_text(column.x, _TOP - 12, _tail(line, 84), colour=_QUIET) for line in rest),
    ]
    part, slot, function = column.part, column.slot, column.function
    if part is None or slot is None or function is None:
        return lines
    lines += _arrows(column, slot, function, is_lazy=part.slot.binding == LAZY)
    lines += [part for card in column.cards.values() for part in _card(card)]
    return [*lines, *_card(slot), *_card(function)]


def _arrows(column: _Column, slot: _Card, function: _Card, *, is_lazy: bool) -> list[str]:
    chain = [column.cards[name] for name in (CALL_SITE, THUNK, STUB) if name in column.cards]
    late = [column.cards[name] for name in (HELPER, FIRST) if name in column.cards]
    resolver = column.cards[RESOLVER]
    lines = []
    for card, below in pairwise(chain):
        lines.append(_arrow([(card.x + 60, card.bottom), (below.x + 60, below.y)], BOTH))
    last = chain[-1]
    if last.y == slot.y:
        y = last.y + _BAND / 2
        lines.append(_arrow([(last.right, y), (slot.x, y)], BOTH))
    else:  # no stub: the call itself uses the slot
        y, x = last.y + _BAND / 2, slot.x + 40
        lines.append(_arrow([(last.right, y), (x, y), (x, slot.y)], BOTH))
    lines.append(
        _label((last.right + slot.x) / 2, y - 8, "through", BOTH, "middle")
        if last.y == slot.y
        else _label(last.right + 10, y - 8, "through", BOTH)
    )
    down = slot.x + _RIGHT - 60
    when = "every later call" if is_lazy else "every call"
    lines.append(_arrow([(down, slot.bottom), (down, function.y)], LATER))
    lines.append(_label(down - 10, (slot.bottom + function.y) / 2, when, LATER, "end"))
    if not is_lazy:
        y, x = resolver.y + _BAND / 2, slot.x + 60
        lines.append(_arrow([(resolver.right, y), (x, y), (x, slot.bottom)], BOTH, dashed=True))
        lines.append(_label(resolver.right + 10, y - 8, "writes", BOTH))
        return lines
    writes = slot.x + 96
    y = resolver.y + _BAND / 2
    lines.append(
        _arrow([(resolver.right, y), (writes, y), (writes, slot.bottom)], FIRST_CALL, dashed=True)
    )
    lines.append(_label(resolver.right + 10, y - 8, "writes the slot", FIRST_CALL))
    if late:
        target = late[0]
        y, x = target.y + _BAND / 2, slot.x + 40
        lines.append(_arrow([(x, slot.bottom), (x, y), (target.right, y)], FIRST_CALL))
        lines.append(_label(target.right + 14, y - 8, "first call", FIRST_CALL))
        for card, below in zip(late, [*late[1:], resolver], strict=True):
            lines.append(_arrow([(card.x + 60, card.bottom), (below.x + 60, below.y)], FIRST_CALL))
    y = function.y + _BAND / 2
    lines.append(_arrow([(resolver.right, y), (function.x, y)], FIRST_CALL))
    lines.append(_label((resolver.right + function.x) / 2, y - 8, "jumps", FIRST_CALL, "middle"))
    return lines


def _slot_card(slot: FileSlot) -> _Card:
    lines = [
        _Text(f"{slot.vaddr:#x}", "code"),
        _Text(_cut(slot.kind, 32), colour=_QUIET),
    ]
    name = shortened(slot.symbol or "the function", 22)
    if slot.binding == LAZY and slot.helper is not None:
        lines.append(_Text(f"at first {slot.helper:#x}", "code", FIRST_CALL))
        lines.append(_Text(f"then     {name}", "code", LATER))
    else:
        is_bound = slot.binding != UNBOUND
        lines.append(_Text(f"holds {name}" if is_bound else "holds nothing", "code", LATER))
    return _Card("slot", slot.section or "", lines, BOTH)


def _card(card: _Card) -> list[str]:
    x, y, width, height = card.x, card.y, card.width, card.height
    band = (
        f"M{x:.1f} {y + _BAND:.1f}V{y + 8:.1f}a8 8 0 0 1 8 -8H{x + width - 8:.1f}"
        f"a8 8 0 0 1 8 8V{y + _BAND:.1f}z"
    )
    lines = [
        (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8"'
            f' fill="#ffffff"/>'
        ),
        f'<path d="{band}" fill="{_TINTS[card.colour]}"/>',
        (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8"'
            f' fill="none" stroke="{card.colour}" stroke-width="1.5"/>'
        ),
        _text(x + _PAD, y + 21, card.head, size=_HEAD, weight="bold", colour=card.colour),
    ]
    if card.where:
        room = width - 3 * _PAD - len(card.head) * 9.6
        shown = shortened(card.where, max(int(room / _TEXT_WIDE), 12))
        lines.append(_text(x + width - _PAD, y + 21, shown, colour=_QUIET, anchor="end"))
    for index, line in enumerate(card.lines):
        at = y + _BAND + 20 + index * _LINE
        is_code = line.kind == "code"
        size = _CODE if is_code else _TEXT
        left = x + _PAD
        if line.key is not None:
            lines.append(_text(left, at, line.key, colour=_QUIET))
            left += _KEY
        lines.append(_text(left, at, line.text, colour=line.colour, size=size, code=is_code))
    return lines


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = _TEXT,
    colour: str = _INK,
    weight: str = "",
    anchor: str = "",
    code: bool = False,
) -> str:
    more = f' font-weight="{weight}"' if weight else ""
    if anchor:
        more += f' text-anchor="{anchor}"'
    if code:
        more += ' font-family="DejaVu Sans Mono, Menlo, Consolas, monospace"'
    more += ' xml:space="preserve"' if "  " in text else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{more}>'
        f"{escaped(text)}</text>"
    )


def _label(x: float, y: float, text: str, colour: str, anchor: str = "start") -> str:
    return _text(x, y, text, colour=colour, anchor=anchor, size=13)


def _arrow(points: list[tuple[float, float]], colour: str, *, dashed: bool = False) -> str:
    (x, y), *rest = _short_of(points)
    path = f"M{x:.1f} {y:.1f}" + "".join(f"L{a:.1f} {b:.1f}" for a, b in rest)
    dash = ' stroke-dasharray="6 5"' if dashed else ""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2.5"{dash}'
        f' stroke-linejoin="round" marker-end="url(#a{colour[1:]})"/>'
    )


def _short_of(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return a line that ends where the arrow's head begins."""
    (x, y), (end_x, end_y) = points[-2:]
    long = max(abs(end_x - x), abs(end_y - y)) or 1
    back = 9 / long
    return [*points[:-1], (end_x - (end_x - x) * back, end_y - (end_y - y) * back)]


def _marker(colour: str) -> str:
    return (
        f'<marker id="a{colour[1:]}" viewBox="0 0 10 10" refX="1" refY="5" markerWidth="10"'
        ' markerHeight="10" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
    )


def _legend(columns: list[_Column]) -> list[str]:
    words = [(BOTH, "up to the slot, and the loader"), (LATER, "from the slot to the function")]
    if any(column.part is not None and column.part.slot.binding == LAZY for column in columns):
        words = [(BOTH, "every call"), (FIRST_CALL, "the first call"), (LATER, "every later call")]
    lines = []
    x: float = _MARGIN
    for colour, meaning in words:
        lines.append(f'<path d="M{x:.0f} 75h30" stroke="{colour}" stroke-width="4"/>')
        lines.append(_text(x + 38, 80, meaning, size=15))
        x += 38 + len(meaning) * 8 + 36
    return lines


# ---- text ----


def _title(symbol: str, width: float) -> str:
    words = "The life of a call of"
    name = symbol.partition("@")[0].lstrip("_")
    room = int((width - 2 * _MARGIN) / _TITLE_WIDE) - len(words) - 1
    return f"{words} {shortened(name, max(room, 12))}"


def _code_lines(lines: tuple[Line, ...]) -> list[str]:
    wide = max((len(code_text(line)) for line in lines), default=0)
    return [f"{line.vaddr:#x}  {code_text(line):{wide}}  {said(line)}" for line in lines]


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _tail(text: str, letters: int) -> str:
    return text if len(text) <= letters else "…" + text[-letters + 1 :]
