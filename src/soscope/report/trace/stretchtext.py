# SPDX-License-Identifier: Apache-2.0
"""Print the lines of a Stretch as `text` prints Entry and Exit, but faster.

A line that was shown is kept, as long as lines repeat. New calls are formatted by functions that
are compiled for the shape of the call, if it is simple.
"""

from __future__ import annotations

from soscope.model.call import (
    COLUMN,
    ENDED_RETURN,
    NOTHING,
    RESULT,
    Captured,
    Entry,
    Exit,
    Stretch,
    time_text,
)
from soscope.model.image import TracedSlot, is_error
from soscope.prototypes import Prototypes
from soscope.prototypes.byfields import Unlike
from soscope.recording.units import Shape, captured, key_of, keys_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from soscope.model.call import WholeCall
    from soscope.prototypes.byfields import Texts

_MOST = 1 << 14  # texts that are kept; the longest ones take some 25 MB
_FORGET = 1 << 18  # calls after which texts are dropped, as they may look different
_LONG = 256  # bytes of captured data up to which a result is remembered
_MOST_SHAPES = 1 << 8  # limit for one function
_FEW = 4  # fewer calls are formatted one by one

Halves = tuple[str, str]  # of a line: up to the closing parenthesis, and from the equals sign on


class _Kept(dict["Any", str]):
    """A cache of texts that `make` makes at the first use."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Any], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: object) -> str:
        """Make a text and keep it."""
        if len(self) >= _MOST:
            self.clear()
        text = self[key] = self._make(key)
        return text


class StretchText:
    """Writes stretches. `head_of` returns the text before arguments, `result_of` a result."""

    def __init__(
        self,
        prototypes: Prototypes,
        limit: int,
        head_of: Callable[[TracedSlot], str],
        result_of: Callable[[Exit], str],
    ) -> None:
        self._prototypes = prototypes
        self._limit = limit
        self._head_of = head_of
        self._result_of = result_of
        # By everything that determines a call's text: its line without time and thread, and its
        # halves.
        self._lines: dict[tuple[Any, ...], str] = {}
        self._halves: dict[tuple[Any, ...], Halves] = {}
        self._keeps = True
        self._padding = 0  # padding of texts in `_lines`
        self._calls = 0  # since texts were last dropped
        self._forms: dict[TracedSlot, _Form] = {}
        self._durations = _Kept(duration)
        self._spent = _Kept(lambda ns: time_text(ns, COLUMN))

    def add(
        self,
        lines: list[str],
        stretch: Stretch,
        whose: str,
        padding: int,
        time: Callable[[int], str] | None,
        durations: bool,
    ) -> None:
        """Add the calls to `lines`, each as `whose`, its time, and the rest up to a newline.

        `padding` is the least distance of the equals sign behind `whose`. Without `time`, lines
        have no times.
        """
        self._forget_in_time()
        self._calls += len(stretch.calls)
        if time is None and not durations:
            self._add_plain(lines, stretch, whose, padding)
            return
        origin, _, realtime, rate, even = stretch.piece
        kept, halves_of, ends = self._halves.get, self._new_halves, self._durations
        end = "\n"
        for call in stretch.calls:
            left, right = kept(call[2:]) or halves_of(call)
            if time is not None:
                left = time(realtime + int((call[0] - origin) * rate // 1)) + left
            if durations:
                end = ends[int(call[1] * even // 1)]
            lines.append(f"{whose}{left.ljust(padding)}{right}{end}")

    def add_behind_time(
        self,
        lines: list[str],
        stretch: Stretch,
        whose: str,
        padding: int,
        time: Callable[[int], str] | None,
        between: str,
    ) -> None:
        """Add the calls as `add` does, each behind its duration and `between`."""
        self._forget_in_time()
        self._calls += len(stretch.calls)
        origin, _, realtime, rate, even = stretch.piece
        kept, halves_of, spent = self._halves.get, self._new_halves, self._spent
        for call in stretch.calls:
            left, right = kept(call[2:]) or halves_of(call)
            left = f"{spent[int(call[1] * even // 1)]}{between}{left}"
            if time is not None:
                left = time(realtime + int((call[0] - origin) * rate // 1)) + left
            lines.append(f"{whose}{left.ljust(padding)}{right}\n")

    def _add_plain(self, lines: list[str], stretch: Stretch, whose: str, padding: int) -> None:
        """Add lines without times, in which calls often look the same."""
        if padding != self._padding:
            self._lines.clear()
            self._padding = padding
        if self._keeps:
            kept, new = self._lines.get, self._new_line
            made = [kept(call[2:]) or new(call) for call in stretch.calls]
            lines += [whose + line for line in made] if whose else made
            return
        forms, new_form = self._forms.get, self._form
        for calls in _runs(stretch.calls):
            slot = calls[0][2]
            form = forms(slot) or new_form(slot)
            lines += [f"{whose}{left.ljust(padding)}{right}\n" for left, right in form.many(calls)]

    def _forget_in_time(self) -> None:
        count = len(self._lines) + len(self._halves)
        if count > _MOST or self._calls > _FORGET:
            # If most calls were new, nothing is kept for some time.
            self._keeps = not (self._keeps and count > self._calls // 2)
            self._lines.clear()
            self._halves.clear()
            self._forms.clear()
            self._durations.clear()
            self._spent.clear()
            self._calls = 0

    def _new_line(self, call: WholeCall) -> str:
        _, _, slot, arg0, result, data, errno, back = call
        form = self._forms.get(slot) or self._form(slot)
        left, right = form.halves(arg0, result, data, errno, back)
        line = f"{left.ljust(self._padding)}{right}\n"
        if len(data) + len(back) <= _LONG:
            self._lines[call[2:]] = line
        return line

    def _new_halves(self, call: WholeCall) -> Halves:
        _, _, slot, arg0, result, data, errno, back = call
        form = self._forms.get(slot) or self._form(slot)
        halves = form.halves(arg0, result, data, errno, back)
        if self._keeps and len(data) + len(back) <= _LONG:
            self._halves[call[2:]] = halves
        return halves

    def _form(self, slot: TracedSlot) -> _Form:
        head = self._head_of(slot)
        form = _Form(slot, head, self._prototypes, self._limit, self._result_of)
        self._forms[slot] = form
        return form


def _runs(calls: list[WholeCall]) -> list[list[WholeCall]]:
    """Return `calls` in their order, grouped into runs of one slot and shape."""
    keys = keys_of(calls)
    if keys.count(keys[0]) == len(keys):
        return [calls]
    made: list[list[WholeCall]] = []
    before = None
    for key, call in zip(keys, calls, strict=True):
        if key == before:
            made[-1].append(call)
        else:
            made.append([call])
            before = key
    return made


def duration(nanoseconds: int) -> str:
    """Return the duration of a call, as the end of its line."""
    seconds, ns = divmod(nanoseconds, 1_000_000_000)
    return f" <{seconds}.{ns:09}>\n"


class _Form:
    """The format of the calls of one slot."""

    __slots__ = (
        "_head",
        "_is_alone",
        "_is_late",
        "_limit",
        "_prototypes",
        "_result_of",
        "_result_text",
        "_results",
        "_rule",
        "_shapes",
        "_slot",
        "_unlike",
    )

    def __init__(
        self,
        slot: TracedSlot,
        head: str,
        prototypes: Prototypes,
        limit: int,
        result_of: Callable[[Exit], str],
    ) -> None:
        self._slot = slot
        self._head = head
        self._prototypes = prototypes
        self._limit = limit
        self._result_of = result_of
        # The call may have changed what its arguments point to.
        self._is_late = prototypes.known_at_entry(slot) is not None
        # By result and errno, if nothing else determines the text of the result.
        self._is_alone = prototypes.result_is_alone(slot)
        self._results = _Kept(self._made_result)
        self._result_text, self._rule = prototypes.result_text(slot)
        self._shapes: dict[object, tuple[Shape, Texts] | None] = {}
        self._unlike: set[object] = set()  # shapes whose calls are formatted one by one

    def halves(self, arg0: int, result: int, data: bytes, errno: int | None, back: bytes) -> Halves:
        """Return both halves of the line of a call. `data` and `back` are DATA units."""
        if (back or errno) and not self._is_alone:
            leave = self._exit(captured((arg0,), data), result, errno, captured((), back))
            right = f"= {self._result_of(leave)}"
        elif self._result_text is None or errno or (self._rule and is_error(self._rule, result)):
            right = self._results[result, errno]
        else:
            right = f"= {self._result_text((arg0, result), RESULT)}"
        if not self._is_late:
            back = b""  # arguments are shown as at the entry
        key = key_of(data, back)
        known = self._shapes[key] if key in self._shapes else self._shape(key, data, back)
        if known is not None:
            shape, texts = known
            fields = shape.unpack(arg0, result, data, back)
            if fields is not None:
                try:
                    return f"{self._head}{texts.single(fields)}) ", right
                except Unlike:
                    pass  # this call is shown as if its shape was not known
        kept = captured((arg0,), data)
        after = None
        if self._is_late:
            after = self._exit(kept, result, errno, captured((), back))
        shown = self._prototypes.format_texts(self._slot, kept, self._limit, after)
        return f"{self._head}{', '.join(shown)}) ", right

    def many(self, calls: list[WholeCall]) -> list[Halves]:
        """Return the halves of calls of one shape, faster than one by one."""
        if len(calls) >= _FEW:
            rights = self._rights(calls)
            lefts = None if rights is None else self._lefts(calls)
            if lefts is not None and rights is not None:
                return list(zip(lefts, rights, strict=True))
        return [self.halves(*call[3:]) for call in calls]

    def _lefts(self, calls: list[WholeCall]) -> list[str] | None:
        data, back = calls[0][5], calls[0][7] if self._is_late else b""
        key = key_of(data, back)
        known = self._shapes[key] if key in self._shapes else self._shape(key, data, back)
        if known is None or key in self._unlike:
            return None
        shape, texts = known
        rows = shape.unpack_many(calls, with_back=self._is_late)
        if rows is None:
            return None
        try:
            shown = texts.many(rows)
        except Unlike:
            self._unlike.add(key)  # more such calls will come
            return None
        return [f"{self._head}{text}) " for text in shown]

    def _rights(self, calls: list[WholeCall]) -> list[str] | None:
        text, known = self._result_text, self._results
        errnos = [errno for _, _, _, _, _, _, errno, _ in calls]
        fails = any(errnos)
        backs = [back for _, _, _, _, _, _, _, back in calls]
        if not self._is_alone and (fails or any(backs)):
            return None
        results = [result for _, _, _, _, result, _, _, _ in calls]
        if text is None or fails:
            rule = self._rule
            return [
                known[result, errno]
                if text is None or errno or (rule and is_error(rule, result))
                else f"= {text((0, result), RESULT)}"
                for result, errno in zip(results, errnos, strict=True)
            ]
        texts = {
            result: known[result, None]
            if self._rule and is_error(self._rule, result)
            else f"= {text((0, result), RESULT)}"
            for result in set(results)
        }
        return [texts[result] for result in results]

    def _shape(self, key: object, data: bytes, back: bytes) -> tuple[Shape, Texts] | None:
        """Return how to format calls of a shape, or None if they are formatted one by one."""
        if len(self._shapes) >= _MOST_SHAPES:
            return None
        known = None
        try:
            shape = Shape(data, back)
        except ValueError:
            pass  # calls of this shape are formatted one by one
        else:
            texts = self._prototypes.by_fields(self._slot, shape.fields, self._limit)
            known = None if texts is None else (shape, texts)
        self._shapes[key] = known
        return known

    def _made_result(self, key: tuple[int, int | None]) -> str:
        # Without data, as captured data does not tell about an error without a number.
        return f"= {self._result_of(self._exit(NOTHING, *key))}"

    def _exit(
        self, kept: Captured, result: int, errno: int | None = None, after: Captured = NOTHING
    ) -> Exit:
        """Return the exit as an event, as far as its text depends on it."""
        slot = self._slot
        entry = Entry(0, 0, 0, slot, 0, 0, kept, False)
        return Exit(entry, 0, None, result, errno, after, ENDED_RETURN, 0, 0, slot)
