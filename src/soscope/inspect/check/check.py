# SPDX-License-Identifier: Apache-2.0
"""Find faults in the linking of one image, and in what its loader looks for elsewhere."""

from __future__ import annotations

import os
import stat
from collections import Counter
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.sections import features
from soscope.binfmt.macho import filemap as a
from soscope.binfmt.macho.filemap import MachoMap
from soscope.errors import FormatError, SoscopeError
from soscope.inspect.check.emulate import argument_of
from soscope.linker.image import Image
from soscope.linker.providers import Providers
from soscope.linker.search import own_folders
from soscope.model.filemap import CALL_STUB, LAZY, PLT, FileSlot, Stub
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# A fault that `soscope check` finds in a file.

FAULT = "fault"  # the file contradicts itself, or harms programs that load it
REMARK = "remark"  # it could be harder to attack


class Fault(NamedTuple):
    """One fault or remark about a file.

    `slug` is stable, `message` is for users. `vaddr` and `symbol` are the stub's or slot's,
    None if the whole file is meant.
    """

    slug: str
    severity: str
    message: str
    vaddr: int | None = None
    symbol: str | None = None


# Find contradictions in an ELF file's data about its linking.

# tags that hold an address: gABI, "Dynamic Section", and glibc's elf/get-dynamic-info.h
_TABLES = {
    c.DT_HASH: "DT_HASH",
    c.DT_GNU_HASH: "DT_GNU_HASH",
    c.DT_STRTAB: "DT_STRTAB",
    c.DT_SYMTAB: "DT_SYMTAB",
    c.DT_VERSYM: "DT_VERSYM",
    c.DT_VERDEF: "DT_VERDEF",
    c.DT_VERNEED: "DT_VERNEED",
    c.DT_RELA: "DT_RELA",
    c.DT_REL: "DT_REL",
    c.DT_RELR: "DT_RELR",
    c.DT_JMPREL: "DT_JMPREL",
    c.DT_INIT: "DT_INIT",
    c.DT_FINI: "DT_FINI",
    c.DT_INIT_ARRAY: "DT_INIT_ARRAY",
    c.DT_FINI_ARRAY: "DT_FINI_ARRAY",
    c.DT_PREINIT_ARRAY: "DT_PREINIT_ARRAY",
}
# tags with the size of a table; a loader does not read a table of size 0
_SIZES = {
    c.DT_RELA: c.DT_RELASZ,
    c.DT_REL: c.DT_RELSZ,
    c.DT_RELR: c.DT_RELRSZ,
    c.DT_JMPREL: c.DT_PLTRELSZ,
    c.DT_INIT_ARRAY: c.DT_INIT_ARRAYSZ,
    c.DT_FINI_ARRAY: c.DT_FINI_ARRAYSZ,
    c.DT_PREINIT_ARRAY: c.DT_PREINIT_ARRAYSZ,
}


def check_elf(mapped: ElfMap) -> Iterator[Fault]:
    """Yield the faults of one file."""
    by_argument: dict[int | None, FileSlot] = {
        slot.resolver_argument: slot for slot in mapped.slots if slot.resolver_argument is not None
    }
    # if all lazy slots lead to one address at first, the resolver identifies them in another way
    helpers = {slot.helper for slot in mapped.slots if slot.binding == LAZY}
    is_shared = len(helpers) == 1
    for slot in mapped.slots:
        yield from _slot(mapped, slot, by_argument, is_shared=is_shared)
    yield from _tables(mapped)
    names = {slot.vaddr: slot.symbol for slot in mapped.slots}
    for vaddr, symbol in mapped.filled_again:
        if symbol != names.get(vaddr):
            yield Fault(
                "bound-twice",
                FAULT,
                f"the slot at {vaddr:#x} is filled with {names.get(vaddr) or 'no symbol'}"
                f" and with {symbol or 'no symbol'}",
                vaddr,
                symbol,
            )
    for stub in mapped.stubs_without_slot:
        if stub.kind == CALL_STUB:
            continue  # it has a slot that only its callers know; `partial` tells
        yield Fault(
            "stub-without-slot",
            FAULT,
            f"the stub at {stub.vaddr:#x} leads through what no relocation fills",
            stub.vaddr,
        )


def _tables(mapped: ElfMap) -> Iterator[Fault]:
    """Yield a fault for each table that a loader would read outside of the loaded segments."""
    loaded = [segment for segment in mapped.image.segments if segment.type == c.PT_LOAD]
    for tag, name in _TABLES.items():
        vaddr = mapped.tag(tag)
        if tag in _SIZES and mapped.tag(_SIZES[tag]) == 0:
            continue
        if tag == c.DT_HASH and mapped.tag(c.DT_GNU_HASH):
            continue  # it is for loaders that do not know the other table
        if vaddr and not any(0 <= vaddr - part.vaddr < part.memsz for part in loaded):
            yield Fault(
                "table-outside",
                FAULT,
                f"{name} is {vaddr:#x}, and no segment holds that address",
                vaddr,
            )


def _slot(
    mapped: ElfMap, slot: FileSlot, by_argument: dict[int | None, FileSlot], *, is_shared: bool
) -> Iterator[Fault]:
    is_call = slot.kind.endswith(("JUMP_SLOT", "JMP_SLOT"))
    arch = mapped.machine
    if is_call and not slot.stubs and arch is not None and arch.has_stub_each:
        yield Fault(
            "slot-without-stub",
            FAULT,
            f"nothing leads through the slot of {slot.symbol} at {slot.vaddr:#x}",
            slot.vaddr,
            slot.symbol,
        )
    if slot.binding != LAZY:
        return
    if slot.helper is None:
        if slot.offset is None:
            return  # the loader writes what it leads to
        yield Fault(
            "slot-leads-nowhere",
            FAULT,
            f"the slot of {slot.symbol} at {slot.vaddr:#x} is lazy, and leads to no code at first",
            slot.vaddr,
            slot.symbol,
        )
        return
    given = argument_of(mapped, slot)
    if given is not None and given != slot.resolver_argument:
        other = by_argument.get(given)
        whose = "which belongs to no slot" if other is None else f"{other.symbol}'s"
        yield Fault(
            "wrong-argument",
            FAULT,
            f"the first call of {slot.symbol} gives the resolver {given}, {whose},"
            f" not {slot.resolver_argument}",
            slot.stubs[0].vaddr if slot.stubs else slot.vaddr,
            slot.symbol,
        )
        return
    own = [stub for stub in slot.stubs if stub.kind == PLT]
    if (
        arch is not None
        and arch.has_own_half
        and given is None
        and own
        and not any(stub.vaddr <= slot.helper < stub.vaddr + stub.size for stub in own)
        and not is_shared
    ):
        yield Fault(
            "slot-leads-elsewhere",
            FAULT,
            f"the slot of {slot.symbol} at {slot.vaddr:#x} leads to {slot.helper:#x} at first,"
            " which is not its stub's",
            slot.vaddr,
            slot.symbol,
        )


# Find contradictions in a Mach-O image's data about its linking.


def check_macho(mapped: MachoMap) -> Iterator[Fault]:
    """Yield the faults of one image."""
    names = {slot.vaddr: slot.symbol for slot in mapped.slots}
    for disagreement in a.disagreements(mapped):
        symbol = names.get(disagreement.slot) or disagreement.by_stub or None
        yield Fault(
            _SLUGS[disagreement.what],
            FAULT,
            _text(disagreement, symbol),
            disagreement.stub or disagreement.slot,
            symbol,
        )


_SLUGS = {
    a.STUB_NAME: "stub-of-another-slot",
    a.SLOT_NAME: "slot-name",
    a.TWO_NAMES: "bound-twice",
    a.NO_CODE: "unknown-stub",
    a.NO_SLOT: "stub-without-slot",
    a.NO_RECORD: "slot-leads-nowhere",
    a.LAZY_OFFSET: "wrong-argument",
    a.LAZY_SLOT: "wrong-argument",
    a.NO_HELPER: "slot-leads-elsewhere",
    a.RECORD_ELSEWHERE: "record-without-slot",
}


def _text(case: a.Disagreement, symbol: str | None) -> str:
    bound = " and ".join(case.bound)
    expected = "" if case.expected is None else f", not {case.expected:#x}"
    whose = f", {case.offset_names}'s" if case.offset_names else ", which belongs to no record"
    texts = {
        a.STUB_NAME: f"the stub of {case.by_stub} at {case.stub:#x} leads through the slot of"
        f" {symbol} at {case.slot:#x}",
        a.SLOT_NAME: f"the slot at {case.slot:#x} is {case.by_slot}'s, and is bound to {bound}",
        a.TWO_NAMES: f"the slot at {case.slot:#x} is bound to {bound}",
        a.NO_CODE: f"the stub of {case.by_stub or 'no symbol'} at {case.stub:#x} has code that no"
        " linker makes",
        a.NO_SLOT: f"the stub of {case.by_stub or 'no symbol'} at {case.stub:#x} leads through"
        f" {case.slot:#x}, which nothing binds",
        a.NO_RECORD: f"the slot of {symbol} at {case.slot:#x} is bound to nothing",
        a.LAZY_OFFSET: f"the first call of {symbol} gives the resolver {case.offset or 0:#x}"
        f"{whose}{expected}",
        a.LAZY_SLOT: f"the first call of {symbol} gives the resolver the slot at"
        f" {case.offset or 0:#x}{whose}{expected}",
        a.NO_HELPER: f"the lazy slot of {symbol} at {case.slot:#x} leads to no helper at first",
        a.RECORD_ELSEWHERE: f"{bound} is bound lazily at {case.slot:#x}, which is no slot",
    }
    return texts[case.what]


# Find what would make an ELF file harder to attack.

_PT_GNU_STACK = 0x6474E551
_RUNS = ("executable", "pie", "shared", "static", "static-pie")


def check_hardening(mapped: ElfMap, *, branches: bool) -> Iterator[Fault]:
    """Yield remarks on one file; if `branches`, also on features that few files have."""
    if mapped.kind not in _RUNS or mapped.is_hollow:
        return
    try:
        dynamic = mapped.image.dynamic
    except FormatError:
        return
    if dynamic.get(c.DT_TEXTREL) is not None or (dynamic.get(c.DT_FLAGS) or 0) & c.DF_TEXTREL:
        yield Fault("text-relocations", REMARK, "the loader has to write into its code")
    yield from _writable(mapped)
    if branches:
        yield from _branches(mapped)


def _writable(mapped: ElfMap) -> Iterator[Fault]:
    segments = mapped.image.segments
    page = mapped.machine.pages[0] if mapped.machine is not None else 1
    relro = [segment for segment in segments if segment.type == c.PT_GNU_RELRO]
    if mapped.slots and not relro:
        yield Fault("no-relro", REMARK, "its slots can be written to while it runs: no RELRO")
    elif mapped.slots:
        # The loader protects whole pages, so the last page of RELRO stays writable if RELRO ends
        # within it (glibc elf/dl-reloc.c, _dl_protect_relro); with larger pages, more of it does.
        ends = [(seg.vaddr + seg.memsz) & -page for seg in relro]
        open_ones = [
            slot
            for slot in mapped.slots
            if not any(seg.vaddr <= slot.vaddr < end for seg, end in zip(relro, ends, strict=True))
        ]
        lazy = sum(slot.binding == LAZY for slot in open_ones)
        if open_ones:
            how = f"{lazy:,} of them lazy" if lazy else "RELRO leaves them out"
            yield Fault(
                "writable-got",
                REMARK,
                f"{len(open_ones):,} of {len(mapped.slots):,} slots can be written to while it"
                f" runs: {how}",
            )
    for segment in segments:
        if segment.type == c.PT_LOAD and segment.flags & c.PF_W and segment.flags & c.PF_X:
            yield Fault(
                "writable-code",
                REMARK,
                f"the segment at {segment.vaddr:#x} can be written to and run",
                segment.vaddr,
            )
    stacks = [segment for segment in segments if segment.type == _PT_GNU_STACK]
    if any(stack.flags & c.PF_X for stack in stacks):
        yield Fault("executable-stack", REMARK, "it asks for a stack that can be run")
    elif not stacks:
        # what that means depends on the processor, the kernel and the loader
        text = "it says nothing of its stack (no PT_GNU_STACK): some loaders let it be run"
        yield Fault("unsaid-stack", REMARK, text)


def _branches(mapped: ElfMap) -> Iterator[Fault]:
    if mapped.machine is None:
        return
    try:
        has = features(mapped.image)
    except FormatError:
        return
    for _, name, words in mapped.machine.features[1]:
        if name not in has:
            yield Fault(f"no-{name.lower()}", REMARK, f"not made for {words}")


# Check what the loader searches outside of a file: libraries, and the symbols in them.
#
# Other users must not be able to write to a folder in which the loader searches for a file's
# libraries. A symbol that is in no library ends the program, at its start or when it calls the
# function.


def check_search_path(mapped: ElfMap, path: str) -> Iterator[Fault]:
    """Yield a fault for each folder of DT_RPATH and DT_RUNPATH that other users can write to."""
    try:
        folders = own_folders(mapped.image, path)
    except FormatError:
        return
    for folder in dict.fromkeys(folders):
        why = _who_may_write(folder)
        if why:
            message = f"libraries are looked for in '{folder}': {why}"
            yield Fault("writable-search-path", FAULT, message)


def check_providers(mapped: ElfMap, path: str) -> Iterator[Fault]:
    """Yield a fault for each symbol that the loader would not find."""
    library_path = os.environ.get("LD_LIBRARY_PATH", "")
    for lack in Providers(mapped.image, path, library_path=library_path).lacks():
        symbol = lack.symbol if lack.version is None else f"{lack.symbol}@{lack.version}"
        message = f"no library has {symbol}, which {lack.path} needs"
        if lack.other:
            message += f": {lack.taken} is loaded, and not {lack.other}, which has it"
        yield Fault("no-provider", FAULT, message, symbol=lack.symbol)


def _who_may_write(folder: str) -> str:
    """Return why every user may put a library into a folder, "" if that is not so."""
    if not os.path.isabs(folder):
        return "it depends on the folder that the program is started in"
    try:
        real = os.path.realpath(folder)
    except OSError:
        return ""
    at = real
    while not os.path.lexists(at):
        at = os.path.dirname(at)
    if at != real and _is_open(at, even_sticky=True):
        return f"it does not exist, and any user may create it in {at}"
    if at == real and _is_open(at, even_sticky=True):
        return "any user may write there"
    # a user who may rename entries of a parent folder can put another folder, or link, in its
    # place
    for way in (real, os.path.normpath(folder)):
        at = way
        while at not in ("/", "//"):
            at = os.path.dirname(at)
            if _is_open(at, even_sticky=False):
                return f"any user may put another folder in its place, in {at}"
    return ""


def _is_open(folder: str, *, even_sticky: bool) -> bool:
    """Return whether every user may write to a folder; sticky folders only if `even_sticky`."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    is_sticky = bool(mode & stat.S_ISVTX)
    return stat.S_ISDIR(mode) and bool(mode & stat.S_IWOTH) and (even_sticky or not is_sticky)


# The results of `soscope check` for one image.


class Checked(Record):
    """An image with its faults.

    `ran` is how many stubs were run. `not_run` maps reasons to how many could not be run. Both
    are None if no stubs were to be run.
    """

    image: Image
    faults: list[Fault]
    ran: int | None = None
    not_run: dict[str, int] | None = None

    @property
    def is_sound(self) -> bool:
        """Return whether the image has no faults; it may have remarks."""
        return not any(fault.severity == FAULT for fault in self.faults)


def check(image: Image, *, run: bool = False, hardening: bool = False) -> Checked:
    """Check one image; if `run` is true, also run every stub under Unicorn.

    If `hardening` is true, check for IBT, shadow stacks, BTI and PAC.

    Raises SoscopeError (no-extra) if Unicorn is not installed.
    """
    mapped = image.map
    faults: list[Fault] = []
    if isinstance(mapped, ElfMap):
        faults += check_elf(mapped)
        faults += check_search_path(mapped, image.path)
        faults += check_providers(mapped, image.path)
        faults += check_hardening(mapped, branches=hardening)
    elif isinstance(mapped, MachoMap):
        faults += check_macho(mapped)
    checked = Checked(image, faults)
    if run and isinstance(mapped, ElfMap | MachoMap):
        _run(mapped, checked)
    return checked


def _run(mapped: ElfMap | MachoMap, into: Checked) -> None:
    """Run the stubs, and add the results."""
    from soscope.inspect.check.emulate import disagreement, run_stubs, the_library

    the_library()
    into.ran = 0
    reason = ""
    by_slot = {slot.vaddr: slot for slot in mapped.slots}
    left = {stub.vaddr: stub for slot in mapped.slots for stub in slot.stubs}
    left.update((stub.vaddr, stub) for stub in mapped.stubs_without_slot)
    try:
        for ran in run_stubs(mapped):
            into.ran += 1
            left.pop(ran.stub.vaddr, None)
            slot = by_slot.get(ran.stub.slot)
            if slot is not None:
                why = disagreement(slot, ran)
            else:
                why = ran.why or f"it goes through the slot at {ran.slot or 0:#x}"
            if why:
                symbol = slot.symbol if slot is not None else None
                what = f"the stub of {symbol or 'no symbol'} at {ran.stub.vaddr:#x}, run: {why}"
                into.faults.append(Fault("run", FAULT, what, ran.stub.vaddr, symbol))
    except SoscopeError as error:
        if error.slug != "no-emulator":
            raise
        reason = error.message.removeprefix("stubs cannot be run: ")
    into.not_run = dict(Counter(reason or _why_not(stub) for stub in left.values()))


def _why_not(stub: Stub) -> str:
    """Return why one stub was not run, although the image's other stubs can be."""
    if stub.slot == stub.vaddr:
        return "the loader writes the code"
    if stub.kind == CALL_STUB:
        return "only the caller knows the slot"
    return "no code calls it"
