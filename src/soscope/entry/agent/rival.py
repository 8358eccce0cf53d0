# SPDX-License-Identifier: Apache-2.0
"""Detect programs that need ptrace(2) themselves: a process can have only one tracer.

A program that imports ptrace may ask to be traced (PTRACE_TRACEME) or trace its children.
LeakSanitizer traces its own program at the end, by a system call of its own. It is recognized by
a function that its runtime exports, in any image.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.entry import linkmap
from soscope.entry.memory import RemoteMemory
from soscope.errors import FormatError

TRACES = "ptrace"
CHECKS_LEAKS = "leak check"

_PTRACE = "ptrace"
_LEAK_CHECK, _ADDRESS_SANITIZER = "__lsan_do_leak_check", "__asan_init"
_MOST = 64 << 20  # bytes of names that are searched
_SWITCH = rb"(?:^|[\s,:])detect_leaks=['\"]?([^\s,:'\"]*)"
_OFF = (b"0", b"no", b"false")


def find(pid: int, memory: RemoteMemory, first: int) -> str | None:
    """Return why process `pid` needs ptrace: a constant of this module, None if it does not.

    `first` is the address of the first link map, which is the program's.
    """
    need = None
    for entry in linkmap.walk(memory, first):
        try:
            image = entry.image(memory)
            if image.symbols.addr(_LEAK_CHECK) is not None and not _is_off(
                pid, is_address=image.symbols.addr(_ADDRESS_SANITIZER) is not None
            ):
                return CHECKS_LEAKS
            if need is None:
                need = TRACES if _imports_ptrace(pid, image) else ""
        except (FormatError, OSError):
            continue  # an unreadable image is no sanitizer's
    return need or None


def _imports_ptrace(pid: int, program: ElfImage) -> bool:
    names, size = program.locate_pointer(elf.DT_STRTAB), program.dynamic.get(elf.DT_STRSZ)
    if not names or not size:
        return False
    text = program.source.read(names, min(size, _MOST))
    if _PTRACE.encode() + b"\0" not in text:
        return False
    with open(f"/proc/{pid}/exe", "rb", buffering=0) as file:
        image = ElfImage.from_descriptor(file.fileno(), "program")
        return any(symbol.name == _PTRACE for symbol in image.undefined_functions())


def _is_off(pid: int, *, is_address: bool) -> bool:
    """Return whether the environment disables the leak check.

    AddressSanitizer reads two variables, the second one last.
    """
    import re  # late: few programs have a leak check

    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            entries = file.read().split(b"\0")
    except OSError:
        return False  # as without options
    value = b""
    for name in (b"ASAN_OPTIONS=", b"LSAN_OPTIONS=") if is_address else (b"LSAN_OPTIONS=",):
        for entry in entries:
            if entry.startswith(name):
                value = (re.findall(_SWITCH, entry[len(name) :]) or [value])[-1]
                break
    return value in _OFF
