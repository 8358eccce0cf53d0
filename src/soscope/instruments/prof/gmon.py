# SPDX-License-Identifier: Apache-2.0
"""Make a profile of a program or of one library from a gmon.out file."""

from __future__ import annotations

from fractions import Fraction

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.slots import slot_relocations
from soscope.binfmt.elf.symboltable import dynamic_table
from soscope.binfmt.profiles import OUTSIDE, GmonFile, Histogram, LdProfile
from soscope.errors import FormatError, SoscopeError
from soscope.instruments.prof.model import MODE_COUNT, NOBODY, ProfFunction, Profile
from soscope.instruments.prof.names import UNKNOWN, Code, ImageFunctions, ReturnAddresses
from soscope.instruments.prof.views import ArcSums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Callers of the calls of a gmon.out, in which mcount has rounded the return addresses down.
#
# mcount keeps a call by the piece of code that it returns to: 16 bytes on 64-bit machines, 8 bytes
# on 32-bit ones. If such a piece belongs to several functions, the call instructions in it tell
# which.


class GmonCallers:
    """The callers of the arcs of one file. `offset` turns its addresses into link-time addresses.

    `code` are the ranges of the image's code. Callers outside of them are not known.
    """

    def __init__(self, gmon: GmonFile, functions: ImageFunctions, code: Code, offset: int) -> None:
        self._functions = functions
        self._code = code
        self._mask = (1 << gmon.bits) - 1
        self._offset = offset
        self._returns = ReturnAddresses(functions)
        self._piece = 1 if self._are_starts(gmon) else _piece(gmon)

    def of(self, from_pc: int, callee: ProfFunction) -> list[ProfFunction]:
        """Return the possible callers of `callee` that return to `from_pc` or behind it."""
        start = (from_pc + self._offset) & self._mask
        if not any(low <= start <= high for low, high in self._code):
            return []
        there = self._functions.at(start)
        if self._piece == 1:
            # A return address lies behind the call, so it may belong to the function before.
            begins = _named([there]) if there.addr == start else []
            return begins or _named([self._functions.at(start - 1)])
        near = self._functions.in_range(start, start + self._piece - 1)
        several = _named([function for _, _, function in near])
        if there.addr == start and self._returns.call_before(start)[0]:
            several += _named([self._functions.at(start - 1)])  # a call that never returns
        if len(several) < 2:
            return several
        return self._by_code(start, callee) or several

    def _are_starts(self, gmon: GmonFile) -> bool:
        """Return whether all callers are addresses of functions, which mcount does not write."""
        starts = {(from_pc + self._offset) & self._mask for from_pc, _ in gmon.arcs}
        callers = zip(starts, self._functions.at_all(list(starts)), strict=True)
        return all(start == caller.addr for start, caller in callers if caller.size)

    def _by_code(self, start: int, callee: ProfFunction) -> list[ProfFunction]:
        """Return functions with calls that return to the piece, calls of `callee` if possible.

        If no direct call of `callee` returns there, indirect calls count.
        """
        sure: list[ProfFunction] = []
        possible: list[ProfFunction] = []
        for addr in range(start, start + self._piece):
            is_call, target, _ = self._returns.call_before(addr)
            if not is_call:
                continue
            caller = _named([self._functions.at(addr - 1)])
            if target is None:
                possible += caller
            else:
                called = self._functions.at(target)
                if called is callee or called.symbol == f"{callee.symbol}@plt":
                    sure += caller
        return list(dict.fromkeys(sure)) or list(dict.fromkeys(possible))


def _piece(gmon: GmonFile) -> int:
    """Return how many bytes of code share a return address, 1 if addresses were not rounded."""
    piece = 16 if gmon.bits == 64 else 8
    lows = [(histogram.low, histogram.high) for histogram in gmon.histograms]
    for from_pc, _ in gmon.arcs:
        low = next((low for low, high in lows if low <= from_pc < high), None)
        if low is not None and (from_pc - low) % piece:
            return 1
    return piece


def _named(functions: list[ProfFunction]) -> list[ProfFunction]:
    """Return each function once, without unknown places that belong to no function."""
    return [each for each in dict.fromkeys(functions) if each.symbol != UNKNOWN or each.size]


# Finds where an image lay when a gmon.out was written, by means of its code.
#
# mcount and __fentry__ record their return addresses. At the right load address, each of them has a
# call of mcount in front of it. Images begin at whole pages, so there are few addresses to try.

_PAGE = 4096  # bytes of the smallest page
_MOST_PAGES = 1 << 16
# A user may direct the last one to mcount, to get counts of a library that was built with it.
_COUNTERS = ("mcount", "_mcount", "__fentry__", "__cyg_profile_func_enter")


def fits(gmon: GmonFile, functions: ImageFunctions, code: Code, offset: int) -> bool:
    """Return whether most callees are in the code, behind calls of mcount or in functions.

    `offset` turns addresses of the file into link-time addresses. If nothing can be told, return
    True.
    """
    addrs = _callees(gmon, offset)
    if not addrs:
        return True
    inside = [addr for addr in addrs if any(start <= addr < end for start, end in code)]
    returns = ReturnAddresses(functions)
    if not returns.is_there:
        return bool(inside)
    right = [
        addr for addr in inside if returns.call_before(addr)[0] or functions.at(addr).addr == addr
    ]
    return 2 * len(right) > len(inside)


def offset_of(gmon: GmonFile, functions: ImageFunctions, code: Code) -> int | None:
    """Return the offset that turns addresses of the file into link-time addresses.

    Return None if no offset fits, or if several do.
    """
    addrs = sorted(_callees(gmon, 0))
    returns = ReturnAddresses(functions)
    if not addrs or not returns.is_there:
        return None
    slots = _slots(functions)
    stubs = {name + end for name in _COUNTERS for end in ("", "@plt")}
    pages = sorted(
        {page for start, end in code for page in range(start // _PAGE, -(-end // _PAGE))}
    )
    offsets = []
    for page in pages[:_MOST_PAGES]:
        offset = page * _PAGE + addrs[0] % _PAGE - addrs[0]
        for addr in addrs:
            _, target, slot = returns.call_before(addr + offset)
            by_stub = target is not None and functions.at(target).symbol in stubs
            if not (by_stub or slot in slots):
                break
        else:
            offsets.append(offset)
    return offsets[0] if len(offsets) == 1 else None


def _slots(functions: ImageFunctions) -> set[int]:
    """Return the slots through which mcount is called, as link-time addresses."""
    if functions.elf is None:
        return set()
    try:
        symbols = dynamic_table(functions.elf)
        return {
            relocation.vaddr
            for relocation in slot_relocations(functions.elf)
            if relocation.symbol < len(symbols)
            and symbols.symbol(relocation.symbol).name in _COUNTERS
        }
    except (SoscopeError, OSError):
        return set()


def _callees(gmon: GmonFile, offset: int) -> list[int]:
    mask = (1 << gmon.bits) - 1
    return [(addr + offset) & mask for addr in {addr for _, addr in gmon.arcs}]


# Makes times of functions from a histogram of program counters.

_UNITS = {"s": 10**9, "m": 10**6, "u": 10**3, "n": 1}  # ns, by the unit's letter in the histogram
_MOST_NAMES = 4  # names in a note


def times_of(
    profile: Profile,
    sums: ArcSums,
    histograms: list[Histogram],
    functions: ImageFunctions,
    vaddr: Callable[[int], int],
) -> dict[int, int] | None:
    """Return self times (ns) by index of function, or None and add a note if not known.

    `vaddr` turns addresses of the histograms into link-time addresses. Ticks of a bin that covers
    several functions are divided by bytes, as gprof does, and a note of `profile` tells how many.
    Ticks outside of known functions belong to one function named UNKNOWN.
    """
    unit = _unit(histograms, profile)
    if unit is None:
        return None
    times: dict[int, tuple[ProfFunction, Fraction]] = {}
    outside = ProfFunction(functions.image, UNKNOWN, path=functions.path)
    shared: dict[str, int] = {}
    total = 0
    for histogram in histograms:
        for number, count in sorted(histogram.ticks.items()):
            start, end = histogram.bin(number)
            at = vaddr(start)
            parts = functions.in_range(at, at + max(end - start, 1))
            named = [part for part in parts if part[2].symbol != UNKNOWN]
            if len(named) > 1:
                names = " and ".join(part[2].symbol for part in named)
                shared[names] = shared.get(names, 0) + count
            size = sum(finish - begin for begin, finish, _ in named)
            for begin, finish, function in named or [(0, 1, _nameless(functions, at, outside))]:
                share = Fraction(count * (finish - begin), size or 1) * unit / histogram.rate
                _, ns = times.get(id(function), (function, Fraction()))
                times[id(function)] = function, ns + share
            total += count
    if not total:
        profile.notes.append(f"no times: no tick fell into {functions.image}")
        return None
    if shared:
        names = ", ".join(sorted(shared, key=lambda each: -shared[each])[:_MOST_NAMES])
        more = ", …" if len(shared) > _MOST_NAMES else ""
        profile.notes.append(
            f"{functions.image}: {sum(shared.values()):,} of {total:,} ticks fell where two "
            f"functions meet, and were shared out between them: {names}{more}"
        )
    return {sums.function(function): round(ns) for function, ns in times.values()}


def put_times(profile: Profile, times: dict[int, int] | None) -> None:
    """Store the result of `times_of` in the sums. A function without ticks has time 0."""
    if times is not None:
        for place, sums in enumerate(profile.sums):
            sums.self_ns = times.get(place, 0)


def _nameless(functions: ImageFunctions, vaddr: int, outside: ProfFunction) -> ProfFunction:
    """Return the function at an address without a symbol, by unwind tables, else `outside`."""
    function = functions.at(vaddr)
    return function if function.size else outside


def _unit(histograms: list[Histogram], profile: Profile) -> int | None:
    """Return the ns of a unit of the histograms, or None and add a note if they have no times."""
    if not histograms:
        return None
    kinds = {(histogram.dimension, histogram.abbreviation) for histogram in histograms}
    rates = {histogram.rate for histogram in histograms}
    dimension, letter = min(kinds)
    unit = _UNITS.get(letter) if len(kinds) == 1 else None
    if unit is None or "sec" not in dimension:
        profile.notes.append(f"no times: the histogram is in {dimension or 'nothing'}, not seconds")
        return None
    if 0 in rates:
        profile.notes.append("no times: the histogram says 0 ticks a second")
        return None
    return unit


# Makes a profile of a gmon.out, for the program or for one library.
#
# glibc writes addresses as they were in the process, minus the program's load bias. So addresses of
# a library differ from link-time addresses by the library's load bias minus the program's. See
# `gmon_profile`.


def gmon_profile(
    gmon: GmonFile, functions: ImageFunctions, *, load_bias: int = 0, program_bias: int = 0
) -> Profile:
    """Return the profile of the image with these functions, from a gmon.out.

    `load_bias` is the image's own. `program_bias` is the load bias of a program that is a PIE,
    which glibc has subtracted. Both are 0 for the program itself. If the two cannot be right, the
    load bias at which the code fits is used, and a note tells so. Raises SoscopeError if there is
    none.
    """
    elf = functions.elf
    if elf is None:
        raise SoscopeError(f"{functions.path}: {'; '.join(functions.notes) or 'not readable'}")
    profile = Profile([], mode=MODE_COUNT)
    mask = (1 << gmon.bits) - 1
    offset = program_bias - load_bias
    code = _code(elf)

    def vaddr(addr: int) -> int:
        return (addr + offset) & mask

    if not fits(gmon, functions, code, offset):
        other = offset_of(gmon, functions, code)
        if other is None:
            raise _elsewhere(gmon, functions, vaddr)
        offset = other
        profile.notes.append(
            f"{functions.image}: addresses are {-offset & mask:#x} less than in the file: there "
            "its functions call mcount"
        )

    def is_inside(addr: int) -> bool:
        return any(start <= vaddr(addr) < end for start, end in code)

    sums = ArcSums(profile)
    callers = GmonCallers(gmon, functions, code, offset)
    inside = {arc: count for arc, count in gmon.arcs.items() if is_inside(arc[1])}
    ours = [
        histogram
        for histogram in gmon.histograms
        if any(
            start < vaddr(histogram.low) + histogram.high - histogram.low
            and vaddr(histogram.low) < end
            for start, end in code
        )
    ]
    if not inside and not ours and (gmon.arcs or gmon.histograms):
        raise _elsewhere(gmon, functions, vaddr)
    _add_arcs(profile, sums, inside, functions, callers, vaddr)
    times = times_of(profile, sums, ours, functions, vaddr)
    sums.finish()
    put_times(profile, times)
    beyond = sum(gmon.arcs.values()) - sum(inside.values())
    if beyond:
        profile.notes.append(f"{beyond:,} calls were of functions that are not in {functions.path}")
    if gmon.blocks:
        profile.notes.append(f"{gmon.blocks:,} counts of basic blocks are not shown")
    profile.notes.append(
        "mcount does not count calls from other images, and loses some where several threads call "
        "at once"
    )
    profile.notes += functions.notes
    return profile


def _code(elf: ElfImage) -> Code:
    """Return the ranges of an image's code, as link-time addresses."""
    return [
        (segment.vaddr, segment.vaddr + segment.memsz)
        for segment in elf.segments
        if segment.type == c.PT_LOAD and segment.flags & c.PF_X
    ]


def _elsewhere(gmon: GmonFile, functions: ImageFunctions, vaddr: Callable[[int], int]) -> Exception:
    callees = [to for _, to in gmon.arcs]
    if callees:
        place = vaddr(min(callees))
        reason = f"no function of its calls mcount at {place:#x}, as one does in the file"
    else:
        place = vaddr(min(histogram.low for histogram in gmon.histograms))
        reason = f"none of its code is at {place:#x}, as in the file"
    return SoscopeError(
        f"{functions.path}: {reason}",
        hint="a library: --load-bias ADDR, as /proc/PID/maps had it; where the program was a PIE, "
        "--program-bias ADDR, too",
    )


def _add_arcs(
    profile: Profile,
    sums: ArcSums,
    arcs: dict[tuple[int, int], int],
    functions: ImageFunctions,
    callers: GmonCallers,
    vaddr: Callable[[int], int],
) -> None:
    callees = functions.at_all([vaddr(to) for _, to in arcs])
    unclear: dict[str, int] = {}
    for ((from_pc, _), count), callee in zip(arcs.items(), callees, strict=True):
        by = callers.of(from_pc, callee)
        if len(by) > 1:
            names = " or ".join(each.symbol for each in by)
            unclear[names] = unclear.get(names, 0) + count
        caller = sums.function(by[0]) if len(by) == 1 else NOBODY
        sums.add(caller, sums.function(callee), count)
    if unclear:
        most = sorted(unclear, key=lambda names: -unclear[names])
        profile.notes.append(
            f"{sum(unclear.values()):,} calls: mcount does not tell who made them: "
            + ", ".join(most[:_MOST_NAMES])
            + (", …" if len(most) > _MOST_NAMES else "")
        )


# Makes a profile of a file written by LD_PROFILE.
#
# Such a file tells less than it seems. The recorder finds a call by its return address in a chain
# of calls to the same 32 bytes of code (16 on 32-bit machines), and never compares the callee. So
# calls of another function that begins in these bytes are counted as calls of the first one
# (`_dl_mcount` in glibc's elf/dl-profile.c). If a later run or another process continues a file, it
# puts the existing calls into chains of 4 bytes, but still looks for 32. Then calls of a function
# are added to a function that begins an eighth as far behind the start of the code. Not every file
# shows that it comes from several runs. Functions that may have been mixed up have no number of
# calls here.

_PAGES = (4096, 16384, 65536)  # bytes
_LOADED_CHAIN = 4  # bytes
_CODE = frozenset((c.STT_NOTYPE, c.STT_FUNC, c.STT_GNU_IFUNC))


def ldprofile_profile(counted: LdProfile, functions: ImageFunctions) -> Profile:
    """Return the profile of the library with these functions, from such a file.

    Raises SoscopeError if the library's code lies at other addresses, as it is another library
    then.
    """
    elf = functions.elf
    if elf is None:
        raise SoscopeError(f"{functions.path}: {'; '.join(functions.notes) or 'not readable'}")
    if (counted.low, counted.high) not in _code_pages(elf):
        raise SoscopeError(
            f"{functions.path}: not the library that was profiled: of that, the code lies at "
            f"{counted.low:#x}-{counted.high:#x}",
            hint="name the file that ran: --image LIB",
        )
    profile = Profile([], boundary=MODE_COUNT)
    sums = ArcSums(profile)
    unknown = _add_arcs_gmon(profile, sums, counted, functions)
    times = times_of(profile, sums, [counted.histogram], functions, lambda vaddr: vaddr)
    sums.finish()
    put_times(profile, times)
    for place in unknown:
        profile.sums[place].calls = None
    profile.calls = sum(count for _, _, count in counted.arcs)
    profile.notes.append(
        "LD_PROFILE counts only calls through lazy slots, and does not know which image outside "
        f"of {functions.image} has called it; counts begin again at 0 after 2^32"
    )
    if counted.lost:
        profile.notes.append(
            f"{functions.image}: no room for {counted.lost:,} pairs of caller and callee: "
            "their calls are missing"
        )
    profile.notes += functions.notes
    return profile


def _code_pages(elf: ElfImage) -> list[tuple[int, int]]:
    """Return the first and last address of a library's code, for each usual page size."""
    code = _code(elf)
    if not code:
        return []
    low, high = min(start for start, _ in code), max(end for _, end in code)
    return [(low // page * page, -(-high // page) * page) for page in _PAGES]


def _add_arcs_gmon(
    profile: Profile, sums: ArcSums, counted: LdProfile, functions: ImageFunctions
) -> set[int]:
    """Add the arcs. Return the functions (by index) whose number of calls is not known."""
    low = counted.low
    mixed = _Mixed(counted, _entries(functions))
    callees = functions.at_all([low + to for _, to, _ in counted.arcs])
    callers = functions.at_all([low + max(start - 1, 0) for start, _, _ in counted.arcs])
    for (start, to, count), caller, callee in zip(counted.arcs, callers, callees, strict=True):
        if count:  # 0: another thread was about to count it
            by = NOBODY if start == OUTSIDE else sums.function(caller)
            is_known = low + to not in mixed.groups
            sums.add(by, sums.function(callee), count if is_known else None)
    unknown: set[int] = set()
    for starts, count in mixed.together():
        several = functions.at_all(starts)
        unknown.update(sums.function(function) for function in several)
        names = ", ".join(function.symbol for function in several)
        profile.notes.append(
            f"{functions.image}: LD_PROFILE does not tell apart {names}: {count:,} calls in all"
        )
    if mixed.has_several_runs:
        profile.notes.append(
            f"{functions.image}: several runs, processes or threads have added to the counts"
        )
    return unknown


class _Mixed:
    """Finds functions whose calls may have been counted as calls of other functions.

    `entries` are the addresses of functions that may have been called. `groups` has the functions
    that may have been mixed up, each with an earlier one of its group, or with itself if it is
    the first.
    """

    def __init__(self, counted: LdProfile, entries: set[int]) -> None:
        self._low = counted.low
        self._arcs = counted.arcs
        size = 32 if counted.bits == 64 else 16  # bytes of code with one chain
        keys = {(start, to // size) for start, to, _ in counted.arcs}
        self.has_several_runs = len(keys) < len(counted.arcs)
        self.groups: dict[int, int] = {}
        chains: dict[int, set[int]] = {}
        for entry in entries:
            chains.setdefault((entry - counted.low) // size, set()).add(entry)
        for to in {to for _, to, count in counted.arcs if count}:
            starts = {
                counted.low + to,
                *chains.get(to // size, ()),
                *chains.get(to // _LOADED_CHAIN, ()),
            }
            if len(starts) > 1:
                self._join(starts)

    def _join(self, starts: set[int]) -> None:
        first = min(self._first(start) for start in starts)
        for start in starts:
            self.groups[self._first(start)] = first
            self.groups[start] = first

    def _first(self, start: int) -> int:
        """Return the first function of a group, as far as the group has grown."""
        way = []
        while (before := self.groups.get(start, start)) != start:
            way.append(start)
            start = before
        for passed in way:
            self.groups[passed] = start
        return start

    def together(self) -> list[tuple[list[int], int]]:
        """Return (addresses of functions, calls of all of them) for each group."""
        starts: dict[int, list[int]] = {}
        for start in sorted(self.groups):
            starts.setdefault(self._first(start), []).append(start)
        calls = dict.fromkeys(starts, 0)
        for _, to, count in self._arcs:
            if self._low + to in self.groups:
                calls[self._first(self._low + to)] += count
        return [(starts[group], calls[group]) for group in starts]


def _entries(functions: ImageFunctions) -> set[int]:
    """Return the addresses at which calls from other images or through own slots may arrive.

    The resolver of an IFUNC is never called so. The function that it chooses is, but no symbol
    tells which one that is. So if a library has IFUNCs, any of its functions may be called.
    """
    assert functions.elf is not None
    try:
        rows = [row for row in dynamic_table(functions.elf).rows() if row[3] and row[4]]
    except FormatError:
        return functions.starts()
    kinds = {info & 15 for _, info, _, _, _, _ in rows}
    if c.STT_GNU_IFUNC in kinds:
        return functions.starts()
    return {value for _, info, _, _, value, _ in rows if info & 15 in _CODE}
