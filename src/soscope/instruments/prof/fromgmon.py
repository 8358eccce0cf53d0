# SPDX-License-Identifier: Apache-2.0
"""Makes a profile of a gmon.out, for the program or for one library.

glibc writes addresses as they were in the process, minus the program's load bias. So addresses of
a library differ from link-time addresses by the library's load bias minus the program's. See
`gmon_profile`.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.profiles import GmonFile
from soscope.errors import SoscopeError
from soscope.instruments.prof.gmoncallers import GmonCallers
from soscope.instruments.prof.model import MODE_COUNT, NOBODY, Profile
from soscope.instruments.prof.naming import ImageFunctions
from soscope.instruments.prof.rebase import fits, offset_of
from soscope.instruments.prof.returns import Code
from soscope.instruments.prof.sums import ArcSums
from soscope.instruments.prof.ticks import put_times, times_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_NAMES = 4  # names in a note


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
