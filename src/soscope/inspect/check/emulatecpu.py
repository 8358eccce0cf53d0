# SPDX-License-Identifier: Apache-2.0
"""What `emulator` needs to know about a processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from soscope.binfmt.elf.filemap import ElfMap
from soscope.model.filemap import Stub

if TYPE_CHECKING:
    from soscope.inspect.check.emulator import Emulator


class Cpu(NamedTuple):
    """One processor, with the names of Unicorn's constants.

    `link_map` and `resolver` are indices of words that the loader fills, counted from `reserved`
    (DT_PLTGOT if that is None). `given` returns (link map, argument of _dl_fixup) at the entry of
    the resolver, as glibc's sysdeps/*/dl-trampoline.S reads them. `set_up` returns the registers
    that a stub of the file expects from its caller. `bases` returns several choices if only a
    trial can decide. `cannot` returns whether a file has code that Unicorn cannot run.
    `asked_for` returns the slot for which a stub called the resolver, even in a file without lazy
    slots.
    """

    library: str
    mode: tuple[str, ...]
    bits: int
    order: str
    stack: str
    counter: str
    link_map: tuple[int, ...] = (1,)
    resolver: int = 2
    given: Callable[[Emulator], tuple[int, int]] | None = None
    registers: tuple[tuple[str, int], ...] = ()  # set at the start of each run
    model: str = ""
    reserved: Callable[[ElfMap], Sequence[int | None]] | None = None
    set_up: Callable[[ElfMap, Stub], Mapping[str, int]] | None = None
    bases: Callable[[ElfMap], list[dict[str, int]]] | None = None
    cannot: Callable[[ElfMap], bool] | None = None
    asked_for: Callable[[ElfMap, Emulator], int | None] | None = None


class Processor(NamedTuple):
    """The processor for a Mach-O image, and what its ABI defines.

    `given` returns (word of the image, what to bind) at dyld's entry point. `second` is the
    register of a function's second argument, "" if no Objective-C stubs are known.
    """

    cpu: Cpu
    given: Callable[[Emulator], tuple[int, int]]
    second: str = ""
