# SPDX-License-Identifier: Apache-2.0
"""Programs that lock all their memory, with the agent's, which may exceed their limit.

mlockall(2) compares the whole address space with RLIMIT_MEMLOCK. So it may fail where it would
succeed without soscope, which cannot be prevented from outside.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.errors import SoscopeError
from soscope.proc import status

_CAP_IPC_LOCK = 14
_NAME = b"\0mlockall\0"
_MOST = 64 << 20  # bytes of names that are searched


def would_fail(pid: int, program: ElfImage) -> bool:
    """Return whether `program`, run by process `pid`, may lock all memory and has a limit.

    Raises FormatError for a damaged file, and OSError if it cannot be read.
    """
    names, size = program.dynamic.get(elf.DT_STRTAB), program.dynamic.get(elf.DT_STRSZ)
    if not names or not size:
        return False
    if _NAME not in program.source.read(program.locate(names), min(size, _MOST)):
        return False
    return not _may_lock(pid) and _is_limited(pid)


def _may_lock(pid: int) -> bool:
    try:
        capabilities = int(status.read_status(pid).get("CapEff", "0"), 16)
    except (SoscopeError, ValueError):
        return False
    return bool(capabilities >> _CAP_IPC_LOCK & 1)


def _is_limited(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/limits", "rb", buffering=0) as file:
            lines = file.read().splitlines()
    except OSError:
        return True
    for line in lines:
        if line.startswith(b"Max locked memory"):
            return line.split()[3] not in (b"unlimited", b"0")  # with 0 it fails anyway
    return True
