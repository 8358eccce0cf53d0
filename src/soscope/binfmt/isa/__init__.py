# SPDX-License-Identifier: Apache-2.0
"""Code that is specific to an instruction set: one folder for each, and the parts that it has.

Most parts share the file `stubs`. Those that read functions of the program share `code`.

    stubs    `decoder(arch)`: the linker's stubs in ELF files, and the sections that hold them
    listing  `LISTER`: the instructions of stubs as text, and the values they leave in registers
    sites    `place(code, order)`: the instruction in a stub that all its calls run;
             `in_place(code, table)`: the same for code that calls without a stub;
             `unclear(code, table)`: slots that other code may go through
    lazy     `argument_of(mapped, slot, helper)`: the argument for the resolver of an unbound slot
    resolver the path of an unbound slot to the resolver, and the end of the resolver
    entry    `target(code, at, word)`: the target of a slot that consists of code
    delay    `is_delayed(word)`: whether an instruction has a delay slot
    detours  `code(…)`: code that slots can lead to, which goes on to the function
    slots    `more(image, found, arch, partial)`: slots without a relocation, and their targets
    got      `find_got(image)`: the address of the GOT in a file without section headers
    macho    `macho_decoder(bits)`: stubs and stub helpers in Mach-O images
    at       `Stubs(image, sections)`: the stub at one address, in a file or in memory;
             `is_lazy(code)`: whether an unbound slot leads to this code
    uses     `places(…)`: the code that goes through one slot, and `instruction(…)`: its text
    returns  `call_before(code, addr)`: the call that returns to an address
    calls    `direct_calls(…)`: the code that calls given addresses; `addresses(…)`: those it takes
    nops     `nops(code)`: the no-operations at the start of code
    through  `through(…)`: all instructions that call or jump through slots
    passing  `scalar_classes(…)` and `record_classes(…)`: the registers that pass a value

The name of a folder is the field `isa` of a row of model/arch.py. A part is imported when it is
needed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from soscope.model.arch import Arch

# kinds of code that goes through a slot
STUB = "stub"
CALL = "call"
JUMP = "jump"
LOAD = "load"

PARTS = {
    "aarch64": ("stubs", "sites", "listing", "lazy", "macho", "through"),
    "arm": ("stubs", "sites", "listing", "lazy", "macho"),
    "mips": ("stubs", "sites", "listing", "lazy", "slots", "detours", "delay"),
    "ppc": ("stubs", "sites", "listing", "lazy", "slots", "macho", "resolver", "entry"),
    "riscv": ("stubs", "sites", "listing", "lazy", "got"),
    "s390x": ("stubs", "sites", "listing", "lazy"),
    "x86": (
        "stubs",
        "sites",
        "listing",
        "lazy",
        "macho",
        "at",
        "uses",
        "through",
        "returns",
        "calls",
        "nops",
        "passing",
    ),
}

_IN_STUBS = (
    "at",
    "delay",
    "detours",
    "entry",
    "got",
    "lazy",
    "macho",
    "resolver",
    "sites",
    "slots",
)
_IN_CODE = ("calls", "nops", "returns", "through", "uses")
_FILES = dict.fromkeys(_IN_STUBS, "stubs") | dict.fromkeys(_IN_CODE, "code")  # else its own


def part(arch: Arch | None, name: str) -> ModuleType | None:
    """Return one part of the code for a machine's instruction set, None if there is none."""
    if arch is None or name not in PARTS.get(arch.isa, ()):
        return None
    from importlib import import_module

    return import_module(f"{__name__}.{arch.isa}.{_FILES.get(name, name)}")
