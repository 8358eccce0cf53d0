# SPDX-License-Identifier: Apache-2.0
"""What is code and not a table: one folder for each instruction set, and which parts it has.

    stubs    `decoder(arch)`: the linker's stubs in ELF files, and which sections hold them
    listing  `LISTER`: what stubs are made of, as text, and what it leaves in registers
    sites    `place(code, order)`: the instruction in a stub that all its calls run;
             `in_place(code, table)`: the same of code that needs no stub;
             `unclear(code, table)`: slots that code may go through elsewhere
    lazy     `argument_of(mapped, slot, helper)`: what an unbound slot's code gives the resolver
    resolver how an unbound slot gets to the resolver, and where that ends
    entry    `target(code, at, word)`: where a slot leads that is code
    delay    `is_delayed(word)`: instructions that take effect behind the next one
    detours  `code(…)`: code that slots may lead to, on the way to the function
    slots    `more(image, found, arch, partial)`: slots, and where they lead, without a relocation
    got      `find_got(image)`: where the GOT lies in a file without section headers
    macho    `decoder(bits)`: stubs and stub helpers in Mach-O images
    at       `Stubs(image, sections)`: the stub at one address, in a file or in memory;
             `is_lazy(code)`: whether code is what an unbound slot leads to
    uses     `places(…)`: the code that goes through one slot, and `instruction(…)`: its text
    returns  `call_before(code, addr)`: which call returns to an address
    calls    `direct_calls(…)`: the code that calls some addresses; `addresses(…)`: what code takes
    nops     `nops(code)`: the no-operations that code begins with
    through  `through(…)`: the instructions that call or jump through slots, all at once
    passing  `scalar_classes(…)` and `record_classes(…)`: in which registers a value is passed

A folder has the name that a row of model/arch.py has in `isa`. A part is imported when it is
needed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from soscope.model.arch import Arch

# what goes through a slot
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


def part(arch: Arch | None, name: str) -> ModuleType | None:
    """Return one part of what is known of a machine's code, None where there is none."""
    if arch is None or name not in PARTS.get(arch.isa, ()):
        return None
    from importlib import import_module

    return import_module(f"{__name__}.{arch.isa}.{name}")
