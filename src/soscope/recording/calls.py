# SPDX-License-Identifier: Apache-2.0
"""The calls of a recording for users: columns with names of functions and images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from soscope.errors import SoscopeError
from soscope.model.call import StackFrame
from soscope.model.image import TracedSlot
from soscope.recording.columns import ENDED, Columns
from soscope.recording.names import Programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import pyarrow as pa

_PLAIN = (
    "time_ns",
    "duration_ns",
    "pid",
    "tid",
    "depth",
    "result",
    "errno",
    "failed",
    "arg0",
    "return_addr",
)
_STACK = "stack"
_NAMED = ("symbol", "caller", "callee", "version", "ended")
# Numbers that stand for "not known" or "none".
_NOTHING = {"duration_ns": -1, "errno": 0, "return_addr": 0}
_FEW = 10  # functions that `repr` lists


_Key = tuple[int, int, int]  # program, process, number of the stack


class StackNames(Protocol):
    """Names the frames of stacks."""

    def text(self, key: _Key) -> str:
        """Return a stack in one line, outermost frame first, "" if it is not known."""

    def frames(self, key: _Key) -> tuple[StackFrame, ...]:
        """Return the frames of a stack, innermost first, () if it is not known."""


class Calls:
    """Calls in order of their time: one numpy array for each of `names`, all of one length.

    >>> calls = soscope.open("run.sosr").calls
    >>> longest = calls.duration_ns[calls.symbol == "read"].max()
    >>> reads = calls[calls.symbol == "read"]
    >>> (len(reads), reads.caller[0], reads.callee[0], reads.ended[0])
    (1, 'cat', 'libc.so.6', 'return')

    `time_ns` is CLOCK_REALTIME at the entry. `duration_ns` is -1 if it is not known. `result` is
    an unsigned word, and `errno` is 0 if the call did not fail. `symbol`, `version`, `caller` and
    `callee` (names of images) and `ended` ("return", "unwound", "exit", "killed", "lost", or ""
    for a call that had not ended) are arrays of strings. If the recording has stacks (-k),
    `stack` is another one: the frames, outermost first, with ";" between them, "" if they are not
    known.
    """

    names: tuple[str, ...] = (*_NAMED[:3], *_PLAIN, *_NAMED[3:])

    def __init__(
        self,
        columns: Columns,
        slots: list[TracedSlot],
        which: npt.NDArray[np.int64],
        stacks: StackNames | None = None,
    ) -> None:
        """Take all calls. `which` is the index in `slots` for each call."""
        self._slots = slots
        self._stacks = stacks
        self._which = which
        self._arrays: dict[str, Any] = {name: getattr(columns, name) for name in _PLAIN}
        self._arrays["_ended"] = columns.ended
        if stacks is not None:
            self.names = (*Calls.names, _STACK)
            keys = (columns.program, columns.pid, columns.stack.astype(np.int64))
            self._arrays["_stack"] = np.stack(keys, axis=1)

    def __len__(self) -> int:
        return len(self._which)

    def __getattr__(self, name: str) -> Any:
        """Return the array of a column."""
        if name in _NAMED or (name == _STACK and name in self.names):
            values, codes = self._coded(name)
            return np.array(values, np.object_)[codes] if values else np.empty(0, np.object_)
        if name in _PLAIN:
            return self._arrays[name]
        raise AttributeError(f"no column '{name}': there are {', '.join(self.names)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.names]

    def __getitem__(self, chosen: Any) -> Calls:
        """Return some of the calls: a slice, or an array of booleans or indices."""
        some = object.__new__(Calls)
        some._slots, some._stacks, some.names = self._slots, self._stacks, self.names
        some._which = np.atleast_1d(self._which[chosen])
        some._arrays = {
            name: np.atleast_1d(values[chosen]) for name, values in self._arrays.items()
        }
        if self._stacks is not None:
            some._arrays["_stack"] = some._arrays["_stack"].reshape(-1, 3)
        return some

    def frames(self, index: int) -> tuple[StackFrame, ...]:
        """Return the frames of one call's stack, innermost first.

        They have `image`, `symbol`, `offset`, `file` and `line`. Unknown values are None, and so
        is the image of frames of Python and Ruby. The result is () if the recording has no stack
        of the call.

        >>> soscope.open("run.sosr").calls.frames(0)  # recorded without -k
        ()
        """
        if self._stacks is None:
            return ()
        program, pid, number = self._arrays["_stack"][index].tolist()
        return self._stacks.frames((program, pid, number))

    def __repr__(self) -> str:
        symbols, codes = self._coded("symbol")
        counts = np.bincount(codes, minlength=len(symbols)).tolist()
        ranked = sorted(zip(counts, symbols, strict=True), key=lambda row: (-row[0], row[1]))
        lines = [f"{count:>12,}  {symbol}" for count, symbol in ranked[:_FEW]]
        if len(ranked) > _FEW:
            rest = sum(count for count, _ in ranked[_FEW:])
            lines.append(f"{rest:>12,}  calls of {len(ranked) - _FEW:,} other functions")
        return "\n".join([f"<Calls: {len(self):,} in columns {', '.join(self.names)}>", *lines])

    def _coded(self, name: str) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Return the distinct values of a column of strings, and the index of each call's value."""
        if name == "ended":
            return list(ENDED), self._arrays["_ended"].astype(np.int64)
        known: dict[str, int] = {}
        if name == _STACK:
            assert self._stacks is not None
            keys, which = np.unique(self._arrays["_stack"], axis=0, return_inverse=True)
            lines = [self._stacks.text((key[0], key[1], key[2])) for key in keys.tolist()]
            codes = np.array([known.setdefault(line, len(known)) for line in lines], np.int64)
            return list(known), codes[which.reshape(-1)]
        texts = [_text(slot, name) for slot in self._slots]
        used = np.unique(self._which).tolist()
        codes = np.zeros(len(texts), np.int64)
        for index in used:
            codes[index] = known.setdefault(texts[index], len(known))
        return list(known), codes[self._which]

    def _parts(self) -> Iterator[tuple[str, list[str] | None, npt.NDArray[Any], Any]]:
        """Yield name, strings (None for numbers), numbers or codes, and a mask of unknowns."""
        for name in self.names:
            if name in _NAMED or name == _STACK:
                yield (name, *self._coded(name), None)
            else:
                array = self._arrays[name]
                yield name, None, array, array == _NOTHING[name] if name in _NOTHING else None

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame. Strings are categories, and unknown values are NA.

        Raises SoscopeError if pandas is not installed.

        >>> frame = soscope.open("run.sosr").calls.to_pandas()
        >>> frame.groupby("symbol", observed=True).duration_ns.sum().idxmax() in set(frame.symbol)
        True
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise _missing("pandas") from error
        data: dict[str, Any] = {}
        for name, values, array, nothing in self._parts():
            data[name] = array
            if values is not None:
                data[name] = pd.Categorical.from_codes(array, list(map(_in_unicode, values)))
            elif nothing is not None:
                data[name] = pd.arrays.IntegerArray(array, nothing)
        return pd.DataFrame(data)

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table. Strings are dictionaries, and unknown values are null.

        Raises SoscopeError if pyarrow is not installed.

        >>> soscope.open("run.sosr").calls.to_arrow().column_names[:3]
        ['symbol', 'caller', 'callee']
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise _missing("pyarrow") from error
        data: dict[str, Any] = {}
        for name, values, array, nothing in self._parts():
            if values is None:
                data[name] = pa.array(array, mask=nothing)
            else:
                codes = pa.array(array, pa.int32())
                texts = pa.array(map(_in_unicode, values), pa.string())
                data[name] = pa.DictionaryArray.from_arrays(codes, texts)
        return pa.table(data)


def calls_of(columns: Columns, programs: Programs, stacks: StackNames | None = None) -> Calls:
    """Return the calls of a recording with the names from its programs and `stacks`."""
    keys, which = np.unique(columns.program << 28 | columns.slot, return_inverse=True)
    slots = [programs[key >> 28].slot(key & 0xFFF_FFFF) for key in keys.tolist()]
    return Calls(columns, slots, which.reshape(-1), stacks)


def _text(slot: TracedSlot, name: str) -> str:
    if name in ("caller", "callee"):
        image = getattr(slot, name)
        return "" if image is None else str(image.name)
    return str(getattr(slot, name))


def _in_unicode(text: str) -> str:
    """Return a text in which bytes that are no UTF-8 are escaped, for Arrow and pandas.

    Both only take valid UTF-8.
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _missing(package: str) -> SoscopeError:
    return SoscopeError(f"{package} is not installed", hint="pip install 'soscope[data]'")
