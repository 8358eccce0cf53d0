# SPDX-License-Identifier: Apache-2.0
"""Find out whether there is an agent for a process's machine, with few imports."""

from __future__ import annotations

from soscope.entry.isa import arch

_HEAD = 1 << 12  # bytes that include the ELF header
_CLASS, _MACHINE = 4, slice(18, 20)  # EI_CLASS and e_machine
_CLASSES = {32: 1, 64: 2}


def agentless(pid: int) -> str:
    """Return the machine of a process, or "" if there is an agent for that machine.

    Also return "" if the breakpoint engine does not support the machine, or if the program cannot
    be read.
    """
    try:
        with open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
            head = file.read(_HEAD)
    except OSError:
        return ""  # attaching will report the error
    if len(head) < _MACHINE.stop:
        return ""
    machine = int.from_bytes(head[_MACHINE], "little")
    if machine == arch.MACHINE and head[_CLASS] == _CLASSES[arch.BITS]:
        return ""
    from soscope.binfmt.elf.image import ElfImage
    from soscope.binfmt.source import BufferSource
    from soscope.entry.native.isa import machine_of
    from soscope.errors import FormatError

    try:
        header = ElfImage.from_source(BufferSource(head, "")).header
    except FormatError:
        return ""  # the same as above
    other = None if header is None else header.arch
    if other is None or other.has_agent or machine_of(other) is None:
        return ""
    name: str = other.name
    return name
