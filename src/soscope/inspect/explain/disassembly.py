# SPDX-License-Identifier: Apache-2.0
"""The instructions around a call, by the disassembler Capstone, if it is installed.

It comes with the extra `disasm`. Stubs do not need it, as binfmt/listing decodes their
instructions.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from soscope.binfmt.listing import Line
from soscope.inspect.explain import isa
from soscope.inspect.explain.filecode import FileCode
from soscope.model.arch import arch_named

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
    names = isa.known(known, "CAPSTONE", {}).get("" if known is None else known.name)
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
