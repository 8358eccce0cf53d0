# SPDX-License-Identifier: Apache-2.0
"""Layouts of glibc's structures that differ from x86-64's. Written by a script.

Each line has a structure, machines, its size in bytes, and the offset and size of each shown
field, with nested structures flattened. `scripts/layouts.py` asks compilers for them.
"""

from __future__ import annotations

_LINES = """
dirent arm,i386,ppc,mips 268 10:1 11:256
dirent64 i386 276 18:1 19:256
epoll_data arm,i386,ppc,mips 8 0:4 0:4
epoll_event i386 12 0:4 4:4 4:4
epoll_event arm,ppc,mips 16 0:4 8:4 8:4
epoll_event ppc64le,aarch64,riscv64,s390x,ppc64 16 0:4 8:8 8:4
flock arm,i386,ppc 16 0:2 2:2 4:4 8:4 12:4
flock mips 36 0:2 2:2 4:4 8:4 16:4
iovec arm,i386,ppc,mips 8 0:4 4:4
itimerspec arm,i386,ppc,mips 16 0:4 4:4 8:4 12:4
itimerval arm,i386,ppc,mips 16 0:4 4:4 8:4 12:4
rlimit arm,i386,ppc,mips 8 0:4 4:4
rusage arm,i386,ppc,mips 72 0:4 4:4 8:4 12:4 16:4
sigaction arm,i386,ppc 140 0:4 4:128 132:4
sigaction mips 144 4:4 8:128 0:4
sigaction s390x 152 0:8 24:128 12:4
sigevent arm,i386,ppc,mips 64 0:4 0:4 4:4 8:4 12:4 12:4 16:4
siginfo arm,i386,ppc 128 0:4 4:4 8:4 12:4 16:4 20:4 20:4 12:4 16:4 20:4 24:4 28:4 12:4 16:4 20:4
  20:4 12:4 12:4 16:4
siginfo mips 128 0:4 8:4 4:4 12:4 16:4 20:4 20:4 12:4 16:4 20:4 24:4 28:4 12:4 16:4 20:4 20:4 12:4
  12:4 16:4
sigval arm,i386,ppc,mips 4 0:4 0:4
stat arm,i386,ppc 88 16:4 44:4
stat aarch64,riscv64 128 16:4 48:8
stat mips 144 20:4 48:4
stat64 i386 96 16:4 44:8
stat64 arm,ppc 104 16:4 48:8
stat64 aarch64,riscv64 128 16:4 48:8
stat64 mips 160 24:4 56:8
timespec arm,i386,ppc,mips 8 0:4 4:4
timeval arm,i386,ppc,mips 8 0:4 4:4
tm arm,i386,ppc,mips 44 0:4 4:4 8:4 12:4 16:4 20:4 24:4 28:4 32:4 36:4 40:4
utimbuf arm,i386,ppc,mips 8 0:4 4:4
"""


def read(machine: str) -> dict[str, tuple[int, tuple[tuple[int, int], ...]]]:
    """Return (size, offset and size of each field) of structures that differ on a machine."""
    layouts = {}
    for line in _LINES.replace("\n ", " ").split("\n")[1:-1]:
        name, machines, size, *fields = line.split()
        if machine in machines.split(","):
            places = (field.split(":") for field in fields)
            layouts[name] = (int(size), tuple((int(at), int(long)) for at, long in places))
    return layouts
