# SPDX-License-Identifier: Apache-2.0
"""Follow one call through a file: the first call to the resolver, and a later call."""

from __future__ import annotations

from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

from soscope.binfmt.listing import (
    CALL_THROUGH,
    CELL,
    JUMP,
    NUMBER,
    REGISTER,
    THROUGH,
    CallInstruction,
    Line,
    Lister,
    Value,
    lister_of,
    walk,
)
from soscope.binfmt.search import Spans
from soscope.inspect.explain import resolvers
from soscope.inspect.explain.filecode import FileCode
from soscope.inspect.explain.resolvers import Resolver, resolvers_of
from soscope.model import filemap
from soscope.model.arch import arch_named
from soscope.model.filemap import (
    GLINK,
    IRELATIVE,
    LAZY,
    LAZY_HALF,
    MACHO,
    MIPS_STUB,
    NOW,
    PRELINKED,
    TLSDESC,
    UNBOUND,
    WEAK,
    FileSlot,
    Stub,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.live.slots.code import Use


# The instructions around a call, by the disassembler Capstone, if it is installed.
#
# It comes with the extra `disasm`. Stubs do not need it, as binfmt/listing decodes their
# instructions.

_BEFORE = 2
_BEHIND = 1
_FARTHEST = 1 << 16  # bytes from the start of a function, at most
_SPAN = 32  # bytes behind the call that are read


def around(arch: str, code: FileCode, start: int, vaddr: int) -> list[Line]:
    """Return the instruction at `vaddr`, with two instructions before it and one behind.

    `start` is an address at which an instruction is known to begin, the start of the function.
    The list is empty if Capstone is not installed, or if its instructions do not meet `vaddr`.
    """
    try:
        capstone: Any = import_module("capstone")
    except ImportError:
        return []
    known = arch_named(arch)
    names = None if known is None else resolvers.CAPSTONE.get(known.name)
    if names is None or not 0 <= vaddr - start < _FARTHEST:
        return []
    machine = capstone.Cs(getattr(capstone, names[0]), getattr(capstone, names[1]))
    if names[0] == "CS_ARCH_X86":
        machine.syntax = capstone.CS_OPT_SYNTAX_ATT
    data = code.read(start, vaddr - start + _SPAN)
    lines: list[Line] = []
    left = -1
    for at, size, name, operands in machine.disasm_lite(data, start):
        text = f"{name} {operands}".rstrip()
        lines.append(Line(at, data[at - start : at - start + size], text))
        if at == vaddr:
            left = _BEHIND
            del lines[: -1 - _BEFORE]
        elif left >= 0:
            left -= 1
        if left == 0 or (left < 0 and at > vaddr):
            break
    return lines if left >= 0 else []


# The explanation of a symbol's calls, in files and in a process alike.
#
# An explanation has images, an image has call paths, a path has steps. Facts that only a file can
# tell, or only a process, are in a separate part of each path.

# The steps, in the order of a first call.
LINK_MAP = "link-map"
RELOCATION = "relocation"
CALL_SITE = "call"
THUNK = "thunk"
STUB = "stub"
SLOT = "slot"
BEFORE = "before"
HELPER = "helper"
FIRST = "plt0"
RESOLVER = "resolver"
AFTER = "after"
SECOND = "second"
DEFINITION = "definition"
HOOK = "hook"
STEPS = (
    *(LINK_MAP, RELOCATION, CALL_SITE, THUNK, STUB, SLOT, BEFORE, HELPER, FIRST, RESOLVER, AFTER),
    *(SECOND, DEFINITION, HOOK),
)


class CallSite(NamedTuple):
    """One instruction that calls: its address and its function.

    `lines` are the instructions around it, only set for the first call site of a path.
    """

    call: CallInstruction
    section: str
    function: str
    lines: tuple[Line, ...]


class Given(NamedTuple):
    """One argument of a resolver, at `place`; `value` is the number or the cell's address."""

    place: str
    value: Value
    text: str
    meaning: str


class Step(NamedTuple):
    """One step: `title` is its name, `where` its section or function, `notes` are sentences."""

    step: str
    title: str
    where: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


class FilePart(NamedTuple):
    """The part of a call path that a file tells; addresses are link-time addresses.

    `slot` includes the stubs. `sites` are all instructions that call, even if not all are
    printed. `given` are the resolver's arguments, `generations` the versions of this loader's
    resolver; both are empty if nothing is lazy or known. `instructions` are the numbers of
    instructions that a call takes to the function: in the first call up to the resolver, and in
    every later one.
    """

    slot: filemap.FileSlot
    sites: tuple[CallSite, ...]
    given: tuple[Given, ...]
    generations: tuple[Resolver, ...]
    instructions: tuple[int, int]


class RelocationPlace(NamedTuple):
    """The relocation of a slot: at `addr` in memory, number `entry` of `table`.

    `aimed_at` is the run-time address that it names now: the slot, or a cell of the agent.
    `symbol` is an index into the dynamic symbol table.
    """

    addr: int
    table: str
    entry: int
    aimed_at: int
    symbol: int


class ProcessPart(NamedTuple):
    """The part of a call path that a process tells; addresses are run-time addresses.

    `link_map` is the importer's entry. The slot is at `addr` and holds `value`. `state` is a
    constant of live/slots/bindings.py, `page` the protection of its page ("rw-p"). `to_image`,
    `to_symbol` and `expected_image` are as in `live.slots.row.SlotRow`. `uses` is the code
    that goes through the slot. `definition` is the address of the definition, None if there is
    none. `is_ifunc` tells that this is an IFUNC's resolver. `hook` has a sentence for each thing
    that soscope's hook writes.
    """

    namespace: int
    link_map: int
    load_bias: int
    relocation: RelocationPlace
    uses: tuple[Use, ...]
    addr: int
    value: int
    state: str
    to_image: str | None
    to_symbol: str | None
    expected_image: str | None
    page: str
    definition: int | None
    is_ifunc: bool
    hook: tuple[str, ...]


class CallWay(NamedTuple):
    """The path of calls through one slot, at link-time address `vaddr` of the importer.

    `kind` is the name of the relocation, or of the Mach-O record. `symbol` is "" and `version`
    None if there is none. `provider` is the image that defines the symbol. If there is none,
    `provider_reason` tells why. `wrong` lists contradictions.
    """

    vaddr: int
    kind: str
    symbol: str
    version: str | None
    provider: str | None
    provider_reason: str | None
    steps: tuple[Step, ...]
    wrong: tuple[str, ...]
    file: FilePart | None = None
    process: ProcessPart | None = None

    def step(self, name: str) -> Step | None:
        """Return the step with this name, None if this path has none."""
        return next((step for step in self.steps if step.step == name), None)


class Importer(NamedTuple):
    """An image whose calls are explained.

    `symbol` is this image's name for it. Each of `ways` is the path through one slot. If there is
    none, `near` are similar names. `kind` is "" if only a process was read. `loader` is a
    constant of `resolvers`, "" if the file does not tell. `partial` lists what could not be read.
    """

    name: str
    path: str
    format: str
    arch: str
    kind: str
    loader: str
    symbol: str
    ways: tuple[CallWay, ...]
    near: tuple[str, ...]
    partial: tuple[str, ...]


class Explanation(NamedTuple):
    """The explanation of calls of `symbol`, as the user wrote it, from `images`: at most two.

    For process `pid`, which runs the program at `path`, `images` has the importer that was
    chosen, or nothing if no image imports the symbol. `others` are the names of other images that
    import it, `defined_in` of images that define it. `is_changing` tells that images were loaded
    or closed meanwhile, so that the facts may be of two moments.
    """

    symbol: str
    images: tuple[Importer, ...]
    pid: int | None = None
    path: str = ""
    others: tuple[str, ...] = ()
    defined_in: tuple[str, ...] = ()
    is_changing: bool = False

    @property
    def has_ways(self) -> bool:
        """Return whether there is any path to print."""
        return any(image.ways for image in self.images)


# The path of one call, as a file defines it: the first call, to the resolver, and later calls.
#
# No code is run. Instructions are followed one by one, from the stub to the slot, and from the
# slot's first target to the resolver. The same reading gives the resolver's arguments.

_MOST_SITES = 3
_MOST_SEARCHED = 256  # stubs whose callers are searched for
_MOST_STUBS = 4
_LATE_STUBS = (MIPS_STUB, LAZY_HALF, GLINK)
_CLASSIC = "indirect-symbol"  # kind of slots that only the indirect symbol table names


class Follower:
    """Follows calls through one image; its code is searched once for all slots together."""

    # `format` has the JSON's name
    def __init__(self, code: FileCode, *, format: str, arch: str) -> None:  # noqa: A002  as in JSON
        self.code = code
        self.format = format
        self.arch = arch
        self._looked_for: dict[int, int] = {}

    def ways(self, asked: list[tuple[FileSlot, str | None, str | None]]) -> list[CallWay]:
        """Return the call path of each slot; `asked` has slots with provider and reason."""
        stubs = {stub.vaddr: stub.size for slot, _, _ in asked for stub in _called(slot)}
        slots = {slot.vaddr for slot, _, _ in asked}
        # each stub is searched for by itself, and Objective-C may have thousands
        self._looked_for = dict(islice(stubs.items(), _MOST_SEARCHED))
        calls, thunks = self._search(self._looked_for, slots, self._base(asked))
        return [self._way(*entry, calls, thunks) for entry in asked]

    # ---- callers ----

    def _search(
        self, stubs: dict[int, int], slots: set[int], base: int
    ) -> tuple[list[CallInstruction], dict[int, int]]:
        lister = self._lister(base)
        if lister is None:
            return [], {}
        thunks: dict[int, int] = {}
        for vaddr, data in self.code.pieces():
            thunks.update(lister.thunks(data, vaddr, stubs))
        calls: dict[int, CallInstruction] = {}
        own = Spans((stub, stub + size) for stub, size in stubs.items())
        for vaddr, data in self.code.pieces():
            for call in lister.calls(data, vaddr, {*stubs, *thunks}, slots):
                if call.start not in thunks and own.at(call.vaddr) is None:
                    calls.setdefault(call.vaddr, call)
        return [calls[vaddr] for vaddr in sorted(calls)], thunks

    def _site(self, call: CallInstruction) -> CallSite:
        function = self.code.function_at(call.vaddr)
        name = ""
        if function is not None:
            name = f"{function.name}+{call.vaddr - function.vaddr:#x}"
        return CallSite(call, self.code.section(call.vaddr), name, ())

    def _around(self, call: CallInstruction) -> list[Line]:
        function = self.code.function_at(call.vaddr)
        start = call.start if function is None else function.vaddr
        lines = around(self.arch, self.code, start, call.vaddr)
        if lines:
            return [
                line._replace(flow=call.flow, target=call.target)
                if line.vaddr == call.vaddr
                else line
                for line in lines
            ]
        if call.text:
            code = self.code.read(call.vaddr, call.size)
            return [Line(call.vaddr, code, call.text, call.flow, call.target)]
        lister = self._lister()
        assert lister is not None
        size = call.vaddr + call.size - call.start
        return _listed(lister, self.code.read(call.start, size), call.start)

    # ---- the path ----

    def _lister(self, base: int = 0) -> Lister | None:
        lister = lister_of(self.arch, self.code.bits, self.code.order, base)
        if lister is not None:
            lister.literals = self._literal
        return lister

    def _literal(self, vaddr: int, size: int) -> int | None:
        """Return a number stored among the code, None if there is no code."""
        data = self.code.read(vaddr, size) if self.code.is_code(vaddr) else b""
        if len(data) < size:
            return None
        return int.from_bytes(data, "little" if self.code.order == "<" else "big")

    def _base(self, asked: list[tuple[FileSlot, str | None, str | None]]) -> int:
        """Return the base of position-independent code, as a stub with a known slot tells it."""
        for slot, _, _ in asked:
            for stub in _called(slot):
                lister = self._lister()
                if lister is None:
                    return 0
                lister.use_base(0)
                last = walk(lister, self.code.read, stub.vaddr)[-1]
                if last.flow == THROUGH and last.target is not None:
                    return slot.vaddr - last.target & lister.mask
        return self.code.pointer

    def _way(
        self,
        slot: FileSlot,
        provider: str | None,
        reason: str | None,
        calls: list[CallInstruction],
        thunks: dict[int, int],
    ) -> CallWay:
        stubs = {stub.vaddr for stub in _called(slot)}
        mine = {vaddr: stub for vaddr, stub in thunks.items() if stub in stubs}
        wanted = {*stubs, *mine, slot.vaddr}
        sites = [self._site(call) for call in calls if call.target in wanted]
        if sites:
            sites[0] = sites[0]._replace(lines=tuple(self._around(sites[0].call)))
        plain = slot
        if sites:
            goal = sites[0].call.target or 0
            slot = _by_way_of(slot, mine.get(goal, goal))
            mine = {goal: mine[goal], **mine} if goal in mine else mine
        base = self._base([(slot, provider, reason)])
        steps = [self._calls(slot, sites)]
        direct = 0
        if mine:
            steps.append(self._thunk(mine))
        if _called(slot):
            step = self._stub(slot, base)
            steps.append(step)
            direct = len(step.lines)
        steps.append(self._slot(slot, provider, reason))
        steps.append(self._before(slot))
        given: tuple[Given, ...] = ()
        wrong: list[str] = []
        if slot.binding == UNBOUND:
            wrong.append("no record binds the slot: a call goes astray")
        late = 0
        generations: tuple[Resolver, ...] = ()
        if slot.binding == LAZY and slot.helper is not None:
            generations = self._generations(slot)
            lazy, lister, cell = self._lazy(slot, base)
            steps += lazy
            late = sum(len(lazy_step.lines) for lazy_step in lazy)
            if lister is not None and cell is not None:
                given = self._given(lister, generations)
                steps.append(self._resolver(cell, given))
                wrong += self._compare(slot, given)
        steps += [self._after(slot, provider), self._second(slot, sites, direct)]
        once = 1 + direct
        return CallWay(
            vaddr=plain.vaddr,
            kind=plain.kind,
            symbol=plain.symbol,
            version=plain.version,
            provider=provider,
            provider_reason=reason,
            steps=tuple(steps),
            wrong=tuple(wrong),
            file=FilePart(
                plain, tuple(sites), given, generations, (once + late if late else 0, once)
            ),
        )

    def _generations(self, slot: FileSlot) -> tuple[Resolver, ...]:
        if self.code.loader in resolvers.NEVER_LAZY:
            return ()
        if self.format == MACHO and slot.kind == _CLASSIC:
            return resolvers_of(resolvers.CLASSIC, self.arch)
        return resolvers_of(self.code.loader or resolvers.GLIBC, self.arch)

    def _calls(self, slot: FileSlot, sites: list[CallSite]) -> Step:
        if not sites:
            how = "its address is loaded" if not _called(slot) else "no code in this file calls it"
            if self._lister() is None:
                how = f"the code was not searched: no decoder for {self.arch}"
            return Step(CALL_SITE, "call site", "", (), (how, *self._omitted(slot)))
        first = sites[0]
        notes = [f"also at {site.call.vaddr:#x}{_in(site)}" for site in sites[1:_MOST_SITES]]
        if len(sites) > _MOST_SITES:
            notes.append(f"and {len(sites) - _MOST_SITES:,} more")
        notes += self._omitted(slot)
        return Step(
            CALL_SITE, "call site", first.function or first.section, first.lines, tuple(notes)
        )

    def _omitted(self, slot: FileSlot) -> list[str]:
        """Return a note if callers of some stubs were not searched for."""
        called = _called(slot)
        left = sum(stub.vaddr not in self._looked_for for stub in called)
        if not left or self._lister() is None:
            return []
        return [f"calls of {left:,} of its {len(called):,} stubs were not looked for"]

    def _thunk(self, thunks: dict[int, int]) -> Step:
        vaddr = next(iter(thunks))
        lister = self._lister()
        assert lister is not None
        lines = walk(lister, self.code.read, vaddr)
        function = self.code.function_at(vaddr)
        name = function.name if function is not None and function.vaddr == vaddr else ""
        notes = ["the stub is too far for a branch"]
        if len(thunks) > 1:
            notes.append(f"and {len(thunks) - 1} more like it")
        where = name or self.code.section(vaddr)
        return Step(THUNK, "range-extension thunk", where, tuple(lines), tuple(notes))

    def _stub(self, slot: FileSlot, base: int) -> Step:
        called = _called(slot)
        first = called[0]
        lines = self._follow(first.vaddr, base, slot.vaddr)[0]
        notes = []
        if not lines:
            notes.append(f"{first.vaddr:#x}, {first.size} bytes: no decoder for {self.arch}")
        if first.selector is not None:
            notes.append(f"the selector is {first.selector}")
        if slot.signed is not None:
            notes.append(_signature(slot))
        notes += [
            f"another stub at {stub.vaddr:#x} in {stub.section or 'code'} ({stub.kind})"
            for stub in called[1:_MOST_STUBS]
        ]
        if len(called) > _MOST_STUBS:
            notes.append(f"and {len(called) - _MOST_STUBS:,} more")
        where = first.section or ""
        return Step(STUB, f"stub ({first.kind})", where, tuple(lines), tuple(notes))

    def _follow(
        self, vaddr: int, base: int, end: int | None = None, lister: Lister | None = None
    ) -> tuple[list[Line], int | None, Lister | None]:
        """Follow code to its jump through a cell; return (lines, cell, decoder)."""
        lister = lister or self._lister(base)
        if lister is None:
            return [], None, None
        lines: list[Line] = []
        for _ in range(4):
            part = walk(lister, self.code.read, vaddr)
            lines += part
            last = part[-1]
            if last.flow == THROUGH:
                return lines, last.target, lister
            if last.flow != JUMP or last.target is None or last.target == end:
                break
            vaddr = last.target
        return lines, None, lister

    def _slot(self, slot: FileSlot, provider: str | None, reason: str | None) -> Step:
        name = slot.symbol or "(no name)"
        if slot.version is not None:
            name += f"@{slot.version}"
        place = f"{slot.vaddr:#x}"
        if slot.offset is not None:
            place += f", at offset {slot.offset:#x} of the file"
        notes = [place, f"{slot.kind}: {name} ({slot.symbol_type})"]
        if slot.binding == IRELATIVE:
            notes.append("a function of this file chooses one of several")
        elif slot.defined_here:
            notes.append("this file defines it; another image may come first")
        elif provider is not None:
            notes.append(f"from {provider}")
        elif reason is not None:
            notes.append(f"from whom is not said: {reason}")
        if slot.signed is not None and not _called(slot):
            notes.append(_signature(slot))
        return Step(SLOT, "slot", slot.section or "", (), tuple(notes))

    def _before(self, slot: FileSlot) -> Step:
        value = None if slot.offset is None else self.code.word(slot.vaddr)
        shown = "no bytes in the file" if value is None else f"{value:#x}"
        if slot.binding == LAZY and slot.helper is not None:
            shown = f"{slot.helper:#x}: {self._place(slot, slot.helper)}"
            moved = f"when the image is loaded, {self._bias()} is added"
            return Step(BEFORE, "holds at first", "", (), (shown, moved))
        when = {
            NOW: "the loader writes the address when it loads the image, before any call",
            WEAK: "the loader writes the address of the first definition of all images",
            IRELATIVE: "at the start the image's own function is asked which one is to be used",
            UNBOUND: "nothing in the file tells the loader to write here",
            PRELINKED: "the address is in the file, good as long as no library has changed",
            TLSDESC: "the loader writes a function, and what it is given",
        }.get(slot.binding, "the loader writes the address when it loads the image")
        if slot.kind.startswith("chained") and value is not None:
            shown = f"{value:#x}: a link of a chain of fixups, no address"
        elif value == 0:
            shown = "0"
        elif value is not None and slot.kind.endswith(("JUMP_SLOT", "JMP_SLOT")):
            shown += ": the lazy half, which no call will use" if self.code.is_code(value) else ""
        return Step(BEFORE, "holds at first", "", (), (shown, when))

    def _bias(self) -> str:
        return "its slide" if self.format == MACHO else "the load bias"

    def _place(self, slot: FileSlot, vaddr: int) -> str:
        for stub in slot.stubs:
            if stub.vaddr < vaddr < stub.vaddr + max(stub.size, 16):
                return "the second half of the stub itself"
        section = self.code.section(vaddr)
        return f"in {section}" if section else "in the code"

    def _lazy(self, slot: FileSlot, base: int) -> tuple[list[Step], Lister | None, int | None]:
        """Return the steps from the slot's first target to the resolver's cell."""
        lister = self._lister(base)
        if lister is None or slot.helper is None:
            return [], None, None
        if _called(slot):  # the other half continues with the values it leaves in registers
            walk(lister, self.code.read, _called(slot)[0].vaddr)
            for name, value in lister.registers.items():
                if value == Value(CELL, slot.vaddr):
                    lister.registers[name] = Value(NUMBER, slot.helper)
        first = walk(lister, self.code.read, slot.helper)
        steps = []
        last = first[-1]
        where = self.code.section(slot.helper)
        if last.flow == THROUGH:
            is_own = any(stub.vaddr == slot.helper for stub in slot.stubs)
            kind, title = FIRST, self._first_name()
            if is_own:
                kind, title = HELPER, self._helper_name()
            steps.append(Step(kind, title, where, tuple(first), ()))
            return steps, lister, last.target
        steps.append(Step(HELPER, self._helper_name(), where, tuple(first), ()))
        if last.flow != JUMP or last.target is None:
            return steps, lister, None
        lines, cell, _ = self._follow(last.target, base, lister=lister)
        where = self.code.section(last.target)
        steps.append(Step(FIRST, self._first_name(), where, tuple(lines), ()))
        return steps, lister, cell

    def _helper_name(self) -> str:
        return "stub helper" if self.format == MACHO else "lazy half"

    def _first_name(self) -> str:
        return "what all helpers share" if self.format == MACHO else "PLT0"

    # ---- the resolver ----

    def _given(self, lister: Lister, generations: tuple[Resolver, ...]) -> tuple[Given, ...]:
        if not generations:
            return ()
        given = []
        for argument in generations[0].arguments:
            if argument.word < 0:
                value = lister.get(argument.place)
            elif argument.word < len(lister.stack):
                value = lister.stack[-1 - argument.word]
            else:
                continue
            given.append(
                Given(
                    argument.place, value, self._text(value), resolvers.MEANINGS[argument.meaning]
                )
            )
        return tuple(given)

    def _text(self, value: Value) -> str:
        if value.kind == NUMBER:
            name = self.code.cell(value.number)
            return f"{value.number:#x} ({name})" if name else f"{value.number:#x}"
        if value.kind == CELL:
            name = self.code.cell(value.number)
            return f"what {name or 'the cell'} at {value.number:#x} holds"
        return f"what {value.name} held" if value.kind == REGISTER else "not known"

    def _resolver(self, cell: int, given: tuple[Given, ...]) -> Step:
        name = self.code.cell(cell)
        through = f"through {name} at {cell:#x}" if name else f"through {cell:#x}"
        through += ", which the loader fills when it loads the image"
        notes = [through]
        notes += [f"{argument.place} = {argument.text}: {argument.meaning}" for argument in given]
        return Step(RESOLVER, "resolver", "", (), tuple(notes))

    def _compare(self, slot: FileSlot, given: tuple[Given, ...]) -> list[str]:
        """Return a text if the resolver's argument is another record than the slot's."""
        wanted = {
            resolvers.MEANINGS[meaning]: slot.resolver_argument
            for meaning in (resolvers.INDEX, resolvers.OFFSET, resolvers.LAZY_INFO)
        }
        step = resolvers.INDEX_STEPS.get(self.arch)
        if step is not None and slot.resolver_argument is not None:
            wanted[resolvers.MEANINGS[resolvers.INDEX]] = slot.resolver_argument // step
        wanted[resolvers.MEANINGS[resolvers.SLOT]] = slot.vaddr
        return [
            f"the resolver is given {argument.value.number:#x}, but the slot's own record is"
            f" {expected:#x}: another symbol would be bound"
            for argument in given
            if (expected := wanted.get(argument.meaning)) is not None
            and argument.value.kind == NUMBER
            and argument.value.number != expected
        ]

    # ---- later calls ----

    def _after(self, slot: FileSlot, provider: str | None) -> Step:
        if slot.binding == UNBOUND:
            return Step(AFTER, "holds then", "", (), ("what it held at first",))
        name = slot.symbol or "the function"
        owner = "this file" if slot.defined_here else provider or "the first image that defines it"
        value = f"the address of {name} in {owner}"
        if slot.signed is not None:
            value += ", signed"
        return Step(AFTER, "holds then", "", (), (value,))

    def _second(self, slot: FileSlot, sites: list[CallSite], direct: int) -> Step:
        flow = sites[0].call.flow if sites else ""
        way = ["call"]
        if flow not in (CALL_THROUGH, THROUGH) and _called(slot):
            way.append("stub")
        way += ["slot", slot.symbol or "the function"]
        count = 1 + direct
        notes = [" → ".join(way)]
        if sites and direct:
            notes.append(f"{count} instructions: the call and {direct} of the stub")
        elif sites and sites[0].call.start != sites[0].call.vaddr:
            notes.append("what loads the slot, and the call")
        elif sites:
            notes.append("1 instruction")
        return Step(
            SECOND,
            "every later call" if slot.binding == LAZY else "every call",
            "",
            (),
            tuple(notes),
        )


def _by_way_of(slot: FileSlot, vaddr: int) -> FileSlot:
    """Return a slot with the stub at `vaddr` moved to the front."""
    return slot._replace(stubs=tuple(sorted(slot.stubs, key=lambda stub: stub.vaddr != vaddr)))


def _called(slot: FileSlot) -> tuple[Stub, ...]:
    """Return the stubs that calls go through; other stubs only lead to the resolver."""
    return tuple(stub for stub in slot.stubs if stub.kind not in _LATE_STUBS)


def _signature(slot: FileSlot) -> str:
    assert slot.signed is not None
    key, diversity, address = slot.signed
    return f"signed with key {key}, diversity {diversity:#x}" + (
        " and the slot's address" if address else ""
    )


def _in(site: CallSite) -> str:
    place = site.function or site.section
    return f" in {place}" if place else ""


def _listed(lister: Lister, code: bytes, vaddr: int) -> list[Line]:
    """Return the instructions in `code`; an unknown one is a line of bytes."""
    lines = []
    at = 0
    while at < len(code):
        line = lister.line(code[at:], vaddr + at)
        lines.append(line)
        at += max(len(line.code), 1)
    return lines
