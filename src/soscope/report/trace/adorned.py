# SPDX-License-Identifier: Apache-2.0
"""Additions to ltrace's lines of a trace: call sites, stacks, indentation, colours."""

from __future__ import annotations

import errno
import os
from json.encoder import encode_basestring_ascii as quoted

from soscope.errors import SoscopeError
from soscope.frames.names import CallFrames, FrameNames, Key, Place, key_of
from soscope.instruments.trace.listener import Destination, Listener
from soscope.instruments.trace.outcome import TraceOutcome
from soscope.model.call import (
    Dropped,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
    StackFrame,
    printable,
)
from soscope.prototypes import Prototypes
from soscope.recording.names import Programs, RecordedProgram
from soscope.report.output import Output
from soscope.report.trace.display import Display, FunctionNames
from soscope.select.filter import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from soscope.prototypes.formats import Argument


# Additions to the lines of a trace: places, stacks, indentation, colours.
#
# A plain trace does not use this. A colour never tells anything that the text does not.

_SYMBOL = "\x1b[36m"
_STRING = "\x1b[32m"
_FAILURE = "\x1b[31m"
_END = "\x1b[0m"
_CODES = (_SYMBOL, _STRING, _FAILURE, _END)


class Adorned:
    """Adds to lines what a display asks for. `programs` has the images."""

    def __init__(self, display: Display, *, is_coloured: bool) -> None:
        self._is_coloured = is_coloured
        self._indent = display.indent
        self._has_places = display.places
        self._places: CallPlaces | None = None
        self._display = display
        self._stacks: CallStacks | None = None
        self._descriptors = display.descriptors
        self.programs: Programs

    def lead(self, entry: Entry) -> str:
        """Return the text before a function."""
        return self.place(entry) + " " * (self._indent * entry.depth)

    def place(self, entry: Entry) -> str:
        """Return where a call was made, if that is asked for, followed by a blank."""
        if not self._has_places:
            return ""
        if self._places is None:
            self._places = CallPlaces(self.programs, self._display)
        return f"[{self._places.text(entry)}] "

    def below(self, entry: Entry) -> str:
        """Return the text below the line of a call."""
        if not self._display.stacks:
            return ""
        if self._stacks is None:
            self._stacks = CallStacks(self.programs, self._display)
        return self._stacks.text(entry)

    def symbol(self, name: str) -> str:
        """Return the name of a function, in colour if wanted."""
        return f"{_SYMBOL}{name}{_END}" if self._is_coloured else name

    def texts(self, entry: Entry, arguments: list[Argument]) -> list[str]:
        """Return the arguments of a call, in colour if wanted."""
        if self._descriptors is not None:
            self._descriptors.mark(entry, arguments)
        if not self._is_coloured:
            return [argument.shown for argument in arguments]
        return [
            f"{_STRING}{argument.shown}{_END}" if _is_string(argument.shown) else argument.shown
            for argument in arguments
        ]

    def result(self, leave: Exit, text: str, *, failed: bool) -> str:
        """Return a result, in colour if wanted."""
        if self._descriptors is not None:
            text = self._descriptors.mark_result(leave, text)
        if not self._is_coloured:
            return text
        if failed:
            return f"{_FAILURE}{text}{_END}"
        return f"{_STRING}{text}{_END}" if _is_string(text) else text

    def hidden(self, line: str) -> int:
        """Return how many characters of a line take no room on a terminal."""
        if not self._is_coloured:
            return 0
        return sum(len(code) * line.count(code) for code in _CODES)


def _is_string(text: str) -> bool:
    return text.startswith(('"', 'L"'))


# The stacks of calls (-k): lines below a call's own, or members of its object.
#
# A native frame is the return address of a call, which is in front of it. A frame of Python or Ruby
# replaces the frame of the interpreter's function that runs its code.

_MOST_KEPT = 1 << 16

_Kept = dict[Key, str]


class CallStacks:
    """Names the frames of calls that `display` asks for. `programs` has all stacks."""

    def __init__(self, programs: Programs, display: Display) -> None:
        self._frames = CallFrames(programs)
        self._depth = display.stacks
        self._functions = FunctionNames(display)
        self._texts: _Kept = {}
        self._members: _Kept = {}

    def text(self, entry: Entry) -> str:
        """Return a line for each frame, innermost first, "" if the stack is not known."""
        return self._kept(self._texts, entry, self._lines)

    def members(self, entry: Entry) -> str:
        """Return the member `stack` of a JSON object, followed by a comma."""
        return self._kept(self._members, entry, _array) or '"stack":null,'

    def _kept(self, kept: _Kept, entry: Entry, make: Callable[[list[Place]], str]) -> str:
        key = key_of(entry)
        text = kept.get(key)
        if text is None:
            places = self._frames.places(key)[: self._depth]
            text = make(places) if places else ""
            if len(kept) > _MOST_KEPT:
                kept.clear()
            if text:
                kept[key] = text
        return text

    def _lines(self, places: list[Place]) -> str:
        return "".join([f" > {printable(self._text(frame, addr))}\n" for frame, addr in places])

    def _text(self, frame: StackFrame, addr: int | None) -> str:
        """Return a frame as strace, or Python or Ruby, would show it."""
        if addr is None:
            if frame.file is None:
                return "?"
            return f"{frame.file}:{frame.line} in {frame.symbol}"
        if frame.image is None:
            return f"[{addr:#x}]"
        symbol = f"+{addr:#x}"
        if frame.symbol is not None:
            symbol = f"{self._functions.short(frame.symbol)}+{frame.offset:#x}"
        line = ""
        if frame.file is not None and frame.line is not None:
            line = f" {frame.file.rpartition('/')[2]}:{frame.line}"
        return f"{frame.image}({symbol}) [{addr:#x}]{line}"


def _array(places: list[Place]) -> str:
    return f'"stack":[{",".join([_object(frame) for frame, _ in places])}],'


def _object(frame: StackFrame) -> str:
    def text(value: str | None) -> str:
        return "null" if value is None else quoted(value)

    offset = "null" if frame.offset is None else frame.offset
    line = "null" if frame.line is None else frame.line
    return (
        f'{{"image":{text(frame.image)},"symbol":{text(frame.symbol)},"offset":{offset},'
        f'"file":{text(frame.file)},"line":{line}}}'
    )


# Places of calls: image and offset, with function and line if known.

_UNKNOWN = "?"


class CallPlaces:
    """Names the return addresses of calls. `programs` has the images of each program.

    `display` tells whether names of C++ are demangled.
    """

    def __init__(self, programs: Programs, display: Display) -> None:
        self._programs = programs
        self._time_ns = programs.clock.time_ns
        self._functions = FunctionNames(display)
        self._names = FrameNames()
        self._kept: dict[tuple[int, int], str] = {}

    def text(self, entry: Entry) -> str:
        """Return the place that a call returns to: `prog+0x1234 main+0x20 prog.c:12`.

        If the address is in no known image, return the address. If it is not known, return `?`.
        """
        addr = entry.return_addr
        if not addr:
            return _UNKNOWN
        slot = entry.slot
        program = self._programs[slot.process]
        word = program.word(addr, entry.pid, entry.time_ns, self._time_ns, slot.caller)
        key = slot.process, word
        text = self._kept.get(key)
        if text is None:
            if len(self._kept) > _MOST_KEPT:
                self._kept.clear()
            text = self._kept[key] = self._made(program, word)
        return text

    def _made(self, program: RecordedProgram, word: int) -> str:
        ((frame, addr),) = self._names.places(program, (word,))
        if frame.image is None:
            return f"{addr:#x}"
        parts = [f"{frame.image}+{addr:#x}"]
        if frame.symbol is not None:
            parts.append(f"{self._functions.short(frame.symbol)}+{frame.offset:#x}")
        if frame.file is not None and frame.line is not None:
            parts.append(f"{frame.file.rpartition('/')[2]}:{frame.line}")
        return printable(" ".join(parts))


# `-ff -o FILE`: a file FILE.PID for each process, with a listener of its own.


class _Files(Destination):
    """The files of all processes, as one destination of the trace."""

    __slots__ = ("meanwhile",)

    def __init__(self) -> None:
        self.meanwhile: Callable[[], bool] | None = None

    def attend(self, meanwhile: Callable[[], bool]) -> None:
        """Keep the function to call while the reader of a file is slow."""
        self.meanwhile = meanwhile


class SeparateListener(Listener):
    """Passes each event to the listener of its process.

    `make` makes a listener for an output. `failed` has the outputs that could not be written. If
    a process gets the number of an earlier one, its file has one more number. Lost events belong
    to no process, and the notes tell how many there were. Forks are in no file, as each file is
    about one process. `destination` stands for all files.
    """

    def __init__(self, path: str, make: Callable[[Output], Listener]) -> None:
        """Prepare. Raises SoscopeError if such files cannot be made."""
        reason = _why_unwritable(os.path.dirname(path) or ".")
        if reason:
            message = f"cannot write '{path}.PID': {os.strerror(reason).lower()}"
            raise SoscopeError(message, slug="output", errno=reason)
        self.failed: list[Output] = []
        self.destination = _Files()
        self._path = path
        self._make = make
        self._open: dict[int, tuple[Output, Listener]] = {}
        self._before: dict[int, int] = {}  # number of files of earlier processes, by pid
        self._begin: tuple[Prototypes, Selection]
        self._programs = Programs()

    def meet(self, programs: Programs) -> None:
        """Keep the programs, to pass them to each listener before anything else."""
        self._programs = programs

    def begin(self, prototypes: Prototypes, selection: Selection) -> None:
        """Keep the arguments with which each listener begins."""
        self._begin = prototypes, selection

    def events(self, batch: list[Event]) -> None:
        """Pass on events, with consecutive events of one process in one batch."""
        waiting: list[Event] = []
        pid = 0
        for event in batch:
            if isinstance(event, Dropped) or (
                isinstance(event, ProcessStart) and event.event == "fork"
            ):
                continue
            if waiting and event.pid != pid:
                self._listener(pid).events(waiting)
                waiting = []
            pid = event.pid
            waiting.append(event)
            if isinstance(event, ProcessExit):
                self._listener(pid).events(waiting)
                waiting = []
                self._close(pid, None)
        if waiting:
            self._listener(pid).events(waiting)

    def caught_up(self, time_ns: int) -> None:
        """Show the open calls of the processes."""
        for _, listener in self._open.values():
            listener.caught_up(time_ns)

    def end(self, outcome: TraceOutcome) -> None:
        """Finish the files of all processes that go on."""
        for pid in list(self._open):
            self._close(pid, outcome)

    def _listener(self, pid: int) -> Listener:
        if pid not in self._open:
            count = self._before[pid] = self._before.get(pid, 0) + 1
            path = f"{self._path}.{pid}" if count == 1 else f"{self._path}.{pid}.{count}"
            try:
                output = Output.open(path, wait=False)
                output.begin()
                if self.destination.meanwhile is not None:
                    output.attend(self.destination.meanwhile)
            except SoscopeError as error:
                output = Output(-1, path)  # counts the lost lines
                output.error = OSError(error.errno, os.strerror(error.errno or 0))
            listener = self._make(output)
            listener.meet(self._programs)
            listener.begin(*self._begin)
            self._open[pid] = output, listener
        return self._open[pid][1]

    def _close(self, pid: int, outcome: TraceOutcome | None) -> None:
        """Close a file, as thousands of processes may follow each other."""
        output, listener = self._open.pop(pid)
        listener.end(outcome or TraceOutcome([], self._begin[1]))
        output.close()
        if output.error is not None:
            self.failed.append(output)


def _why_unwritable(folder: str) -> int:
    """Return the error number of making a file in a folder, 0 if it would succeed."""
    if not os.path.isdir(folder):
        return errno.ENOENT
    return 0 if os.access(folder, os.W_OK | os.X_OK) else errno.EACCES
