# SPDX-License-Identifier: Apache-2.0
"""The objects instrument: live objects of an interpreter, and where they were made.

The agent keeps a table of objects in the process's own memory. soscope reads the table from
outside while the process waits. The agent asks for that when the program has ended by itself.
soscope also reads the table of a process that is stopped because a signal or a call of `_exit` is
about to end it.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, start_new_thread

from soscope import errors
from soscope.control.settings import Hooks, Instrument
from soscope.entry.agent.install import agent_path
from soscope.errors import SoscopeError
from soscope.instruments.mem.sampled import Chances, scale_of
from soscope.live.python.offsets import agent_layouts
from soscope.proc import status
from soscope.proc.memory import ProcessMemory
from soscope.prototypes import load
from soscope.select.filter import ALL, compile_selection
from soscope.wire import headers as layout
from soscope.wire import layout as wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.binfmt.source import ByteSource
    from soscope.control.outcome import ProgramOutcome
    from soscope.instruments.mem.run import RssInstrument
    from soscope.instruments.mem.survivors import Survivors
    from soscope.recording.sink import Sink
    from soscope.wire.block import ControlBlock


# The file of soscope's that the agent loads into Ruby programs.


def ruby_library() -> bytes:
    """Return the path of soscope_memprof.rb with a NUL behind it, b"" if there is no such file."""
    folder = os.path.dirname(os.path.abspath(errors.__file__))
    path = os.path.join(folder, "_agent", "ruby", "soscope_memprof.rb")
    return os.fsencode(path) + b"\0" if os.path.exists(path) else b""


# How a Python that soscope starts finds `soscope_mem`, also if it is not installed there.
#
# The agent runs a few lines of Python in the program before objects are counted. They add a finder
# behind all others, which knows only this package, and tell the package the path of the agent's
# file, because the program may load the agent as a library, too. So the environment and `sys.path`
# are the same as without soscope, and packages that the program has installed itself come first.

_PACKAGE = "soscope_mem"
_SOURCE = """\
import sys
class SoscopeFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != {package!r}:
            return None
        from importlib.machinery import PathFinder
        spec = PathFinder.find_spec(name, [{folder}])
        if spec is not None:
            spec.loader_state = {agent}
        return spec
sys.meta_path.append(SoscopeFinder)
"""


def finder_source() -> bytes:
    """Return the Python lines with a NUL behind them, b"" if this soscope lacks the package."""
    for folder in sys.path:
        if os.path.isfile(os.path.join(folder, _PACKAGE, "__init__.py")):
            source = _SOURCE.format(
                package=_PACKAGE,
                folder=ascii(os.path.abspath(folder)),
                agent=ascii(os.path.abspath(agent_path())),
            )
            return source.encode() + b"\0"
    return b""


# Calls at which the agent tries to enter an interpreter, which makes some of them soon after its
# start. Functions of the exec family end a program while its objects are alive.
_CALLS = (
    "read,open,open64,openat,openat64,fopen,fopen64,fstat,fstat64,stat,stat64,lseek,lseek64,"
    "malloc,calloc,mmap,mmap64,readlink,getcwd,"
    "execv,execve,execveat,execvp,execvpe,execl,execle,execlp,fexecve"
)
_NONE = "soscope-hooks-nothing"
_SHORT = 0.3  # seconds in which a program hardly makes many objects
_PULSE = 0.2  # seconds between heartbeats during a look; the agent waits for three of them

REFUSALS = {
    layout.OBJECTS_NO_FUNCTION: "it does not define {text}",
    layout.OBJECTS_NO_LAYOUT: "its version is not known: {text}",
    layout.OBJECTS_NO_GIL: "it is a free-threaded build",
    layout.OBJECTS_NO_CODE: "its code that announces new objects cannot be changed",
    layout.OBJECTS_NO_MEMORY: "there is no memory for the tables",
    layout.OBJECTS_NO_END: "its end cannot be heard of",
    layout.OBJECTS_WRONG: "objects made for a test were not counted right",
    layout.OBJECTS_RACTORS: "it makes Ractors, which are not told of each other's objects",
    layout.OBJECTS_TAKEN: "the program counts them itself (soscope_mem), or another tool does",
    layout.OBJECTS_NO_LINES: "soscope has them counted by type alone",
    layout.OBJECTS_SAMPLED: "soscope has some of them counted, by chance",
    layout.OBJECTS_REPLACED: "another tool has taken the interpreter's tracer",
}


class ObjectsInstrument(Instrument):
    """Reads the objects of all processes of a session when they end.

    With `collect`, garbage is collected before. With `types`, objects are told apart by type
    only. With `qualname`, types are shown by qualified names. With `sample_bytes`, one in so many
    bytes is chosen, and the object that it belongs to is counted; if it is None, all objects are.
    `survivors` are the objects of each process, by pid. `refusals` has the reasons why other
    processes have none.
    """

    name = "objects"
    wants_signals = True
    wants_ends = True

    def __init__(
        self,
        *,
        collect: bool = False,
        types: bool = False,
        qualname: bool = False,
        sample_bytes: int | None = None,
        is_visit: bool = False,
        rss: RssInstrument | None = None,
    ) -> None:
        """Make the hooks. With `is_visit` nothing is hooked; the interpreter gets orders instead.

        `rss` measures the resident memory of each process when its objects are read.
        """
        flags = layout.OBJECTS_COLLECT * collect | layout.OBJECTS_TYPES * types
        if sample_bytes is not None:
            flags |= layout.OBJECTS_SAMPLE
        layouts = agent_layouts()
        library = b"" if is_visit else ruby_library()
        source = b"" if is_visit else finder_source()
        at = layout.OBJECTS.size + len(layouts)
        first_place = at + len(library) + len(source)
        first_place += -first_place % 64
        own = layout.OBJECTS.struct.pack(
            flags,
            len(layouts) // layout.PYTHON.size,
            layout.OBJECTS.size,
            first_place,
            layout.OBJECTS_PLACES,
            0,
            at if library else 0,
            at + len(library) if source else 0,
            scale_of(sample_bytes),
        )
        self.hooks: Hooks = Hooks(
            wire.INSTRUMENT_OBJECTS,
            compile_selection([_NONE if is_visit else _CALLS], [ALL], is_exact=True),
            load(),
            entry_only=True,
            own_size=first_place + layout.OBJECTS_PLACES * layout.OBJECTS_PLACE.size,
            own=own + layouts + library + source,
        )
        self._types = types
        self._sample_bytes = sample_bytes
        self._qualname = qualname
        self._rss = rss
        self._has_counted = False
        self._without_place = 0
        self._said: list[str] = []
        self.survivors: dict[int, Survivors] = {}
        self.refusals: dict[int, str] = {}
        self._blocks: dict[int, ControlBlock] = {}
        self._due: float | None = None  # when to prepare for many objects, None if that is done
        self._inner: dict[tuple[int, int], int] = {}  # (id of block, the process's own pid): pid

    # ---- processes ----

    def begun(self) -> None:
        """Import the modules that read objects now, to save time at the program's end."""
        from soscope.instruments.mem import survivors

        del survivors
        self._due = time.monotonic() + _SHORT

    def process(self, pid: int, block: ControlBlock) -> None:
        """Store the control block of a process, by both of its process ids."""
        self._blocks[pid] = block
        try:
            self._inner[id(block), status.inner_pid(pid)] = pid
        except SoscopeError:
            self._inner[id(block), pid] = pid  # the process or thread has ended

    def move(self) -> bool:
        """Read the objects of the processes whose agents ask for it."""
        has_moved = False
        for block in {id(block): block for block in self._blocks.values()}.values():
            for place in ObjectsPlace.all(block):
                self._prepare(place, block)
                if place.asked != place.answered:
                    pid = self._inner.get((id(block), place.pid))
                    if pid is not None:
                        with beating(block):
                            self._look(pid, place)
                        has_moved = True
                    place.answer()
        return has_moved

    def _prepare(self, place: ObjectsPlace, block: ControlBlock) -> None:
        """Import what is needed for many objects (numpy, which is slow) while they are made."""
        is_ruby = place.runtime == layout.RUNTIME_RUBY
        if self._due is None or place.asked or not (is_ruby or time.monotonic() >= self._due):
            return
        self._due = None
        with beating(block):  # a busy machine needs seconds, in which the program may end
            from soscope.instruments.mem import rubyobjects
            from soscope.live.python import objects

        del rubyobjects, objects

    def ending(self, pid: int, block: ControlBlock) -> None:
        """Read the objects of a process that a signal or `_exit` ends."""
        places = ObjectsPlace.all(block)
        own = [place for place in places if self._inner.get((id(block), place.pid)) == pid]
        for place in own or places[:1]:  # a forked child may not have a place of its own
            if place.state == layout.OBJECTS_COUNTING and place.reason != layout.OBJECTS_AT_END:
                self._look(pid, place)

    def _look(self, pid: int, place: ObjectsPlace) -> None:
        try:
            memory = ProcessMemory(pid)
        except OSError as error:
            self.refusals[pid] = f"its memory cannot be read: {error.strerror}"
            return
        try:
            chances = None if self._sample_bytes is None else Chances(self._sample_bytes)
            self.survivors[pid] = survivors = survivors_of(memory, place, chances)
            if self._rss is not None:
                self._rss.measure(pid, survivors.blocks if chances is None else None)
        except ValueError as error:
            self.refusals[pid] = str(error)
        finally:
            memory.close()

    def take(self, program: ProgramOutcome, block: ControlBlock, sink: Sink) -> None:
        """Write the survivors of one program's processes to the sink."""
        shared = any(image.name.startswith("libpython") for image in program.images)
        libpython = "shared" if shared else "static"
        places = ObjectsPlace.all(block)
        for place in places:
            pid = self._inner.get((id(block), place.pid), place.pid)
            if place.state == layout.OBJECTS_REFUSED:
                self.refusals[pid] = refusal(place)
            self._has_counted |= place.runtime != layout.RUNTIME_NONE
        self._without_place += ObjectsPlace.missing(block)
        for pid in [pid for pid, other in self._blocks.items() if other is block]:
            del self._blocks[pid]
            survivors = self.survivors.pop(pid, None)
            if survivors is not None:
                self._said += [f"process {pid}: {note}" for note in survivors.notes]
                for said in survivors.to_json(pid, libpython):
                    sink.objects(program.index, said)

    def options(self) -> dict[str, object]:
        """Return how objects are counted, for a recording."""
        mode = "types" if self._types else "exact" if self._sample_bytes is None else "sampled"
        said = {"mode": mode, "qualname": self._qualname, "sample_bytes": self._sample_bytes}
        return {"objects": said}

    def totals(self) -> dict[str, object]:
        """Return notes for the end of a recording."""
        return {"notes": self.notes()}

    def refused(self) -> list[str]:
        """Return for which processes the objects are not known, with the reasons."""
        return [
            f"process {pid}: its objects are not known: {why}" for pid, why in self.refusals.items()
        ]

    def notes(self) -> list[str]:
        """Return notes about objects that are not known."""
        notes = [*self.refused(), *self._said]
        if not self._has_counted and not self.refusals:
            notes.append("no interpreter whose objects can be counted has run any code")
        if self._without_place:
            notes.append(f"there was no room for the objects of {self._without_place:,} processes")
        return notes


def _head(own: memoryview | bytes) -> dict[str, int]:
    """Return the fields at the beginning of the instrument's own memory, or zeros without one."""
    fields = layout.OBJECTS.fields
    if len(own) < layout.OBJECTS.size:
        return dict.fromkeys(fields, 0)
    return dict(zip(fields, layout.OBJECTS.struct.unpack_from(own), strict=True))


class ObjectsPlace:
    """The agent's data about the objects of one process, as read when this was made."""

    def __init__(self, block: ControlBlock, own: memoryview, at: int) -> None:
        self._block = block
        self._at = at
        said = layout.OBJECTS_PLACE.struct.unpack_from(own, at)
        fields = dict(zip(layout.OBJECTS_PLACE.fields, said, strict=True))
        self.pid: int = fields["pid"]
        self.state: int = fields["state"]
        self.runtime: int = fields["runtime"]
        self.minor: int = fields["minor"]
        self.refusal: int = fields["refusal"]
        self.reason: int = fields["reason"]
        self.asked: int = fields["asked"]
        self.answered: int = fields["answered"]
        self.done: int = fields["done"]
        self.side: int = fields["side"]
        self.tally: int = fields["tally"]
        self.ruby: int = fields["ruby"]
        self.refs: int = fields["refs"]
        self.text: str = fields["text"].split(b"\0")[0].decode("utf-8", "replace")

    @classmethod
    def all(cls, block: ControlBlock) -> list[ObjectsPlace]:
        """Return the agent's data about each process of a program."""
        try:
            with block.own(wire.INSTRUMENT_OBJECTS) as own:
                said = _head(block.given(wire.INSTRUMENT_OBJECTS))
                first, count = said["first_place"], min(_head(own)["places_used"], said["places"])
                ats = range(first, first + count * layout.OBJECTS_PLACE.size)
                return [cls(block, own, at) for at in ats[:: layout.OBJECTS_PLACE.size]]
        except ValueError:
            return []  # the block is closed

    @staticmethod
    def missing(block: ControlBlock) -> int:
        """Return for how many processes of a program the agent had no room."""
        with block.own(wire.INSTRUMENT_OBJECTS) as own:
            used = _head(own)["places_used"]
        return max(used - _head(block.given(wire.INSTRUMENT_OBJECTS))["places"], 0)

    def answer(self) -> None:
        """Let the process that has asked go on."""
        with self._block.own(wire.INSTRUMENT_OBJECTS) as own:
            at = self._at + layout.OBJECTS_PLACE.offset("answered")
            own[at : at + 4] = self.asked.to_bytes(4, "little")


class beating:  # noqa: N801  a context manager; contextlib and threading are slow to import
    """Send heartbeats meanwhile, so that the agent waits until the look is over.

    Without heartbeats the agent takes soscope for dead and lets the process go on.
    """

    def __init__(self, block: ControlBlock) -> None:
        self._block = block
        self._goes_on = allocate_lock()
        self._beats = allocate_lock()

    def __enter__(self) -> None:
        self._goes_on.acquire()
        self._beats.acquire()
        start_new_thread(self._beat, ())

    def __exit__(self, *_: object) -> None:
        self._goes_on.release()
        self._beats.acquire()  # the block may be closed from here on

    def _beat(self) -> None:
        try:
            while not self._goes_on.acquire(timeout=_PULSE):
                self._block.heartbeat += 1
        finally:
            self._beats.release()


def survivors_of(
    memory: ByteSource, place: ObjectsPlace, chances: Chances | None = None
) -> Survivors:
    """Return the survivors of a stopped process, whichever interpreter it runs.

    `chances` tells how likely each object was to be counted, None if all objects were. Raises
    ValueError if the agent's tables cannot be read.
    """
    if place.runtime == layout.RUNTIME_RUBY:
        from soscope.instruments.mem.rubyobjects import look_at_ruby

        return look_at_ruby(memory, place, chances)
    from soscope.instruments.mem.survivors import look

    return look(memory, place, chances)


def refusal(place: ObjectsPlace) -> str:
    """Return why the objects of a process are not counted."""
    first, _, _ = place.text.partition("\n")  # line 2 of a version is the compiler's
    return REFUSALS.get(place.refusal, "the agent has not said why").format(text=first.strip())
