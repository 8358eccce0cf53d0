# SPDX-License-Identifier: Apache-2.0
"""Decide how calls of each slot are treated, by the tables that an agent would get."""

from __future__ import annotations

from soscope.binfmt.elf.reader import Encoding
from soscope.control.breakpoints.images import CalledSlot, ForeignImage
from soscope.control.breakpoints.layouts import Planner
from soscope.control.instrument import Hooks
from soscope.control.remote import kinds, records
from soscope.control.remote.constants import Constants
from soscope.control.remote.led import NOTHING_LED, Led
from soscope.control.remote.records import PassedRecord
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.isa import layouts
from soscope.model.arch import Arch
from soscope.prototypes import compiled
from soscope.prototypes.catalog import Prototypes
from soscope.select import filter as selection
from soscope.wire import layout
from soscope.wire.functions import FunctionTable, KnownFunction

_SIX: list[kinds.Kind] = [kinds.WORD] * 6
_PROGRAMS = layout.FN_PROGRAM | layout.FN_EXIT_PROGRAM

# Functions that make another thread.
THREADS = frozenset(
    "pthread_create thrd_create timer_create mq_notify aio_read aio_write aio_fsync lio_listio"
    " getaddrinfo_a aio_read64 aio_write64 aio_fsync64 lio_listio64".split()
)
# Functions that make a thread or a process, by their flags.
CLONES = frozenset(("clone", "__clone"))
# Functions that close descriptors in bulk, which may include those of an emulator's stub.
CLOSERS = frozenset(("closefrom", "close_range"))
# Functions that end the program, however many threads it has.
ENDS = frozenset(("_exit", "_Exit"))
PROCESSES = frozenset(
    "fork vfork _Fork __fork __vfork clone __clone system popen posix_spawn posix_spawnp daemon"
    " forkpty wordexp syscall".split()
)


class Treatment:
    """How a call of one function is captured.

    `passed` and `tail` are the kinds of its arguments. `led` converts the memory that they point
    to into x86-64's layout. `result` is the kind of the result. `flags` has names of sets of
    constants with other values on the machine, by the number of the argument's word.
    """

    __slots__ = ("flags", "function", "is_alone", "led", "passed", "result", "tail")

    def __init__(
        self, function: KnownFunction, passed: list[kinds.Kind], tail: str, *, is_alone: bool
    ) -> None:
        self.function = function
        self.passed = passed
        self.tail = tail
        self.is_alone = is_alone
        self.led = NOTHING_LED
        self.result: kinds.Kind = kinds.WORD
        self.flags: dict[int, str] = {}


class Wanted:
    """Decides for the slots of one program, for one instrument."""

    __slots__ = (
        "_coding",
        "_constants",
        "_convention",
        "_hooks",
        "_machine",
        "_planner",
        "_prototypes",
        "_table",
        "_unlike",
    )

    def __init__(
        self, hooks: Hooks, convention: Convention, machine: Arch, coding: Encoding
    ) -> None:
        self._unlike = convention.unlike  # declared functions that differ on this machine
        self._constants = Constants(convention.flags, convention.values)
        self._convention = convention
        self._hooks = hooks
        self._prototypes: Prototypes = hooks.prototypes
        self._planner: Planner | None = None
        self._machine = machine.name
        self._coding = coding
        patterns = hooks.patterns

        def matches(number: int, name: str) -> bool:
            if number == layout.PATTERN_ANY:
                return True
            return patterns[number].matches(name.encode("utf-8", "surrogateescape"))

        self._table = FunctionTable(hooks.functions_for(0), matches)

    @property
    def kind(self) -> int:
        """The kind of the instrument, an INSTRUMENT_ constant of `layout`."""
        return self._hooks.kind

    def matched(
        self, slot: CalledSlot, caller: ForeignImage, callee: ForeignImage | None
    ) -> list[bool]:
        """Return for each rule of the filter whether it matches a slot."""
        return selection.rules_matched(
            self._hooks.selection,
            slot.symbol,
            (caller.name, caller.path, caller.is_main),
            _names(callee),
        )

    def chooses(self, slot: CalledSlot, caller: ForeignImage, callee: ForeignImage | None) -> bool:
        """Return whether the filter chooses the calls of a slot."""
        name, path, is_main = _names(callee)
        return selection.chooses(
            self._hooks.selection,
            slot.symbol,
            caller=caller.name,
            callee=name,
            caller_path=caller.path,
            callee_path=path,
            caller_is_main=caller.is_main,
            callee_is_main=is_main,
        )

    def _plans(self) -> Planner:
        if self._planner is None:
            known = frozenset(self._prototypes.structures())
            self._planner = Planner(
                self._coding,
                layouts.read(self._machine),
                known,
                most_aligned=self._convention.most_aligned,
                constants=self._constants,
            )
        return self._planner

    def treatment(self, slot: CalledSlot, callee: ForeignImage | None) -> Treatment | None:
        """Return how calls of a slot are captured, None if soscope must not touch them."""
        name = None if callee is None else callee.name
        function = self._table.find(slot.symbol, slot.version, name)
        if slot.symbol in self._unlike:
            function = _undeclared(function)
        if function.flags & layout.FN_NEVER:
            return None
        is_alone = bool(
            function.flags & (layout.FN_ENTRY_ONLY | layout.FN_TWICE)
            or self._hooks.flags & layout.PLAN_ENTRY_ONLY
        )
        declared = None
        if not function.flags & layout.FN_FOREIGN:
            declared = (
                self._prototypes.row(f"{slot.symbol}@{slot.version}") if slot.version else None
            )
            declared = declared or self._prototypes.row(slot.symbol)
        if declared is None:
            return Treatment(function, _SIX, compiled.TAIL_NONE, is_alone=is_alone)
        arguments = declared[1]
        longest = max((each for _, each in declared[2]), key=len, default=())
        structs = self._prototypes.structures(declared[0])

        def record_of(of: compiled.ArgumentRow) -> PassedRecord | None:
            return records.record_of(of, self._plans(), structs, self._convention)

        passed = kinds.kinds_of((*arguments, *longest), record_of)
        result: kinds.Kind | None = kinds.WORD
        if declared[4] is not None:
            is_record = declared[4][3][0] in (compiled.SHOW_STRUCT, compiled.SHOW_COMPLEX)
            result = record_of(declared[4]) if is_record else kinds.kind_of_result(declared[4])
        if result == kinds.LONGEST and self._convention.has_unnamed_x87:
            result = None
        if passed is None or result is None:  # the places of the other arguments are not known
            return Treatment(_undeclared(function), _SIX, compiled.TAIL_NONE, is_alone=is_alone)
        if declared[3].startswith(compiled.TAIL_WORDS):
            passed = passed + _SIX[len(passed) :]
        treatment = Treatment(function, passed, declared[3], is_alone=is_alone)
        treatment.result = result
        treatment.led = Led(declared, self._plans(), structs)
        for argument in arguments:
            name = argument[3][3]
            if self._constants.has(name) and argument[1] == compiled.PLACE_INT:
                treatment.flags[argument[2]] = name
        return treatment


def _undeclared(function: KnownFunction) -> KnownFunction:
    """Return the treatment of a function whose declaration cannot be used."""
    flags = function.flags & ~_PROGRAMS | layout.FN_FOREIGN
    return KnownFunction(flags, 0, layout.NONE, b"", b"")


def _names(image: ForeignImage | None) -> tuple[str, str, bool]:
    return ("", "", False) if image is None else (image.name, image.path, image.is_main)
