# SPDX-License-Identifier: Apache-2.0
"""Whether an agent is made for a process's machine. Each is asked, so little is imported."""

from __future__ import annotations

from soscope.entry.isa import arch

_HEAD = 1 << 12  # bytes: an ELF header, and more
_CLASS, _MACHINE = 4, slice(18, 20)  # EI_CLASS and e_machine
_CLASSES = {32: 1, 64: 2}


def agentless(pid: int) -> str:
    """Return the name of the machine that a process is for, "" where an agent is made for it.

    Also "" for one that breakpoints cannot do with either, or that cannot be read.
    """
    try:
        with open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
            head = file.read(_HEAD)
    except OSError:
        return ""  # whoever goes in says what is wrong
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
        return ""  # as above
    other = None if header is None else header.arch
    if other is None or other.has_agent or machine_of(other) is None:
        return ""
    name: str = other.name
    return name
