#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write how structures of the C library lie on other machines, into entry/remote/conventions.py.

    python scripts/layouts.py [--check]

For each structure of prototypes/structs.h that is shown, a compiler for the machine says where its
fields are; it needs clang, and the machines' headers where Debian's cross packages have them.
`--check` compares with the file in place of writing it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE / "src"))

from soscope.prototypes import catalog  # noqa: E402  the path comes first
from soscope.prototypes.describe import leaves_of  # noqa: E402  as above

FILE = HERE / "src/soscope/entry/remote/conventions.py"
MACHINES = {
    "ppc64le": "powerpc64le-linux-gnu",
    "aarch64": "aarch64-linux-gnu",
    "riscv64": "riscv64-linux-gnu",
    "s390x": "s390x-linux-gnu",
    "ppc64": "powerpc64-linux-gnu",
    "arm": "arm-linux-gnueabihf",
    "i386": "i686-linux-gnu",
    "ppc": "powerpc-linux-gnu",
    "mips": "mips-linux-gnu",
}
HEADERS = """
arpa/inet dirent fcntl netinet/in poll sched signal stddef sys/epoll sys/ioctl sys/resource
sys/select sys/socket sys/stat sys/time sys/types sys/uio sys/utsname termios time unistd utime
"""
NAMES = {"sigval": "union sigval", "epoll_data": "union epoll_data", "siginfo": "siginfo_t"}
MISSING = "#ifndef sigev_notify_thread_id\n#define sigev_notify_thread_id _sigev_un._tid\n#endif"
START, END = '_LAYOUTS = """\n', '"""\n'


def measured(triplet: str, structs: catalog.Structs) -> dict[str, list[int]]:
    """Return what a compiler says of each structure: its size, and each field's place and size."""
    lines = ["#define _GNU_SOURCE", *(f"#include <{name}.h>" for name in HEADERS.split()), MISSING]
    for name in structs:
        c_name = NAMES.get(name, f"struct {name}")
        numbers = [f"sizeof({c_name})"]
        for leaf in leaves_of(name, structs) or ():
            numbers += [
                f"offsetof({c_name}, {leaf.path})",
                f"sizeof((({c_name} *)0)->{leaf.path})",
            ]
        lines.append(f"const unsigned long long {name}__[] = {{{', '.join(numbers)}}};")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "layouts.c"
        source.write_text("\n".join(lines))
        target = [f"--target={triplet}"] if triplet else []
        words = ["clang", *target, "-S", "-emit-llvm", "-w", "-o", "-", str(source)]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    layouts = {}
    array = r"^@(\w+)__ = .*?constant \[\d+ x i64\] (.*?), align"
    for match in re.finditer(array, text, re.MULTILINE):
        layouts[match[1]] = [int(each) for each in re.findall(r"i64 (\d+)", match[2])]
    return layouts


def lines() -> list[str]:
    """Return the lines of the table."""
    loaded = catalog.load()
    structs = {
        name: fields
        for name, fields in loaded.structures().items()
        if name[:1] != "<" and " " not in name
    }
    here = measured("", structs)
    told: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for machine, triplet in MACHINES.items():
        for name, numbers in measured(triplet, structs).items():
            if numbers != here[name]:
                told.setdefault((name, tuple(numbers)), []).append(machine)
    rows = []
    for (name, numbers), machines in sorted(told.items()):
        fields = [f"{at}:{size}" for at, size in zip(numbers[1::2], numbers[2::2], strict=True)]
        line = " ".join((name, ",".join(machines), str(numbers[0]), *fields))
        rows += textwrap.wrap(line, 98, subsequent_indent="  ", break_on_hyphens=False)
    return rows


def main() -> int:
    """Write the table into the file, or compare it; return the exit status."""
    text = FILE.read_text()
    before, start, rest = text.partition(START)
    _, end, behind = rest.partition(END)
    told = "".join((before, start, *(f"{line}\n" for line in lines()), end, behind))
    if "--check" not in sys.argv:
        FILE.write_text(told)
        return 0
    return int(text != told)


if __name__ == "__main__":
    sys.exit(main())
