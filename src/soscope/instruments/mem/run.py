# SPDX-License-Identifier: Apache-2.0
"""Run a command, or attach to a process, in a session that records memory."""

from __future__ import annotations

import os
import time

from soscope.binfmt.elf.image import ElfImage
from soscope.control.outcome import Outcome
from soscope.control.session import Session
from soscope.control.settings import Instrument, SessionSettings
from soscope.entry.loader import is_loader, program_of
from soscope.errors import FormatError
from soscope.model.record import Record, fresh
from soscope.proc.status import command_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from soscope.live.heap.memory import BlockPages
    from soscope.wire.block import ControlBlock


# The resident memory of each process at its end, read from outside while it is stopped.

# Takes a pid and the known blocks of objects. Returns the six parts of RssParts, None if not
# known.
Divide: TypeAlias = "Callable[[int, BlockPages | None], list[int] | None]"


_PATIENCE = 5.0  # seconds for which all processes but the first may be held up together


class RssInstrument(Instrument):
    """Measures the resident memory of all processes by `divide` when they end.

    If objects are counted, `measure` is called when they are read. If there are thousands of
    children, the last ones are not measured, because that would take longer than they run. With
    `is_visit`, processes that go on are measured when soscope detaches. `prepare` is called once
    while the processes run.
    """

    name = "rss"
    wants_signals = True
    wants_ends = True

    def __init__(
        self,
        divide: Divide,
        *,
        prepare: Callable[[], object] | None = None,
        is_visit: bool = False,
    ) -> None:
        self._divide = divide
        self._prepare = prepare
        self._is_visit = is_visit
        self._measured: set[int] = set()
        self._parts: dict[int, list[int] | None] = {}
        self._left = _PATIENCE

    def process(self, pid: int, block: ControlBlock) -> None:
        """Note a new process, or another program in a known process."""
        del block
        self._measured.discard(pid)
        self._parts[pid] = None

    def move(self) -> bool:
        """Call `prepare`, the first time only."""
        prepare, self._prepare = self._prepare, None
        if prepare is not None:
            prepare()
        return False

    def ending(self, pid: int, block: ControlBlock) -> None:
        """Measure a process whose objects were not counted."""
        del block
        if pid not in self._measured:
            self.measure(pid, None)

    def measure(self, pid: int, objects: BlockPages | None) -> None:
        """Measure a process. `objects` are the blocks of its objects."""
        self._measured.add(pid)
        is_first = pid == next(iter(self._parts), pid)
        if is_first or self._left > 0:
            begin = time.monotonic()
            self._parts[pid] = self._divide(pid, objects)
            self._left -= 0 if is_first else time.monotonic() - begin

    def finish(self) -> list[str]:
        """Measure processes that continue to run without soscope."""
        for pid in [*self._parts] if self._is_visit else ():
            if pid not in self._measured:
                self.measure(pid, None)
        return []

    def totals(self) -> dict[str, object]:
        """Return the parts of each process, for a recording."""
        return {"rss": [[pid, parts] for pid, parts in self._parts.items()]}


# Programs that execute the command behind their own arguments, in the same process: the options of
# each that take a value, from the manual pages of coreutils and util-linux.
_EXECUTING = {
    "env": "-u --unset -C --chdir -a --argv0 -S --split-string",
    "nice": "-n --adjustment",
    "nohup": "",
    "setsid": "",
    "stdbuf": "-i --input -o --output -e --error",
    "ionice": "-c --class -n --classdata",
    "chrt": "-T --sched-runtime -P --sched-period -D --sched-deadline",
    "taskset": "",
    "setarch": "",
}
_INTERPRETERS = frozenset((b"python", b"pypy", b"ruby", b"irb", b"pytest", b"gunicorn"))
_FIRST_LINE = 256  # bytes of a script that are read


class MemSettings(Record):
    """What to record of the memory of a command, or of a process that runs already.

    `objects` and `blocks` tell which of them are recorded. With `types`, only counts by type or
    by size class are. With `sample_bytes`, one in so many bytes of objects and blocks is chosen.
    If it is None, all are. With `collect`, garbage is collected first. With `qualname`, types
    have qualified names. `record` is the path of the recording. `divide` finds the parts of a
    process's resident memory, and is None if they are not wanted; `prepare` is called once before
    that, while the process runs. `pid` is a process to attach to, in place of `command`.
    `duration_ns` is for how long. If it is None, the recording goes on to the end of the process,
    or until soscope is interrupted. With `aggregate`, sums are recorded in place of blocks. If
    `older_ns` is set, blocks that are older at the end are also added up separately. After a
    session, `refused` tells for which processes there are no objects, and why.
    """

    command: list[str]
    record: str
    objects: bool = False
    blocks: bool = False
    types: bool = False
    aggregate: bool = False
    sample_bytes: int | None = None
    collect: bool = False
    qualname: bool = False
    follow: bool = False
    divide: Divide | None = None
    prepare: Callable[[], object] | None = None
    pid: int | None = None
    duration_ns: int | None = None
    older_ns: int = 0
    refused: list[str] = fresh(list)


def is_interpreter(command: Sequence[str]) -> bool:
    """Return whether a command runs a known interpreter, judged by its name or `#!` line.

    A command like env(1) counts if the command that it executes is an interpreter.
    """
    import shutil

    path = shutil.which(command[0]) or command[0]
    if os.path.basename(path) in _EXECUTING:
        executed = _executed_by(os.path.basename(path), command[1:])
        return bool(executed) and is_interpreter(executed)
    path = _started_by(path, command) or path
    if _is_interpreter_name(os.fsencode(path)):
        return True
    if _is_interpreter_name(os.fsencode(os.path.realpath(path))):
        return True
    try:
        with open(path, "rb") as file:
            first = file.read(_FIRST_LINE).split(b"\n", 1)[0]
    except OSError:
        return False  # the launch will report what is wrong
    return first.startswith(b"#!") and any(map(_is_interpreter_name, first[2:].split()))


def _executed_by(name: str, words: Sequence[str]) -> list[str]:
    """Return the command that program `name` of _EXECUTING executes, from its arguments."""
    left = list(words)
    if name == "setarch" and left and not left[0].startswith("-"):
        del left[0]  # name of an architecture
    valued = _EXECUTING[name].split()
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word == "--":
            break
        option, value = _option(word, valued)
        if option and value is None and left:
            value = left.pop(0)
        if option in ("-S", "--split-string") and value is not None:
            import shlex

            try:
                left = shlex.split(value) + left
            except ValueError:
                return []  # env(1) will report what is wrong
    if name == "env":
        while left and "=" in left[0]:
            del left[0]  # it is a variable
    elif left and (name == "taskset" or (name == "chrt" and left[0].isdigit())):
        del left[0]  # mask of processors, or priority
    return left


def _option(word: str, valued: Sequence[str]) -> tuple[str, str | None]:
    """Return the option of a word that takes a value ("" if none), and the value, if it has one.

    As in getopt_long(3), a long name may be cut short, and letters may share a word.
    """
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        option = next((each for each in valued if each.startswith(name)), "")
        return option, value if equals else None
    for at, letter in enumerate(word[1:], 2):
        if f"-{letter}" in valued:
            return f"-{letter}", word[at:] or None
    return "", None


def _is_interpreter_name(path: bytes) -> bool:
    return os.path.basename(path).rstrip(b"0123456789.") in _INTERPRETERS


def _started_by(path: str, command: Sequence[str]) -> str | None:
    """Return the program that a loader as first word starts, None for other commands."""
    try:
        with open(path, "rb", buffering=0) as file:
            image = ElfImage.from_descriptor(file.fileno(), path)
            if image.interpreter is None and is_loader(image):
                return program_of(list(command))
    except (OSError, FormatError):
        return None  # a script, or a file that the launch will refuse
    return None


def instruments_of(settings: MemSettings) -> list[Instrument]:
    """Return the instruments for the settings. Raises UsageError."""
    instruments: list[Instrument] = []
    is_visit = settings.pid is not None
    rss = None
    if settings.divide is not None:
        rss = RssInstrument(settings.divide, prepare=settings.prepare, is_visit=is_visit)
    if settings.objects:
        from soscope.instruments.mem.objects import ObjectsInstrument

        instruments.append(
            ObjectsInstrument(
                types=settings.types,
                collect=settings.collect,
                qualname=settings.qualname,
                sample_bytes=settings.sample_bytes,
                rss=rss,
            )
        )
    if settings.blocks:
        from soscope.instruments.mem.blocks import BlocksInstrument

        words = command_words(settings.pid) if settings.pid is not None else None
        instruments.append(
            BlocksInstrument(
                settings.sample_bytes,
                words,
                counts=settings.types,
                aggregates=settings.aggregate,
                older_ns=settings.older_ns,
            )
        )
    if rss is not None:
        instruments.append(rss)
    return instruments


def run_mem(settings: MemSettings, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run the command to its end, or stay attached to the process, and record it.

    Programs that were reported to `tell` are not in the outcome's `untraced`. Raises UsageError,
    LaunchError, AttachError, AgentError and RecordingError before anything is recorded.
    """
    instruments = instruments_of(settings)
    session = Session(
        SessionSettings(
            settings.command,
            pids=[] if settings.pid is None else [settings.pid],
            follow=settings.follow,
            record=settings.record,
            duration_ns=settings.duration_ns,
            # A lost end of a block would look like a leak, so calls wait if the ring is full.
            when_full="block",
            tells_untraced=True,
        ),
        instruments,
        tell,
    )
    outcome = session.run()
    if settings.objects:
        from soscope.instruments.mem.objects import ObjectsInstrument

        for each in instruments:
            settings.refused += each.refused() if isinstance(each, ObjectsInstrument) else []
    outcome.untraced = [what for what in outcome.untraced if what not in session.told]
    return outcome
