# SPDX-License-Identifier: Apache-2.0
"""What `emulator` has to know of a processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from soscope.binfmt.elf.filemap import ElfMap
from soscope.model.filemap import Stub

if TYPE_CHECKING:
    from soscope.inspect.check.emulator import Emulator


class Cpu(NamedTuple):
    """One processor, by the names of Unicorn's constants.

    `link_map` and `resolver` are the words from `reserved` on (DT_PLTGOT where that is None) that
    the loader fills; `given` returns (link map, what _dl_fixup is given) at the entry of the
    resolver, as glibc's sysdeps/*/dl-trampoline.S finds them. `set_up` returns the registers that
    a stub of the file expects of its caller, `bases` the choices where only trying tells which.
    `cannot` says whether a file's code is of a kind that cannot be run. `asked_for` returns the
    slot for which a stub has asked the resolver, even of a file without lazy slots.
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
    registers: tuple[tuple[str, int], ...] = ()  # at the start of each run
    model: str = ""
    reserved: Callable[[ElfMap], Sequence[int | None]] | None = None
    set_up: Callable[[ElfMap, Stub], Mapping[str, int]] | None = None
    bases: Callable[[ElfMap], list[dict[str, int]]] | None = None
    cannot: Callable[[ElfMap], bool] | None = None
    asked_for: Callable[[ElfMap, Emulator], int | None] | None = None


class Processor(NamedTuple):
    """What runs a Mach-O image, and what its ABI says.

    `given` returns (on whose behalf, what is to be bound) at the entrance of dyld; `second` is
    the register of a function's second argument, "" where no Objective-C stub is known.
    """

    cpu: Cpu
    given: Callable[[Emulator], tuple[int, int]]
    second: str = ""
