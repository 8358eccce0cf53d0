# SPDX-License-Identifier: Apache-2.0
"""The lines of a Stretch: what `text` writes of an Entry and an Exit, with less work a call.

What was shown once is kept: the text of a number, of all arguments, of a result.
"""

from __future__ import annotations

from soscope.model.call import ENDED_RETURN, Entry, Exit, Stretch
from soscope.model.capture import NOTHING, Captured
from soscope.model.slot import TracedSlot
from soscope.prototypes import Prototypes
from soscope.recording.captures import captured, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MOST = 1 << 14  # texts to keep: with the longest ones some 25 MB
_FORGET = 1 << 18  # calls: how they look may have changed
_LONG = 256  # bytes: what was captured with a call is kept up to this


class _Kept(dict["Any", "Any"]):
    """Texts that `make` makes when they are asked for the first time; `count[0]` counts them."""

    __slots__ = ("_count", "_make")

    def __init__(self, make: Callable[[Any], Any], count: list[int]) -> None:
        super().__init__()
        self._make = make
        self._count = count

    def __missing__(self, key: object) -> Any:
        """Make a text and keep it."""
        self._count[0] += 1
        text = self._make(key)
        self[key] = text
        return text


class _KeptShown(_Kept):
    """The texts alone of what shows numbers with a value beside it."""

    __slots__ = ()

    def __missing__(self, key: object) -> str:
        """Make a text and keep it."""
        self._count[0] += 1
        text: str = self._make(key)[0]
        self[key] = text
        return text


class StretchText:
    """Writes stretches. `head_of` gives what stands before the arguments, `result_of` a result."""

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
        self._count = [0]
        self._keep = [True]  # the texts of whole calls
        self._calls = 0  # since the texts were forgotten the last time
        self._forms: dict[TracedSlot, _Form] = {}
        self._durations = _Kept(duration, self._count)

    def add(
        self,
        lines: list[str],
        stretch: Stretch,
        whose: str,
        padding: int,
        time: Callable[[int], str] | None,
        durations: bool,
    ) -> None:
        """Add the calls to `lines`, each as `whose`, its time, and all up to a newline.

        `padding`: how far the equals sign stands behind `whose`, at least. Without `time`,
        lines have none.
        """
        if self._count[0] > _MOST or self._calls > _FORGET:
            # where most calls were new there is nothing to keep, for some time
            self._keep[0] = not (self._keep[0] and self._count[0] > self._calls // 2)
            self._forms.clear()
            self._durations.clear()
            self._count[0] = self._calls = 0
        self._calls += len(stretch.calls)
        forms, kept = self._forms, self._durations
        origin, _, realtime, rate, even = stretch.piece
        end = "\n"
        for slot, start, ticks, arg0, result, data, errno, back in stretch.calls:
            form = forms.get(slot) or self._form(slot)
            first = form.first
            if back or errno:
                left, right = form.both(arg0, data, result, errno, back)
            else:
                left = form.left(arg0, data, result) if data or first is None else first[arg0]
                right = form.results[result]
            if time is not None:
                left = time(realtime + int((start - origin) * rate // 1)) + left
            if durations:
                end = kept[int(ticks * even // 1)]
            lines.append(f"{whose}{left.ljust(padding)}{right}{end}")

    def _form(self, slot: TracedSlot) -> _Form:
        form = _Form(
            slot,
            self._head_of(slot),
            self._prototypes,
            self._limit,
            self._result_of,
            self._count,
            self._keep,
        )
        self._forms[slot] = form
        return form


def duration(nanoseconds: int) -> str:
    """Return how long a call took, as the end of its line."""
    seconds, ns = divmod(nanoseconds, 1_000_000_000)
    return f" <{seconds}.{ns:09}>\n"


class _Form:
    """How the calls of one slot look.

    `first` has all up to the closing parenthesis by the first argument, if nothing else was
    captured; None where it takes more. `results` has all from the equals sign on.
    """

    __slots__ = (
        "_ended",
        "_failed",
        "_head",
        "_is_alone",
        "_is_late",
        "_keep",
        "_kept",
        "_limit",
        "_mark",
        "_prototypes",
        "_result_of",
        "_show_first",
        "_show_result",
        "_shows",
        "_slot",
        "first",
        "results",
    )

    def __init__(
        self,
        slot: TracedSlot,
        head: str,
        prototypes: Prototypes,
        limit: int,
        result_of: Callable[[Exit], str],
        count: list[int],
        keep: list[bool],
    ) -> None:
        self._keep = keep
        self._slot = slot
        self._head = head
        self._prototypes = prototypes
        self._limit = limit
        self._result_of = result_of
        shows, self._show_result, self._mark = prototypes.showers(slot)
        # what shows each argument, if registers say it all
        self._shows = None if shows is None else [_KeptShown(show, count) for show in shows]
        self._show_first = shows[0] if shows is not None and len(shows) == 1 else None
        # the call may have changed what its arguments lead to
        self._is_late = prototypes.known_at_entry(slot) is not None
        self._kept = _Kept(self._made, count)
        self._ended = _Kept(self._made_both, count)
        self.first = None if self._is_late else _Kept(self._by_first, count)
        self.results = _Kept(self._result, count)
        # by result and errno, where nothing else says how the result looks
        self._is_alone = prototypes.result_is_alone(slot)
        self._failed = _Kept(self._failure, count)

    def left(self, arg0: int, data: bytes, result: int) -> str:
        """Return the line up to the closing parenthesis; `data` are DATA units."""
        shows = self._shows
        if shows is not None:
            words = words_of(arg0, data)
            if len(words) >= len(shows) or self._mark:
                texts = [show[word] for show, word in zip(shows, words, strict=False)]
                return f"{self._head}{', '.join(texts)}{self._mark}) "
        key = arg0, data, result if self._is_late else 0
        return self._kept[key] if self._keep[0] and len(data) <= _LONG else self._made(key)

    def both(
        self, arg0: int, data: bytes, result: int, errno: int | None, back: bytes
    ) -> tuple[str, str]:
        """Return both halves of the line of a call that failed, or had more kept at its end."""
        if self._is_alone and not self._is_late:
            return self.left(arg0, data, result), self._failed[result, errno]
        key = arg0, data, result, errno, back
        if not self._keep[0] or len(data) + len(back) > _LONG:
            return self._made_both(key)
        both: tuple[str, str] = self._ended[key]
        return both

    def _by_first(self, arg0: int) -> str:
        show = self._show_first
        return self.left(arg0, b"", 0) if show is None else f"{self._head}{show(arg0)[0]}) "

    def _made(self, key: tuple[int, bytes, int]) -> str:
        arg0, data, result = key
        kept = captured((arg0,), data)
        leave = self._exit(kept, result) if self._is_late else None
        shown = self._prototypes.format_texts(self._slot, kept, self._limit, leave)
        return f"{self._head}{', '.join(shown)}) "

    def _result(self, result: int) -> str:
        if self._show_result is not None:
            return f"= {self._show_result(result)[0]}{self._mark}"
        # without the data: what the call captured says nothing of an error without a number
        return f"= {self._result_of(self._exit(NOTHING, result))}"

    def _made_both(self, key: tuple[int, bytes, int, int | None, bytes]) -> tuple[str, str]:
        arg0, data, result, errno, back = key
        kept = captured((arg0,), data)
        after = captured((), back) if back else NOTHING
        leave = self._exit(kept, result, errno, after)
        shown = self._prototypes.format_texts(self._slot, kept, self._limit, leave)
        right = f"= {self._result_of(leave)}" if not self._is_alone else self._failed[result, errno]
        return f"{self._head}{', '.join(shown)}) ", right

    def _failure(self, key: tuple[int, int | None]) -> str:
        return f"= {self._result_of(self._exit(NOTHING, *key))}"

    def _exit(
        self, kept: Captured, result: int, errno: int | None = None, after: Captured = NOTHING
    ) -> Exit:
        """Return the exit as an event, as far as its text depends on it."""
        slot = self._slot
        entry = Entry(0, 0, 0, slot, 0, 0, kept, False)
        return Exit(entry, 0, None, result, errno, after, ENDED_RETURN, 0, 0, slot)
