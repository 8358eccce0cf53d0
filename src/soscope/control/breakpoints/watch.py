# SPDX-License-Identifier: Apache-2.0
"""Notice calls by breakpoints: the slots and entries, and the treatment of each call."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TypeVar

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import Encoding
from soscope.binfmt.elf.symboltable import SymbolArray, dynamic_table
from soscope.control.breakpoints import layouts
from soscope.control.breakpoints.images import CalledSlot, GuestMemory, LoadedElf
from soscope.control.breakpoints.layouts import Constants, PassedRecord, Planner
from soscope.control.breakpoints.values import NO_POINTEES, Pointees
from soscope.control.outcome import EngineVerdict
from soscope.control.settings import ENTRIES, Hooks
from soscope.entry.breakpoint import Points
from soscope.entry.remote.convention import Convention
from soscope.entry.remote.conventions import layouts_of
from soscope.entry.remote.stub import RemoteStub
from soscope.live.names.staticnames import ImageNames
from soscope.model.arch import Arch
from soscope.prototypes import catalog
from soscope.prototypes.catalog import Prototypes
from soscope.select import filter as selection
from soscope.wire import layout
from soscope.wire.functions import FunctionTable, KnownFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Decide how calls of each slot are treated, by the tables that an agent would get.

_SIX: list[layouts.Kind] = [layouts.WORD] * 6
_PROGRAMS = layout.FN_PROGRAM | layout.FN_EXIT_PROGRAM

# Functions that make another thread.
THREADS = frozenset(
    "pthread_create thrd_create timer_create mq_notify aio_read aio_write aio_fsync lio_listio"
    " getaddrinfo_a aio_read64 aio_write64 aio_fsync64 lio_listio64".split()
)
# Functions that make a thread or a process, by their flags.
CLONES = frozenset(("clone", "__clone"))
# Functions that close descriptors in bulk, also descriptors of an emulator's stub.
CLOSERS = frozenset(("closefrom", "close_range"))
# Functions that end the program, however many threads it has.
ENDS = frozenset(("_exit", "_Exit"))
PROCESSES = frozenset(
    "fork vfork _Fork __fork __vfork clone __clone system popen posix_spawn posix_spawnp daemon"
    " forkpty wordexp syscall".split()
)


class CallSpec:
    """How a call of one function is captured.

    `passed` and `tail` are the kinds of its arguments. `pointees` converts the memory that they
    point to into x86-64's layout. `result` is the kind of the result. `flags` has names of sets of
    constants with other values on the machine, by the number of the argument's word.
    """

    __slots__ = ("flags", "function", "is_alone", "passed", "pointees", "result", "tail")

    def __init__(
        self, function: KnownFunction, passed: list[layouts.Kind], tail: str, *, is_alone: bool
    ) -> None:
        self.function = function
        self.passed = passed
        self.tail = tail
        self.is_alone = is_alone
        self.pointees = NO_POINTEES
        self.result: layouts.Kind = layouts.WORD
        self.flags: dict[int, str] = {}


class SlotSelection:
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
        self._constants = Constants(convention.flags, convention.constants)
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

    def matched(self, slot: CalledSlot, caller: LoadedElf, callee: LoadedElf | None) -> list[bool]:
        """Return for each rule of the filter whether it matches a slot."""
        return selection.rules_matched(
            self._hooks.selection,
            slot.symbol,
            (caller.name, caller.path, caller.is_main),
            _names(callee),
        )

    def chooses(self, slot: CalledSlot, caller: LoadedElf, callee: LoadedElf | None) -> bool:
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
                layouts_of(self._machine),
                known,
                most_aligned=self._convention.most_aligned,
                constants=self._constants,
            )
        return self._planner

    def spec(self, slot: CalledSlot, callee: LoadedElf | None) -> CallSpec | None:
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
            return CallSpec(function, _SIX, catalog.TAIL_NONE, is_alone=is_alone)
        arguments = declared[1]
        longest = max((each for _, each in declared[2]), key=len, default=())
        structs = self._prototypes.structures(declared[0])

        def record_of(of: catalog.ArgumentRow) -> PassedRecord | None:
            return layouts.record_of(of, self._plans(), structs, self._convention)

        passed = layouts.kinds_of((*arguments, *longest), record_of)
        result: layouts.Kind | None = layouts.WORD
        if declared[4] is not None:
            is_record = declared[4][3][0] in (catalog.SHOW_STRUCT, catalog.SHOW_COMPLEX)
            result = record_of(declared[4]) if is_record else layouts.kind_of_result(declared[4])
        if result == layouts.LONGEST and self._convention.has_unnamed_x87:
            result = None
        if passed is None or result is None:  # the places of the other arguments are not known
            return CallSpec(_undeclared(function), _SIX, catalog.TAIL_NONE, is_alone=is_alone)
        if declared[3].startswith(catalog.TAIL_WORDS):
            passed = passed + _SIX[len(passed) :]
        spec = CallSpec(function, passed, declared[3], is_alone=is_alone)
        spec.result = result
        spec.pointees = Pointees(declared, self._plans(), structs)
        for argument in arguments:
            name = argument[3][3]
            if self._constants.has(name) and argument[1] == catalog.PLACE_INT:
                spec.flags[argument[2]] = name
        return spec


def _undeclared(function: KnownFunction) -> KnownFunction:
    """Return how a function is captured whose declaration cannot be used."""
    flags = function.flags & ~_PROGRAMS | layout.FN_FOREIGN
    return KnownFunction(flags, 0, layout.NONE, b"", b"")


def _names(image: LoadedElf | None) -> tuple[str, str, bool]:
    return ("", "", False) if image is None else (image.name, image.path, image.is_main)


# The interface of a watch, which notices calls through slots, to its engine.
#
# The engine handles the program's stops, calls and returns. A watch changes the program so that it
# stops at calls. It knows which stop is which call, and how the thread goes on from there.


class Armed:
    """One slot whose calls are noticed. `number` is its record's, -1 before it has one.

    `spec` tells how its calls are captured. `runs_on` is set if the thread is at the function
    already. `tells_thread` is set if soscope's code has put the thread pointer into a register.
    `is_part` is set if some calls through the slot may not be noticed.
    """

    __slots__ = ("image", "is_part", "number", "slot", "spec")

    runs_on = False
    tells_thread = False

    def __init__(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> None:
        self.slot = slot
        self.image = image
        self.number = -1
        self.is_part = False
        self.spec = spec


class CallWatch:
    """A watch of one program. The methods that do nothing here are optional.

    `notices_slots` is set if slots of images are to be hooked at all. `for_one_thread` is the
    name of an engine that loses calls of several threads at once, or "". `changes_slots` is set
    if the program cannot go on without soscope before `give_back`. `faults` is set if a call
    causes a fault.
    """

    name = ""
    for_one_thread = ""
    notices_slots = True
    changes_slots = False
    faults = False

    def hook(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec) -> Armed | int:
        """Notice calls through a slot. Return why that is not possible: a REFUSED_ of `layout`."""
        raise NotImplementedError

    def hook_shared(self, _slot: CalledSlot, _image: LoadedElf, _spec: CallSpec) -> Armed | int:
        """Notice calls through a slot whose address is also used otherwise than for calls.

        Return why that is not possible, as `hook` does.
        """
        return layout.REFUSED_ADDRESS_TAKEN

    def enters(self, _pc: int) -> bool:
        """Return whether a thread must reach the function before all arguments are in place."""
        return False

    def at_fault(self, _pc: int) -> Armed | None:
        """Return the slot whose call caused a fault, None if the fault is the program's own."""
        return None

    def at_point(self, _pc: int) -> Armed | None:
        """Return the slot that a thread at a breakpoint is about to call through, None if none."""
        return None

    def return_addr(self, _pc: int) -> int | None:
        """Return the return address of a call at `_pc`.

        It is None if the return address is in the usual place of the machine.
        """
        return None

    def send(self, armed: Armed, pc: int) -> bool:
        """Move the thread that stopped at `pc` on to the function.

        Return False if the instruction at `pc` must run, and does that.
        """
        raise NotImplementedError

    @property
    def is_followed(self) -> bool:
        """Return whether the thread just moved on must be single-stepped."""
        return False

    def has_stepped(self) -> bool:
        """Note a step of a single-stepped thread. Return whether the thread may run on."""
        return True

    def is_out_of_sight(self) -> None:
        """Note that single-stepping of a thread was given up before it was done."""

    def remarks(self) -> list[str]:
        """Return further remarks on how calls were noticed."""
        return []

    def forget(self, image: LoadedElf) -> None:
        """Drop the slots of an image that was unloaded."""

    def verdict(self) -> EngineVerdict | None:
        """Return whether two engines agree, or None if there is only one."""
        return None

    def give_back(self) -> None:
        """Restore the program's memory to what it would be without soscope. May be called twice."""

    def give_back_in(self, _memory: GuestMemory) -> None:
        """Restore a copy of the program's memory, which has no breakpoints, in the same way."""

    def take_again(self) -> None:
        """Undo `give_back`."""

    def forked(self, _memory: GuestMemory, _points: Points) -> CallWatch | None:
        """Return a copy for a forked process, with its memory and breakpoints.

        Return None if the watch does not support that.
        """
        return None

    def clean_copy(self) -> None:
        """Restore a copy of the program's memory, which the stub accesses at this moment."""

    def retire(self) -> bool:
        """Stop noticing calls, at a stop at one. Return False if its thread must be moved on."""
        return False


class ChangedSlots(CallWatch):
    """A watch that changes slots in `_memory`. `is_given_back`: no slot is changed now.

    Subclasses have `give_back_in`.
    """

    is_given_back = False
    _memory: GuestMemory

    def give_back(self) -> None:
        """Restore all slots to what they would be without soscope. May be called twice."""
        if not self.is_given_back:
            self.is_given_back = True
            self.give_back_in(self._memory)

    def clean_copy(self) -> None:
        """Restore the slots in a copy of the program. The program itself keeps its hooks."""
        if not self.is_given_back:
            self.give_back_in(self._memory)

    def take_again(self) -> None:
        """Undo `give_back`. The present values of the slots are kept as their values."""
        if self.is_given_back:
            self.is_given_back = False
            self._take_all()

    def _take_all(self) -> None:
        """Change all slots again."""
        raise NotImplementedError


_A = TypeVar("_A", bound=Armed)


def without(image: LoadedElf, by_addr: dict[int, _A]) -> list[tuple[int, _A]]:
    """Remove what belongs to an unloaded image, and return it with its addresses."""
    gone = [(addr, armed) for addr, armed in by_addr.items() if armed.image is image]
    for addr, _ in gone:
        del by_addr[addr]
    return gone


class NoSlots(CallWatch):
    """Notices no calls through slots, if only functions' entry points are requested."""

    name = ENTRIES
    notices_slots = False

    def forked(self, _memory: GuestMemory, _points: Points) -> CallWatch:
        """Return a copy for a forked process."""
        return self


class Sender:
    """Moves a stopped thread on to a function, as stubs do."""

    __slots__ = ("_convention", "_memory", "_stub")

    def __init__(self, stub: RemoteStub, convention: Convention, memory: GuestMemory) -> None:
        self._stub = stub
        self._convention = convention
        self._memory = memory

    def send(self, target: int, place: int) -> None:
        """Move the thread to `target`. `place` is the descriptor's address if there is one."""
        stub, convention = self._stub, self._convention
        stub.put(convention.pc, target)
        if convention.target:
            stub.put(convention.target, target)
        if convention.state is not None:  # bit 0 of the address is the instruction set
            name, bit = convention.state
            state = stub.get(name) & ~(1 << bit)
            stub.put(name, state | (target & 1) << bit)
            stub.put(convention.pc, target & ~1)
        self._put_descriptor(place)

    def copy_for(self, memory: GuestMemory) -> Sender:
        """Return a copy for another process."""
        return Sender(self._stub, self._convention, memory)

    def comes_from_slot(self, pc: int) -> bool:
        """Return whether the thread came to `pc` through a slot, as far as registers tell."""
        target = self._convention.target
        return not target or self._stub.get(target) == pc

    def jump(self, target: int) -> None:
        """Move the thread to code that is no function."""
        self._stub.put(self._convention.pc, target)

    def _put_descriptor(self, place: int) -> None:
        stub, convention = self._stub, self._convention
        size = self._memory.coding.word.size
        for number, name in enumerate(convention.descriptor, 1):
            stub.put(name, self._memory.word(place + number * size))


# Calls of functions inside an image: breakpoints at their entry points, for all callers.


class EntryPoint(Armed):
    """One function. Its `slot` has the address of its first instruction, not of a GOT word."""

    __slots__ = ()

    runs_on = True


class EntryPoints:
    """The functions of one program that match `words`, each SYMBOL or SYMBOL@IMAGE, with globs.

    `left` are functions that cannot have a breakpoint.
    """

    __slots__ = ("_at", "_convention", "_main", "_points", "_unmatched", "_words", "left")

    def __init__(self, words: Iterable[str], convention: Convention, points: Points) -> None:
        self._words = [(w, *w.partition("@")[::2]) for w in dict.fromkeys(words)]
        self._unmatched = dict.fromkeys(words)
        self._convention = convention
        self._points = points
        self._at: dict[int, EntryPoint] = {}
        self._main = "the program"
        self.left: list[str] = []

    def functions(self, image: LoadedElf) -> Iterator[CalledSlot]:
        """Yield the requested functions of an image, each address once. Raises FormatError.

        If an image has no .symtab, functions that only its debug file has are searched, too.
        """
        if image.is_main:
            self._main = image.name
        names = [(w, name) for w, name, of in self._words if fnmatchcase(image.name, of or "*")]
        if not names:
            return
        seen = set(self._at)
        names_of = ImageNames(image.elf, build_id=image.elf.build_id, path=image.path, roots=[""])
        for table in (dynamic_table(image.elf), *(part for _, part in names_of.parts())):
            for symbol, addr in self._named(table, names, image):
                if addr not in seen:
                    seen.add(addr)
                    yield CalledSlot(addr, symbol, "", relocation=0, is_call=True)

    def _named(
        self, table: SymbolArray, names: list[tuple[str, str]], image: LoadedElf
    ) -> Iterator[tuple[str, int]]:
        for row in table.rows():
            start, info, other, section, value, _ = row
            if info & 15 != c.STT_FUNC or section == c.SHN_UNDEF or not value:
                continue
            symbol = table.text(start).partition("@")[0]
            matching = [word for word, name in names if fnmatchcase(symbol, name)]
            for word in matching:
                self._unmatched.pop(word, None)
            if matching:
                yield symbol, self._entry(image, value + image.linked.load_bias, other)

    def _entry(self, image: LoadedElf, addr: int, other: int) -> int:
        """Return the address that all calls of a function run through, from inside and outside."""
        convention = self._convention
        if convention.descriptor:
            return image.code_of(addr)
        if convention.state is not None:
            return addr & ~1
        return addr + image.behind_entry(other) if convention.local_entries else addr

    def watch(self, slot: CalledSlot, image: LoadedElf, spec: CallSpec, number: int) -> None:
        """Put a breakpoint at the first instruction of a function."""
        armed = self._at[slot.addr] = EntryPoint(slot, image, spec)
        armed.number = number
        self._points.want(slot.addr)

    def forked(self, points: Points) -> EntryPoints:
        """Return a copy for a forked process, with its breakpoints.

        Both processes share the lists of what was not seen.
        """
        copied = EntryPoints([], self._convention, points)
        copied._words = self._words
        copied._at = dict(self._at)
        copied.go_on_from(self)
        return copied

    def go_on_from(self, before: EntryPoints) -> None:
        """Share with `before` the lists of what was not seen and why."""
        self._main = before._main
        self._unmatched = before._unmatched
        self.left = before.left

    def remarks(self) -> list[str]:
        """Return which words have matched no function, and which functions could not be seen."""
        said = []
        for word in self._unmatched:
            name, _, of = word.partition("@")
            where = of or f"{self._main} or its libraries"
            said.append(f"-x {word}: symbol '{name}' not found in {where}")
        what = "what it begins with must stay in place, so its calls were not seen"
        return said + [f"-x {symbol}: {what}" for symbol in self.left]

    def at_point(self, pc: int) -> EntryPoint | None:
        """Return the function that a thread at `pc` is about to enter, or None."""
        return self._at.get(pc)

    def forget(self, image: LoadedElf) -> None:
        """Drop the functions of an image that was unloaded."""
        for addr, _ in without(image, self._at):
            self._points.leave(addr)
