# SPDX-License-Identifier: Apache-2.0
"""Makes a profile of a file written by LD_PROFILE.

Such a file tells less than it seems. The recorder finds a call by its return address in a chain
of calls to the same 32 bytes of code (16 on 32-bit machines), and never compares the callee. So
calls of another function that begins in these bytes are counted as calls of the first one
(`_dl_mcount` in glibc's elf/dl-profile.c). If a later run or another process continues a file, it
puts the existing calls into chains of 4 bytes, but still looks for 32. Then calls of a function
are added to a function that begins an eighth as far behind the start of the code. Not every file
shows that it comes from several runs. Functions that may have been mixed up have no number of
calls here.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.symbols.table import dynamic_table
from soscope.binfmt.profiles import OUTSIDE, LdProfile
from soscope.errors import FormatError, SoscopeError
from soscope.instruments.prof.model import MODE_COUNT, NOBODY, Profile
from soscope.instruments.prof.naming import ImageFunctions
from soscope.instruments.prof.sums import ArcSums
from soscope.instruments.prof.ticks import put_times, times_of

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
    unknown = _add_arcs(profile, sums, counted, functions)
    times = times_of(profile, sums, [counted.histogram], functions, lambda vaddr: vaddr)
    sums.finish()
    put_times(profile, times)
    for place in unknown:
        profile.sums[place].calls = None
    profile.calls = sum(count for _, _, count in counted.arcs)
    profile.notes.append(
        "LD_PROFILE counts calls through lazy slots alone, and does not know which image outside "
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
    code = [
        (segment.vaddr, segment.vaddr + segment.memsz)
        for segment in elf.segments
        if segment.type == c.PT_LOAD and segment.flags & c.PF_X
    ]
    if not code:
        return []
    low, high = min(start for start, _ in code), max(end for _, end in code)
    return [(low // page * page, -(-high // page) * page) for page in _PAGES]


def _add_arcs(
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
