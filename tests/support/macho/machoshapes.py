# SPDX-License-Identifier: Apache-2.0
"""Mach-O images of every generation and architecture, with the truth of what they hold.

`classic` binds by the indirect symbol table and external relocations, `dyld_info` by opcodes,
`chained` by chained pointers. Each returns a `Made`: the bytes, and a `Row` for every slot as
it was written. Nothing here reads a file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.macho import machocode as code
from tests.support.macho import machowriter as w
from tests.support.macho.machofixups import (
    FLAT,
    PTR_32,
    WEAK,
    Bind,
    Rebase,
    chain,
    lazy_opcodes,
    opcodes,
    rebase_opcodes,
)

LIBRARIES = (
    ("/usr/lib/libSystem.B.dylib", w.LOAD),
    ("@rpath/libone.dylib", w.LOAD),
    ("@loader_path/../libweak.dylib", w.WEAK_LOAD),
    ("/usr/lib/libagain.dylib", w.REEXPORT),
)


class Want(NamedTuple):
    """A symbol that an image is to reach.

    `how` has "lazy" or "now", and "weak" where definitions are coalesced; `stub` says whether
    there is one. `defined` symbols are the image's own.
    """

    symbol: str
    ordinal: int = 1
    how: frozenset[str] = frozenset({"lazy"})
    stub: bool = True
    weak_import: bool = False
    defined: bool = False
    addend: int = 0
    signed: tuple[str, int, bool] | None = None


class Row(NamedTuple):
    """A slot as it was written, with its stub, if it has one."""

    slot: int
    offset: int
    section: str
    symbol: str
    ordinal: int
    library: str
    how: frozenset[str]
    stub: int | None
    stub_section: str | None
    helper: int | None
    argument: int | None  # of the lazy resolver: the record's offset, or the slot itself
    signed: tuple[str, int, bool] | None
    defined: bool

    @property
    def is_slot(self) -> bool:
        """Tell a slot from the other pointers that dyld binds: those in data."""
        return self.section.partition(",")[2] not in {"__data", "__const", "__far"}


class Made(NamedTuple):
    """An image and its truth; `selectors` are objc stubs: address -> name of the method."""

    arch: str
    data: bytes
    rows: list[Row]
    stubs_without_slot: list[int]
    selectors: dict[int, str]


LAZY, NOW = frozenset({"lazy"}), frozenset({"now"})
WEAKLY = frozenset({"weak"})

WANTS = (
    Want("_puts"),
    Want("_malloc", 2),
    Want("_absent", 3, weak_import=True),
    Want("_again", 4),
    Want("_flat", FLAT),
    Want("_from_main", -1),
    Want("_own", 0, defined=True),
    Want("_environ", 1, NOW, stub=False),
    Want("_now_called", 2, NOW),
    Want("__ZN" + "5space" * 60 + "4nameEv", 2),  # longer than tools expect
)
WEAK_WANTS = (
    Want("__Znwm", 1, frozenset({"lazy", "weak"})),
    Want("__ZdlPv", 1, frozenset({"now", "weak"})),
    Want("__ZN1A1fEv", WEAK, WEAKLY, defined=True),
)


class _Shape:
    """What all generations have in common while one image is being made."""

    def __init__(self, arch: str, wants: Sequence[Want], kind: int, flags: int) -> None:
        # PowerPC's halves of an address are added up: the lower one shall be negative.
        self.out = w.Writer(arch, kind, flags=flags, gap=9 if arch.startswith("ppc") else 1)
        self.arch = self.out.arch
        self.wants = list(wants)
        self.out.libraries = list(LIBRARIES)
        self.text = self.out.section("__TEXT", "__text", 64, w.CODE, align=16)
        self.stubs: dict[int, tuple[w.Section, int]] = {}  # number of the want -> place
        self.slots: dict[int, tuple[w.Section, int]] = {}
        self.helpers: dict[int, int] = {}  # -> address
        self.arguments: dict[int, int] = {}

    def declare(self) -> None:
        """Write the symbol table."""
        for number, want in enumerate(one for one in self.wants if one.defined):
            weak = "weak" in want.how
            self.out.defined.append((want.symbol, self.text, self.text.addr + 4 * number, weak))
        known = set()
        for want in self.wants:
            if not want.defined and want.symbol not in known:
                known.add(want.symbol)
                self.out.undefined.append(w.Undefined(want.symbol, want.ordinal, want.weak_import))

    def own(self, want: Want) -> int:
        """Return the address of a symbol that the image defines."""
        return next(value for name, _, value, _ in self.out.defined if name == want.symbol)

    def pointers(self, numbers: list[int], segment: str, name: str, kind: int) -> w.Section:
        """Add a section of slots and its part of the indirect symbol table."""
        word = self.arch.word
        first = len(self.out.indirect)
        one = self.out.section(
            segment, name, word * len(numbers), kind, align=word, reserved1=first
        )
        for index, number in enumerate(numbers):
            self.slots[number] = (one, index * word)
            self.out.indirect.append(number)
        return one

    def code_stubs(
        self, numbers: list[int], name: str, style: str, segment: str = "__TEXT"
    ) -> w.Section:
        """Add a section of stubs."""
        size = code.SIZES[self.arch.name, style]
        first = len(self.out.indirect)
        flags = w.STUBS | (w.SELF_MODIFYING if style == "jump" else w.CODE)
        one = self.out.section(
            segment,
            name,
            size * len(numbers),
            flags,
            align=32 if style == "jump" else 4,
            reserved1=first,
            reserved2=size,
        )
        for index, number in enumerate(numbers):
            self.stubs[number] = (one, index * size)
            self.out.indirect.append(number)
        return one

    def slot(self, number: int) -> int:
        """Return the address of a slot."""
        section, at = self.slots[number]
        return section.addr + at

    def fill_stubs(self, style: str, binder: int = 0) -> None:
        """Write the code of all stubs."""
        for number, (section, at) in self.stubs.items():
            if section.flags & w.SELF_MODIFYING:
                style = "jump"
            addr = section.addr + at
            self.out.put(addr, code.stub(self.arch.name, style, addr, self.slot(number), binder))

    def word(self, addr: int, value: int) -> None:
        """Write a pointer."""
        self.out.put(addr, self.arch.pack("P", value))

    def made(self) -> Made:
        """Name what stands in the indirect symbol table, and finish."""
        self.out.indirect = [
            number if number >= w.ABSOLUTE else self.out.number(self.wants[number].symbol)
            for number in self.out.indirect
        ]
        rows = []
        for number, want in enumerate(self.wants):
            section, _ = self.slots[number]
            stub = self.stubs.get(number)
            flat = not self.out.flags & w.TWO_LEVEL
            library = "" if flat or want.ordinal <= 0 else LIBRARIES[want.ordinal - 1][0]
            rows.append(
                Row(
                    self.slot(number),
                    self.out.offset(self.slot(number)),
                    f"{section.segment},{section.name}",
                    want.symbol,
                    want.ordinal,
                    library,
                    want.how,
                    stub[0].addr + stub[1] if stub else None,
                    f"{stub[0].segment},{stub[0].name}" if stub else None,
                    self.helpers.get(number),
                    self.arguments.get(number),
                    want.signed,
                    want.defined,
                )
            )
        rows.sort()
        return Made(self.arch.name, self.out.build(), rows, [], {})


def _numbers(wants: Sequence[Want], *, lazy: bool) -> list[int]:
    """Return the wants whose slots are among the lazy ones, or the others."""
    return [
        number
        for number, want in enumerate(wants)
        if (bool(want.how & {"lazy"}) or (want.stub and want.how == WEAKLY)) == lazy
    ]


# The binder is a slot like any other: dyld fills it with the address of its resolver.
BINDER = Want("dyld_stub_binder", 1, NOW, stub=False)


def classic(
    arch: str,
    style: str,
    wants: Sequence[Want] = WANTS,
    *,
    kind: int = w.DYLIB,
    flags: int = w.TWO_LEVEL | 4,
) -> Made:
    """Return an image bound by its indirect symbol table and by external relocations.

    `style` is of `machocode.SIZES`: "stub1" and "pic" (PowerPC), "stub", "stub16", "pic" and
    "jump" (i386), "stub" (x86-64). "jump" has self-modifying stubs that are their own slots.
    """
    shape = _Shape(arch, wants, kind, flags)
    out, name = shape.out, shape.arch.name
    lazy, now = _numbers(wants, lazy=True), _numbers(wants, lazy=False)
    called = [number for number, want in enumerate(wants) if want.stub]
    if style == "jump":  # an entry is the slot, whatever else there could be
        lazy, now = called, [number for number in now if number not in called]
        for number in called:
            shape.wants[number] = shape.wants[number]._replace(how=LAZY)
    inside = style in {"stub16", "pic"} and arch == "i386"  # the lazy half is in the stub
    shared = arch.startswith("ppc")  # its stubs leave the slot's address in a register
    titles = {"stub1": "__symbol_stub1", "jump": "__jump_table"}
    titles["stub" if arch == "i386" else "stub64"] = "__symbol_stub"
    titles["stub16"] = "__symbol_stub"
    titles["pic"] = "__picsymbol_stub" if arch == "i386" else "__picsymbolstub1"
    jump = style == "jump"
    if not jump:
        shape.code_stubs(called, titles.get(style, "__stubs"), style)
    each = code.helper_size(name, classic=True)
    helpers = out.section(
        "__TEXT", "__stub_helper", 0 if inside or jump or shared else each * len(lazy), w.CODE
    )
    header = out.section("__TEXT", "__binder", code.header_size(name, classic=True), w.CODE)
    out.section("__DATA", "__data", 32, align=16)
    dyld = out.section("__DATA", "__dyld", 2 * shape.arch.word, align=shape.arch.word)
    if not jump:
        shape.pointers(lazy, "__DATA", "__la_symbol_ptr", w.LAZY)
    others = out.section("__DATA", "__const", 3 * shape.arch.word, align=8)
    if jump:
        table = shape.code_stubs(called, "__jump_table", "jump", "__IMPORT")
        shape.pointers(now, "__IMPORT", "__pointers", w.NON_LAZY)
        for number in called:
            shape.slots[number] = (table, shape.stubs[number][1])
        # An entry that nobody uses has no symbol; it is behind the others.
        out.indirect[table.reserved1 + len(called) : table.reserved1 + len(called)] = [w.ABSOLUTE]
        table.size += 5
        table.data += bytes(5)
        out.sections[-1].reserved1 += 1
    else:
        shape.pointers(now, "__DATA", "__nl_symbol_ptr", w.NON_LAZY)
    out.section("__DATA", "__bss", 0x2345, w.ZEROFILL) if not jump else None
    out.lay_out()
    shape.declare()
    shape.fill_stubs(style, header.addr)
    if jump:
        out.put(table.addr + 5 * len(called), b"\xf4" * 5)
    # What dyld is given besides the slot is the image's own header.
    out.put(header.addr, code.header(name, header.addr, out.base, dyld.addr, classic=True))
    for index, number in enumerate(lazy):
        slot = shape.slot(number)
        if jump:
            shape.arguments[number] = slot
            continue
        if shared:
            shape.helpers[number] = header.addr
        elif inside:
            section, at = shape.stubs[number]
            shape.helpers[number] = section.addr + at + (6 if style == "stub16" else 14)
        else:
            where = helpers.addr + index * each
            out.put(where, code.helper(name, where, header.addr, 0, slot, classic=True))
            shape.helpers[number] = where
        shape.arguments[number] = slot
        shape.word(slot, shape.helpers[number])
    made = _relocations(shape, others)
    if jump:
        return made._replace(stubs_without_slot=[table.addr + 5 * len(called)])
    return made


def _relocations(shape: _Shape, section: w.Section) -> Made:
    """Add pointers that external relocations fill, and finish."""
    out, base = shape.out, shape.out.segments[0].addr
    far = out.segments[-1].addr + out.segments[-1].size > base + (1 << 32)
    if shape.arch.name == "x86_64" or (shape.arch.name == "ppc64" and far):
        base = next(one.addr for one in out.segments if one.protection & 2)
    length = shape.arch.word.bit_length() - 1
    for index, name in enumerate(("_environ", "_data", "_own_data")):
        want = Want(name, 2, NOW, stub=False)
        if name not in {one.name for one in out.undefined}:
            out.undefined.append(w.Undefined(name, 2, weak=False))
        else:
            want = next(one for one in shape.wants if one.symbol == name)
        shape.wants.append(want)
        shape.slots[len(shape.wants) - 1] = (section, index * shape.arch.word)
        number, addr = out.number(name), section.addr + index * shape.arch.word
        if shape.arch.order == "<":
            about = number | length << 25 | 1 << 27
        else:
            about = number << 8 | length << 5 | 1 << 4
        out.relocations.append(shape.arch.pack("II", addr - base, about))
    return shape.made()


def dyld_info(
    arch: str,
    wants: Sequence[Want] = (*WANTS, *WEAK_WANTS),
    *,
    kind: int = w.DYLIB,
    flags: int = w.TWO_LEVEL | 4,
    header_last: bool = False,
    style: str = "",
    lazy_offset: int | None = None,
) -> Made:
    """Return an image bound by the opcodes of LC_DYLD_INFO.

    With `header_last` the helpers' common part is behind them, as old linkers had it. With
    `lazy_offset` every helper has this one instead of its own: a fault.
    """
    shape = _Shape(arch, [*wants, BINDER], kind, flags)
    out, name, word = shape.out, shape.arch.name, shape.arch.word
    lazy, now = _numbers(shape.wants, lazy=True), _numbers(shape.wants, lazy=False)
    style = style or "stub"
    shape.code_stubs([n for n, one in enumerate(shape.wants) if one.stub], "__stubs", style)
    helped = [number for number in lazy if "lazy" in shape.wants[number].how]
    each, common = code.helper_size(name, classic=False), code.header_size(name, classic=False)
    helper = out.section("__TEXT", "__stub_helper", common + each * len(helped), w.CODE)
    shape.pointers(now, "__DATA_CONST", "__got", w.NON_LAZY)
    shape.pointers(lazy, "__DATA", "__la_symbol_ptr", w.LAZY)
    cache = out.section("__DATA", "__data", 8 * word, align=word)
    out.section("__DATA", "__bss", 0x4567, w.ZEROFILL)
    out.lay_out()
    shape.declare()
    shape.fill_stubs(style)
    head = helper.addr + (each * len(helped) if header_last else 0)
    binder = shape.slot(len(shape.wants) - 1)
    out.put(head, code.header(name, head, cache.addr, binder, classic=False))

    def bind(number: int) -> Bind:
        want = shape.wants[number]
        return Bind(shape.slot(number), want.symbol, want.ordinal, want.weak_import, want.addend)

    lazily, at = lazy_opcodes((bind(number) for number in helped), out.places())
    for index, number in enumerate(helped):
        slot = shape.slot(number)
        where = helper.addr + index * each + (0 if header_last else common)
        argument = at[slot] if lazy_offset is None else lazy_offset
        out.put(where, code.helper(name, where, head, argument, slot, classic=False))
        shape.helpers[number], shape.arguments[number] = where, at[slot]
        shape.word(slot, where)
    rebases = [Rebase(shape.slot(number), 0) for number in helped]
    for number, want in enumerate(shape.wants):
        if want.defined and not want.how & {"lazy", "now"}:
            shape.word(shape.slot(number), shape.own(want))
            rebases.append(Rebase(shape.slot(number), 0))
    _data_binds(shape, cache)
    eager = [number for number, want in enumerate(shape.wants) if "now" in want.how]
    weak = [number for number, want in enumerate(shape.wants) if "weak" in want.how]
    out.dyld_info = [
        rebase_opcodes(rebases, out.places()),
        opcodes(sorted(map(bind, eager)), out.places(), word),
        opcodes(
            sorted(map(bind, weak), key=lambda b: (b.symbol, b.slot)), out.places(), word, weak=True
        ),
        lazily,
        b"\0\0",
    ]
    return shape.made()


def _data_binds(shape: _Shape, section: w.Section) -> None:
    """Add pointers in data: a run at equal distances, one with an addend, one far ahead."""
    word = shape.arch.word
    for index, addend in ((1, 0), (2, 0), (3, 0), (4, 0), (5, 16), (7, 0)):
        shape.wants.append(Want("_table", 1, NOW, stub=False, addend=addend))
        shape.slots[len(shape.wants) - 1] = (section, index * word)
    if "_table" not in {one.name for one in shape.out.undefined}:
        shape.out.undefined.append(w.Undefined("_table", 1, weak=False))


def chained(
    arch: str,
    wants: Sequence[Want] = WANTS,
    *,
    form: int,
    imports: int = 1,
    kind: int = w.DYLIB,
    style: str = "",
    selectors: Sequence[str] = (),
    objc: str = "fast",
    named: bool = True,
) -> Made:
    """Return an image bound by chained pointers: pointer format `form`, import format `imports`.

    `selectors` get `__objc_stubs`, with a symbol each if `named`.
    """
    wants = [
        want._replace(
            how=want.how - {"lazy"} or NOW,
            ordinal=WEAK if "weak" in want.how else want.ordinal,
        )
        for want in wants
    ]
    if selectors:
        wants.append(Want("_objc_msgSend", 1, NOW))
    shape = _Shape(arch, wants, kind, w.TWO_LEVEL | 4)
    out, word = shape.out, shape.arch.word
    called = [number for number, want in enumerate(wants) if want.stub]
    signed = [number for number, want in enumerate(wants) if want.signed]
    style = style or ("auth" if signed else "stub")
    shape.code_stubs(called, "__auth_stubs" if style == "auth" else "__stubs", style)
    each = code.objc_size(arch, objc)
    objc_stubs = out.section("__TEXT", "__objc_stubs", each * len(selectors), w.CODE, align=32)
    names = b"".join(one.encode() + b"\0" for one in selectors)
    strings = out.section("__TEXT", "__objc_methname", len(names), w.CSTRINGS, align=1)
    rest = [number for number in range(len(wants)) if number not in signed]
    shape.pointers(rest, "__DATA_CONST", "__got", w.NON_LAZY)
    if signed:
        shape.pointers(signed, "__DATA_CONST", "__auth_got", w.NON_LAZY)
    data = out.section("__DATA", "__data", 8 * word, align=8)
    far = out.section("__DATA", "__far", 3 * 0x1000, align=8)
    refs = out.section(
        "__DATA", "__objc_selrefs", word * len(selectors), w.LITERAL_POINTERS, align=8
    )
    out.section("__DATA", "__bss", 0x1234, w.ZEROFILL)
    out.lay_out()
    shape.declare()
    shape.fill_stubs(style)
    _data_binds(shape, data)
    if imports == 1:
        # Nothing but what a pointer itself has room for.
        shape.wants = [one._replace(addend=min(one.addend, 31)) for one in shape.wants]
    if form == PTR_32:  # too far for one chain
        shape.wants.append(Want("_puts", 1, NOW, stub=False))
        shape.slots[len(shape.wants) - 1] = (far, 0x2F00)
    found: dict[int, str] = {}
    fixups: list[Bind | Rebase] = []
    out.put(strings.addr, names)
    target = strings.addr
    for index, selector in enumerate(selectors):
        at, ref = objc_stubs.addr + index * each, refs.addr + index * word
        send = len(wants) - 1
        place = shape.slot(send) if objc != "small" else _stub(shape, send)
        out.put(at, code.objc_stub(arch, objc, at, ref, place))
        fixups.append(Rebase(ref, target))
        target += len(selector) + 1
        found[at] = selector
        if named:
            out.defined.append((f"_objc_msgSend${selector}", objc_stubs, at, False))
    for number, want in enumerate(shape.wants):
        slot = shape.slot(number)
        fixups.append(
            Bind(slot, want.symbol, want.ordinal, want.weak_import, want.addend, want.signed)
        )
    fixups.append(Rebase(data.addr, shape.text.addr))
    done = chain(fixups, out.places(), out.base, form, imports, shape.arch.page)
    for addr, value in done.words.items():
        out.put(addr, struct.pack(shape.arch.order + "QI"[word == 4], value))
    out.chained = done.blob
    made = shape.made()
    return made._replace(selectors=found)


def _stub(shape: _Shape, number: int) -> int:
    section, at = shape.stubs[number]
    return section.addr + at
