# SPDX-License-Identifier: Apache-2.0
"""Name the files and functions behind descriptors, streams and callbacks of calls."""

from __future__ import annotations

import os
from os.path import isabs, join, normpath, realpath
from struct import unpack_from

from soscope.model.call import (
    DATA_NULL,
    DATA_UNREADABLE,
    ENDED_RETURN,
    Entry,
    Event,
    Exit,
    ProcessExit,
    ProcessStart,
)
from soscope.model.image import is_error
from soscope.prototypes import catalog, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from soscope.frames.names import FrameNames
    from soscope.model.image import TracedImage
    from soscope.prototypes import Prototypes
    from soscope.prototypes.formats import Argument
    from soscope.recording.names import Programs, RecordedProgram


# Names of functions whose addresses are passed: the symbols at these addresses.

_POINTS = "(*"  # part of the type of a pointer to a function
_TYPES = frozenset({"sighandler_t", "__sighandler_t"})
_MOST_KEPT = 1 << 16


def is_callback(of: str) -> bool:
    """Return whether a C type is a pointer to a function."""
    return _POINTS in of or of in _TYPES


class Callbacks:
    """Names functions by address. `programs` has the images of each program."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._names: FrameNames | None = None
        self._known: dict[tuple[int, int], str | None] = {}

    def name(self, entry: Entry, addr: int) -> str | None:
        """Return `image!symbol`, None if no known function begins at `addr`.

        The address was passed to the call of `entry`. The images at that time count.
        """
        process = entry.slot.process
        program = self._programs[process]
        # Names are looked up for return addresses, which lie behind what they name.
        word = program.word(addr + 1, entry.pid, entry.time_ns, self._programs.clock.time_ns)
        key = process, word
        if key not in self._known:
            if len(self._known) > _MOST_KEPT:
                self._known.clear()
            self._known[key] = self._look(program, word)
        return self._known[key]

    def _look(self, program: RecordedProgram, word: int) -> str | None:
        if self._names is None:
            from soscope.frames.names import FrameNames  # Reads files, and few traces need it.

            self._names = FrameNames()
        (frame,) = self._names.stack(program, (word,))
        if frame.image is None or frame.symbol is None or frame.offset != 1:
            return None
        return f"{frame.image}!{frame.symbol}"


# The files of descriptors, from the calls that open and close them and from /proc.
#
# Calls that are not hooked open and close descriptors, too, and calls inside libc always do. So a
# name from calls is compared with /proc while the process runs, and marked as doubtful if they
# differ. If no call told a name, the one in /proc is used, which is read a little later.

_ALL = 1 << 30  # bytes; paths are never shortened here
# Names of arguments that are descriptors, with the functions that this is limited to, if any.
_NAMES: dict[str, frozenset[str]] = {
    "fd": frozenset(),
    "new_fd": frozenset({"dup2", "dup3"}),
    "epoll": frozenset({"epoll_ctl", "epoll_wait", "epoll_pwait"}),
    "from": frozenset({"copy_file_range", "sendfile", "splice"}),
    "to": frozenset({"copy_file_range", "sendfile", "splice"}),
}
_DIRECTORY = "at_fd"  # set of constants of an argument that is a directory or AT_FDCWD
# By name: the index of the path argument, and of the directory that it is relative to.
_OPENING = {"open": (0, -1), "openat": (1, 0), "creat": (0, -1), "__open_2": (0, -1),
            "__openat_2": (1, 0)}  # fmt: skip
_MAKING = {
    "socket": "socket", "accept": "socket", "accept4": "socket", "epoll_create": "epoll",
    "epoll_create1": "epoll", "eventfd": "eventfd", "timerfd_create": "timerfd",
    "signalfd": "signalfd", "inotify_init": "inotify", "inotify_init1": "inotify",
    "memfd_create": "memfd",
}  # fmt: skip
_PAIRS = {"pipe": (0, "pipe"), "pipe2": (0, "pipe"), "socketpair": (3, "socket")}
# Functions that open streams, whose descriptors the streams close. Index of the path or
# descriptor.
_STREAMS = {"fopen": 0, "opendir": 0, "fdopen": 0, "fdopendir": 0, "freopen": 0}
_STREAM_TYPES = frozenset({"FILE *", "DIR *", "__FILE *"})
_ASKING = frozenset({"fileno", "dirfd"})
# Functions that end a stream, even if they fail. Index of the stream argument.
_ENDING = {"fclose": 0, "closedir": 0, "pclose": 0, "freopen": 2}
_CLOSING_FROM = frozenset({"close_range", "closefrom"})
_RESULT = -1
_DOUBT = "?"
_EINPROGRESS = 115


def of_process(pid: int, fd: int) -> str | None:
    """Return the file of a descriptor by /proc, None if it is not there (any more)."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return None


def inherited() -> dict[int, str]:
    """Return the files of the standard streams that a command inherits from this process."""
    own = {fd: of_process(os.getpid(), fd) for fd in range(3)}
    return {fd: path for fd, path in own.items() if path is not None}


class Descriptors:
    """The open descriptors of all processes, as far as they are known.

    `look` is called like `of_process`, and is None if the processes are gone. `begun` are the
    descriptors of a process that is started. `looked` counts uses of descriptors that only /proc
    knew, and `nameless` uses of unknown ones.
    """

    def __init__(
        self, look: Callable[[int, int], str | None] | None, begun: dict[int, str] | None = None
    ) -> None:
        self._look = look
        self._begun_with = begun or {}
        self.looked = 0
        self.nameless = 0
        self._prototypes: Prototypes | None = None
        self._standard: StandardStreams | None = None
        self._callbacks: Callbacks | None = None
        self._tables: dict[int, dict[int, str]] = {}
        # By process, then by pointer: the file of a stream, and its descriptor, None if not known.
        self._streams: dict[int, dict[int, tuple[str | None, int | None]]] = {}
        # By symbol: indices of its arguments that are descriptors and of those that are streams,
        # and whether it has arguments that are functions.
        self._places: dict[str, tuple[list[int], list[int], bool]] = {}
        self._declared: dict[str, str] = {}
        # By call: the files of its arguments by index; _RESULT is the index of the result.
        self._at: dict[Entry, dict[int, str]] = {}
        self._over: list[Entry] = []

    def meet(self, programs: Programs) -> None:
        """Take the programs. They have the images, with their addresses."""
        self._callbacks = Callbacks(programs)
        self._standard = StandardStreams(programs)

    def begin(self, prototypes: Prototypes) -> None:
        """Take the prototypes, which have the names of arguments."""
        self._prototypes = prototypes

    def observe(self, batch: list[Event]) -> None:
        """Process all events, before any of them is shown."""
        for entry in self._over:
            self._at.pop(entry, None)
        self._over.clear()
        for event in batch:
            if isinstance(event, Entry):
                self._begun(event)
            elif isinstance(event, Exit):
                self._ended(event)
            elif isinstance(event, ProcessStart):
                if event.event == "fork" and event.parent is not None:
                    self._tables[event.pid] = dict(self._tables.get(event.parent, {}))
                    self._streams[event.pid] = dict(self._streams.get(event.parent, {}))
                elif event.event == "start":
                    self._forget(event.pid)
                    self._tables[event.pid] = dict(self._begun_with)
                else:  # it is not known which of them an exec closes
                    self._forget(event.pid)
            elif isinstance(event, ProcessExit):
                self._forget(event.pid)

    def _forget(self, pid: int) -> None:
        self._tables.pop(pid, None)
        self._streams.pop(pid, None)

    def remarks(self) -> list[str]:
        """Return lines about how reliable the names are."""
        lines = []
        if self.looked:
            lines.append(
                "uses of descriptors of which /proc alone knew, a moment after the call: "
                f"{self.looked:,}"
            )
        if self.nameless:
            lines.append(
                f"uses of descriptors that no call was seen to open: {self.nameless:,}, without a"
                " name (-e '%file,%desc' sees more calls)"
            )
        return lines

    # ---- output

    def mark(self, entry: Entry, arguments: list[Argument]) -> None:
        """Add the files of descriptors behind their numbers."""
        for place, path in self._at.get(entry, {}).items():
            if 0 <= place < len(arguments):
                arguments[place].marked(f"<{path}>")

    def mark_result(self, leave: Exit, text: str) -> str:
        """Return the text of a result, with the file if it is a descriptor."""
        entry = leave.entry
        path = None if entry is None else self._at.get(entry, {}).get(_RESULT)
        return text if path is None or leave.ended != ENDED_RETURN else f"{text}<{path}>"

    def are_of(self, entry: Entry, paths: Sequence[str]) -> bool:
        """Return whether an argument is a descriptor of one of some files."""
        return any(path in paths for path in self._at.get(entry, {}).values())

    # ---- calls

    def _of(self, pid: int, fd: int) -> str | None:
        """Return the file of a descriptor."""
        known = self._tables.get(pid, {}).get(fd)
        link = None if self._look is None else self._look(pid, fd)
        if known is None:
            if link is None:
                return None
            self.looked += 1
            return _escaped(link)
        if link is None:
            return _escaped(known)
        link = link.removesuffix(" (deleted)")
        if not isabs(known) and isabs(link) and link.endswith(f"/{normpath(known)}"):
            return _escaped(link)
        return _escaped(known) + ("" if _agree(known, link) else _DOUBT)

    def _begun(self, entry: Entry) -> None:
        prototypes, symbol = self._prototypes, entry.slot.symbol
        if prototypes is None or entry.slot.foreign:
            return
        places = self._places.get(symbol)
        if places is None:
            places = self._learn(symbol, prototypes)
        descriptors, streams, has_callbacks = places
        opened = self._streams.get(entry.pid, {})
        if descriptors or streams or has_callbacks:
            arguments = prototypes.format_call(entry.slot, entry.captured, _ALL)
            shown: dict[int, str] = {}
            for place in streams:
                pointer = _pointer_of(arguments, place)
                path, _ = opened.get(pointer, (None, None))
                if path is not None:
                    shown[place] = _escaped(path)
                elif pointer not in opened and (standard := self._standard_of(entry, pointer)):
                    shown[place] = standard
            if has_callbacks:
                shown.update(self._functions(entry, arguments))
            for place in descriptors:
                fd = _number_of(arguments, place)
                path = None if fd is None else self._of(entry.pid, fd)
                if path is not None:
                    shown[place] = path
                elif fd is not None and not place:  # the second descriptor of dup2 may be free
                    self.nameless += 1
            if shown:
                self._at[entry] = shown
        if entry.entry_only:
            self._over.append(entry)

    def _functions(self, entry: Entry, arguments: list[Argument]) -> dict[int, str]:
        """Return the names of the functions that are passed to a call, by index of argument."""
        names: dict[int, str] = {}
        for place, argument in enumerate(arguments):
            pointer = _pointer_of(arguments, place) if is_callback(argument.type) else 0
            if self._callbacks is not None and pointer > 0:
                name = self._callbacks.name(entry, pointer)
                if name is not None:
                    names[place] = _escaped(name)
        return names

    def _standard_of(self, entry: Entry, pointer: int) -> str | None:
        """Return the file of stdin, stdout or stderr, or its name if the file is not known."""
        if self._standard is None or not pointer:
            return None
        fd = self._standard.descriptor(entry.slot.process, pointer)
        if fd is None:
            return None

        return self._of(entry.pid, fd) or NAMES[fd]

    def _learn(self, symbol: str, prototypes: Prototypes) -> tuple[list[int], list[int], bool]:
        """Remember the indices of a function's arguments that are descriptors or streams."""
        of = prototypes.row(symbol)
        places: list[int] = []
        streams: list[int] = []
        has_callbacks = False
        if of is not None:
            names, _ = catalog.argument_names(of)
            places = [
                place
                for place, (name, argument) in enumerate(zip(names, of[1], strict=True))
                if argument[0] == "int" and _is_descriptor(name, of[0], argument[3][3])
            ]
            streams = [
                place for place, argument in enumerate(of[1]) if argument[0] in _STREAM_TYPES
            ]
            others = [each for _, arguments in of[2] for each in arguments]
            has_callbacks = any(is_callback(argument[0]) for argument in (*of[1], *others))
            self._declared[symbol] = of[0]
        self._places[symbol] = places, streams, has_callbacks
        return self._places[symbol]

    def _ended(self, leave: Exit) -> None:
        entry, prototypes = leave.entry, self._prototypes
        if entry is None or prototypes is None or leave.is_inherited or entry.slot.foreign:
            return
        self._over.append(entry)
        name = self._declared.get(entry.slot.symbol, "")
        if leave.ended != ENDED_RETURN or leave.result is None:
            return
        if name in _ENDING:
            self._stream_ended(entry, _ENDING[name])
        if name == "connect" or not is_error(entry.slot.error_rule, leave.result):
            self._changed(name, entry, leave, prototypes)

    def _changed(self, name: str, entry: Entry, leave: Exit, prototypes: Prototypes) -> None:
        """Process what a successful call has done to descriptors."""
        table = self._tables.setdefault(entry.pid, {})
        result = (leave.result or 0) & 0xFFFF_FFFF
        if name in _OPENING or name in _MAKING:
            arguments = prototypes.format_call(entry.slot, entry.captured, _ALL, leave)
            path = self._opened(name, entry, arguments)
            table.pop(result, None)
            if path is not None:
                table[result] = path
                self._at.setdefault(entry, {})[_RESULT] = _escaped(path)
        elif name in _PAIRS:
            place, what = _PAIRS[name]
            _, flags, data = leave.captured.data.get(place, (0, DATA_NULL, b""))
            if not flags & (DATA_NULL | DATA_UNREADABLE) and len(data) >= 8:
                for fd in unpack_from("<ii", data):
                    table[fd] = what
        elif name == "connect":
            arguments = prototypes.format_call(entry.slot, entry.captured, _ALL, leave)
            fd = _number_of(arguments, 0)
            if fd is not None and (not result or leave.errno == _EINPROGRESS):
                table[fd] = _peer(arguments[1])
        elif name in ("dup", "dup2", "dup3", "fcntl"):
            arguments = prototypes.format_call(entry.slot, entry.captured, _ALL)
            if name != "fcntl" or arguments[1].text.startswith("F_DUPFD"):
                self._copied(table, _number_of(arguments, 0), result)
        elif name in _STREAMS or name in _ASKING:
            self._stream(name, entry, leave, prototypes)
        elif name == "close":
            fd = _number_of(prototypes.format_call(entry.slot, entry.captured, _ALL), 0)
            if fd is not None:
                table.pop(fd, None)
        elif name in _CLOSING_FROM:
            table.clear()

    def _stream(self, name: str, entry: Entry, leave: Exit, prototypes: Prototypes) -> None:
        """Process a call that opened a stream, or that returned a stream's descriptor."""
        streams = self._streams.setdefault(entry.pid, {})
        table = self._tables.setdefault(entry.pid, {})
        if name in _STREAMS:
            arguments = prototypes.format_call(entry.slot, entry.captured, _ALL)
            said = arguments[_STREAMS[name]]
            fd = None if isinstance(said.value, str) else _number_of(arguments, _STREAMS[name])
            path = said.value if isinstance(said.value, str) and not said.cut else None
            if fd is not None:
                path = table.get(fd)
            if leave.result:
                streams[leave.result] = path, fd
                if path is not None:
                    self._at.setdefault(entry, {})[_RESULT] = _escaped(path)
            return
        pointer = entry.captured.words[0] if entry.captured.words else 0
        if pointer not in streams:
            return
        path, _ = streams[pointer]
        fd = (leave.result or 0) & 0xFFFF_FFFF
        streams[pointer] = path, fd
        if path is not None:
            table[fd] = path
            self._at.setdefault(entry, {})[_RESULT] = _escaped(path)

    def _stream_ended(self, entry: Entry, place: int) -> None:
        """Forget a stream that is closed, and its descriptor."""
        words = entry.captured.words
        pointer = words[place] if place < len(words) else 0
        _, fd = self._streams.get(entry.pid, {}).pop(pointer, (None, None))
        if fd is not None:
            self._tables.get(entry.pid, {}).pop(fd, None)

    def _copied(self, table: dict[int, str], fd: int | None, to: int) -> None:
        path = None if fd is None else table.get(fd)
        table.pop(to, None)
        if path is not None:
            table[to] = path

    def _opened(self, name: str, entry: Entry, arguments: list[Argument]) -> str | None:
        """Return the file of a new descriptor."""
        if name in _OPENING:
            place, directory = _OPENING[name]
            path = arguments[place].value
            if not isinstance(path, str):
                return None
            path += "..." if arguments[place].cut else ""
            if isabs(path) or directory < 0 or arguments[directory].text == "AT_FDCWD":
                return path
            fd = _number_of(arguments, directory)
            base = None if fd is None else self._tables.get(entry.pid, {}).get(fd)
            return None if base is None else join(base, path)
        what = _MAKING[name]
        if name in ("accept", "accept4"):
            return _peer(arguments[1])
        if name == "memfd_create" and isinstance(arguments[0].value, str):
            return f"{what}:{arguments[0].value}"
        return what


def _number_of(arguments: list[Argument], place: int) -> int | None:
    """Return the descriptor in an argument, None if it was not kept or is invalid."""
    value = arguments[place].value if place < len(arguments) else None
    if not isinstance(value, int) or value < 0:
        return None
    return value


def _pointer_of(arguments: list[Argument], place: int) -> int:
    """Return the pointer in an argument, 0 if it was not kept."""
    value = arguments[place].value if place < len(arguments) else None
    if isinstance(value, str):
        return int(value, 16) if value.startswith("0x") else 0
    return int(value or 0)


def _is_descriptor(name: str, function: str, constants: str) -> bool:
    """Return whether an int argument is a descriptor, by its name and its set of constants."""
    only = _NAMES.get(name)
    return constants == _DIRECTORY or (only is not None and (not only or function in only))


def _peer(address: Argument) -> str:
    """Return the name of a connected socket, as in `socket:127.0.0.1:80`."""
    text = address.told.text
    if not text.startswith("{"):
        return "socket"
    where = text[1:-1].partition(", ")[2].strip('"')
    return f"socket:{where}" if where and where != "..." else "socket"


def _agree(known: str, link: str) -> bool:
    """Return whether the name of a descriptor by calls agrees with the one in /proc."""
    if not isabs(link):  # socket:[4711], anon_inode:[eventpoll]
        kind = known.partition(":")[0]
        return kind in link or (kind == "epoll" and "eventpoll" in link)
    if known.startswith("memfd:"):
        return link.startswith("/memfd:")
    if known.endswith("..."):
        return link.startswith(known[:-3])
    return link == normpath(known) or link == realpath(known) or link.endswith(f"/{known}")


def _escaped(path: str) -> str:
    """Return a path without characters that a terminal might interpret."""
    data = path.encode("utf-8", "surrogateescape")
    return show.string(data, len(data))[1:-1].replace('\\"', '"')


# The C library's stdin, stdout and stderr, which no call opens.

# the objects themselves, exported by all versions of glibc
_OBJECTS = ("_IO_2_1_stdin_", "_IO_2_1_stdout_", "_IO_2_1_stderr_")
NAMES = ("stdin", "stdout", "stderr")


class StandardStreams:
    """Recognises the three streams by address. `programs` has the images of each program."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        # By path, identity and load bias of an image: its streams by address.
        self._known: dict[tuple[str, bytes, int], dict[int, int]] = {}

    def descriptor(self, process: int, pointer: int) -> int | None:
        """Return 0, 1 or 2 if `pointer` is such a stream in a program, else None."""
        for image in self._programs[process].files_at(pointer):
            key = image.path, image.identity, image.load_bias
            if key not in self._known:
                self._known[key] = _objects_of(image)
            if pointer in self._known[key]:
                return self._known[key][pointer]
        return None


def _objects_of(image: TracedImage) -> dict[int, int]:
    """Return an image's streams by address, none if its path has another file by now."""
    import os

    from soscope.binfmt.elf.image import ElfImage
    from soscope.binfmt.source import FileSource, open_regular
    from soscope.errors import SoscopeError

    descriptor = open_regular(image.path)
    if descriptor is None:
        return {}
    try:
        file = ElfImage.from_source(FileSource(descriptor, image.path))
        if image.identity and file.identity != image.identity:
            return {}
        addrs = [file.symbols.addr(name) for name in _OBJECTS]
    except (SoscopeError, OSError):
        return {}  # then streams are shown as other pointers are
    finally:
        os.close(descriptor)
    return {image.load_bias + addr: fd for fd, addr in enumerate(addrs) if addr}
