# SPDX-License-Identifier: Apache-2.0
"""Events of a traced program: calls, signals, processes, losses.

All times are CLOCK_REALTIME nanoseconds, all durations nanoseconds. There are also classes for
the captured arguments of a call, for the frames of its stack, and for sums of many calls.
"""

from __future__ import annotations

from soscope.model.image import TracedSlot
from soscope.model.record import PlainRecord, Record

# The types of a function's arguments and result, as far as its callers' code depends on them.
#
# Signedness, qualifiers and what pointers lead to make no difference to a call. They are kept only
# in the text of a type.

# Kinds of types. Equal bytes in equal registers can still mean different things.
VOID = "void"
WORD = "word"  # an integer, character, enum or pointer
FLOATING = "floating"
COMPLEX = "complex"
VECTOR = "vector"
RECORD = "record"  # a struct, union or class by value
UNKNOWN = "unknown"  # its size or its registers are not known

# Classes of eight bytes (System V psABI x86-64, 3.2.3 "Parameter Passing").
INTEGER = "INTEGER"
SSE = "SSE"
SSEUP = "SSEUP"
X87 = "X87"
X87UP = "X87UP"
COMPLEX_X87 = "COMPLEX_X87"
MEMORY = "MEMORY"  # on the stack; a result: where a hidden first argument points

# One value inside a record: offset and size in bytes, classes, alignment.
Piece = tuple[int, int, tuple[str, ...], int]


class PassedType(Record):
    """The type of an argument or result: its `size` in bytes and the classes of its eightbytes.

    `kind` is a constant of this module. `text` is the type as C writes it.
    """

    text: str
    kind: str
    size: int = 0
    classes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return a text with all fields."""
        return f"<{self.text}: {self.kind} {self.size} {'+'.join(self.classes)}>"

    @property
    def is_known(self) -> bool:
        """Return whether it is known how a call passes this type."""
        return self.kind != UNKNOWN

    def fits(self, other: PassedType) -> bool:
        """Return whether a call passes both types alike; true if one of them is not known."""
        if not self.is_known or not other.is_known:
            return True
        if (self.size, self.classes) != (other.size, other.classes):
            return False
        return self.kind == other.kind or RECORD in (self.kind, other.kind)


class Signature(Record):
    """A function's types; `arguments` is None if nothing is known about them.

    A variadic function takes further arguments behind these. `tails` are the lists of further
    arguments that the function takes. `words` is the largest number of further words of unknown
    type that it takes. If both are empty, it takes any.
    """

    arguments: tuple[PassedType, ...] | None
    result: PassedType
    is_variadic: bool = False
    tails: tuple[tuple[PassedType, ...], ...] = ()
    words: int = 0

    @property
    def is_known(self) -> bool:
        """Return whether all its types are known."""
        if self.arguments is None or not self.result.is_known:
            return False
        return all(argument.is_known for argument in self.arguments)

    @property
    def taken(self) -> str:
        """The arguments as C writes them."""
        if self.arguments is None:
            return "()"
        texts = [argument.text for argument in self.arguments]
        if self.is_variadic:
            texts.append("...")
        return f"({', '.join(texts) or 'void'})"


# The argument data that the agent captured of a call, at its entry or at its exit.

RESULT_ITEM = 0xFF  # item number of the result
ERRNO_ITEM = 0xFE  # item number of errno at the entry
INJECTED_ITEM = 0xFD  # item number of what was injected into the call
STACK_ITEM = 0xFC  # item number of the number of its stack
VALUES_ITEM = 0xFB  # item number of the values of a va_list, in order
VECTORS_ITEM = 0xFA  # item number of whole vector registers, from the first on

# Kinds of captured data, with the values of `enum sosc_data_kind`.
DATA_WORDS = 1
DATA_STACK = 2
DATA_FLOATS = 3
DATA_STRING = 4  # without the NUL byte at its end
DATA_BYTES = 5
DATA_WORD_AT = 6  # the 8 bytes that a pointer leads to

# Flags of captured data, with the values of `enum sosc_data_flag`.
DATA_TRUNCATED = 1  # the object is longer than the limit
DATA_UNREADABLE = 2  # the pointer could not be read
DATA_NULL = 4  # the pointer was NULL


class Captured(PlainRecord):
    """Captured registers, stack words and the memory that pointers led to.

    `words` are the integer argument registers as unsigned 64-bit words, from the first on. At an
    entry there is at least one. `stack` are the words above the return address, from the first
    on. `floats` are the low 8 bytes of the vector argument registers as doubles, from the first
    on; at an exit there is only the result. `data` is item number -> (kind, flags, bytes). An
    item number is the number of an argument in the printed list (0-based), `RESULT_ITEM`,
    `ERRNO_ITEM` or another constant of this module.
    """

    __slots__ = ("data", "floats", "stack", "words")

    def __init__(
        self,
        words: tuple[int, ...] = (),
        stack: tuple[int, ...] = (),
        floats: tuple[float, ...] = (),
        data: dict[int, tuple[int, int, bytes]] | None = None,
    ) -> None:
        self.words = words
        self.stack = stack
        self.floats = floats
        self.data = {} if data is None else data


NOTHING = Captured()


# How a call ended.
ENDED_RETURN = "return"
ENDED_UNWOUND = "unwound"  # left by an exception, longjmp or a switched stack
ENDED_EXIT = "exit"  # its process or thread ended before it returned
ENDED_KILLED = "killed"  # its process was killed
ENDED_LOST = "lost"  # it may have returned: events of its thread were lost


class Entry(PlainRecord):
    """A call through a slot; `depth` is the number of open hooked calls of its thread before it.

    If `entry_only` is true, no exit will follow for this call.
    """

    __slots__ = (
        "captured",
        "depth",
        "entry_only",
        "pid",
        "return_addr",
        "slot",
        "tid",
        "time_ns",
    )

    def __init__(
        self,
        time_ns: int,
        pid: int,
        tid: int,
        slot: TracedSlot,
        depth: int,
        return_addr: int,
        captured: Captured,
        entry_only: bool,
    ) -> None:
        self.time_ns = time_ns
        self.pid = pid
        self.tid = tid
        self.slot = slot
        self.depth = depth
        self.return_addr = return_addr
        self.captured = captured
        self.entry_only = entry_only

    @property
    def stack(self) -> int:
        """The number of the call's stack in its program's table of stacks, 0 if it has no stack."""
        said = self.captured.data.get(STACK_ITEM)
        return 0 if said is None else int.from_bytes(said[2], "little")


class Exit(PlainRecord):
    """The end of a call.

    `entry` is None if the entry was lost. `duration_ns`, `result` (an unsigned 64-bit word) and
    `errno` are None if they are not known. `duration_ns` does not include the time that the agent
    itself took. `ended` is one of the ENDED_ constants of this module. A coroutine may end on
    another thread than it began on: `pid` and `tid` are the process and the thread in which it
    ended.

    A forked child returns from calls that its parent made (`is_inherited`). Such an exit does not
    end the parent's call: the parent has an exit of its own for it.
    """

    __slots__ = (
        "captured",
        "duration_ns",
        "ended",
        "entry",
        "errno",
        "pid",
        "result",
        "slot",
        "tid",
        "time_ns",
    )

    def __init__(
        self,
        entry: Entry | None,
        time_ns: int,
        duration_ns: int | None,
        result: int | None,
        errno: int | None,
        captured: Captured,
        ended: str,
        pid: int,
        tid: int,
        slot: TracedSlot,
    ) -> None:
        self.entry = entry
        self.time_ns = time_ns
        self.duration_ns = duration_ns
        self.result = result
        self.errno = errno
        self.captured = captured
        self.ended = ended
        self.pid = pid
        self.tid = tid
        self.slot = slot

    @property
    def is_inherited(self) -> bool:
        """Return whether the process that returns here is not the process that made the call."""
        return self.entry is not None and self.entry.pid != self.pid


class Signal(PlainRecord):
    """A signal that was delivered to a thread; `signal` is its number."""

    __slots__ = ("pid", "signal", "tid", "time_ns")

    def __init__(self, time_ns: int, pid: int, tid: int, signal: int) -> None:
        self.time_ns = time_ns
        self.pid = pid
        self.tid = tid
        self.signal = signal


class ProcessStart(Record):
    """A new process or program: `event` is "start", "fork" or "exec".

    `parent` is None if the parent is not known or is not traced. `program` is the path of the
    program that the process runs. `arch` is its machine, by the name of uname(2) and qemu.
    `engine` is how soscope sees its calls: "agent" or one of `control.settings.ENGINES`. Both are
    "" if soscope does not see its calls.
    """

    time_ns: int
    pid: int
    event: str
    parent: int | None
    program: str
    arch: str = ""
    engine: str = ""


class ProcessExit(Record):
    """The end of a process: its exit status, or the number of the signal that killed it."""

    time_ns: int
    pid: int
    status: int | None
    signal: int | None


class Dropped(Record):
    """A note that `count` events are missing; `why` is the reason, as a text for users."""

    count: int
    why: str


# (start in tsc ticks, ticks until the exit, then what decides how the call is printed: slot, first
# argument, result, DATA units of the entry, errno if the call failed and its errno is known, DATA
# units of the exit)
WholeCall = tuple[int, int, TracedSlot, int, int, bytes, int | None, bytes]


class Stretch(PlainRecord):
    """Calls of one thread in a row: each call has returned before the next one began.

    Only listeners that ask for stretches get them. A stretch stands for an Entry and an Exit
    (`ENDED_RETURN`) of each of its calls. All its times lie in one `piece` of the clock: (from,
    to in tsc ticks, realtime at its start, realtime ns per tick, ns per tick for durations).
    `depth` is the same for all its calls.
    """

    __slots__ = ("calls", "depth", "pid", "piece", "tid")

    def __init__(
        self,
        pid: int,
        tid: int,
        piece: tuple[int, int, int, float, float],
        calls: list[WholeCall],
        depth: int,
    ) -> None:
        self.pid = pid
        self.tid = tid
        self.depth = depth
        self.piece = piece
        self.calls = calls


Event = Entry | Exit | Signal | ProcessStart | ProcessExit | Dropped | Stretch


def calls_in(batch: list[Event]) -> int:
    """Return the number of calls that begin in a batch of events."""
    calls = 0
    for event in batch:
        if isinstance(event, Entry):
            calls += 1
        elif isinstance(event, Stretch):
            calls += len(event.calls)
    return calls


# Where each captured argument of a call stands in the tuple that one struct.unpack returns.

FIRST = 0  # index of the first integer register
RESULT = 1  # index of the result; both are unsigned words

# numbers, and for each item of data its length, its flags, and its bytes in pieces
Unpacked = tuple["int | float | bytes", ...]


class Fields(PlainRecord):
    """Indices into an `Unpacked` tuple.

    `words`, `stack` and `floats` have the index of each word of the entry, in the order of
    `Captured`. `data` has (index, number of pieces) for each item of the entry, `back` for each
    item of the exit. The length in bytes stands at that index, behind it the flags, then the
    pieces, which together may be longer than the length.
    """

    __slots__ = ("back", "data", "floats", "stack", "words")

    def __init__(self) -> None:
        self.words = [FIRST]
        self.stack: list[int] = []
        self.floats: list[int] = []
        self.data: dict[int, tuple[int, int]] = {}
        self.back: dict[int, tuple[int, int]] = {}


# A frame of a stack, with names in place of addresses.

OwnFrame = tuple[str, str | None, int | None]  # frame of an interpreter: function, file, line


class StackFrame(PlainRecord):
    """A return address with its names; unknown fields are None.

    `image` is the image's name. `offset` counts from the start of `symbol`; without a symbol,
    from the start of the image.
    """

    __slots__ = ("file", "image", "line", "offset", "symbol")

    def __init__(
        self,
        image: str | None,
        symbol: str | None,
        offset: int | None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        self.image = image
        self.symbol = symbol
        self.offset = offset
        self.file = file
        self.line = line


# Sums over the calls through one slot.

# (calls, returns, errors, total, min, max, self). `total` is the time of all calls that returned.
# `self` is the part of it that was not spent in nested calls of the same thread that are seen,
# too; it is None if that is not known. Times are in ticks or nanoseconds: each producer documents
# which.
Cell = tuple[int, int, int, int, int, int, int | None]
Stats = dict[int, Cell]  # slot -> its sums


def is_told(time_ns: float | None, doubt_ns: float | None) -> bool:
    """Return whether a time exceeds its possible error; true if either is unknown."""
    return time_ns is None or doubt_ns is None or not doubt_ns or time_ns > doubt_ns


def importance(time_ns: float | None, doubt_ns: float | None, whole_ns: float | None) -> int:
    """Return a sort key for times: 0 if a time exceeds its error, 1 if it does not.

    A time below a hundredth of the whole gets 2, whatever its error is.
    """
    if (time_ns or 0) * 100 < (whole_ns or 0):
        return 2
    return 0 if is_told(time_ns, doubt_ns) else 1


def add(cell: Cell | None, other: Cell) -> Cell:
    """Add two cells; a cell without returns has no shortest call."""
    if cell is None or not any(cell):
        return other
    calls, returns, errors, total, least, most, own = cell
    if returns and other[1]:
        least = min(least, other[4])
    elif other[1]:
        least = other[4]
    return (
        calls + other[0],
        returns + other[1],
        errors + other[2],
        total + other[3],
        least,
        max(most, other[5]),
        None if own is None or other[6] is None else own + other[6],
    )


# How long threads waited for a processor; where it is known, this time is in no call's time.


class Delays(PlainRecord):
    """The waits of all traced threads.

    The threads waited `waited_ns` within `over_ns` of their time. That time runs, for each
    thread, from its first to its last look at the kernel's account. `ran_ns` is how long their
    programs were observed. `unknown` counts how often a thread may have waited for an unknown
    time: such waits are still part of the times of calls.
    """

    __slots__ = ("over_ns", "ran_ns", "unknown", "waited_ns")

    def __init__(
        self, waited_ns: int = 0, over_ns: int = 0, unknown: int = 0, ran_ns: int = 0
    ) -> None:
        self.waited_ns = waited_ns
        self.over_ns = over_ns
        self.unknown = unknown
        self.ran_ns = ran_ns

    def add(self, other: Delays) -> None:
        """Add the waits of another program's threads."""
        self.waited_ns += other.waited_ns
        self.over_ns += other.over_ns
        self.unknown += other.unknown
        self.ran_ns += other.ran_ns

    @property
    def share(self) -> float:
        """Return the part of the traced time that was waiting, at most 1."""
        traced = max(self.over_ns, self.ran_ns)
        return min(self.waited_ns / traced, 1.0) if traced else 0.0


# Make names of the traced program safe to show on a terminal.


def printable(line: str) -> str:
    """Return a line with unprintable characters escaped, so that it is safe to print."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else f"\\x{_byte(letter):02x}" for letter in line)


def _byte(letter: str) -> int:
    """Return a character's number; for a surrogate escape, the byte that it stands for."""
    number = ord(letter)
    return number - 0xDC00 if 0xDC80 <= number <= 0xDCFF else number


# Formats of `time_text`.
SENTENCE = "sentence"  # three digits
PAGE = "page"  # three decimals, so that the times of a page can be compared
COLUMN = "column"  # the same in ten ASCII characters, of which the last two are the unit

_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1))


def time_text(ns: float, form: str = SENTENCE) -> str:
    """Return a time in nanoseconds as a number with its unit, in one of three formats.

    >>> from soscope.model.call import COLUMN, PAGE, time_text
    >>> time_text(12_345), time_text(12_345, PAGE), time_text(12_345, COLUMN)
    ('12.3 us', '12.345 µs', ' 12.345 us')
    """
    units = _UNITS[:3] if form == COLUMN else _UNITS
    part = 0.9995 if form == SENTENCE else 1  # three digits of 999.5 us are already 1 ms
    unit, size = next((pair for pair in units if abs(ns) >= part * pair[1]), units[-1])
    if form == SENTENCE:
        return f"{ns / size:.3g} {unit}"
    if form == COLUMN:
        return f"{ns / size:7.3f} {unit:2}"
    return f"{ns} ns" if size == 1 else f"{ns / size:.3f} {unit.replace('u', 'µ')}"
